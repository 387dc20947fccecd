import { Gpt2Error } from './error.js';
import { blockedWorker, notStarted, unloadable } from './start-failure.js';
import { trusted } from './trusted.js';

/** @typedef {import('../types/Request.js').Request} Request */
/** @typedef {import('../types/Event.js').Event} Event */

/**
 * The parts of the page in one file, which has nothing to fetch them from. Each call of `wasm` returns a new buffer,
 * because it is transferred to the worker.
 * @typedef {object} InlineAssets
 * @property {() => Promise<string>} workerSource the wasm-bindgen glue followed by worker.js
 * @property {() => Promise<ArrayBuffer>} wasm
 * @property {(onProgress?: (done: number, total: number | null) => void) => Promise<Blob>} model the embedded model
 * @property {import('./catalog.js').Catalog} [catalog]
 */
/** @typedef {{ event: (event: Event) => void, dead: (error: Gpt2Error) => void }} Listener */

/** One worker, from its start to its end. Messages posted before it runs are queued. */
export class WorkerHandle {
  /** @type {Promise<Worker>} */ #worker;
  #listening = new AbortController();
  #alive = false;
  /** @type {string | null} The address of a worker made from text, while the browser may still read it. */ #blob = null;

  /**
   * @param {() => URL} url of worker.js
   * @param {InlineAssets | undefined} assets
   * @param {Listener} listener
   */
  constructor(url, assets, listener) {
    this.#worker = this.#open(url, assets, listener);
    this.#worker.catch((error) => listener.dead(notStarted(error)));
  }

  /** @param {Request} message @param {Transferable[]} [transfer] */
  async post(message, transfer = []) {
    (await this.#worker).postMessage(message, transfer);
  }

  terminate() {
    this.#listening.abort();
    this.#revoke();
    this.#worker.then((worker) => worker.terminate(), () => {});
  }

  /** @param {() => URL} url @param {InlineAssets | undefined} assets @param {Listener} listener */
  async #open(url, assets, { event, dead }) {
    const { signal } = this.#listening;
    /** @type {string | undefined} */ let blockedBy;
    globalThis.document?.addEventListener('securitypolicyviolation', ({ effectiveDirective, originalPolicy }) => {
      // `worker-src` falls back to the other three.
      if (/^(worker|child|script|default)-src/.test(effectiveDirective)) blockedBy = originalPolicy;
    }, { signal });

    const wasm = await assets?.wasm();
    const source = assets && (await assets.workerSource());
    const address = source === undefined ? url() : null;
    const worker = new Worker(trusted(address && globalThis.origin === address.origin ? address.href : this.#blobUrl(source ?? imports(/** @type {URL} */ (address)))));
    if (wasm) worker.postMessage({ wasm }, [wasm]);

    worker.addEventListener('message', ({ data }) => {
      this.#alive = true;
      this.#revoke();
      // Events that happen within the time of a frame come in one message.
      for (const one of Array.isArray(data) ? data : [data]) event(one);
    }, { signal });
    worker.addEventListener('messageerror', () => {
      dead(new Gpt2Error('panic', 'the worker sent a message that could not be read'));
    }, { signal });
    worker.addEventListener('error', async (failure) => {
      failure.preventDefault?.();
      if (this.#alive) return dead(new Gpt2Error('panic', failure.message || 'the worker ended without a message'));
      // The report of a violation is a task that may follow the error.
      await new Promise((resolve) => setTimeout(resolve, 100));
      dead(blockedBy !== undefined ? blockedWorker(blockedBy) : await unloadable(address, failure.message ?? '', signal));
    }, { signal });
    return worker;
  }

  /** @param {string} source of a script @returns {string} its address */
  #blobUrl(source) {
    return (this.#blob = URL.createObjectURL(new Blob([source], { type: 'text/javascript' })));
  }

  #revoke() {
    if (this.#blob !== null) URL.revokeObjectURL(this.#blob);
    this.#blob = null;
  }
}

/**
 * A worker must come from the page's own origin. For another origin, or in a sandboxed frame, which has none, the worker is
 * a script that imports it.
 * @param {URL} url
 */
function imports({ href }) {
  return `self.GPT2_WEB_BASE = ${JSON.stringify(href)};
    self.GPT2_WEB_TRUST = self.trustedTypes?.createPolicy('gpt2-web', { createScriptURL: (url) => url });
    importScripts(self.GPT2_WEB_TRUST ? self.GPT2_WEB_TRUST.createScriptURL(self.GPT2_WEB_BASE) : self.GPT2_WEB_BASE);`;
}
