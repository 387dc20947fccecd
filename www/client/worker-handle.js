import { Gpt2Error } from './error.js';

/** @typedef {import('../types/Request').Request} Request */
/** @typedef {import('../types/Event').Event} Event */

/**
 * Where the parts come from when there is nothing to fetch them from: the page in one file. Every call of `wasm` gives
 * a fresh buffer, because it is handed over to the worker.
 * @typedef {object} InlineAssets
 * @property {() => Promise<string>} workerSource the wasm-bindgen glue followed by worker.js
 * @property {() => Promise<ArrayBuffer>} wasm
 * @property {(onProgress?: (done: number, total: number | null) => void) => Promise<Blob>} model the embedded model
 * @property {import('./catalog.js').Catalog} [catalog]
 */

/** One worker, from its start to its end. Messages posted before it runs are kept for it. */
export class WorkerHandle {
  /** @type {Promise<Worker>} */ #worker;
  #listening = new AbortController();
  #alive = false;

  /**
   * @param {() => URL} url of worker.js
   * @param {InlineAssets | undefined} assets
   * @param {{ event: (event: Event) => void, dead: (error: Gpt2Error) => void }} listener
   */
  constructor(url, assets, listener) {
    this.#worker = this.#open(url, assets, listener);
    this.#worker.catch((error) => listener.dead(startFailure(error)));
  }

  /** @param {Request} message @param {Transferable[]} [transfer] */
  async post(message, transfer = []) {
    (await this.#worker).postMessage(message, transfer);
  }

  terminate() {
    this.#listening.abort();
    this.#worker.then((worker) => worker.terminate(), () => {});
  }

  /**
   * @param {() => URL} url
   * @param {InlineAssets | undefined} assets
   * @param {{ event: (event: Event) => void, dead: (error: Gpt2Error) => void }} listener
   */
  async #open(url, assets, { event, dead }) {
    const { signal } = this.#listening;
    /** @type {string | undefined} */ let blockedBy;
    globalThis.document?.addEventListener('securitypolicyviolation', ({ effectiveDirective, originalPolicy }) => {
      // `worker-src` falls back to the other three.
      if (/^(worker|child|script|default)-src/.test(effectiveDirective)) blockedBy = originalPolicy;
    }, { signal });

    const wasm = await assets?.wasm();
    const source = assets && (await assets.workerSource());
    const worker = new Worker(source === undefined ? sameOrigin(url()) : blobUrl(source));
    if (wasm) worker.postMessage({ wasm }, [wasm]);

    worker.addEventListener('message', ({ data }) => {
      this.#alive = true;
      event(data);
    }, { signal });
    worker.addEventListener('messageerror', () => {
      dead(new Gpt2Error('panic', 'the worker sent a message that could not be read'));
    }, { signal });
    worker.addEventListener('error', async (failure) => {
      failure.preventDefault?.();
      if (this.#alive) return dead(new Gpt2Error('panic', failure.message || 'the worker ended without a word'));
      // The report of a violation is a task of its own, which may follow the error.
      await new Promise((resolve) => setTimeout(resolve, 100));
      if (blockedBy !== undefined) dead(blocked("worker-src 'self' blob:", blockedBy));
      else dead(startFailure(failure.message || 'worker.js could not be read'));
    }, { signal });
    return worker;
  }
}

/**
 * A worker must come from the page's own origin. From another one, or in a sandboxed frame, which has none, a Blob
 * that imports it will do.
 * @param {URL} url
 */
function sameOrigin(url) {
  if (globalThis.origin === url.origin) return url;
  return blobUrl(`self.GPT2_WEB_BASE = ${JSON.stringify(url.href)}; importScripts(self.GPT2_WEB_BASE);`);
}

/** @param {string} source */
function blobUrl(source) {
  return URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
}

/** @param {unknown} cause */
function startFailure(cause) {
  if (cause instanceof Gpt2Error) return cause;
  const why = cause instanceof Error ? cause.message : String(cause);
  if (/content security policy/i.test(why)) return blocked("worker-src 'self' blob:", why);
  return new Gpt2Error('worker_failed', `the worker could not be started: ${why}`, { cause });
}

/** @param {string} directive @param {string} policy */
function blocked(directive, policy) {
  return new Gpt2Error('blocked_by_policy',
    `the page's Content-Security-Policy forbids the worker; it needs ${directive} (the policy is: ${policy})`);
}
