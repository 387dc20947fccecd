import { fromGiven } from './files.js';
import { ModelDownload } from './download/index.js';
import { Gpt2Error, cancelled } from './error.js';
import { Loads } from './loads.js';
import { EMBEDDED_FILE } from './site-files.js';

/** @typedef {import('./download/index.js').SharedDownload} SharedDownload */
/** @typedef {import('./download/index.js').Source} Source */
/** @typedef {import('./files.js').GivenFiles} GivenFiles */
/** @typedef {import('./files.js').ModelFile} ModelFile */
/** @typedef {import('./loads.js').LoadHooks} LoadHooks */
/** @typedef {import('./model.js').Load} Load */
/** @typedef {import('./model.js').Loaded} Loaded */
/** @typedef {import('./model.js').Model} Model */
/** @typedef {import('./model.js').Precision} Precision */
/** @typedef {import('./requests.js').Requests} Requests */
/** @typedef {import('./shared-task.js').News} News */
/** @typedef {import('./store/index.js').ModelStore} ModelStore */
/** @typedef {import('./turns.js').Turns} Turns */
/** @typedef {{ tell: (news: News) => void, signal: AbortSignal }} Caller hears news of the load and may cancel it */
/** @typedef {LoadHooks & { precision?: Precision | null | undefined, sha256?: string | null | undefined }} FetchOptions */

/** Loads models from every kind of source, one at a time. */
export class ModelLoader {
  /** @type {Loads<Loaded>} */ #loads = new Loads();
  #model;
  #requests;
  #turns;
  #store;
  #embedded;
  #mustBeOpen;

  /**
   * @param {object} parts
   * @param {Model} parts.model what a load replaces
   * @param {Requests} parts.requests
   * @param {Turns} parts.turns
   * @param {ModelStore} parts.store
   * @param {SharedDownload} parts.embedded
   * @param {() => void} parts.mustBeOpen throws if the client is closed
   */
  constructor({ model, requests, turns, store, embedded, mustBeOpen }) {
    this.#model = model;
    this.#requests = requests;
    this.#turns = turns;
    this.#store = store;
    this.#embedded = embedded;
    this.#mustBeOpen = mustBeOpen;
  }

  /** @param {string} name @param {GivenFiles} files @param {Precision | null | undefined} precision @param {LoadHooks} hooks */
  async fromFiles(name, files, precision, hooks) {
    const given = fromGiven(files);
    return this.#join(['files', name, precision ?? null, ...given.key], hooks, (caller) => (
      this.#replace({ name, precision, files: async () => given.files }, given.files, caller)));
  }

  /** @param {string} id @param {Precision | null | undefined} precision @param {LoadHooks} hooks */
  async fromStore(id, precision, hooks) {
    return this.#join(['stored', id, precision ?? null], hooks, async (caller) => {
      const name = (await (await this.#store.find(id))?.entry())?.name ?? 'model';
      const load = { name, precision, files: () => this.#stored(id) };
      return this.#replace(load, await load.files(), caller, { patient: true });
    });
  }

  /** @param {LoadHooks} hooks */
  async fromSite(hooks) {
    return this.#join(['embedded'], hooks, async (caller) => {
      this.#requests.startWorker(); // while the file is downloaded
      const files = async () => {
        this.#mustBeOpen();
        return [{ name: EMBEDDED_FILE, blob: await this.#embedded.get(() => {}) }];
      };
      const onProgress = (/** @type {number} */ done, /** @type {number | null} */ total) => caller.tell({ stage: 'download', done, total });
      const blob = await this.#embedded.get(onProgress, caller.signal);
      const name = EMBEDDED_FILE.replace(/-[^-]*\.gguf$/, '');
      return this.#replace({ name, files }, [{ name: EMBEDDED_FILE, blob }], caller, { patient: true });
    });
  }

  /** @param {Source} source @param {FetchOptions} options */
  async fromSource(source, { precision, sha256, ...hooks }) {
    return this.#join(['fetched', source.id, precision ?? null, sha256 ?? null], hooks, async ({ tell, signal }) => {
      const onProgress = (/** @type {number} */ done, /** @type {number | null} */ total) => tell({ stage: 'download', done, total });
      const start = () => new ModelDownload(source, { store: this.#store, signal, onProgress }).run();
      let download = await start();
      const load = { name: source.name, precision, sha256, files: () => this.#stored(download.storedId) };
      // A stream can be read only once, so its files are downloaded again.
      const again = async () => {
        if (download.storedId !== null) return load.files();
        await download.end();
        download = await start();
        return download.files;
      };
      // While files are streamed, the download's progress is the progress to show, not the worker's.
      const caller = { signal, tell: (/** @type {News} */ news) => { if (!('stage' in news && download.streaming)) tell(news); } };
      try {
        const loaded = await this.#replace(load, download.files, caller, { patient: true, again });
        loaded.notices.unshift(...download.notices);
        return loaded;
      } catch (cause) {
        const id = download.storedId;
        const broken = cause instanceof Gpt2Error && (cause.kind === 'not_a_model' || cause.kind === 'damaged_model');
        // The error to report is why it could not be loaded.
        if (id !== null && broken) await this.#store.delete(id).catch(() => {});
        throw download.failure ?? cause;
      } finally {
        await download.end();
      }
    });
  }

  /** Ends all loads. @param {Gpt2Error} error */
  end(error) {
    this.#loads.end(error);
  }

  /**
   * @param {readonly unknown[]} key equal for equal loads
   * @param {LoadHooks} hooks
   * @param {(caller: Caller) => Promise<Loaded>} start
   */
  async #join(key, hooks, start) {
    this.#mustBeOpen();
    return this.#loads.join(key, hooks, () => this.#turns.check(), (tell, signal) => start({ tell, signal }));
  }

  /**
   * @param {Load} load @param {ModelFile[]} files @param {Caller} caller
   * @param {{ patient?: boolean, again?: () => Promise<ModelFile[]> }} [options] `patient`: waits for a run that started
   *   during the download; `again`: the files for a second attempt
   */
  async #replace(load, files, caller, { patient = false, again } = {}) {
    const { signal } = caller;
    const turn = this.#turns.enter('a load', () => signal.aborted, { patient });
    try {
      if (turn.before) {
        await Promise.race([turn.before, new Promise((resolve) => { signal.addEventListener('abort', resolve, { once: true }); })]);
      }
      if (signal.aborted) throw cancelled('the load', signal);
      return await this.#model.replace(load, files, caller, again);
    } finally {
      turn.leave();
    }
  }

  /** @param {string | null} id @returns {Promise<ModelFile[]>} */
  async #stored(id) {
    const files = await (id === null ? null : await this.#store.find(id))?.files();
    if (!files) throw new Gpt2Error('not_loaded', 'the model is not saved in this browser; load it again from its source');
    return Promise.all(files.map(async (file) => ({ name: file.name, blob: await file.blob() })));
  }
}
