import { Arrival } from './arrival.js';
import { Broken, unchanged } from './download.js';
import { Gpt2Error } from './error.js';
import { StorageError, StoredModel, free, locked, room } from './store.js';

/** @typedef {import('./files.js').ModelFile} ModelFile */
/** @typedef {import('./source.js').Source} Source */
/** @typedef {import('./store.js').ModelStore} ModelStore */

/**
 * The files of a model, from the store or the network.
 *
 * What is not in the store is downloaded into it and read from there. Where nothing can be stored the weights are
 * streams, which download while the worker reads them, one after the other.
 */
export class ModelFetch {
  /** @type {ModelFile[]} */ files = [];
  /** @type {string[]} What people should know. */ notices = [];
  /** @type {Gpt2Error | null} Why a stream broke: the worker only learns that it did. */ failure = null;
  #source;
  #store;
  #report;
  #pauses;
  #ended = new AbortController();
  #signal;
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
   * @param {readonly number[]} [options.pauses]
   */
  constructor(source, { store, signal, report = () => {}, pauses }) {
    this.#source = source;
    this.#store = store;
    this.#report = report;
    this.#pauses = pauses;
    this.#signal = signal ? AbortSignal.any([signal, this.#ended.signal]) : this.#ended.signal;
  }

  /** For `loadStored` and `deleteStored`; null where the model is not kept. */
  get stored() {
    return this.#temporary ? null : this.#place?.id ?? null;
  }

  /** Whether a stream among the files is still to end. */
  get streaming() {
    return this.#streams > 0;
  }

