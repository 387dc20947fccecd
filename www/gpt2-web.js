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

import { addressesOf, checkSignal, kindOf, loadOptions, mustBeText, namesOf, optionsOf, stallOf, wrong } from './client/arguments.js';
import { fetchCatalog } from './client/catalog.js';
import { Gpt2Error, cancelled } from './client/error.js';
import { fromGiven } from './client/files.js';
import { Loads } from './client/loads.js';
import { Model } from './client/model.js';
import { monotone } from './client/progress.js';
import { Requests } from './client/requests.js';
import { Run, iterable } from './client/run.js';
import { ModelDownload, SharedDownload, addresses, fetchWhole, repository, typed } from './client/download/index.js';
import { ModelStore } from './client/store/model-store.js';
import { Turns } from './client/turns.js';
import { WorkerHandle } from './client/worker-handle.js';

export { CLIENT_ERROR_KINDS, Gpt2Error } from './client/error.js';

/** @typedef {import('./client/error.js').ErrorKind} ErrorKind */
/** @typedef {import('./client/progress.js').Progress} Progress */
/** @typedef {import('./client/worker-handle.js').InlineAssets} InlineAssets */
/** @typedef {import('./client/files.js').ModelFile} ModelFile */
/** @typedef {import('./client/files.js').GivenFile} GivenFile */
/** @typedef {import('./client/files.js').GivenFiles} GivenFiles */
/** @typedef {import('./client/catalog.js').CatalogEntry} CatalogEntry */
/** @typedef {import('./client/memory.js').Precision} Precision */
/** @typedef {import('./client/download/source.js').Source} Source */
/** @typedef {import('./client/store/model-store.js').StoredModelInfo} StoredModelInfo */
/** @typedef {import('./client/model.js').Load} Load */
/** @typedef {import('./client/model.js').Loaded} Loaded */
/** @typedef {import('./client/model.js').Hashed} Hashed */
/** @typedef {import('./client/model.js').Way} Way */
/** @typedef {import('./client/run.js').RunEvent} RunEvent */
/** @typedef {import('./client/loads.js').LoadHooks} LoadHooks */
/** @typedef {import('./types/Settings.js').Settings} Settings */

/** @typedef {LoadHooks & { precision?: Precision | null | undefined }} LoadOptions `precision`: what the file holds when absent. */
/**
 * A download is kept in this browser where it has storage for it, and goes on after a broken connection. `sha256` of
 * the weights is compared in hexadecimal.
 * @typedef {LoadOptions & { sha256?: string | null | undefined }} FetchOptions
 */
/** @typedef {Partial<Settings> & { signal?: AbortSignal | null | undefined }} GenerateOptions */

const EMBEDDED = 'fairy-12m-q8_0.gguf';
/** Milliseconds of silence after which a worker is given up. */
const STALL_MS = 30_000;

/**
 * A language model in a worker. The worker starts with the first request.
 *
 * One thing at a time: while a run or a load goes on, another is refused as `busy`. One that was cancelled is waited
 * for, and equal loads are one. A load that has to download lets runs go on with the model before, and waits for the
 * last of them.
 */
export class Gpt2Web {
  /** @type {string | URL | undefined} */ #base;
  /** @type {string | URL | undefined} */ #workerUrl;
  /** @type {InlineAssets | undefined} */ #assets;
  /** @type {Requests} */ #requests;
  /** @type {Model} */ #model;
  #turns = new Turns();
  /** @type {Loads<Loaded>} */ #loads = new Loads();
  #embedded = new SharedDownload((report, signal, fresh) => this.#download(report, signal, fresh));
  /** @type {Gpt2Error | null} */ #closed = null;
  #ending = new AbortController();
  /** The downloaded models that this browser keeps. @readonly */ store;
  /**
   * Called when the SHA-256 of the loaded model is known, or never will be, which may be long after the load.
   * @type {((hashed: Hashed) => void) | null}
   */
  onhashed = null;

