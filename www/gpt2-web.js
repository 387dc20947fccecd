/**
 * gpt2-web, the client: GPT-2 in a Web Worker, as an async iterable.
 *
 *     import { Gpt2Web } from './gpt2-web.js';
 *     const gpt2 = new Gpt2Web();
 *     await gpt2.loadEmbedded({ onProgress: ({ stage, done, total }) => console.log(stage, done, total) });
 *     for await (const text of gpt2.text('Once upon a time', { max_tokens: 40, seed: 7 })) output.append(text);
 *
 * `src/web/protocol.rs` defines every message of the worker; the types below are generated from it. The client adds what a
 * page needs: it starts the worker, keeps requests apart, turns `error` events into exceptions, and replaces a worker that
 * panicked by a new one with the same model.
 *
 * @module
 */

import { addressesOf, checkSignal, kindOf, loadOptions, mustBeText, namesOf, optionsOf, stallOf, wrong } from './client/arguments.js';
import { SharedDownload, addresses, repository, typed } from './client/download/index.js';
import { Gpt2Error } from './client/error.js';
import { ModelLoader } from './client/model-loader.js';
import { Model } from './client/model.js';
import { monotone } from './client/progress.js';
import { Requests } from './client/requests.js';
import { Run, iterable } from './client/run.js';
import { SiteFiles } from './client/site-files.js';
import { startRun } from './client/start-run.js';
import { ModelStore } from './client/store/index.js';
import { Turns } from './client/turns.js';
import { WorkerHandle } from './client/worker-handle.js';

export { CLIENT_ERROR_KINDS, Gpt2Error } from './client/error.js';
export { findings } from './client/findings.js';

/** @typedef {import('./client/error.js').ErrorKind} ErrorKind */
/** @typedef {import('./client/progress.js').Progress} Progress */
/** @typedef {import('./client/worker-handle.js').InlineAssets} InlineAssets */
/** @typedef {import('./client/files.js').ModelFile} ModelFile */
/** @typedef {import('./client/files.js').GivenFile} GivenFile */
/** @typedef {import('./client/files.js').GivenFiles} GivenFiles */
/** @typedef {import('./client/catalog.js').CatalogEntry} CatalogEntry */
/** @typedef {import('./client/download/index.js').Source} Source */
/** @typedef {import('./client/store/index.js').StoredModelInfo} StoredModelInfo */
/** @typedef {import('./client/model.js').Precision} Precision */
/** @typedef {import('./client/model.js').Loaded} Loaded */
/** @typedef {import('./client/model.js').Hashed} Hashed */
/** @typedef {import('./client/run.js').RunEvent} RunEvent */
/** @typedef {import('./client/run.js').ExperimentEvent} ExperimentEvent */
/** @typedef {import('./client/findings.js').Findings} Findings */
/** @typedef {import('./client/loads.js').LoadHooks} LoadHooks */
/** @typedef {import('./types/Settings.js').Settings} Settings */

/** @typedef {LoadHooks & { precision?: Precision | null | undefined }} LoadOptions `precision`: by default that of the file. */
/**
 * A download is stored in this browser if it has storage, and resumes after a broken connection. `sha256` is that of the
 * weights, in hexadecimal.
 * @typedef {LoadOptions & { sha256?: string | null | undefined }} FetchOptions
 */
/** @typedef {Partial<Settings> & { signal?: AbortSignal | null | undefined }} GenerateOptions */

/** Milliseconds without an answer after which a worker is ended. */
const STALL_MS = 30_000;

/**
 * A language model in a worker. The worker starts with the first request.
 *
 * One thing at a time: during a run or a load, another one is refused as `busy`. If the first one was cancelled, the next
 * one waits for its end. Equal loads at the same time are one load. While a load downloads, runs with the present model
 * continue; the load waits for the last of them.
 */
export class Gpt2Web {
  /** @type {SiteFiles} */ #site;
  /** @type {Requests} */ #requests;
  /** @type {Model} */ #model;
  /** @type {ModelLoader} */ #loader;
  #turns = new Turns();
  #embedded = new SharedDownload((onProgress, signal, fresh) => this.#site.embeddedModel(onProgress, signal, fresh));
  /** @type {Gpt2Error | null} */ #closed = null;
  #closing = new AbortController();
  /** The downloaded models in this browser. @readonly */ store;
  /**
   * Called when the SHA-256 of the loaded model is known, or cannot be computed. That may be long after the load.
   * @type {((hashed: Hashed) => void) | null}
   */
  onhashed = null;

