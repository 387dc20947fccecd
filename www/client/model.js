import { Gpt2Error, cancelled } from './error.js';
import { transferable } from './files.js';

/** @typedef {import('../types/Event.js').Event} Event */
/** @typedef {import('./error.js').ErrorKind} ErrorKind */
/** @typedef {import('./files.js').ModelFile} ModelFile */
/** @typedef {import('./shared-task.js').News} News */
/** @typedef {import('./arguments.js').Precision} Precision */
/** @typedef {import('./requests.js').Requests} Requests */
/** @typedef {import('./download/index.js').SharedDownload} SharedDownload */

/** @typedef {Extract<Event, { type: 'ready' }>} ReadyEvent */
/**
 * What a load resolves to. `notices` are sentences for people: guesses, or what could not be stored. The model's `sha256`
 * is filled in when it is known.
 * @typedef {Pick<ReadyEvent, 'model' | 'options' | 'experiments' | 'load_ms' | 'memory_bytes' | 'notices'>} Loaded
 */
/** @typedef {Pick<Extract<Event, { type: 'hashed' }>, 'model_sha256' | 'notice'>} Hashed */
/** @typedef {{ name: string, files: () => Promise<ModelFile[]>, precision?: Precision | null | undefined, sha256?: string | null | undefined }} Load `files` may be called repeatedly. */
/** @typedef {{ tell: (news: News) => void, signal: AbortSignal | null }} Caller hears news of a load and may cancel it */

/** Failures of a load after which its downloaded files are still good. @type {ReadonlySet<ErrorKind>} */
const KEEPS_FILES = new Set(['cancelled', 'busy', 'closed', 'stalled', 'worker_failed', 'unsupported', 'blocked_by_policy', 'out_of_memory']);

/** Waits for `work`. Aborting ends the wait, not the work. @param {Promise<void>} work @param {string} what waits @param {AbortSignal | null} signal */
async function unlessAborted(work, what, signal) {
  const waiting = new AbortController();
  const aborted = new Promise((resolve) => {
    if (signal?.aborted) resolve(undefined);
    signal?.addEventListener('abort', resolve, { signal: waiting.signal });
  });
  try {
    await Promise.race([work, aborted]);
  } finally {
    waiting.abort();
  }
  if (signal?.aborted) throw cancelled(what, signal);
}

const NO_CALLER = { tell() {}, signal: null };

/** The model in the worker. A load replaces it; if the worker is lost, it is loaded into a new one. */
export class Model {
  #requests;
  #embedded;
  #onHashed;
  /** @type {{ load: Load, loaded: Loaded, id: number } | null} */ #current = null;
  /** @type {Promise<void> | null} */ #recovery = null;

  /**
   * @param {Requests} requests
   * @param {SharedDownload} embedded has the tokenizer for weights without one
   * @param {(hashed: Hashed) => void} onHashed hears the SHA-256 of the present model
   */
  constructor(requests, embedded, onHashed) {
    this.#requests = requests;
    this.#embedded = embedded;
    this.#onHashed = onHashed;
  }

  /** While the model is loaded again: resolves when it is, rejects if that fails. */
  get recovery() {
    return this.#recovery;
  }

  /** The model was freed. */
  gone() {
    this.#current = null;
    this.#recovery = null;
  }

  /**
   * If the load fails, the present model stays, or is loaded again.
   * @param {Load} load @param {ModelFile[]} files @param {Caller} caller
   * @param {() => Promise<ModelFile[]>} [again] the files for a second attempt
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async replace(load, files, caller, again = load.files) {
    if (this.#recovery) await unlessAborted(this.#recovery.catch(() => {}), 'the load', caller.signal);
    this.#recovery = null;
    try {
      return await this.#load(load, files, caller);
    } catch (cause) {
      const old = this.#current;
      if (!old || !(cause instanceof Gpt2Error) || !cause.fitsAlone) throw cause;
      return this.#replaceAfterFreeing(load, old, caller, again);
    }
  }

  /** Loads the model into a new worker, because the old one is lost. If that fails, the next request reports why. */
  recover() {
    const current = this.#current;
    this.#current = null;
    if (!current) return;
    this.#recovery = this.#reload(current).then(() => { this.#recovery = null; });
    this.#recovery.catch(() => {}); // `recovered` reports it to the next request
  }

