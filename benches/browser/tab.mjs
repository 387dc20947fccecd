// A tab with the public client in it, driven from Node.js.
import { fileURLToPath } from 'node:url';

/** @typedef {import('../../www/gpt2-web.js').Gpt2Web} Gpt2Web */
/** @typedef {import('../../www/gpt2-web.js').Loaded} Loaded */
/** @typedef {import('../../www/gpt2-web.js').GenerateOptions} GenerateOptions */
/** @typedef {import('../../www/types/Record.js').Record} Record */
/** @typedef {import('./summary.mjs').Limits} Limits */
/** The page's scope, once a tab is open. @typedef {{ client: Gpt2Web }} Scope */
/** @typedef {{ browser: import('puppeteer-core').Browser, url: string }} Place */

/** Options of the server for the tabs. */
export const SERVED = {
  folders: { '/bench/': fileURLToPath(new URL('page/', import.meta.url)) },
  // The clock of an isolated page is twenty times finer.
  headers: {
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Embedder-Policy': 'require-corp',
    'Cross-Origin-Resource-Policy': 'same-origin',
  },
};

/** Words of one token each, including the space. */
const WORDS = [' the', ' king', ' of', ' a', ' small', ' house', ' and', ' his', ' old', ' horse', ' were', ' in', ' it'];
/** Random weights may choose the end-of-text token; this many seeds are tried for a run that is long enough. */
const SEEDS = 20;

/** A text of this many tokens. @param {number} tokens */
const promptOf = (tokens) => Array.from({ length: tokens }, (_, i) => WORDS[i % WORDS.length]).join('');

export class Tab {
  /** @param {import('puppeteer-core').Page} tab */
  constructor(tab) {
    this.tab = tab;
  }

  /** A tab with a worker and the embedded model. @param {Place} place */
  static async open({ browser, url }) {
    const tab = await browser.newPage();
    await tab.goto(`${url}/bench/`);
    await tab.evaluate(async () => {
      if (!crossOriginIsolated) throw new Error('the page is not cross-origin isolated: its clock is too coarse');
      // @ts-ignore: a path of the served page
      const { Gpt2Web } = await import('/gpt2-web.js');
      const client = new Gpt2Web();
      Object.assign(globalThis, { client });
      // Only a load starts the worker. A user who picks a file has a worker with the embedded model.
      await client.loadEmbedded();
    });
    return new Tab(tab);
  }

  async close() {
    await this.tab.close();
  }

  /** Picks a file like a user. @param {string} path */
  async pick(path) {
    const input = /** @type {import('puppeteer-core').ElementHandle<HTMLInputElement>} */ (await this.tab.$('input'));
    await input.uploadFile(path);
  }

  /**
   * Loads the picked file.
   * @param {import('../../www/gpt2-web.js').Precision} precision
   * @returns {Promise<{ model: Loaded['model'], ms: number }>} `ms` until it is ready
   */
  load(precision) {
    return this.tab.evaluate(async (precision) => {
      const { client } = /** @type {Scope} */ (/** @type {any} */ (globalThis));
      const file = /** @type {HTMLInputElement} */ (document.querySelector('input')).files?.[0];
      if (!file) throw new Error('no file was picked');
      const began = performance.now();
      const { model } = await client.load({ name: file.name, files: [file], precision });
      return { model, ms: performance.now() - began };
    }, precision);
  }

  /** Loads the embedded model. @returns {Promise<Loaded>} */
  loadEmbedded() {
    return this.tab.evaluate(() => /** @type {Scope} */ (/** @type {any} */ (globalThis)).client.loadEmbedded());
  }

  /** Milliseconds to read the picked file in a worker, like a load. @returns {Promise<number>} */
  read() {
    return this.tab.evaluate(askProbe, null);
  }

  /** The limits of this machine. @param {number} megabytes @returns {Promise<Limits>} */
  limits(megabytes) {
    return this.tab.evaluate(askProbe, megabytes);
  }

  /**
   * Bytes of the worker's linear memory, which never shrinks.
   * @returns {Promise<number>}
   */
  async memory() {
    const [worker] = this.tab.workers();
    if (!worker) throw new Error('there is no worker to ask for its memory');
    return worker.evaluate(async () => (await wasm_bindgen()).memory.buffer.byteLength);
  }

  /**
   * Continues a prompt of `tokens` tokens by `max_tokens`, or until the context is full.
   * @param {number} tokens
   * @param {GenerateOptions & { max_tokens: number }} options
   * @returns {Promise<Record>}
   */
  async run(tokens, options) {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const record = await this.tab.evaluate(async (prompt, options) => {
        const { client } = /** @type {Scope} */ (/** @type {any} */ (globalThis));
        for await (const event of client.generate(prompt, options)) if (event.type === 'done') return event.record;
        throw new Error('the run ended without a record');
      }, promptOf(tokens), { seed, ...options });
      const { prompt_ids, stop } = record;
      if (prompt_ids.length !== tokens) throw new Error(`the prompt has ${prompt_ids.length} tokens instead of ${tokens}`);
      if (stop?.reason !== 'eos') return record;
    }
    throw new Error(`after ${tokens} tokens the model ended its text early with each of ${SEEDS} seeds`);
  }
}

/**
 * Runs in the page: asks a new worker, which then ends and frees its memory.
 * @param {number | null} question megabytes to measure the limits with; nothing for the time to read the picked file
 * @returns {Promise<any>}
 */
function askProbe(question) {
  const file = document.querySelector('input')?.files?.[0];
  const worker = new Worker('/bench/probe.js');
  const answer = new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => ('error' in data ? reject(new Error(data.error)) : resolve(data.value));
    worker.onerror = (event) => reject(new Error(event.message || 'the probe could not be started'));
    worker.postMessage(question === null ? { read: file } : { limits: question });
  });
  return answer.finally(() => worker.terminate());
}
