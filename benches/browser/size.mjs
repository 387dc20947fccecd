// The sizes of the page's parts, raw and compressed.
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { compressedSizes } from '../../scripts/compressed.mjs';

/**
 * The module that was measured, and the files of `./build.sh build` in dist/, if they exist.
 * @param {string} site
 * @returns {Promise<import('./summary.mjs').Sample[]>}
 */
export async function sizes(site) {
  const files = { module: join(site, 'gpt2_web_bg.wasm'), 'dist: module': 'dist/gpt2_web_bg.wasm', 'dist: one file': 'dist/gpt2-web.html' };
  const samples = [];
  for (const [name, path] of Object.entries(files)) {
    if (!await stat(path).catch(() => null)) continue;
    for (const [form, bytes] of Object.entries(await compressedSizes(path))) {
      samples.push({
        measure: /** @type {const} */ ('size'), system: 'gpt2-web', precision: null, position: null,
        variant: `${name}, ${form}`, value: bytes / 1e6, unit: 'MB',
      });
    }
  }
  return samples;
}