  /**
   * Waits until the model is loaded again. Throws once if that failed.
   * @param {AbortSignal | null} [signal] ends the wait
   */
  async recovered(signal = null) {
    const recovery = this.#recovery;
    if (!recovery) return;
    try {
      await unlessAborted(recovery, 'the run', signal);
    } catch (error) {
      if (this.#recovery === recovery && !signal?.aborted) this.#recovery = null;
      throw error;
    }
  }

  /** @param {Event} event of a request that has ended */
  receiveLate(event) {
    const current = this.#current;
    if (event.type !== 'hashed' || event.id !== current?.id) return;
    current.loaded.model.sha256 = event.model_sha256;
    if (event.notice !== null) current.loaded.notices.push(event.notice);
    this.#onHashed({ model_sha256: event.model_sha256, notice: event.notice });
  }

  /**
   * The two models do not fit into memory together, and the memory of a worker never shrinks: the old worker is ended first.
   * @param {Load} load @param {{ load: Load, loaded: Loaded }} old @param {Caller} caller @param {() => Promise<ModelFile[]>} again
   */
  async #replaceAfterFreeing(load, old, caller, again) {
    const name = old.loaded.model.name;
    const notice = `Two models do not fit into memory: ${name} was freed before ${load.name} was loaded.`;
    caller.tell({ notice: `Two models do not fit into memory: ${name} is freed, and then ${load.name} is loaded.` });
    if (caller.signal?.aborted) throw cancelled('the load', caller.signal);
    this.#requests.end(new Gpt2Error('not_loaded', `${name} was freed to make space for another model`));
    this.#current = null;
    try {
      const loaded = await this.#load(load, await again(), caller);
      loaded.notices.unshift(notice);
      return loaded;
    } catch (cause) {
      if (!(cause instanceof Gpt2Error) || cause.kind === 'closed') throw cause;
      const now = await this.#reload(old).then(() => `${name} is loaded again`, (error) => `${name} had been freed and could not be loaded again (${error.message}); there is no model now`);
      throw new Gpt2Error(cause.kind, `${cause.message}; ${now}`, { cause });
    }
  }

  /** Loads a model again. The `Loaded` that its caller has stays valid. @param {{ load: Load, loaded: Loaded }} before */
  async #reload({ load, loaded }) {
    await this.#load(load, await load.files(), NO_CALLER, loaded);
  }

  /**
   * @param {Load} load @param {ModelFile[]} given @param {Caller} caller
   * @param {Loaded} [known] of the same model, loaded before
   * @returns {Promise<Loaded>}
   */
  async #load(load, given, { tell, signal }, known) {
    const { name, precision, sha256 } = load;
    const files = await transferable(given);
    const streams = files.flatMap((file) => ('stream' in file ? [file.stream] : []));
    /** @type {Blob[]} */ const used = files.flatMap((file) => ('blob' in file ? [file.blob] : []));
    /** @type {Gpt2Error | null} Why no tokenizer can be provided. */ let noTokenizer = null;
    return new Promise((resolve, reject) => {
      const provideTokenizer = () => this.#embedded.get(() => {}, signal ?? undefined).then((blob) => {
        used.push(blob);
        sent.provideTokenizer({ name: 'gpt2-tokenizer.gguf', blob });
      }, (error) => {
        if (error.kind !== 'cancelled') noTokenizer = error;
        sent.cancel();
      });
      const sent = this.#requests.send(/** @type {any} */ ({ type: 'load', name, files, ...(precision && { precision }), ...(sha256 && { sha256 }) }), {
        receive: (event) => {
          if (event.type === 'progress') tell({ stage: event.stage, done: event.done, total: event.total });
          else if (event.type === 'needs_tokenizer') void provideTokenizer();
          else if (event.type === 'ready') {
            const { model, options, experiments, load_ms, memory_bytes, notices } = event;
            const loaded = known ?? { model, options, experiments, load_ms, memory_bytes, notices };
            this.#current = { load, loaded, id: event.id };
            resolve(loaded);
          }
        },
        fail: (error) => {
          // The embedded file may be wrong, for example the login page of a network.
          if (!KEEPS_FILES.has(error.kind)) for (const blob of used) this.#embedded.forget(blob);
          reject(noTokenizer && error.kind === 'cancelled' ? new Gpt2Error(noTokenizer.kind, `${name} comes without a tokenizer, and GPT-2's could not be fetched: ${noTokenizer.message}`, { cause: noTokenizer }) : error);
        },
      }, signal, streams);
    });
  }
}
