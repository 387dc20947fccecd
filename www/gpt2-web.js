/**
 * gpt2-web, the client: GPT-2 in a Web Worker, as an async iterable.
 *
 *     import { Gpt2Web } from './gpt2-web.js';
 *     const gpt2 = new Gpt2Web();
 *     await gpt2.loadEmbedded({ onProgress: ({ stage, done, total }) => console.log(stage, done, total) });
 *     for await (const text of gpt2.text('Once upon a time', { max_tokens: 40, seed: 7 })) output.append(text);
 *
 * The worker's side of every message is `src/web/protocol.rs`; the types below are generated from it. The client adds
 * what a page needs around them: it starts the worker, keeps requests apart, turns `error` events into exceptions,
 * and puts a new worker with the same model in the place of one that panicked.
 *
 * @module
 */

import { Gpt2Error } from './client/error.js';
import { download, monotone } from './client/progress.js';
import { WorkerHandle } from './client/worker-handle.js';

export { CLIENT_ERROR_KINDS, Gpt2Error } from './client/error.js';

/** @typedef {import('./client/error.js').ErrorKind} ErrorKind */
/** @typedef {import('./client/progress.js').Progress} Progress */
/** @typedef {import('./client/worker-handle.js').InlineAssets} InlineAssets */
/** @typedef {import('./types/Request').Request} Request */
/** @typedef {import('./types/Event').Event} Event */
/** @typedef {import('./types/ModelFile').ModelFile} ModelFile */
/** @typedef {import('./types/Settings').Settings} Settings */

/** @typedef {Extract<Event, { type: 'ready' }>} ReadyEvent */
/** @typedef {Pick<ReadyEvent, 'model' | 'options' | 'load_ms'>} Loaded What a load resolves to. */
/** @typedef {Extract<Event, { type: 'start' | 'prefill' | 'delta' | 'step' | 'done' }>} RunEvent What a run yields. */

/** @typedef {{ onProgress?: ((progress: Progress) => void) | undefined, signal?: AbortSignal | undefined }} LoadHooks */
/** @typedef {Partial<Settings> & { signal?: AbortSignal | undefined }} GenerateOptions */

/** @typedef {{ receive: (event: Event) => void, fail: (error: Gpt2Error) => void }} Pending */
/** @typedef {{ name: string, files: ModelFile[], precision?: string | undefined }} Load */

const EMBEDDED = 'fairy-12m-q8_0.gguf';

/** A language model in a worker. The worker starts with the first request. */
export class Gpt2Web {
  /** @type {string | URL | undefined} */ #base;
  /** @type {string | URL | undefined} */ #workerUrl;
  /** @type {InlineAssets | undefined} */ #assets;
  /** @type {WorkerHandle | null} */ #worker = null;
  /** @type {Map<number, Pending>} */ #pending = new Map();
  #nextId = 1;
  /** @type {Load | null} */ #loaded = null;
  /** @type {Promise<void> | null} */ #recovery = null;
  /** @type {Promise<Blob> | null} */ #embedded = null;
  #closed = false;

  /**
   * @param {object} [options]
   * @param {string | URL} [options.base] folder of worker.js and models/, with a slash at its end; the module's own
   *   when absent
   * @param {string | URL} [options.workerUrl] another place for worker.js
   * @param {InlineAssets} [options.assets] parts that need no fetch; `globalThis.GPT2_WEB_INLINE` when absent
   */
  constructor({ base, workerUrl, assets } = {}) {
    this.#base = base;
    this.#workerUrl = workerUrl;
    this.#assets = assets ?? /** @type {{ GPT2_WEB_INLINE?: InlineAssets }} */ (globalThis).GPT2_WEB_INLINE;
  }