  /**
   * @param {object} [options]
   * @param {string | URL} [options.base] folder of worker.js and models/; the module's own if absent
   * @param {string | URL} [options.workerUrl] another address of worker.js
   * @param {InlineAssets} [options.assets] parts that need no fetch; `globalThis.GPT2_WEB_INLINE` if absent
   * @param {ModelStore} [options.store] where downloaded models are stored; the browser's storage if absent
   * @param {number} [options.stall_ms] a worker that does not answer for this long is ended, and the run or load fails as
   *   `stalled`; 0 or Infinity waits for ever
   * @throws {Gpt2Error}
   */
  constructor(options) {
    const { base, workerUrl, assets, store = new ModelStore(), stall_ms = STALL_MS } = optionsOf('Gpt2Web', options);
    for (const [name, url] of Object.entries({ base, workerUrl })) {
      if (url !== undefined && typeof url !== 'string' && !(url instanceof URL)) throw wrong(`\`${name}\` must be an address, not ${kindOf(url)}`);
    }
    for (const [name, part] of Object.entries({ store, ...(assets && { assets }) })) {
      if (typeof part !== 'object' || part === null) throw wrong(`\`${name}\` must be an object, not ${kindOf(part)}`);
    }
    const inline = assets ?? /** @type {{ GPT2_WEB_INLINE?: InlineAssets }} */ (globalThis).GPT2_WEB_INLINE;
    this.#site = new SiteFiles({ base, workerUrl, assets: inline, moduleUrl: import.meta.url });
    this.store = store;
    this.#requests = new Requests(
      (listener) => new WorkerHandle(() => this.#site.workerUrl(), inline, listener),
      stallOf(stall_ms),
      { lost: () => this.#model.recover(), late: (event) => this.#model.receiveLate(event) },
    );
    this.#model = new Model(this.#requests, this.#embedded, (hashed) => this.onhashed?.(hashed));
    this.#loader = new ModelLoader({
      model: this.#model, requests: this.#requests, turns: this.#turns, store, embedded: this.#embedded, mustBeOpen: () => this.#mustBeOpen(),
    });
  }

  /**
   * Replaces the model. If that fails, the present model stays. Weights without a tokenizer get GPT-2's.
   *
   * @param {LoadOptions & { name: string, files: GivenFiles }} load `name` is what the record calls the model;
   *   `files` a GGUF, or safetensors with config.json and tokenizer files
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async load(load) {
    const { name, files, precision, ...hooks } = loadOptions('load', load);
    if (typeof name !== 'string') throw wrong('load needs a `name`: what the record calls the model');
    return this.#loader.fromFiles(name, files, precision, hooks);
  }

  /**
   * Downloads and loads a model. For one address of safetensors, or of an index of shards, config.json and the tokenizer
   * beside it are downloaded too. Several addresses are downloaded as they are.
   *
   * @param {string | URL | Iterable<string | URL>} urls
   * @param {FetchOptions} [options]
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadUrl(urls, options) {
    const given = loadOptions('loadUrl', options);
    return this.#loader.fromSource(addresses(addressesOf(urls)), given);
  }

  /**
   * Downloads and loads a model from Hugging Face.
   *
   * @param {string} repo owner/name
   * @param {FetchOptions & { revision?: string | null | undefined, files?: readonly string[] | null | undefined }} [options]
   *   `revision` is a branch, a tag or a commit; `files` are the only files to download, the weights last
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadRepo(repo, options) {
    mustBeText('the name of a repository, owner/name,', repo);
    const { revision, files, ...given } = loadOptions('loadRepo', options);
    const names = namesOf(files);
    return this.#loader.fromSource(repository(repo, { ...(revision && { revision }), ...(names && { files: names }) }), given);
  }

  /**
   * Downloads and loads what a person typed: the name of a repository, its page, or the address of a file.
   * @param {string} text
   * @param {FetchOptions} [options]
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadFrom(text, options) {
    mustBeText('the name of a repository, or an address,', text);
    return this.#loader.fromSource(typed(text), loadOptions('loadFrom', options));
  }

  /**
   * The models of `models/catalog.json`. The one without a `repo` is the embedded model; load the others with
   * `loadRepo(entry.repo, { ...entry, precision })`.
   * @returns {Promise<CatalogEntry[]>}
   * @throws {Gpt2Error}
   */
  async catalog() {
    this.#mustBeOpen();
    const { models } = await this.#site.catalog(this.#closing.signal);
    return models;
  }

  /**
   * Loads a stored model, without the network.
   * @param {string} id from `store.list()`
   * @param {LoadOptions} [options]
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadStored(id, options) {
    mustBeText('the id of a stored model', id);
    const { precision, ...hooks } = loadOptions('loadStored', options);
    return this.#loader.fromStore(id, precision, hooks);
  }

  /**
   * Loads the small model that comes with the page. It is downloaded once, unless the download turns out to be damaged.
   * @param {LoadHooks} [options]
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async loadEmbedded(options) {
    return this.#loader.fromSite(loadOptions('loadEmbedded', options));
  }

  /**
   * The file of the embedded model. Checkpoints without a tokenizer get GPT-2's from it.
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
   * Continues `prompt`. Yields `start`, then `prefill`, `delta` and `step` events, and `done` as the last. The run starts
   * with the first `next()`. Leaving the loop cancels it. Aborting `signal` cancels it too, and the run still ends with a
   * `done` whose stop reason is `cancelled`. If the worker has not started yet, or a lost model is still being loaded
   * again, the aborted run fails as `cancelled` instead. During a run, another one is refused as `busy`; after a cancelled
   * run, the next one waits for its end.
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
   * Like `generate`, but yields only the text.
   * @param {string} prompt
   * @param {GenerateOptions} [options]
   * @returns {AsyncGenerator<string, void, void>}
   * @throws {Gpt2Error} from `next()`
   */
  text(prompt, options) {
    return iterable(new Run((run) => this.#begin(run, prompt, options), (event) => (event.type === 'delta' ? event.text : undefined)));
  }

  /**
   * Does an experiment of the lab (docs/lab.md) with the loaded model. Yields `experiment_progress` and `row`
   * events, and `experiment_done` as the last. It starts, ends and is cancelled as a run is; a cancelled one still ends with an
   * `experiment_done`, whose summary is null, and its rows are right as far as they came. `findings` makes one object of all.
   *
   * @param {string} name one of the `experiments` that a load resolves to
   * @param {{ signal?: AbortSignal | null | undefined, [option: string]: unknown }} [options] those of the experiment
   * @returns {AsyncGenerator<ExperimentEvent, void, void>}
   * @throws {Gpt2Error} from `next()`
   */
  experiment(name, options) {
    return iterable(new Run((run) => {
      this.#mustBeOpen();
      mustBeText('the name of an experiment', name);
      return this.#start(run, 'experiment', { type: 'experiment', name }, options);
    }, (event) => event));
  }

  /**
   * Frees the model and its memory. That ends the worker; the next request starts a new one.
   * @returns {Promise<void>}
   * @throws {Gpt2Error}
   */
  async unload() {
    this.#mustBeOpen();
    const turn = this.#turns.enter('an unload', () => false);
    try {
      if (turn.before) await turn.before;
      await this.#model.recovery?.catch(() => {}); // if it fails, there is no model to free
      this.#model.gone(); // so that a worker lost from here on is not recovered
      if (this.#requests.running) {
        await new Promise((resolve) => { this.#requests.send({ type: 'unload' }, { receive: resolve, fail: resolve }); });
      }
      this.#mustBeOpen();
      this.#requests.end(new Gpt2Error('not_loaded', 'the model was unloaded'));
    } finally {
      turn.leave();
    }
  }

  /** Ends the worker and every download. Present and later requests fail as `closed`. */
  close() {
    if (this.#closed) return;
    const error = new Gpt2Error('closed', 'the client was closed; create a new one');
    this.#closed = error;
    this.#closing.abort(error);
    this.#model.gone();
    this.#loader.end(error);
    this.#embedded.end(error);
    this.#requests.close(error);
  }

  /** Whether this is the page in one file, which makes no request. */
  get inOneFile() {
    return this.#site.assets !== undefined;
  }

  /** While a lost worker is replaced: resolves when the model is loaded again, rejects if that fails. Null otherwise. */
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
    return this.#start(run, 'generate', { type: 'generate', prompt }, options);
  }

  /**
   * @param {Run<any>} run @param {string} method @param {import('./client/start-run.js').Work} work
   * @param {{ signal?: AbortSignal | null | undefined, [option: string]: unknown } | undefined} options
   * @returns {import('./client/run.js').Begun}
   */
  #start(run, method, work, options) {
    const { signal, ...given } = optionsOf(method, options);
    checkSignal(signal);
    return startRun({ turns: this.#turns, model: this.#model, requests: this.#requests }, run, work, given, signal);
  }
}
