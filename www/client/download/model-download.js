import { StoredDownload, collect } from './stored-download.js';
import { Broken, cancelled, unchanged } from './http-download.js';
import { Gpt2Error } from '../error.js';
import { insteadOfWeights, refuseUseless } from './formats.js';
import { ifUnlocked, withLock } from '../store/locks.js';
import { isStorageFailure, storageEstimate } from '../store/storage.js';
import { StoredModel } from '../store/stored-model.js';

/** @typedef {import('../files.js').ModelFile} ModelFile */
/** @typedef {import('./source.js').Source} Source */
/** @typedef {import('../store/model-store.js').ModelStore} ModelStore */

/** Milliseconds in which a cancelled download tidies up before its promise is rejected; a slow disk goes on behind it. */
const GRACE = 100;

/**
 * The files of a model, from the store or the network.
 *
 * What is not in the store is downloaded into it and read from there. Where nothing can be stored the weights are
 * streams, which download while the worker reads them, one after the other.
 */
export class ModelDownload {
  /** @type {ModelFile[]} */ files = [];
  /** @type {string[]} What people should know. */ notices = [];
  /** @type {unknown} Why a stream broke: the worker only learns that it did. */ failure = null;
  #source;
  #store;
  #report;
  #backoff;
  /** @type {AbortSignal | undefined} Of who asked for the model. */ #asker;
  #ended = new AbortController();
  #signal;
  /** @type {{ cause: unknown } | null} What the listener to the progress threw. */ #thrown = null;
  /** @type {StoredModel | null} */ #place = null;
  /** Whether the place goes when the worker has read it. */ #temporary = false;
  /** Whether the place was complete before: then nothing in it is of this run. */ #whole = false;
  /** @type {Map<string, { done: number, size: number | null }>} of the weights */ #amounts = new Map();
  /** @type {Promise<void>} Resolves when the stream before has come to its end. */ #turn = Promise.resolve();
  #streams = 0;
  /** Whether the server has answered for the present file. */ #opened = false;

  /**
   * @param {Source} source
   * @param {object} options
   * @param {ModelStore} options.store
   * @param {AbortSignal | undefined} [options.signal]
   * @param {(done: number, total: number | null) => void} [options.report] hears of the weights, in bytes
   * @param {readonly number[]} [options.backoff]
   */
  constructor(source, { store, signal, report = () => {}, backoff }) {
    this.#source = source;
    this.#store = store;
    this.#report = report;
    this.#backoff = backoff;
    this.#asker = signal;
    this.#signal = signal ? AbortSignal.any([signal, this.#ended.signal]) : this.#ended.signal;
  }

  /** For `loadStored` and `store.delete`; null where the model is not kept. */
  get stored() {
    return this.#temporary ? null : this.#place?.id ?? null;
  }

  /** Whether a stream among the files is still to end. */
  get streaming() {
    return this.#streams > 0;
  }