  /**
   * @param {object} [options]
   * @param {string | URL} [options.base] folder of worker.js and models/; the module's own when absent
   * @param {string | URL} [options.workerUrl] another place for worker.js
   * @param {InlineAssets} [options.assets] parts that need no fetch; `globalThis.GPT2_WEB_INLINE` when absent
   * @param {ModelStore} [options.store] another place for downloaded models than the browser's storage
   * @param {number} [options.stall_ms] a worker that does not answer for so long is ended, and the run or load fails
   *   as `stalled`; 0 or Infinity waits for ever
   * @throws {Gpt2Error}
   */
  constructor(options) {
    const { base, workerUrl, assets, store = new ModelStore(), stall_ms = STALL_MS } = optionsOf('Gpt2Web', options);
    for (const [name, url] of Object.entries({ base, workerUrl })) {
      if (url !== undefined && typeof url !== 'string' && !(url instanceof URL)) throw wrong(`\`${name}\` must be a URL, not ${kindOf(url)}`);
    }
    for (const [name, part] of Object.entries({ store, ...(assets && { assets }) })) {
      if (typeof part !== 'object' || part === null) throw wrong(`\`${name}\` must be an object, not ${kindOf(part)}`);
    }
    this.#base = base;
    this.#workerUrl = workerUrl;
    this.store = store;
    this.#assets = assets ?? /** @type {{ GPT2_WEB_INLINE?: InlineAssets }} */ (globalThis).GPT2_WEB_INLINE;
    this.#requests = new Requests(
      (listener) => new WorkerHandle(() => this.#url(this.#workerUrl ?? 'worker.js'), this.#assets, listener),
      stallOf(stall_ms),
      { lost: () => this.#model.recover(), late: (event) => this.#model.late(event) },
    );
    this.#model = new Model(this.#requests, this.#embedded, (hashed) => this.onhashed?.(hashed));
  }

  /**
   * Replaces the model. After an error the one loaded before is still there. Weights without a tokenizer get GPT-2's.
   *
   * @param {LoadOptions & { name: string, files: GivenFiles }} load `name` is what the record calls the model;
   *   `files` a GGUF, or safetensors with config.json and tokenizer files
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async load(load) {
    const { name, files, precision, ...hooks } = loadOptions('load', load);
    if (typeof name !== 'string') throw wrong('load needs a `name`, which the record shows as the model');
    const given = fromGiven(files);
    return this.#join(['files', name, precision ?? null, ...given.key], hooks, (way) => (
      this.#replace({ name, precision, files: async () => given.files }, given.files, way)));
  }

  /**
   * Downloads and loads a model. Of one address of safetensors, or of an index of shards, what lies beside it is taken
   * too: config.json and the tokenizer. Of several addresses, exactly those.
   *
   * @param {string | URL | Iterable<string | URL>} urls
   * @param {FetchOptions} [options]
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadUrl(urls, options) {
    const given = loadOptions('loadUrl', options);
    return this.#fetch(addresses(addressesOf(urls)), given);
  }

  /**
   * Downloads and loads a model from Hugging Face.
   *
   * @param {string} repo owner/name
   * @param {FetchOptions & { revision?: string | null | undefined, files?: readonly string[] | null | undefined }} [options]
   *   `revision` is a branch, a tag or a commit; `files` are exactly these, the weights last, instead of what is found
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadRepo(repo, options) {
    mustBeText('the name of a repository, owner/name,', repo);
    const { revision, files, ...given } = loadOptions('loadRepo', options);
    const names = namesOf(files);
    return this.#fetch(repository(repo, { ...(revision && { revision }), ...(names && { files: names }) }), given);
  }

  /**
   * Downloads and loads what a person typed: a repository's name, its page, or the address of a file.
   * @param {string} text
   * @param {FetchOptions} [options]
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadFrom(text, options) {
    mustBeText('the name of a repository, or an address,', text);
    return this.#fetch(typed(text), loadOptions('loadFrom', options));
  }

  /**
   * The models of `models/catalog.json`. One without a `repo` comes with the page; for the others:
   * `loadRepo(entry.repo, { ...entry, precision })`.
   * @returns {Promise<CatalogEntry[]>}
   * @throws {Gpt2Error}
   */
  async catalog() {
    this.#mustBeOpen();
    const { models } = this.#assets?.catalog ?? (await fetchCatalog(this.#url('models/catalog.json'), this.#ending.signal));
    return models;
  }

  /**
   * Loads a model that was downloaded before, without the network.
   * @param {string} id from `store.list()`
   * @param {LoadOptions} [options]
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadStored(id, options) {
    mustBeText('the id of a stored model', id);
    const { precision, ...hooks } = loadOptions('loadStored', options);
    return this.#join(['stored', id, precision ?? null], hooks, async (way) => {
      const name = (await (await this.store.find(id))?.entry())?.name ?? 'model';
      const load = { name, precision, files: () => this.#stored(id) };
      return this.#replace(load, await load.files(), way, { patient: true });
    });
  }

  /**
   * Loads the small model that comes with the page. It is fetched once, unless what came cannot be loaded.
   * @param {LoadHooks} [options]
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadEmbedded(options) {
    return this.#join(['embedded'], loadOptions('loadEmbedded', options), async (way) => {
      this.#requests.warm(); // it starts while the file comes
      const files = async () => [{ name: EMBEDDED, blob: await this.embedded() }];
      const blob = await this.embedded({ onProgress: way.tell, signal: way.signal });
      return this.#replace({ name: EMBEDDED.replace(/-[^-]*\.gguf$/, ''), files }, [{ name: EMBEDDED, blob }], way, { patient: true });
    });
  }

  /**
   * The embedded model's file, which is also a source of GPT-2's tokenizer for checkpoints that come without one.
   * @param {LoadHooks} [options]
   * @returns {Promise<Blob>}
   * @throws {Gpt2Error}
   */
  async embedded(options) {
    this.#mustBeOpen();
    const { onProgress, signal } = loadOptions('embedded', options);
    const report = monotone(onProgress ?? undefined);
    return this.#embedded.get((done, total) => report({ stage: 'download', done, total }), signal ?? undefined);
  }

  /**
   * Continues `prompt`. Yields `start`, any number of `prefill`, `delta` and `step`, and `done` as the last. The run
   * begins with the first `next()`. Leaving the loop cancels it; aborting `signal` does too, and then the run still
   * ends with its `done`, whose stop reason is `cancelled`. Where there is no model yet to begin with, because the worker
   * does not start or a lost model is still on its way back, the aborted run fails as `cancelled` instead. While one run
   * goes on, another is refused as `busy`; one that was cancelled is waited for.
   *
   * @param {string} prompt
   * @param {GenerateOptions} [options]
   * @returns {AsyncGenerator<RunEvent, void, void>}
   * @throws {Gpt2Error} from `next()`
   */
  generate(prompt, options) {
    return iterable(new Run((run) => this.#begin(run, prompt, options), (event) => event));
  }

  /**
   * As `generate`, but only the text.
   * @param {string} prompt
   * @param {GenerateOptions} [options]
   * @returns {AsyncGenerator<string, void, void>}
   * @throws {Gpt2Error} from `next()`
   */
  text(prompt, options) {
    return iterable(new Run((run) => this.#begin(run, prompt, options), (event) => (event.type === 'delta' ? event.text : undefined)));
  }

  /**
   * Frees the model and its memory, which only goes with the worker; the next request starts another.
   * @returns {Promise<void>}
   * @throws {Gpt2Error}
   */
  async unload() {
    this.#mustBeOpen();
    const turn = this.#turns.enter('an unload', () => false);
    try {
      if (turn.before) await turn.before;
      await this.#model.recovery?.catch(() => {}); // then there is none to free
      this.#model.gone(); // a worker that is lost at this takes the model with it
      if (this.#requests.running) {
        await new Promise((resolve) => { this.#requests.send({ type: 'unload' }, { receive: resolve, fail: resolve }); });
      }
      this.#mustBeOpen();
      this.#requests.end(new Gpt2Error('not_loaded', 'the model was unloaded'));
    } finally {
      turn.leave();
    }
  }

  /** Ends the worker and every download; whatever goes on is refused as `closed`, and whatever is asked for later. */
  close() {
    if (this.#closed) return;
    const error = new Gpt2Error('closed', 'the client is closed; create a new one');
    this.#closed = error;
    this.#ending.abort(error);
    this.#model.gone();
    this.#loads.end(error);
    this.#embedded.end(error);
    this.#requests.close(error);
  }

  /** Whether this is the page in one file, which makes no request. */
  get inOneFile() {
    return this.#assets !== undefined;
  }

  /** While a lost worker is replaced: resolves when the model is loaded again, rejects if it cannot be. Null otherwise. */
  get recovery() {
    return this.#model.recovery;
  }

  #mustBeOpen() {
    if (this.#closed) throw this.#closed;
  }

  /**
   * @param {Run<any>} run @param {string} prompt @param {GenerateOptions | undefined} options
   * @returns {import('./client/run.js').Begun}
   */
  #begin(run, prompt, options) {
    this.#mustBeOpen();
    mustBeText('the prompt', prompt);
    const { signal, ...rest } = optionsOf('generate', options);
    checkSignal(signal);
    // A record's settings say null for what was not given.
    const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined && value !== null));
    const turn = this.#turns.enter('a run', () => run.left || signal?.aborted === true);
    /** @type {import('./client/requests.js').Sent | null} */ let sent = null;
    let over = () => {};
    const ended = /** @type {Promise<void>} */ (new Promise((resolve) => { over = resolve; }));
    const end = () => { turn.leave(); over(); };
    const fail = (/** @type {unknown} */ error) => { end(); run.fail(error); };
    const go = async () => {
      if (turn.before) await turn.before;
      await this.#model.recovered(signal ?? null);
      if (run.left) return;
      sent = this.#requests.send({ type: 'generate', prompt, options: given, ...(signal?.aborted && { cancelled: true }) }, {
        receive: (event) => {
          if (event.type === 'done') end();
          run.receive(/** @type {RunEvent} */ (event));
        },
        fail,
      }, signal);
    };
    go().catch(fail);
    return { ended, cancel: () => (sent ? sent.cancel() : end()) };
  }

  /**
   * @param {readonly unknown[]} key equal for equal loads
   * @param {LoadHooks} hooks
   * @param {(way: { tell: (news: import('./client/flight.js').News) => void, signal: AbortSignal }) => Promise<Loaded>} start
   */
  async #join(key, hooks, start) {
    this.#mustBeOpen();
    return this.#loads.join(key, hooks, () => this.#turns.check(), (tell, signal) => start({ tell, signal }));
  }

  /**
   * @param {Load} load @param {ModelFile[]} files @param {{ tell: Way['tell'], signal: AbortSignal }} way
   * @param {{ patient?: boolean, again?: () => Promise<ModelFile[]> }} [options] `patient`: waits for a run that began
   *   while the files came
   */
  async #replace(load, files, way, { patient = false, again } = {}) {
    const { signal } = way;
    const turn = this.#turns.enter('a load', () => signal.aborted, { patient });
    try {
      if (turn.before) {
        await Promise.race([turn.before, new Promise((resolve) => { signal.addEventListener('abort', resolve, { once: true }); })]);
      }
      if (signal.aborted) throw cancelled('the load', signal);
      return await this.#model.replace(load, files, way, again);
    } finally {
      turn.leave();
    }
  }

  /** @param {Source} source @param {FetchOptions} options */
  async #fetch(source, { precision, sha256, ...hooks }) {
    return this.#join(['fetched', source.id, precision ?? null, sha256 ?? null], hooks, async ({ tell, signal }) => {
      const report = (/** @type {number} */ done, /** @type {number | null} */ total) => tell({ stage: 'download', done, total });
      const fetch = () => new ModelDownload(source, { store: this.store, signal, report }).run();
      let fetched = await fetch();
      const load = { name: source.name, precision, sha256, files: () => this.#stored(fetched.stored) };
      // What was streamed is gone: it comes from the network again.
      const again = async () => {
        if (fetched.stored !== null) return load.files();
        await fetched.end();
        fetched = await fetch();
        return fetched.files;
      };
      // The worker reads a stream as it comes: until it ends there is one thing to report.
      const way = { signal, tell: (/** @type {import('./client/flight.js').News} */ news) => { if (!('stage' in news && fetched.streaming)) tell(news); } };
      try {
        const loaded = await this.#replace(load, fetched.files, way, { patient: true, again });
        loaded.notices.unshift(...fetched.notices);
        return loaded;
      } catch (cause) {
        const id = fetched.stored;
        const broken = cause instanceof Gpt2Error && (cause.kind === 'not_a_model' || cause.kind === 'damaged_model');
        // Why it could not be deleted is of no use beside why it could not be loaded.
        if (id !== null && broken) await this.store.delete(id).catch(() => {});
        throw fetched.failure ?? cause;
      } finally {
        await fetched.end();
      }
    });
  }

  /** @param {string | null} id @returns {Promise<ModelFile[]>} */
  async #stored(id) {
    const files = await (id === null ? null : await this.store.find(id))?.files();
    if (!files) throw new Gpt2Error('not_loaded', 'the model is not saved in this browser; load it again from its source');
    return Promise.all(files.map(async (file) => ({ name: file.name, blob: await file.blob() })));
  }

  /** The embedded model. @param {(done: number, total: number | null) => void} report @param {AbortSignal} signal @param {boolean} fresh */
  async #download(report, signal, fresh) {
    if (this.#assets) return this.#assets.model(report);
    return fetchWhole(this.#url(`models/${EMBEDDED}`), report, { signal, cache: fresh ? 'reload' : 'default' });
  }

  /** @param {string | URL} path */
  #url(path) {
    const page = globalThis.document?.baseURI ?? globalThis.location?.href;
    try {
      return new URL(path, this.#base ? folder(new URL(this.#base, page)) : (import.meta.url ?? page));
    } catch (cause) {
      throw new Gpt2Error('invalid_request', `${this.#base ?? path} is not a URL; set \`base\` to the folder of worker.js`, { cause });
    }
  }
}

/** With a slash at its end, without which the last part of its path would be taken for a file. @param {URL} url */
function folder(url) {
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url;
}