  /**
   * Fills `files`.
   * @returns {Promise<this>}
   * @throws {Gpt2Error}
   */
  async run() {
    this.#report(0, null);
    try {
      const id = await StoredModel.id(this.#source.id).catch(() => null); // there is none where there is no storage
      await (id === null ? this.#run() : locked(id, () => this.#run(), this.#signal));
      return this;
    } catch (cause) {
      const cancelled = this.#signal.aborted;
      await this.end();
      throw cancelled ? new Gpt2Error('cancelled', 'the download was cancelled', { cause }) : cause;
    }
  }

  /** After the worker has read everything, or will not. */
  async end() {
    this.#ended.abort();
    const place = this.#place;
    if (!this.#temporary || !place) return;
    // Where another tab has taken over what is here, or has completed it, it is that tab's.
    await free(place.id, async () => { if (!(await place.entry())?.complete) await this.#store.remove(place.id); }).catch(() => {}); // gone is gone
  }

  /** With the lock, so that what is deleted is of this run. */
  async #run() {
    const { id, name } = this.#source;
    this.#place = await this.#store.place(id, name).catch((cause) => this.#unkept(cause));
    try {
      await this.#fetch();
    } catch (cause) {
      // A cancelled download leaves nothing; a broken one leaves what the next can go on from, unless that is only a
      // configuration and a tokenizer. A model that was kept whole was not downloaded now, and stays.
      const place = this.#place;
      const worth = place && (await place.bytes().catch(() => 0)) > place.piece / 4; // the cause is what there is to tell
      if (!this.#whole && (this.#signal.aborted || !worth)) this.#temporary = true;
      if (place && this.#temporary) await this.#store.remove(place.id).catch(() => {});
      this.#place = null;
      throw cause;
    }
  }

  async #fetch() {
    if (await this.#fromStore()) return;
    const { beside, look, weights } = this.#source;
    // The small ones first: they fail early and cost nothing.
    for (const name of beside) await this.#small(name, { required: true });
    if (look) {
      await this.#neighbour('config.json');
      const whole = await this.#neighbour('tokenizer.json');
      const parts = !whole && (await this.#neighbour('vocab.json'));
      if (parts) for (const name of ['merges.txt', 'added_tokens.json']) await this.#neighbour(name);
      // Without a tokenizer GPT-2's comes instead, and these are not about that.
      if (whole || parts) for (const name of ['tokenizer_config.json', 'special_tokens_map.json']) await this.#neighbour(name);
    }
    await this.#weights(weights);
    const names = this.files.map(({ name }) => name);
    if (this.#place && !this.#temporary) await this.#place.finish(names).catch((cause) => this.#unkept(cause));
  }

  /** Takes a model that is kept whole, unless the server has another version of it. */
  async #fromStore() {
    this.#whole = (await this.#place?.entry())?.complete === true;
    if (!this.#whole) return false;
    const files = (await this.#place?.files()) ?? [];
    const check = this.#source.fixed ? [] : files.map(({ info }) => info && unchanged(new URL(info.url), info, this.#signal));
    if ((await Promise.all(check)).includes(false)) {
      this.notices.push(`The model on ${this.#source.label} has changed since it was stored: it is downloaded again.`);
      this.#whole = false;
      const { id, name } = this.#source;
      await this.#store.remove(/** @type {StoredModel} */ (this.#place).id).catch(() => {}); // its files are begun anew then
      this.#place = await this.#store.place(id, name).catch((cause) => this.#unkept(cause));
      return false;
    }
    this.files = await Promise.all(files.map(async (file) => ({ name: file.name, blob: await file.blob() })));
    return true;
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
    throw new Gpt2Error('download_failed', names.length > 1
      ? `${this.#source.label} has no ${names.join(' and no ')}; if it has a GGUF file, give the address of that`
      : `the download of ${names[0]} failed: ${this.#source.url(names[0] ?? '').host} answered 404: there is no such file; check the address`);
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
      if (!found) throw new Gpt2Error('download_failed', `${this.#source.label} has no ${shard}, which ${name} names; the model there is not complete`);
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
      const refused = cause instanceof Gpt2Error && (cause.kind === 'not_a_model' || (cause.kind === 'download_failed' && !this.#opened && !(cause.cause instanceof Broken)));
      if (!refused) throw cause;
      this.notices.push(`The model is read without ${name}: ${cause.message}.`);
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
    const url = this.#source.url(name);
    const kept = (await this.#place?.file(name)) ?? null;
    const arrival = await Arrival.begin(url, kept, { label: `${name} from ${this.#source.label}`, signal: this.#signal, pauses: this.#pauses });
    arrival.onProgress = (done, total) => this.#count(name, done, total);
    const storing = this.#place && !this.#temporary;
    if (later && !storing && !arrival.whole) return this.#stream(name, arrival);
    this.#opened = false;
    const exists = await arrival.open();
    this.#opened = true;
    if (!exists) {
      if (required) throw arrival.missing();
      return null;
    }
    if (arrival.whole || (storing && (await this.#hasRoom(arrival)))) {
      try {
        return { name, blob: await arrival.store() };
      } catch (cause) {
        if (!(cause instanceof StorageError)) throw cause;
        this.#unkept(cause);
      }
    }
    return small ? { name, blob: await collect(arrival.bytes()) } : this.#stream(name, arrival);
  }

  /**
   * A stream that begins when the worker has read the one before.
   * @param {string} name @param {Arrival} arrival
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
          this.failure ??= cause instanceof Gpt2Error ? cause : null;
          controller.error(cause);
        }
      },
      cancel: async () => { await bytes.return(); },
    }, { highWaterMark: 0 });
    return { name, stream, size: arrival.size };
  }

  /** Asks before it is too late, where the browser knows. @param {Arrival} arrival */
  async #hasRoom({ size, kept }) {
    const space = size === null ? null : await room();
    if (!space || size === null || space.used + size - kept <= space.quota) return true;
    this.#unkept(new StorageError(`the browser gives this page ${megabytes(space.quota - space.used)} of storage, and the file has ${megabytes(size)}`));
    return false;
  }

  /** Nothing is kept from here on. @param {unknown} cause @returns {null} */
  #unkept(cause) {
    const { message } = StorageError.from(cause);
    this.notices.push(`This model is not kept for the next visit: ${message}.`);
    this.#temporary = true;
    return null;
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

/** @param {AsyncIterable<Uint8Array>} bytes */
async function collect(bytes) {
  /** @type {BlobPart[]} */ const parts = [];
  for await (const part of bytes) parts.push(/** @type {Uint8Array<ArrayBuffer>} */ (part));
  return new Blob(parts);
}

/** @param {number} bytes */
const megabytes = (bytes) => `${Math.round(bytes / 1e6)} MB`;
