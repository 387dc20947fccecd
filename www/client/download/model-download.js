import { Gpt2Error, cancelled } from '../error.js';
import { StoredModel, ifUnlocked, isStorageFailure, storageEstimate, withLock } from '../store/index.js';
import { TransientFailure } from './download.js';
import { insteadOfWeights, refuseUnsupported } from './formats.js';
import { shardsOf } from './shards.js';
import { StoredDownload } from './stored-download.js';
import { toBlob } from './to-blob.js';
import { unchanged } from './version.js';

/** @typedef {import('../files.js').ModelFile} ModelFile */
/** @typedef {import('../store/index.js').ModelStore} ModelStore */
/** @typedef {import('../store/index.js').StoredFile} StoredFile */
/** @typedef {import('../companions.js').Companion} Companion */
/** @typedef {import('./source.js').Source} Source */

/** Milliseconds a cancelled download has to clean up before its promise is rejected; a slow disk continues afterwards. */
const CLEANUP_MS = 100;

/**
 * The files of a model, from the store or the network.
 *
 * Files that are not in the store are downloaded into it and read from there. If nothing can be stored, the weights are
 * streams that download while the worker reads them, one after the other.
 */
export class ModelDownload {
  /** @type {ModelFile[]} */ files = [];
  /** @type {string[]} Sentences for people. */ notices = [];
  /** @type {unknown} Why a stream broke: the worker only learns that it did. */ failure = null;
  #source;
  #store;
  #onProgress;
  #backoff;
  /** @type {AbortSignal | undefined} */ #callerSignal;
  #ended = new AbortController();
  #signal;
  /** @type {{ cause: unknown } | null} What `onProgress` threw. */ #thrown = null;
  /** @type {StoredModel | null} */ #model = null;
  /** Whether the stored model is deleted when the worker has read it. */ #temporary = false;
  /** Whether the stored model was complete before, so nothing in it was downloaded now. */ #wasComplete = false;
  /** @type {Map<string, { done: number, size: number | null }>} of the weights */ #amounts = new Map();
  /** @type {Promise<void>} Resolves when the previous stream has ended. */ #previousStream = Promise.resolve();
  #openStreams = 0;
  /** Whether the server has answered the request for the present file. */ #answered = false;

  /**
   * @param {Source} source
   * @param {object} options
   * @param {ModelStore} options.store
   * @param {AbortSignal | undefined} [options.signal]
   * @param {(done: number, total: number | null) => void} [options.onProgress] of the weights, in bytes
   * @param {readonly number[]} [options.backoff] milliseconds before each retry
   */
  constructor(source, { store, signal, onProgress = () => {}, backoff }) {
    this.#source = source;
    this.#store = store;
    this.#onProgress = onProgress;
    this.#backoff = backoff;
    this.#callerSignal = signal;
    this.#signal = signal ? AbortSignal.any([signal, this.#ended.signal]) : this.#ended.signal;
  }

  /** The id for `loadStored` and `store.delete`; null if the model is not kept. */
  get storedId() {
    return this.#temporary ? null : this.#model?.id ?? null;
  }

  /** Whether one of the streams in `files` has not ended yet. */
  get streaming() {
    return this.#openStreams > 0;
  }

