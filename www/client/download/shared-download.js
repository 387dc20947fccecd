import { cancelled } from '../error.js';
import { Flight } from '../flight.js';

/** @typedef {(done: number, total: number | null) => void} Report in bytes */

/** A file that is downloaded once for all who ask for it. The download ends when the last one has left. */
export class SharedDownload {
  #fetch;
  /** @type {Flight<Blob> | null} */ #flight = null;
  /** @type {Blob | null} */ #blob = null;
  #forgotten = false;

  /** @param {(report: Report, signal: AbortSignal, fresh: boolean) => Promise<Blob>} fetch `fresh`: not from a cache */
  constructor(fetch) {
    this.#fetch = fetch;
  }

  /**
   * @param {Report} report hears of this download from here on
   * @param {AbortSignal} [signal]
   * @returns {Promise<Blob>}
   * @throws {import('../error.js').Gpt2Error}
   */
  async get(report, signal) {
    if (signal?.aborted) throw cancelled('the download', signal);
    if (this.#blob) return this.#blob;
    const flight = this.#flight && !this.#flight.leaving ? this.#flight : this.#begin();
    return flight.join((news) => { if ('stage' in news) report(news.done, news.total); }, signal);
  }

  /** The next one who asks gets a new copy, because this one is no good. Any other blob is none of this file's. @param {Blob} blob */
  forget(blob) {
    if (this.#blob !== blob) return;
    this.#blob = null;
    this.#forgotten = true;
  }

  /** Ends a download for all who wait for it. @param {unknown} error */
  end(error) {
    this.#flight?.end(error);
  }

  /** @returns {Flight<Blob>} */
  #begin() {
    /** @type {Flight<Blob>} */
    const flight = new Flight('the download', (tell, signal) => this.#fetch((done, total) => tell({ stage: 'download', done, total }), signal, this.#forgotten));
    this.#flight = flight;
    const landed = (/** @type {Blob | null} */ blob) => {
      if (this.#flight !== flight) return;
      this.#flight = null;
      this.#blob = blob;
    };
    flight.result.then(landed, () => {
      // What failed may have come from the browser's cache.
      if (!flight.leaving) this.#forgotten = true;
      landed(null);
    });
    return flight;
  }
}
