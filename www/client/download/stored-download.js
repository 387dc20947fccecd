import { HttpDownload } from './http-download.js';
import { Gpt2Error } from '../error.js';

/** @typedef {import('../store/stored-model.js').StoredFile} StoredFile */
/**
 * @typedef {object} StoredDownloadOptions
 * @property {string} [label] what the sentences call the file
 * @property {AbortSignal} signal
 * @property {readonly number[] | undefined} [backoff] in milliseconds, before each new try
 * @property {RequestCache} [cache]
 */

/**
 * One file on its way from the network: into the store, or to whoever reads it. What was stored before is not asked
 * for again, and what was downloaded when storing fails is not lost.
 */
export class StoredDownload {
  /** @type {(done: number, total: number | null) => void} */ onProgress = () => {};
  /** Bytes in the store. */ kept;
  #url;
  #label;
  #stored;
  #download;
  /** @type {AsyncGenerator<Uint8Array, void, void>} */ #rest;
  /** @type {Uint8Array<ArrayBuffer>[]} Downloaded and not in the store. */ #loose = [];
  #looseBytes = 0;
  /** @type {unknown} Why nothing can be stored any more. */ #unwritable = null;

  /** @param {URL} url @param {StoredFile | null} stored @param {number} kept @param {StoredDownloadOptions} options */
  constructor(url, stored, kept, options) {
    this.#url = url;
    this.#label = options.label ?? url.href;
    this.#stored = stored;
    this.kept = kept;
    this.#download = new HttpDownload(url, { ...options, held: stored?.info ? { version: stored.info, bytes: kept } : null });
    this.#download.restart = () => this.#restart();
    this.#rest = this.#download.chunks();
  }

  /**
   * @param {URL} url @param {StoredFile | null} stored where it is kept, perhaps with its beginning
   * @param {StoredDownloadOptions} options
   */
  static async begin(url, stored, options) {
    const known = stored?.info?.url === url.href ? stored.info : null;
    const bytes = known && stored ? (await stored.blob()).size : 0;
    const sound = known?.size == null || bytes <= known.size; // more than all of it is something else
    return new StoredDownload(url, stored, sound ? bytes : 0, options);
  }

  /** Asks the server, unless every byte is here. @returns {Promise<boolean>} false where there is no such file */
  async open() {
    const found = this.whole || (await this.#download.open());
    if (found) this.#progress();
    return found;
  }

  missing() {
    return this.#download.missing();
  }

  /** Lets go of the connection. */
  close() {
    this.#download.close();
  }

  /** Of the file, where it is known. @returns {number | null} */
  get size() {
    return this.whole ? this.kept : this.#download.version.size;
  }

  /** The same, where it is beyond doubt. @returns {number | null} */
  get length() {
    return this.whole ? this.kept : this.#download.length;
  }

  /** Whether every byte is in the store. */
  get whole() {
    const info = this.#stored?.info;
    return info?.complete === true && info.url === this.#url.href && info.size === this.kept;
  }

  /**
   * Downloads into the store.
   * @param {StoredFile} stored where it began
   * @returns {Promise<Blob>} all of it, on disk
   * @throws {Gpt2Error} `storage_failed` where it cannot be stored, and `bytes` then still has everything; and where it
   *   cannot be downloaded, and then what has arrived is stored
   */
  async store(stored) {
    if (this.whole) return this.#keptBlob(stored);
    try {
      for (let part; !(part = await this.#rest.next()).done; ) {
        this.#loose.push(/** @type {Uint8Array<ArrayBuffer>} */ (part.value));
        this.#looseBytes += part.value.length;
        if (this.#looseBytes >= stored.piece) await this.#write(stored);
        this.#progress();
      }
      await this.#write(stored);
      await stored.finish(this.#download.received);
    } catch (cause) {
      // The next download goes on from here. If there is no room either, the first failure is the one to tell.
      const broken = cause instanceof Gpt2Error && cause.kind === 'download_failed';
      if (broken && this.#looseBytes > 0) await this.#write(stored).catch(() => {});
      throw cause;
    }
    return this.#keptBlob(stored);
  }

  /**
   * All bytes from the first on: those in the store, those in hand, and those to come.
   * @returns {AsyncGenerator<Uint8Array, void, void>}
   */
  async *bytes() {
    this.#download.restart = undefined; // what was read cannot be taken back
    if (this.kept > 0 && this.#stored) {
      const reader = (await this.#keptBlob(this.#stored)).stream().getReader();
      const next = () => reader.read().catch((cause) => { throw this.#gone(cause); });
      for (let part; !(part = await next()).done; ) yield part.value;
    }
    for (let part; (part = this.#loose.shift()); ) yield part;
    for await (const part of this.#rest) {
      this.#progress();
      yield part;
    }
  }

  /** What is in the store: with a gap in them, weights would be wrong without a word. @param {StoredFile} stored */
  async #keptBlob(stored) {
    const blob = await stored.blob();
    if (blob.size !== this.kept) throw this.#gone();
    return blob;
  }

  /** @param {unknown} [cause] */
  #gone(cause) {
    return new Gpt2Error('download_failed', `the download of ${this.#label} failed: the stored part has been deleted; load it again`, { cause });
  }

  /** @param {StoredFile} stored */
  async #write(stored) {
    if (this.#unwritable) throw this.#unwritable;
    if (this.kept === 0) await stored.begin(this.#url.href, this.#download.version);
    if (this.#looseBytes === 0) return;
    await stored.append(new Blob(this.#loose));
    this.kept += this.#looseBytes;
    this.#loose = [];
    this.#looseBytes = 0;
  }

  async #restart() {
    this.kept = 0;
    this.#loose = [];
    this.#looseBytes = 0;
    // What comes now is none of that; and the download itself goes on, whatever becomes of the store.
    await this.#stored?.clear().catch((cause) => { this.#unwritable = cause; });
  }

  #progress() {
    this.onProgress(this.whole ? this.kept : this.#download.received, this.size);
  }
}

/** Milliseconds after which the page gets its turn: of a file from the cache all bytes are there at once. */
const TURN_MS = 8;

/** Resolves in a task of its own. Not a timer: timers are slowed in hidden tabs. */
const turn = () => new Promise((resolve) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    resolve(undefined);
  };
  port2.postMessage(null);
});

/**
 * All of a file, in memory or wherever the browser keeps a `Blob`.
 * @param {AsyncIterable<Uint8Array>} bytes
 */
export async function collect(bytes) {
  /** @type {Blob[]} */ const blobs = [];
  /** @type {BlobPart[]} */ let parts = [];
  let began = performance.now();
  for await (const part of bytes) {
    parts.push(/** @type {Uint8Array<ArrayBuffer>} */ (part));
    if (performance.now() - began < TURN_MS) continue;
    // A Blob copies what it is made of, unless that is Blobs.
    blobs.push(new Blob(parts));
    parts = [];
    await turn();
    began = performance.now();
  }
  return new Blob([...blobs, ...parts]);
}

/**
 * A file that is not stored, whole.
 * @param {URL} url
 * @param {(done: number, total: number | null) => void} report in bytes
 * @param {StoredDownloadOptions} options
 * @returns {Promise<Blob>}
 * @throws {Gpt2Error}
 */
export async function fetchWhole(url, report, options) {
  const arrival = new StoredDownload(url, null, 0, options);
  arrival.onProgress = report;
  try {
    if (!(await arrival.open())) throw arrival.missing();
    return await collect(arrival.bytes());
  } finally {
    arrival.close();
  }
}
