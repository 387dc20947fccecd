// Other systems in a browser: wllama and transformers.js, each on one thread in a separate page.
import { execFile } from 'node:child_process';
import { copyFile, mkdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { launch } from '../../scripts/browsers.mjs';
import { serve } from '../../scripts/server.mjs';
import { SHAPES } from '../../tests/support/shapes.mjs';
import { ggufFile } from '../browser/gguf.mjs';
import { SERVED } from '../browser/tab.mjs';
import { onnxModel } from './onnx.mjs';
import { STEPS, WARM_UP, loaded, positions, ran, readsOf } from './samples.mjs';

/**
 * A system in a page.
 * @typedef {object} Peer
 * @property {(model: string) => Promise<void>} load
 * @property {(prompt_tokens: number, steps: number) => Promise<number[]>} run returns the milliseconds from the call to
 * each token: the first one, and `steps` more
 */

const fileOf = (/** @type {string} */ name) => fileURLToPath(new URL(name, import.meta.url));
/** The packages may fetch and start anything. */
const HEADERS = { ...SERVED.headers, 'Content-Security-Policy': "default-src * data: blob: 'unsafe-inline' 'unsafe-eval'" };
/** Milliseconds; after a prompt that took longer, no longer one is tried. */
const PATIENCE_MS = 30_000;

/**
 * Installs the packages of the peers. They are separate from the project's, so that only this benchmark downloads them.
 * @param {string} folder @returns {Promise<string>} the folder they are in
 */
async function packages(folder) {
  const modules = join(folder, 'node_modules');
  const lock = await readFile(fileOf('package-lock.json'));
  const installed = await readFile(join(modules, '.installed-from')).catch(() => null);
  if (installed?.equals(lock)) return modules;
  console.error('Installing the packages of benches/peers/package-lock.json');
  await mkdir(folder, { recursive: true });
  for (const name of ['package.json', 'package-lock.json']) await copyFile(fileOf(name), join(folder, name));
  await promisify(execFile)('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: folder });
  await copyFile(fileOf('package-lock.json'), join(modules, '.installed-from'));
  return modules;
}

/**
 * @typedef {object} Kind
 * @property {string} system
 * @property {import('./samples.mjs').Format} precision
 * @property {string} page its module
 * @property {(folder: string) => Promise<string>} model makes it if it is missing, and returns its name in the page
 */

/** Runs in the page: loads the module, and with it the model. @param {string} page @param {string} model */
async function load(page, model) {
  const { peer } = await import(page);
  Object.assign(globalThis, { peer });
  const began = performance.now();
  await peer.load(model);
  return performance.now() - began;
}

/** Runs in the page. @param {number} prompt_tokens @param {number} steps @returns {Promise<number[]>} */
function run(prompt_tokens, steps) {
  return /** @type {{ peer: Peer }} */ (/** @type {any} */ (globalThis)).peer.run(prompt_tokens, steps);
}

/** @param {Kind} kind @param {boolean} quick @returns {import('./samples.mjs').Subject} */
function subject({ system, precision, page, model }, quick) {
  const about = { system, precision, reads: readsOf(precision) };
  const place = { models: '', packages: '', model: '' };
  /** Prompts that may be tried. */
  let lengths = positions(quick);
  return {
    ...about,
    async prepare(folder) {
      Object.assign(place, { models: folder, packages: await packages(join(folder, 'peers')), model: await model(folder) });
    },
    async round() {
      const server = await serve(fileOf('page'), {
        folders: { '/packages/': place.packages, '/models/': place.models },
        headers: HEADERS, files: { '/': `<!doctype html><title>${system}</title>` },
      });
      // A new browser: nothing is compiled or cached, and no other system uses memory.
      const browser = await launch('chrome', { protocolTimeout: 0 });
      try {
        const tab = await browser.newPage();
        await tab.goto(server.url);
        const samples = [loaded(about, await tab.evaluate(load, `/${page}`, place.model))];
        await tab.evaluate(run, WARM_UP, STEPS);
        for (const position of lengths) {
          const times = await tab.evaluate(run, position, STEPS);
          samples.push(...ran(about, position, times));
          if (Number(times[0]) < PATIENCE_MS) continue;
          if (lengths.at(-1) !== position) console.error(`${system}, ${precision}: a prompt of ${position} tokens takes ${Math.round(Number(times[0]) / 1000)} s, so none is longer`);
          lengths = lengths.filter((length) => length <= position);
          break;
        }
        return samples;
      } finally {
        await browser.close();
        await server.close();
      }
    },
  };
}

/** @param {{ quick: boolean }} options */
export function subjects({ quick }) {
  const gguf = (/** @type {'q8_0' | 'q4_0'} */ precision) => async (/** @type {string} */ folder) =>
    `/models/${basename((await ggufFile(folder, 'gpt2', SHAPES.gpt2, precision)).path)}`;
  /** @type {Kind[]} */
  const kinds = [
    { system: 'wllama 3', precision: 'q8_0', page: 'wllama.js', model: gguf('q8_0') },
    { system: 'wllama 3', precision: 'q4_0', page: 'wllama.js', model: gguf('q4_0') },
    { system: 'transformers.js 4', precision: 'int8', page: 'transformers.js', model: (folder) => onnxModel(folder, 'gpt2', SHAPES.gpt2) },
  ];
  return kinds.map((kind) => subject(kind, quick));
}
