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

import { fetchWhole } from './client/arrival.js';
import { fetchCatalog } from './client/catalog.js';
import { Gpt2Error } from './client/error.js';
import { ModelFetch } from './client/fetch-model.js';
import { fromGiven, lackTokenizer, transferable } from './client/files.js';
import { monotone } from './client/progress.js';
import { SharedFile } from './client/shared-file.js';
import { addresses, repository, typed } from './client/source.js';
import { ModelStore } from './client/store.js';
import { WorkerHandle } from './client/worker-handle.js';

export { CLIENT_ERROR_KINDS, Gpt2Error } from './client/error.js';
export { memoryNeeded } from './client/memory.js';

/** @typedef {import('./client/error.js').ErrorKind} ErrorKind */
/** @typedef {import('./client/progress.js').Progress} Progress */
/** @typedef {import('./client/worker-handle.js').InlineAssets} InlineAssets */
/** @typedef {import('./types/Request').Request} Request */
/** @typedef {import('./types/Event').Event} Event */
/** @typedef {import('./client/files.js').ModelFile} ModelFile */
/** @typedef {import('./client/files.js').GivenFile} GivenFile */
/** @typedef {import('./client/catalog.js').CatalogEntry} CatalogEntry */
/** @typedef {import('./client/memory.js').Precision} Precision */
/** @typedef {import('./client/source.js').Source} Source */
/** @typedef {import('./client/store.js').StoredModelInfo} StoredModelInfo */
/** @typedef {import('./types/Settings').Settings} Settings */

/** @typedef {Extract<Event, { type: 'ready' }>} ReadyEvent */
/**
 * What a load resolves to; `notices` are sentences for people: what was guessed, what could not be kept.
 * @typedef {Pick<ReadyEvent, 'model' | 'options' | 'load_ms' | 'memory_bytes' | 'notices'>} Loaded
 */
/** @typedef {Extract<Event, { type: 'start' | 'prefill' | 'delta' | 'step' | 'done' }>} RunEvent What a run yields. */

/** @typedef {{ onProgress?: ((progress: Progress) => void) | undefined, signal?: AbortSignal | undefined }} LoadHooks */
/** @typedef {LoadHooks & { precision?: Precision | undefined }} LoadOptions `precision`: what the file holds when absent. */
/**
 * A download is kept in this browser where it has storage for it, and goes on after a broken connection. `sha256` of
 * the weights is compared in hexadecimal.
 * @typedef {LoadOptions & { sha256?: string | null | undefined }} FetchOptions
 */
/** @typedef {Partial<Settings> & { signal?: AbortSignal | undefined }} GenerateOptions */

/** @typedef {{ receive: (event: Event) => void, fail: (error: Gpt2Error) => void }} Pending */
/** @typedef {{ name: string, files: () => Promise<ModelFile[]>, precision?: Precision | undefined, sha256?: string | null | undefined }} Load `files` gives them as often as they are wanted. */

