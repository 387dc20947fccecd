import { Download } from './download.js';
import { Gpt2Error } from './error.js';
import { StorageError } from './store.js';

/** @typedef {import('./store.js').StoredFile} StoredFile */

/**
 * One file on its way from the network: into the store, or to whoever reads it. What was stored before is not asked
 * for again, and what was downloaded when storing fails is not lost.
 */
export class Arrival {
  /** @type {(done: number, total: number | null) => void} */ onProgress = () => {};
  /** Bytes in the store. */ kept;
  #url;
  #label;
  #stored;
  #download;
  /** @type {AsyncGenerator<Uint8Array, void, void>} */ #rest;
  /** @type {Uint8Array<ArrayBuffer>[]} Downloaded and not in the store. */ #loose = [];
  #looseBytes = 0;

  /**
   * @param {URL} url @param {StoredFile | null} stored @param {number} kept
   * @param {{ label: string, signal: AbortSignal, pauses: readonly number[] | undefined }} options
   */
  constructor(url, stored, kept, options) {
    this.#url = url;
    this.#label = options.label;
    this.#stored = stored;
    this.kept = kept;
    this.#download = new Download(url, { ...options, held: stored?.info ? { version: stored.info, bytes: kept } : null });
    this.#download.restart = () => this.#restart();
    this.#rest = this.#download.chunks();
  }

  /**
   * @param {URL} url @param {StoredFile | null} stored where it is kept, perhaps with its beginning
   * @param {{ label: string, signal: AbortSignal, pauses: readonly number[] | undefined }} options
   */
  static async begin(url, stored, options) {
    const known = stored?.info?.url === url.href;
    return new Arrival(url, stored, known ? (await stored.blob()).size : 0, options);
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

  /** Of the file, where it is known. @returns {number | null} */
  get size() {
    return this.whole ? this.kept : this.#download.version.size;
  }

  /** Whether every byte is in the store. */
  get whole() {
    return this.#stored?.info?.complete === true && this.#stored.info.url === this.#url.href;
  }

  /**
   * Downloads into the store.
   * @returns {Promise<Blob>} all of it, on disk
   * @throws {StorageError} where it cannot be stored; `bytes` then still has everything
   * @throws {Gpt2Error} where it cannot be downloaded; what has arrived is stored
   */
  async store() {
    const stored = this.#stored;
    if (!stored) throw new StorageError('there is no storage');
    if (this.whole) return stored.blob();
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
    return stored.blob();
  }

  /**
   * All bytes from the first on: those in the store, those in hand, and those to come.
   * @returns {AsyncGenerator<Uint8Array, void, void>}
   */
  async *bytes() {
    this.#download.restart = undefined; // what was read cannot be taken back
    if (this.kept > 0 && this.#stored) {
      const blob = await this.#stored.blob();
      // Weights with a gap in them would be wrong without a word.
      if (blob.size !== this.kept) throw new Gpt2Error('download_failed', `the download of ${this.#label} failed: what was stored of it has been deleted meanwhile; load it again`);
      const reader = blob.stream().getReader();
      for (let part; !(part = await reader.read()).done; ) yield part.value;
    }
    for (let part; (part = this.#loose.shift()); ) yield part;
    for await (const part of this.#rest) {
      this.#progress();
      yield part;
    }
  }

  /** @param {StoredFile} stored */
  async #write(stored) {
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
    await this.#stored?.clear();
  }

  #progress() {
    this.onProgress(this.whole ? this.kept : this.#download.received, this.size);
  }
}