  /**
   * Fills `files`. When the signal is aborted, it rejects without waiting for anything.
   * @returns {Promise<this>}
   * @throws {Gpt2Error} and what `onProgress` throws
   */
  async run() {
    const caller = this.#callerSignal;
    if (caller?.aborted) throw cancelled('the download', caller);
    const finished = new AbortController();
    const cancel = new Promise((_, reject) => {
      caller?.addEventListener('abort', () => {
        const timer = setTimeout(() => reject(cancelled('the download', caller)), CLEANUP_MS);
        finished.signal.addEventListener('abort', () => clearTimeout(timer));
      }, { signal: finished.signal });
    });
    try {
      await Promise.race([this.#begin(), cancel]);
      return this;
    } finally {
      finished.abort();
    }
  }

  async #begin() {
    try {
      this.#report(0, null);
      const { id } = this.#source;
      // Without a secure context there are no hashes, and no storage either.
      await (globalThis.crypto?.subtle ? withLock(await StoredModel.id(id), () => this.#run(), this.#signal) : this.#run());
    } catch (cause) {
      const stopped = this.#signal.aborted;
      await this.end();
      if (this.#thrown) throw this.#thrown.cause;
      throw stopped ? cancelled('the download', this.#signal) : cause;
    }
  }

  /** To be called when the worker has read everything, or has given up. */
  async end() {
    this.#ended.abort();
    const model = this.#model;
    if (!this.#temporary || !model) return;
    // Another tab may have taken over the folder or completed it. What cannot be deleted now is listed, and can be later.
    await ifUnlocked(model.id, async () => { if (!(await model.files())) await this.#store.remove(model.id); }).catch(() => {});
  }

  /** Runs with the lock, so it deletes nothing that another tab has stored. */
  async #run() {
    await this.#openModel();
    try {
      await this.#fetch();
    } catch (cause) {
      if (!this.#wasComplete) {
        if (!(await this.#worthKeeping(cause))) this.#temporary = true;
        if (this.#model && this.#temporary) await this.#store.remove(this.#model.id).catch(() => {});
      }
      this.#model = null;
      throw cause;
    }
  }

  /**
   * Whether the next download can resume what a failed one has stored. A cancelled download leaves nothing, and neither
   * does one that found no model. A configuration and a tokenizer alone are not worth it.
   * @param {unknown} cause of the failure
   */
  async #worthKeeping(cause) {
    const model = this.#model;
    const broken = this.#thrown !== null || !(cause instanceof Gpt2Error) || cause.kind === 'download_failed';
    if (this.#callerSignal?.aborted || !broken || !model || this.#amounts.size === 0) return false;
    return (await model.bytes().catch(() => 0)) > model.piece / 4;
  }

  async #openModel() {
    const { id, name } = this.#source;
    this.#model = await this.#store.open(id, name).catch((cause) => this.#fallBackToStreaming(cause));
  }

  async #fetch() {
    if (await this.#fromStore()) return;
    const { companions, discover, weights } = this.#source;
    // Small files first: they fail early and cost nothing.
    for (const name of companions) await this.#smallFile(name, { required: true });
    if (discover) await this.#discover();
    await this.#weights(weights);
    const names = this.files.map(({ name }) => name);
    if (this.#model && !this.#temporary) await this.#model.finish(names).catch((cause) => this.#fallBackToStreaming(cause));
  }

  /** Downloads the configuration and the tokenizer that are beside the weights. */
  async #discover() {
    const config = await this.#companion('config.json');
    await this.#companion('generation_config.json');
    const tokenizer = await this.#companion('tokenizer.json');
    const vocab = !tokenizer && (await this.#companion('vocab.json'));
    if (vocab) {
      const merges = await this.#companion('merges.txt');
      if (!merges) throw new Gpt2Error('bad_tokenizer', `${this.#source.label} has a vocab.json and no merges.txt, and a tokenizer needs both; give a model that comes with both, or with tokenizer.json`);
      await this.#companion('added_tokens.json');
    }
    const found = Boolean(tokenizer || vocab);
    // Without a tokenizer GPT-2's is used, which these do not describe.
    if (found) for (const name of /** @type {const} */ (['tokenizer_config.json', 'special_tokens_map.json'])) await this.#companion(name);
    if (config) await refuseUnsupported(this.#source, await config.text(), found, this.#signal);
  }

  /** Takes the files of a complete stored model, unless the server has another version of them. */
  async #fromStore() {
    const files = await this.#model?.files().catch((cause) => this.#fallBackToStreaming(cause));
    this.#wasComplete = Boolean(files);
    if (!files) return false;
    const checks = this.#source.immutable ? [] : files.map(({ info }) => info && unchanged(new URL(info.url), info, this.#signal));
    if ((await Promise.all(checks)).includes(false)) {
      this.notices.push(`The model on ${this.#source.label} has changed since it was stored: it is downloaded again.`);
      this.#wasComplete = false;
      // If removing fails, its files are overwritten.
      await this.#store.remove(/** @type {StoredModel} */ (this.#model).id).catch(() => {});
      await this.#openModel();
      return false;
    }
    try {
      this.files = await Promise.all(files.map(async (file) => ({ name: file.name, blob: await file.blob() })));
    } catch (cause) {
      this.#fallBackToStreaming(cause);
    }
    return this.files.length > 0;
  }

  /**
   * The first of `names` that exists; for an index, the shards it names.
   * @param {readonly string[]} names
   */
  async #weights(names) {
    for (const name of names) {
      if (/\.index\.json$/.test(name)) {
        const index = await this.#smallFile(name);
        if (index) return this.#shards(name, await index.text());
        continue;
      }
      this.#amounts.set(name, { done: 0, size: null });
      const found = await this.#file(name);
      if (found) return void this.files.push(found);
      this.#amounts.delete(name);
    }
    const [name = ''] = names;
    const { href, host } = this.#source.url(name);
    throw new Gpt2Error('download_failed', names.length > 1
      ? `${this.#source.label} has no ${names.join(' and no ')} (${href}); ${await insteadOfWeights(this.#source, this.#signal)}`
      : `the download of ${name} failed: ${host} answered 404: there is no such file; check the address (${href})`);
  }

  /** @param {string} name @param {string} text of the index */
  async #shards(name, text) {
    const { shards, totalSize } = shardsOf(text, name, this.#source.label);
    for (const shard of shards) this.#amounts.set(shard, { done: 0, size: totalSize === null ? null : totalSize / shards.length });
    for (const [at, shard] of shards.entries()) {
      const found = await this.#file(shard, { later: at > 0 });
      if (!found) throw new Gpt2Error('download_failed', `${this.#source.label} has no ${shard}, which ${name} names; the model there is not complete (${this.#source.url(shard).href})`);
      this.files.push(found);
    }
  }

  /**
   * An optional file. If the server refuses it, it counts as absent. If the connection breaks or the server is busy, the
   * download fails: without the file the model would be another one.
   * @param {Companion} name
   */
  async #companion(name) {
    try {
      return await this.#smallFile(name);
    } catch (cause) {
      const refused = !this.#thrown && cause instanceof Gpt2Error
        && (cause.kind === 'not_a_model' || (cause.kind === 'download_failed' && !this.#answered && !(cause.cause instanceof TransientFailure)));
      if (!refused) throw cause;
      this.notices.push(`The model is read without ${name}: ${cause.message}.`);
      return null;
    }
  }

  /**
   * A file that holds no weights.
   * @param {string} name @param {{ required?: boolean }} [options]
   * @returns {Promise<Blob | null>}
   */
  async #smallFile(name, { required = false } = {}) {
    const file = await this.#file(name, { small: true, required });
    if (!file || !('blob' in file)) return null;
    this.files.push(file);
    return file.blob;
  }

  /**
   * @param {string} name
   * @param {{ small?: boolean, required?: boolean, later?: boolean }} [options] `later`: if it is streamed, it is not
   *   requested before the worker reads it
   * @returns {Promise<ModelFile | null>} null if there is no such file
   */
  async #file(name, { small = false, required = false, later = false } = {}) {
    let stored = (await this.#model?.file(name).catch((cause) => this.#fallBackToStreaming(cause))) ?? null;
    let download = await this.#resume(name, stored).catch((cause) => this.#fallBackToStreaming(cause));
    if (!download) download = await this.#resume(name, (stored = null));
    const storing = this.#model && !this.#temporary;
    if (later && !storing && !download.complete) return this.#stream(name, download);
    this.#answered = false;
    const exists = await download.open();
    this.#answered = true;
    if (!exists) {
      if (required) throw download.notFound();
      return null;
    }
    if (stored && (download.complete || (storing && (await this.#hasSpaceFor(download))))) {
      const blob = await download.store(stored).catch((cause) => this.#fallBackToStreaming(cause));
      if (blob) return { name, blob };
    }
    return small ? { name, blob: await toBlob(download.bytes()) } : this.#stream(name, download);
  }

  /** @param {string} name @param {StoredFile | null} stored */
  async #resume(name, stored) {
    const label = `${name} from ${this.#source.label}`;
    const download = await StoredDownload.resume(this.#source.url(name), stored, { label, signal: this.#signal, backoff: this.#backoff });
    download.onProgress = (done, total) => this.#count(name, done, total);
    return download;
  }

  /**
   * A stream that starts when the worker has read the previous one.
   * @param {string} name @param {StoredDownload} download
   * @returns {ModelFile}
   */
  #stream(name, download) {
    const previous = this.#previousStream;
    /** @type {() => void} */ let startNext = () => {};
    this.#previousStream = new Promise((resolve) => { startNext = resolve; });
    const bytes = download.bytes();
    this.#openStreams++;
    const stream = new ReadableStream({
      pull: async (controller) => {
        await previous;
        try {
          const { done, value } = await bytes.next();
          if (!done) return controller.enqueue(value);
          this.#openStreams--;
          startNext();
          controller.close();
        } catch (cause) {
          this.failure ??= cause;
          startNext();
          controller.error(cause);
        }
      },
      cancel: async () => {
        startNext();
        await bytes.return();
      },
    }, { highWaterMark: 0 });
    return { name, stream, size: download.certainSize };
  }

  /** Whether the storage has space for the file, as far as the browser says. @param {StoredDownload} download */
  async #hasSpaceFor({ size, storedBytes }) {
    const space = size === null ? null : await storageEstimate();
    if (!space || size === null || space.used + size - storedBytes <= space.quota) return true;
    this.#fallBackToStreaming(new Gpt2Error('storage_failed', `the browser gives this page ${megabytes(Math.max(space.quota - space.used, 0))} of storage, and the file has ${megabytes(size)}`));
    return false;
  }

  /** After a failure of the storage, nothing is kept. @param {unknown} cause @returns {null} */
  #fallBackToStreaming(cause) {
    if (!isStorageFailure(cause)) throw cause;
    if (!this.#temporary) this.notices.push(`This model is not saved for the next visit: ${cause.message}.`);
    this.#temporary = true;
    return null;
  }

  /** @param {number} done @param {number | null} total */
  #report(done, total) {
    try {
      this.#onProgress(done, total);
    } catch (cause) {
      // The caller gets its own error back, and the download ends.
      this.#thrown ??= { cause };
      this.#ended.abort();
      throw cause;
    }
  }

  /** @param {string} name @param {number} done @param {number | null} size */
  #count(name, done, size) {
    const amount = this.#amounts.get(name);
    if (!amount) return;
    amount.done = done;
    amount.size = size ?? amount.size;
    const all = [...this.#amounts.values()];
    this.#report(all.reduce((sum, { done }) => sum + done, 0),
      all.some(({ size }) => size === null) ? null : all.reduce((sum, { size }) => sum + Number(size), 0));
  }
}

/** @param {number} bytes */
const megabytes = (bytes) => `${Math.round(bytes / 1e6)} MB`;