const EMBEDDED = 'fairy-12m-q8_0.gguf';
/** Failures of a load that say nothing of its files. @type {ReadonlySet<ErrorKind>} */
const INNOCENT = new Set(['cancelled', 'busy', 'closed', 'worker_failed', 'blocked_by_policy', 'out_of_memory']);

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
  #embedded = new SharedFile((report, signal, fresh) => this.#assets
    ? this.#assets.model(report)
    : fetchWhole(this.#url(`models/${EMBEDDED}`), report, { signal, cache: fresh ? 'reload' : 'default' }));
  #closed = false;
  /** The downloaded models that this browser keeps. @readonly */ store;

  /**
   * @param {object} [options]
   * @param {string | URL} [options.base] folder of worker.js and models/, with a slash at its end; the module's own
   *   when absent
   * @param {string | URL} [options.workerUrl] another place for worker.js
   * @param {InlineAssets} [options.assets] parts that need no fetch; `globalThis.GPT2_WEB_INLINE` when absent
   * @param {ModelStore} [options.store] another place for downloaded models than the browser's storage
   */
  constructor({ base, workerUrl, assets, store = new ModelStore() } = {}) {
    this.#base = base;
    this.#workerUrl = workerUrl;
    this.store = store;
    this.#assets = assets ?? /** @type {{ GPT2_WEB_INLINE?: InlineAssets }} */ (globalThis).GPT2_WEB_INLINE;
  }

  /**
   * Replaces the model. After an error the one loaded before is still there. Weights without a tokenizer get GPT-2's.
   *
   * @param {LoadOptions & { name: string, files: readonly GivenFile[] }} load `name` is what the record calls the model;
   *   `files` a GGUF, or safetensors with config.json and tokenizer files
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async load({ name, files, precision, onProgress, signal }) {
    if (typeof name !== 'string') throw new Gpt2Error('invalid_request', 'load needs a `name`: what the record calls the model');
    const given = fromGiven(files);
    return this.#replace({ name, precision, files: async () => given }, given, { onProgress, signal });
  }

  /**
   * Downloads and loads a model. Of one address of safetensors, or of an index of shards, what lies beside it is taken
   * too: config.json and the tokenizer. Of several addresses, exactly those.
   *
   * @param {string | URL | readonly (string | URL)[]} urls
   * @param {FetchOptions} [options]
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadUrl(urls, options) {
    return this.#fetch(addresses(urls), options);
  }

  /**
   * Downloads and loads a model from Hugging Face.
   *
   * @param {string} repo owner/name
   * @param {FetchOptions & { revision?: string | undefined, files?: readonly string[] | undefined }} [options] `revision`
   *   is a branch, a tag or a commit; `files` are exactly these, the weights last, instead of what is found
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadRepo(repo, { revision, files, ...options } = {}) {
    return this.#fetch(repository(repo, { ...(revision && { revision }), ...(files && { files }) }), options);
  }

  /**
   * Downloads and loads what a person typed: a repository's name, its page, or the address of a file.
   * @param {string} text
   * @param {FetchOptions} [options]
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadFrom(text, options) {
    return this.#fetch(typed(text), options);
  }

  /**
   * The models of `models/catalog.json`. One without a `repo` comes with the page; for the others:
   * `loadRepo(entry.repo, { ...entry, precision })`.
   * @returns {Promise<CatalogEntry[]>}
   * @throws {Gpt2Error}
   */
  async catalog() {
    const { models } = this.#assets?.catalog ?? (await fetchCatalog(this.#url('models/catalog.json')));
    return models;
  }

  /**
   * Loads a model that was downloaded before, without the network.
   * @param {string} id from `store.list()`
   * @param {LoadOptions} [options]
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadStored(id, { precision, ...hooks } = {}) {
    const name = (await (await this.store.find(id))?.entry())?.name ?? 'model';
    const load = { name, precision, files: () => this.#stored(id) };
    return this.#replace(load, await load.files(), hooks);
  }

  /**
   * Loads the small model that comes with the page. It is fetched once, unless what came cannot be loaded.
   * @param {LoadHooks} [hooks]
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadEmbedded({ onProgress, signal } = {}) {
    const report = monotone(onProgress);
    // It starts while the file comes.
    if (!this.#closed) this.#worker ??= this.#start();
    const blob = await this.embedded({ onProgress: report, signal });
    return this.load({ name: EMBEDDED.replace(/-[^-]*\.gguf$/, ''), files: [{ name: EMBEDDED, blob }], onProgress: report, signal });
  }

  /**
   * The embedded model's file, which is also a source of GPT-2's tokenizer for checkpoints that come without one.
   * @param {LoadHooks} [hooks]
   * @returns {Promise<Blob>}
   * @throws {Gpt2Error}
   */
  embedded({ onProgress, signal } = {}) {
    const report = monotone(onProgress);
    return this.#embedded.get((done, total) => report({ stage: 'download', done, total }), signal);
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
    if (typeof prompt !== 'string') throw new Gpt2Error('invalid_request', `the prompt must be a text, not ${typeof prompt}`);
    await this.#recovered();
    /** @type {Event[]} */ const queue = [];
    /** @type {Gpt2Error | null} */ let failure = null;
    let ended = false;
    let wake = () => {};
    // A record's settings say null for what was not given.
    const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined && value !== null));
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

  /** Whether this is the page in one file, which makes no request. */
  get inOneFile() {
    return this.#assets !== undefined;
  }

  /** After a panic: resolves when the model is loaded again, rejects if it cannot be. Null otherwise. */
  get recovery() {
    return this.#recovery;
  }

  /**
   * @param {Source} source
   * @param {FetchOptions} [options]
   */
  async #fetch(source, { precision, sha256, onProgress, signal } = {}) {
    const report = monotone(onProgress);
    const fetched = await new ModelFetch(source, {
      store: this.store, signal, report: (done, total) => report({ stage: 'download', done, total }),
    }).run();
    const id = fetched.stored;
    const load = { name: source.name, precision, sha256, files: () => this.#stored(id) };
    // The worker reads a stream as it comes: until it ends there is one thing to report.
    const hooks = { signal, onProgress: (/** @type {Progress} */ progress) => void (fetched.streaming || report(progress)) };
    try {
      const loaded = await this.#replace(load, fetched.files, hooks);
      return { ...loaded, notices: [...fetched.notices, ...loaded.notices] };
    } catch (cause) {
      const broken = cause instanceof Gpt2Error && (cause.kind === 'not_a_model' || cause.kind === 'damaged_model');
      if (id !== null && broken) await this.store.delete(id).catch(() => {}); // the cause is what there is to tell
      throw fetched.failure ?? cause;
    } finally {
      await fetched.end();
    }
  }

  /** @param {string | null} id @returns {Promise<ModelFile[]>} */
  async #stored(id) {
    const files = await (id === null ? null : await this.store.find(id))?.files();
    if (!files) throw new Gpt2Error('not_loaded', 'the model is not kept in this browser; load it again from where it came');
    return Promise.all(files.map(async (file) => ({ name: file.name, blob: await file.blob() })));
  }

  /** @param {Load} load @param {ModelFile[]} files @param {LoadHooks} hooks */
  async #replace(load, files, hooks) {
    await this.#recovery?.catch(() => {});
    const loaded = await this.#load(load, files, hooks);
    this.#loaded = load;
    this.#recovery = null;
    return loaded;
  }

  /**
   * @param {Load} load
   * @param {ModelFile[]} given
   * @param {LoadHooks} hooks
   * @returns {Promise<Loaded>}
   */
  async #load({ name, precision, sha256 }, given, { onProgress, signal }) {
    const report = monotone(onProgress);
    const files = await transferable(given);
    if (lackTokenizer(files)) files.push({ name: 'tokenizer.gguf', blob: await this.embedded({ signal }) });
    const streams = files.flatMap((file) => ('stream' in file ? [file.stream] : []));
    return new Promise((resolve, reject) => {
      this.#send(/** @type {any} */ ({ type: 'load', name, files, ...(precision && { precision }), ...(sha256 && { sha256 }) }), {
        receive: (event) => {
          if (event.type === 'progress') report({ stage: event.stage, done: event.done, total: event.total });
          else if (event.type === 'ready') {
            const { model, options, load_ms, memory_bytes, notices } = event;
            resolve({ model, options, load_ms, memory_bytes, notices });
          }
        },
        fail: (error) => {
          // The embedded file may be what was wrong, as the page that a network's login answers with.
          if (!INNOCENT.has(error.kind)) for (const file of files) if ('blob' in file) this.#embedded.forget(file.blob);
          reject(error);
        },
      }, signal, streams);
    });
  }

  /**
   * Posts a request and routes its events to `pending` until the one that ends it.
   *
   * @param {DistributiveOmit<Exclude<Request, { type: 'cancel' }>, 'id'>} request
   * @param {Pending} pending
   * @param {AbortSignal} [signal]
   * @param {Transferable[]} [transfer]
   */
  #send(request, pending, signal, transfer) {
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
    worker.post({ ...request, id }, transfer).catch((error) => {
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
    this.#recovery = load.files().then((files) => this.#load(load, files, {})).then(() => {
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
