import { Gpt2Error } from '../error.js';
import { Download } from './download.js';

/** @typedef {import('../store/index.js').StoredFile} StoredFile */
/**
 * @typedef {object} DownloadOptions
 * @property {string} [label] what the sentences call the file
 * @property {AbortSignal} signal
 * @property {readonly number[] | undefined} [backoff] milliseconds before each retry
 * @property {RequestCache} [cache]
 */

/**
 * One file on its way from the network into the store, or to a reader. Bytes that are stored are not downloaded again,
 * and bytes that could not be stored are not lost.
 */
export class StoredDownload {
  /** @type {(done: number, total: number | null) => void} */ onProgress = () => {};
  /** Bytes in the store. */ storedBytes;
  #url;
  #label;
  #file;
  #download;
  /** @type {AsyncGenerator<Uint8Array, void, void>} */ #rest;
  /** @type {Uint8Array<ArrayBuffer>[]} Downloaded and not in the store. */ #pending = [];
  #pendingBytes = 0;
  /** @type {unknown} Why nothing can be stored any more. */ #unwritable = null;

  /** @param {URL} url @param {StoredFile | null} file @param {number} storedBytes @param {DownloadOptions} options */
  constructor(url, file, storedBytes, options) {
    this.#url = url;
    this.#label = options.label ?? url.href;
    this.#file = file;
    this.storedBytes = storedBytes;
    this.#download = new Download(url, { ...options, held: file?.info ? { version: file.info, bytes: storedBytes } : null });
    this.#download.onRestart = () => this.#discard();
    this.#rest = this.#download.chunks();
  }

  /**
   * @param {URL} url @param {StoredFile | null} file in the store, perhaps with its first bytes
   * @param {DownloadOptions} options
   */
  static async resume(url, file, options) {
    const known = file?.info?.url === url.href ? file.info : null;
    const bytes = known && file ? (await file.blob()).size : 0;
    const plausible = known?.size == null || bytes <= known.size; // more bytes than the file has belong to another one
    return new StoredDownload(url, file, plausible ? bytes : 0, options);
  }

  /** Sends the request, unless every byte is stored. @returns {Promise<boolean>} false if there is no such file */
  async open() {
    const found = this.complete || (await this.#download.open());
    if (found) this.#progress();
    return found;
  }

  notFound() {
    return this.#download.notFound();
  }

  close() {
    this.#download.close();
  }

  /** Of the file, if it is known. @returns {number | null} */
  get size() {
    return this.complete ? this.storedBytes : this.#download.version.size;
  }

  /** The same, but null if the server may have sent the length of a compressed form. @returns {number | null} */
  get certainSize() {
    return this.complete ? this.storedBytes : this.#download.certainSize;
  }

  /** Whether every byte is in the store. */
  get complete() {
    const info = this.#file?.info;
    return info?.complete === true && info.url === this.#url.href && info.size === this.storedBytes;
  }

  /**
   * Downloads into the store.
   * @param {StoredFile} file the one this download resumed
   * @returns {Promise<Blob>} the whole file, on disk
   * @throws {Gpt2Error} `storage_failed` if it cannot be stored: `bytes` then still has everything. If it cannot be
   *   downloaded, the bytes that arrived are stored.
   */
  async store(file) {
    if (this.complete) return this.#storedBlob(file);
    try {
      for (let part; !(part = await this.#rest.next()).done; ) {
        this.#pending.push(/** @type {Uint8Array<ArrayBuffer>} */ (part.value));
        this.#pendingBytes += part.value.length;
        if (this.#pendingBytes >= file.piece) await this.#write(file);
        this.#progress();
      }
      await this.#write(file);
      await file.finish(this.#download.received);
    } catch (cause) {
      // The next download resumes here. If writing fails too, the first failure is the one to report.
      const broken = cause instanceof Gpt2Error && cause.kind === 'download_failed';
      if (broken && this.#pendingBytes > 0) await this.#write(file).catch(() => {});
      throw cause;
    }
    return this.#storedBlob(file);
  }

  /**
   * All bytes of the file: those in the store, those in memory, and those still to come.
   * @returns {AsyncGenerator<Uint8Array, void, void>}
   */
  async *bytes() {
    this.#download.onRestart = undefined; // bytes that were read cannot be taken back
    if (this.storedBytes > 0 && this.#file) {
      const reader = (await this.#storedBlob(this.#file)).stream().getReader();
      const next = () => reader.read().catch((cause) => { throw this.#deleted(cause); });
      for (let part; !(part = await next()).done; ) yield part.value;
    }
    for (let part; (part = this.#pending.shift()); ) yield part;
    for await (const part of this.#rest) {
      this.#progress();
      yield part;
    }
  }

  /** The stored bytes. A gap in them would change weights without an error. @param {StoredFile} file */
  async #storedBlob(file) {
    const blob = await file.blob();
    if (blob.size !== this.storedBytes) throw this.#deleted();
    return blob;
  }

  /** @param {unknown} [cause] */
  #deleted(cause) {
    return new Gpt2Error('download_failed', `the download of ${this.#label} failed: its stored part was deleted meanwhile; load it again`, { cause });
  }

  /** @param {StoredFile} file */
  async #write(file) {
    if (this.#unwritable) throw this.#unwritable;
    if (this.storedBytes === 0) await file.begin(this.#url.href, this.#download.version);
    if (this.#pendingBytes === 0) return;
    await file.append(new Blob(this.#pending));
    this.storedBytes += this.#pendingBytes;
    this.#pending = [];
    this.#pendingBytes = 0;
  }

  /** The file on the server has changed. */
  async #discard() {
    this.storedBytes = 0;
    this.#pending = [];
    this.#pendingBytes = 0;
    // The download goes on even if the store fails.
    await this.#file?.clear().catch((cause) => { this.#unwritable = cause; });
  }

  #progress() {
    this.onProgress(this.complete ? this.storedBytes : this.#download.received, this.size);
  }
}