  /**
   * Fills `files`. Once the signal is aborted it does not wait for anything.
   * @returns {Promise<this>}
   * @throws {Gpt2Error} and what the listener to the progress throws
   */
  async run() {
    const asker = this.#asker;
    if (asker?.aborted) throw cancelled(asker);
    const late = new AbortController();
    const cancel = new Promise((_, reject) => {
      asker?.addEventListener('abort', () => {
        const timer = setTimeout(() => reject(cancelled(asker)), GRACE);
        late.signal.addEventListener('abort', () => clearTimeout(timer));
      }, { signal: late.signal });
    });
    try {
      await Promise.race([this.#begin(), cancel]);
      return this;
    } finally {
      late.abort();
    }
  }

  async #begin() {
    try {
      this.#tell(0, null);
      const { id: source } = this.#source;
      // Without a secure context there are no hashes, but nor is there a storage.
      await (globalThis.crypto?.subtle ? withLock(await StoredModel.id(source), () => this.#run(), this.#signal) : this.#run());
    } catch (cause) {
      const stopped = this.#signal.aborted;
      await this.end();
      if (this.#thrown) throw this.#thrown.cause;
      throw stopped ? cancelled(this.#signal) : cause;
    }
  }

  /** After the worker has read everything, or will not. */
  async end() {
    this.#ended.abort();
    const place = this.#place;
    if (!this.#temporary || !place) return;
    // Where another tab has taken over what is here, or has completed it, it is that tab's.
    await ifUnlocked(place.id, async () => { if (!(await place.files())) await this.#store.remove(place.id); }).catch(() => {}); // what is left is listed, and can be deleted
  }

  /** With the lock, so that what is deleted is of this run. */
  async #run() {
    const { id, name } = this.#source;
    this.#place = await this.#store.open(id, name).catch((cause) => this.#fallBackToStreaming(cause));
    try {
      await this.#fetch();
    } catch (cause) {
      // A cancelled download leaves nothing, nor does one that is no model here; a broken one leaves what the next can
      // go on from, unless that is only a configuration and a tokenizer. A model that was kept whole was not downloaded
      // now, and stays.
      const place = this.#place;
      const broken = this.#thrown !== null || !(cause instanceof Gpt2Error) || cause.kind === 'download_failed';
      const worth = broken && this.#amounts.size > 0 && place && (await place.bytes().catch(() => 0)) > place.piece / 4; // the cause is what there is to tell
      if (!this.#whole && (this.#asker?.aborted || !worth)) this.#temporary = true;
      if (place && this.#temporary && !this.#whole) await this.#store.remove(place.id).catch(() => {});
      this.#place = null;
      throw cause;
    }
  }

  async #fetch() {
    if (await this.#fromStore()) return;
    const { companions, discover, weights } = this.#source;
    // The small ones first: they fail early and cost nothing.
    for (const name of companions) await this.#small(name, { required: true });
    if (discover) {
      const config = await this.#neighbour('config.json');
      await this.#neighbour('generation_config.json'); // further tokens that end a text
      const whole = await this.#neighbour('tokenizer.json');
      const parts = !whole && (await this.#neighbour('vocab.json'));
      if (parts) {
        const merges = await this.#neighbour('merges.txt');
        if (!merges) throw new Gpt2Error('bad_tokenizer', `${this.#source.label} has a vocab.json but no merges.txt; give a model that has both, or a tokenizer.json`);
        await this.#neighbour('added_tokens.json');
      }
      // Without a tokenizer GPT-2's comes instead, and these are not about that.
      if (whole || parts) for (const name of ['tokenizer_config.json', 'special_tokens_map.json']) await this.#neighbour(name);
      if (config) await refuseUseless(this.#source, await config.text(), Boolean(whole || parts), this.#signal);
    }
    await this.#weights(weights);
    const names = this.files.map(({ name }) => name);
    if (this.#place && !this.#temporary) await this.#place.finish(names).catch((cause) => this.#fallBackToStreaming(cause));
  }

  /** Takes a model that is kept whole, unless the server has another version of it. */
  async #fromStore() {
    const files = await this.#place?.files().catch((cause) => this.#fallBackToStreaming(cause));
    this.#whole = Boolean(files);
    if (!files) return false;
    const check = this.#source.immutable ? [] : files.map(({ info }) => info && unchanged(new URL(info.url), info, this.#signal));
    if ((await Promise.all(check)).includes(false)) {
      this.notices.push(`The model on ${this.#source.label} has changed since it was saved; downloading it again.`);
      this.#whole = false;
      const { id, name } = this.#source;
      await this.#store.remove(/** @type {StoredModel} */ (this.#place).id).catch(() => {}); // its files are begun anew then
      this.#place = await this.#store.open(id, name).catch((cause) => this.#fallBackToStreaming(cause));
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
   * The first of `names` that exists; of an index, the shards it names.
   * @param {readonly string[]} names
   */
  async #weights(names) {
    for (const name of names) {
      if (/\.index\.json$/.test(name)) {
        const index = await this.#small(name);
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
      : `the download of ${name} failed: ${host} answered 404: there is no such file; check the URL (${href})`);
  }

  /** @param {string} name @param {string} text of the index */
  async #shards(name, text) {
    /** @type {{ weight_map?: { [tensor: string]: unknown }, metadata?: { total_size?: unknown } }} */ let index;
    try {
      index = JSON.parse(text);
    } catch (cause) {
      throw new Gpt2Error('damaged_model', `${name} of ${this.#source.label} is not JSON; it cannot say which files the weights are in`, { cause });
    }
    const shards = [...new Set(Object.values(index?.weight_map ?? {}))];
    const plain = shards.filter((shard) => typeof shard === 'string' && /^[\w.-]+\.safetensors$/.test(shard));
    if (plain.length === 0 || plain.length < shards.length) {
      throw new Gpt2Error('damaged_model', `${name} of ${this.#source.label} does not name the files of the weights in its weight_map`);
    }
    const total = Number(index.metadata?.total_size);
    const each = total > 0 ? total / plain.length : null;
    for (const shard of plain) this.#amounts.set(String(shard), { done: 0, size: each });
    for (const [at, shard] of plain.map(String).sort().entries()) {
      const found = await this.#file(shard, { later: at > 0 });
      if (!found) throw new Gpt2Error('download_failed', `${this.#source.label} has no ${shard}, which ${name} names; the model there is not complete (${this.#source.url(shard).href})`);
      this.files.push(found);
    }
  }

  /**
   * A file that was not asked for by name. One that the server does not give is none; one that broke off or that a busy
   * server may give in a moment is another matter, since without it the model would be another.
   * @param {string} name
   */
  async #neighbour(name) {
    try {
      return await this.#small(name);
    } catch (cause) {
      const refused = !this.#thrown && cause instanceof Gpt2Error && (cause.kind === 'not_a_model' || (cause.kind === 'download_failed' && !this.#opened && !(cause.cause instanceof Broken)));
      if (!refused) throw cause;
      this.notices.push(`The model is loaded without ${name}: ${cause.message}.`);
      return null;
    }
  }

  /**
   * A file that is no weights.
   * @param {string} name @param {{ required?: boolean }} [options]
   * @returns {Promise<Blob | null>}
   */
  async #small(name, { required = false } = {}) {
    const file = await this.#file(name, { small: true, required });
    if (!file || !('blob' in file)) return null;
    this.files.push(file);
    return file.blob;
  }

  /**
   * @param {string} name
   * @param {{ small?: boolean, required?: boolean, later?: boolean }} [options] `later`: where it is streamed, it is not
   *   asked for until its turn
   * @returns {Promise<ModelFile | null>} null where there is no such file
   */
  async #file(name, { small = false, required = false, later = false } = {}) {
    let stored = (await this.#place?.file(name).catch((cause) => this.#fallBackToStreaming(cause))) ?? null;
    let arrival = await this.#arrival(name, stored).catch((cause) => this.#fallBackToStreaming(cause));
    if (!arrival) arrival = await this.#arrival(name, (stored = null));
    const storing = this.#place && !this.#temporary;
    if (later && !storing && !arrival.whole) return this.#stream(name, arrival);
    this.#opened = false;
    const exists = await arrival.open();
    this.#opened = true;
    if (!exists) {
      if (required) throw arrival.missing();
      return null;
    }
    if (stored && (arrival.whole || (storing && (await this.#hasRoom(arrival))))) {
      const blob = await arrival.store(stored).catch((cause) => this.#fallBackToStreaming(cause));
      if (blob) return { name, blob };
    }
    return small ? { name, blob: await collect(arrival.bytes()) } : this.#stream(name, arrival);
  }

  /** @param {string} name @param {import('../store/stored-model.js').StoredFile | null} stored */
  async #arrival(name, stored) {
    const arrival = await StoredDownload.begin(this.#source.url(name), stored, { label: `${name} from ${this.#source.label}`, signal: this.#signal, backoff: this.#backoff });
    arrival.onProgress = (done, total) => this.#count(name, done, total);
    return arrival;
  }

  /**
   * A stream that begins when the worker has read the one before.
   * @param {string} name @param {StoredDownload} arrival
   * @returns {ModelFile}
   */
  #stream(name, arrival) {
    const turn = this.#turn;
    /** @type {() => void} */ let passOn = () => {};
    this.#turn = new Promise((resolve) => { passOn = resolve; });
    const bytes = arrival.bytes();
    this.#streams++;
    const stream = new ReadableStream({
      pull: async (controller) => {
        await turn;
        try {
          const { done, value } = await bytes.next();
          if (!done) return controller.enqueue(value);
          this.#streams--;
          passOn();
          controller.close();
        } catch (cause) {
          this.failure ??= cause;
          passOn();
          controller.error(cause);
        }
      },
      cancel: async () => {
        passOn();
        await bytes.return();
      },
    }, { highWaterMark: 0 });
    return { name, stream, size: arrival.length };
  }

  /** Asks before it is too late, where the browser knows. @param {StoredDownload} arrival */
  async #hasRoom({ size, kept }) {
    const space = size === null ? null : await storageEstimate();
    if (!space || size === null || space.used + size - kept <= space.quota) return true;
    this.#fallBackToStreaming(new Gpt2Error('storage_failed', `the browser gives this page ${megabytes(Math.max(space.quota - space.used, 0))} of storage, and the file needs ${megabytes(size)}`));
    return false;
  }

  /** Nothing is kept from here on, where storage was what failed. @param {unknown} cause @returns {null} */
  #fallBackToStreaming(cause) {
    if (!isStorageFailure(cause)) throw cause;
    if (!this.#temporary) this.notices.push(`This model is not saved for the next visit: ${cause.message}.`);
    this.#temporary = true;
    return null;
  }

  /** @param {number} done @param {number | null} total */
  #tell(done, total) {
    try {
      this.#report(done, total);
    } catch (cause) {
      // It is the caller's own, and nothing of the download; which has no listener then, and ends.
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
    this.#tell(all.reduce((sum, { done }) => sum + done, 0),
      all.some(({ size }) => size === null) ? null : all.reduce((sum, { size }) => sum + Number(size), 0));
  }
}

/** @param {number} bytes */
const megabytes = (bytes) => `${Math.round(bytes / 1e6)} MB`;
