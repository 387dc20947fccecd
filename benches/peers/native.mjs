// llama.cpp on one thread, natively: the speed of this machine without a browser.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { SHAPES } from '../../tests/support/shapes.mjs';
import { ggufFile } from '../browser/gguf.mjs';
import { STEPS, WARM_UP, loaded, positions, ran, readsOf } from './samples.mjs';

const SYSTEM = 'llama.cpp, native';
const run = promisify(execFile);

/** The binary, built once for all precisions; null if it cannot be built. @type {Promise<string | null> | undefined} */
let built;

/** @param {string} folder to build it in */
async function build(folder) {
  const building = run('bash', [fileURLToPath(new URL('native.sh', import.meta.url)), folder]);
  building.child.stderr?.pipe(process.stderr);
  try {
    await building;
    return join(folder, 'native');
  } catch {
    console.error(`${SYSTEM}, is left out.`);
    return null;
  }
}

/**
 * @param {'q8_0' | 'q4_0'} precision
 * @param {boolean} quick
 * @returns {import('./samples.mjs').Subject}
 */
function subject(precision, quick) {
  const about = { system: SYSTEM, precision, reads: readsOf(precision) };
  let model = '';
  return {
    ...about,
    async prepare(folder) {
      built ??= build(join(folder, 'llama.cpp'));
      if (await built) ({ path: model } = await ggufFile(folder, 'gpt2', SHAPES.gpt2, precision));
    },
    async round() {
      const binary = await built;
      if (!binary) return [];
      const { stdout } = await run(binary, [model, STEPS, WARM_UP, ...positions(quick)].map(String));
      /** @type {{ load_ms: number, times_ms: number[][] }} */ const { load_ms, times_ms } = JSON.parse(stdout);
      const [, ...runs] = times_ms;
      return [loaded(about, load_ms), ...positions(quick).flatMap((position, i) => ran(about, position, runs[i] ?? []))];
    },
  };
}

/** @param {{ quick: boolean }} options */
export const subjects = ({ quick }) => [subject('q8_0', quick), subject('q4_0', quick)];
