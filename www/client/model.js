import { Gpt2Error, cancelled } from './error.js';
import { transferable } from './files.js';

/** @typedef {import('../types/Event.js').Event} Event */
/** @typedef {import('./error.js').ErrorKind} ErrorKind */
/** @typedef {import('./files.js').ModelFile} ModelFile */
/** @typedef {import('./flight.js').News} News */
/** @typedef {import('./memory.js').Precision} Precision */
/** @typedef {import('./requests.js').Requests} Requests */
/** @typedef {import('./download/shared-download.js').SharedDownload} SharedDownload */

/** @typedef {Extract<Event, { type: 'ready' }>} ReadyEvent */
/**
 * What a load resolves to; `notices` are sentences for people: what was guessed, what could not be kept. The model's
 * `sha256` is filled in when it is known.
 * @typedef {Pick<ReadyEvent, 'model' | 'options' | 'load_ms' | 'memory_bytes' | 'notices'>} Loaded
 */
/** @typedef {Pick<Extract<Event, { type: 'hashed' }>, 'model_sha256' | 'notice'>} Hashed */
/** @typedef {{ name: string, files: () => Promise<ModelFile[]>, precision?: Precision | null | undefined, sha256?: string | null | undefined }} Load `files` gives them as often as they are wanted. */
/** @typedef {{ tell: (news: News) => void, signal: AbortSignal | null }} Way what a load tells on its way, and what cancels it */

/** Failures of a load that say nothing of its files. @type {ReadonlySet<ErrorKind>} */
const INNOCENT = new Set(['cancelled', 'busy', 'closed', 'stalled', 'worker_failed', 'unsupported', 'blocked_by_policy', 'out_of_memory']);

/** Waits for `work`, which goes on by itself. @param {Promise<void>} work @param {string} what waits @param {AbortSignal | null} signal */
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

const SILENT = { tell() {}, signal: null };

/** The model in the worker: replaced by a load, and put into a new worker when the one it was in is lost. */
export class Model {
  #requests;
  #embedded;
  #onHashed;
  /** @type {{ load: Load, loaded: Loaded, id: number } | null} */ #current = null;
  /** @type {Promise<void> | null} */ #recovery = null;

  /**
   * @param {Requests} requests
   * @param {SharedDownload} embedded whose tokenizer weights without one get
   * @param {(hashed: Hashed) => void} onHashed hears of the SHA-256 of the model in use
   */
  constructor(requests, embedded, onHashed) {
    this.#requests = requests;
    this.#embedded = embedded;
    this.#onHashed = onHashed;
  }

  /** While the model is loaded again: resolves when it is, rejects if it cannot be. */
  get recovery() {
    return this.#recovery;
  }

  /** There is no model any more. */
  gone() {
    this.#current = null;
    this.#recovery = null;
  }

  /**
   * After an error the one before is there still, or again.
   * @param {Load} load @param {ModelFile[]} files @param {Way} way
   * @param {() => Promise<ModelFile[]>} [again] the files for a second try
   * @returns {Promise<Loaded>}
   * @throws {Gpt2Error}
   */
  async replace(load, files, way, again = load.files) {
    if (this.#recovery) await unlessAborted(this.#recovery.catch(() => {}), 'the load', way.signal);
    this.#recovery = null;
    try {
      return await this.#load(load, files, way);
    } catch (cause) {
      const old = this.#current;
      if (!old || !(cause instanceof Gpt2Error) || !cause.fitsAlone) throw cause;
      return this.#alone(load, old, way, again);
    }
  }

  /** The worker is lost: a new one gets the same model. If that fails too, the next request says why. */
  recover() {
    const current = this.#current;
    this.#current = null;
    if (!current) return;
    this.#recovery = this.#again(current).then(() => { this.#recovery = null; });
    this.#recovery.catch(() => {}); // told to the next request by `recovered`
  }

  /**
   * Waits for the model to be there again; reports once that it cannot be.
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
  late(event) {
    const current = this.#current;
    if (event.type !== 'hashed' || event.id !== current?.id) return;
    current.loaded.model.sha256 = event.model_sha256;
    if (event.notice !== null) current.loaded.notices.push(event.notice);
    this.#onHashed({ model_sha256: event.model_sha256, notice: event.notice });
  }

  /**
   * The two models do not fit beside each other, and the memory of a worker only grows: the old one's worker goes first.
   * @param {Load} load @param {{ load: Load, loaded: Loaded }} old @param {Way} way @param {() => Promise<ModelFile[]>} again
   */
  async #alone(load, old, way, again) {
    const name = old.loaded.model.name;
    const notice = `There is no room for two models: ${name} was freed before ${load.name} was loaded.`;
    way.tell({ notice: `There is no room for two models: ${name} is freed, and then ${load.name} is loaded.` });
    if (way.signal?.aborted) throw cancelled('the load', way.signal);
    this.#requests.end(new Gpt2Error('not_loaded', `${name} was freed to make room for another model`));
    this.#current = null;
    try {
      const loaded = await this.#load(load, await again(), way);
      loaded.notices.unshift(notice);
      return loaded;
    } catch (cause) {
      if (!(cause instanceof Gpt2Error) || cause.kind === 'closed') throw cause;
      const now = await this.#again(old).then(() => `${name} is loaded again`, (error) => `${name} had been freed and could not be loaded again (${error.message}); there is no model now`);
      throw new Gpt2Error(cause.kind, `${cause.message}; ${now}`, { cause });
    }
  }

  /** Loads what was there before; the caller's `Loaded` stays that of the model. @param {{ load: Load, loaded: Loaded }} before */
  async #again({ load, loaded }) {
    await this.#load(load, await load.files(), SILENT, loaded);
  }

  /**
   * @param {Load} load @param {ModelFile[]} given @param {Way} way
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
            const { model, options, load_ms, memory_bytes, notices } = event;
            const loaded = known ?? { model, options, load_ms, memory_bytes, notices };
            this.#current = { load, loaded, id: event.id };
            resolve(loaded);
          }
        },
        fail: (error) => {
          // The embedded file may be what was wrong, as the page that a network's login answers with.
          if (!INNOCENT.has(error.kind)) for (const blob of used) this.#embedded.forget(blob);
          reject(noTokenizer && error.kind === 'cancelled' ? new Gpt2Error(noTokenizer.kind, `${name} comes without a tokenizer, and GPT-2's could not be fetched: ${noTokenizer.message}`, { cause: noTokenizer }) : error);
        },
      }, signal, streams);
    });
  }
}