  /**
   * Replaces the model. After an error the one loaded before is still there.
   *
   * @param {object} load
   * @param {string} load.name what the record calls the model
   * @param {(File | ModelFile)[]} load.files a GGUF; or safetensors with config.json and tokenizer files
   * @param {'f32' | 'q8_0'} [load.precision] what the file holds when absent
   * @param {LoadHooks['onProgress']} [load.onProgress]
   * @param {AbortSignal} [load.signal] ends the load with an error of kind `cancelled`
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async load({ name, files, precision, onProgress, signal }) {
    const load = { name, files: files.map((file) => ('blob' in file ? file : { name: file.name, blob: file })), precision };
    await this.#recovery?.catch(() => {});
    const loaded = await this.#load(load, { onProgress, signal });
    this.#loaded = load;
    this.#recovery = null;
    return loaded;
  }

  /**
   * Loads the small model that comes with the page. It is fetched at most once.
   * @param {LoadHooks} [hooks]
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadEmbedded({ onProgress, signal } = {}) {
    const report = monotone(onProgress);
    const blob = await this.embedded({ onProgress: report, signal });
    return this.load({
      name: EMBEDDED.replace(/-[^-]*\.gguf$/, ''), files: [{ name: EMBEDDED, blob }], onProgress: report, ...(signal && { signal }),
    });
  }

  /**
   * The embedded model's file, which is also a source of GPT-2's tokenizer for checkpoints that come without one.
   * @param {LoadHooks} [hooks]
   * @returns {Promise<ModelFile['blob']>}
   * @throws {Gpt2Error}
   */
  embedded({ onProgress, signal } = {}) {
    const report = monotone(onProgress);
    /** @param {number} done @param {number | null} total */
    const progress = (done, total) => report({ stage: 'download', done, total });
    const blob = (this.#embedded ??= this.#assets
      ? this.#assets.model(progress)
      : download(this.#url(`models/${EMBEDDED}`), progress, signal));
    blob.catch(() => { this.#embedded = null; });
    return blob;
  }

  /**
   * Continues `prompt`. Yields `start`, any number of `prefill`, `delta` and `step`, and `done` as the last. The run
   * begins with the first `next()`. Leaving the loop cancels it; aborting `signal` does too, and then the run still
   * ends with its `done`, whose stop reason is `cancelled`. While one run goes on, another is refused as `busy`.
   *
   * @param {string} prompt
   * @param {GenerateOptions} [options]
   * @returns {AsyncGenerator<RunEvent, void, void>}
   * @throws {Gpt2Error}
   */
  async *generate(prompt, { signal, ...options } = {}) {
    await this.#recovered();
    /** @type {Event[]} */ const queue = [];
    /** @type {Gpt2Error | null} */ let failure = null;
    let ended = false;
    let wake = () => {};
    const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
    const request = this.#send({ type: 'generate', prompt, options: given }, {
      receive: (event) => { queue.push(event); ended ||= event.type === 'done'; wake(); },
      fail: (error) => { failure = error; ended = true; wake(); },
    }, signal);
    const more = () => new Promise((resolve) => { wake = () => resolve(undefined); });
    try {
      for (;;) {
        for (let event; (event = queue.shift()); ) yield /** @type {RunEvent} */ (event);
        if (failure) throw failure;
        if (ended) return;
        await more();
      }
    } finally {
      // Waiting for the end here makes `break` safe: a run begun right after it does not find the worker busy.
      if (!ended) request.cancel();
      while (!ended) await more();
    }
  }

  /**
   * As `generate`, but only the text.
   * @param {string} prompt
   * @param {GenerateOptions} [options]
   * @returns {AsyncGenerator<string, void, void>}
   * @throws {Gpt2Error}
   */
  async *text(prompt, options) {
    for await (const event of this.generate(prompt, options)) if (event.type === 'delta') yield event.text;
  }

  /**
   * Frees the model.
   * @returns {Promise<void>}
   * @throws {Gpt2Error}
   */
  async unload() {
    await this.#recovered();
    await new Promise((resolve, reject) => { this.#send({ type: 'unload' }, { receive: resolve, fail: reject }); });
    this.#loaded = null;
  }

  /** Ends the worker; whatever runs is refused as `closed`. The client cannot be used any more. */
  close() {
    this.#closed = true;
    this.#loaded = null;
    this.#stop(new Gpt2Error('closed', 'the client was closed'));
  }

  /** After a panic: resolves when the model is loaded again, rejects if it cannot be. Null otherwise. */
  get recovery() {
    return this.#recovery;
  }

  /**
   * @param {Load} load
   * @param {LoadHooks} hooks
   * @returns {Promise<Loaded>}
   */
  #load({ name, files, precision }, { onProgress, signal }) {
    const report = monotone(onProgress);
    return new Promise((resolve, reject) => {
      this.#send({ type: 'load', name, files, ...(precision && { precision }) }, {
        receive: (event) => {
          if (event.type === 'progress') report({ stage: event.stage, done: event.done, total: event.total });
          else if (event.type === 'ready') resolve({ model: event.model, options: event.options, load_ms: event.load_ms });
        },
        fail: reject,
      }, signal);
    });
  }

  /**
   * Posts a request and routes its events to `pending` until the one that ends it.
   *
   * @param {DistributiveOmit<Exclude<Request, { type: 'cancel' }>, 'id'>} request
   * @param {Pending} pending
   * @param {AbortSignal} [signal]
   */
  #send(request, pending, signal) {
    const id = this.#nextId++;
    if (this.#closed) {
      pending.fail(new Gpt2Error('closed', 'the client was closed; make a new one'));
      return { cancel() {} };
    }
    const worker = (this.#worker ??= this.#start());
    const cancel = () => void worker.post({ type: 'cancel', id }).catch(() => {}); // nothing to cancel in a dead worker
    const end = () => {
      this.#pending.delete(id);
      signal?.removeEventListener('abort', cancel);
    };
    this.#pending.set(id, {
      receive: (event) => {
        if (event.type === 'ready' || event.type === 'unloaded' || event.type === 'done') end();
        pending.receive(event);
      },
      fail: (error) => { end(); pending.fail(error); },
    });
    worker.post({ ...request, id }).catch((error) => {
      this.#pending.get(id)?.fail(new Gpt2Error('invalid_request', `the request cannot be sent to the worker: ${error.message}`));
    });
    if (signal?.aborted) cancel();
    else signal?.addEventListener('abort', cancel, { once: true });
    return { cancel };
  }

  #start() {
    /** @type {WorkerHandle} */
    const worker = new WorkerHandle(() => this.#url(this.#workerUrl ?? 'worker.js'), this.#assets, {
      event: (event) => this.#receive(event),
      dead: (error) => {
        if (worker === this.#worker) this.#crash(error);
      },
    });
    return worker;
  }

  /** @param {Event} event */
  #receive(event) {
    if (event.type !== 'error') {
      this.#pending.get(event.id)?.receive(event);
      return;
    }
    const error = new Gpt2Error(event.kind, event.message);
    // An error that names no request leaves open which one it ended: only a new worker is in a known state.
    if (event.kind === 'panic' || event.id === null) this.#crash(error);
    else this.#pending.get(event.id)?.fail(error);
  }

  /**
   * The worker is gone: says so to every request and puts a new one with the same model in its place. If that fails
   * too, the next request says why, and the client is without a model.
   * @param {Gpt2Error} error
   */
  #crash(error) {
    const load = this.#loaded;
    this.#loaded = null;
    this.#stop(error);
    if (!load) return;
    this.#recovery = this.#load(load, {}).then(() => {
      this.#loaded = load;
      this.#recovery = null;
    });
    this.#recovery.catch(() => {}); // told to the next request by `#recovered`
  }

  /** Waits for the model to be loaded again after a panic; reports once that it could not. */
  async #recovered() {
    const recovery = this.#recovery;
    try {
      await recovery;
    } catch (error) {
      if (this.#recovery === recovery) this.#recovery = null;
      throw error;
    }
  }

  /** @param {string | URL} path */
  #url(path) {
    const page = globalThis.document?.baseURI ?? globalThis.location?.href;
    return new URL(path, this.#base ? new URL(this.#base, page) : (import.meta.url ?? page));
  }

  /** @param {Gpt2Error} error */
  #stop(error) {
    this.#worker?.terminate();
    this.#worker = null;
    for (const pending of [...this.#pending.values()]) pending.fail(error);
  }
}

/**
 * `Omit` for each member of a union.
 * @template T @template {PropertyKey} K
 * @typedef {T extends unknown ? Omit<T, K> : never} DistributiveOmit
 */
