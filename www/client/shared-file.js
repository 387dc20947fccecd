import { Gpt2Error } from './error.js';

/** @typedef {(done: number, total: number | null) => void} Report in bytes */
/**
 * One download, under way or at its end.
 * @typedef {{ blob: Promise<Blob>, ended: Blob | null, abort: AbortController, listeners: Set<Report>, latest: [number, number | null] | null }} Flight
 */

/**
 * A file that is downloaded once for all who ask for it. Whoever asks may leave without a harm to the others; the
 * download ends when the last one has left.
 */
export class SharedFile {
  #fetch;
  /** @type {Flight | null} */ #flight = null;
  #forgotten = false;

  /** @param {(report: Report, signal: AbortSignal, fresh: boolean) => Promise<Blob>} fetch `fresh`: not from a cache */
  constructor(fetch) {
    this.#fetch = fetch;
  }

  /**
   * @param {Report} report hears of this download from here on
   * @param {AbortSignal} [signal]
   * @returns {Promise<Blob>}
   * @throws {Gpt2Error}
   */
  async get(report, signal) {
    if (signal?.aborted) throw cancelled();
    const flight = (this.#flight ??= this.#begin());
    if (flight.ended) return flight.ended;
    flight.listeners.add(report);
    if (flight.latest) report(...flight.latest);
    let leave = () => {};
    try {
      return await Promise.race([flight.blob, new Promise((_, reject) => {
        leave = () => reject(cancelled());
        signal?.addEventListener('abort', leave);
      })]);
    } finally {
      signal?.removeEventListener('abort', leave);
      flight.listeners.delete(report);
      if (flight.listeners.size === 0 && !flight.ended) {
        this.#drop(flight);
        flight.abort.abort();
      }
    }
  }

  /** The next one who asks gets a new copy, because this one is no good. Any other blob is none of this file's. @param {Blob} blob */
  forget(blob) {
    if (this.#flight?.ended !== blob) return;
    this.#flight = null;
    this.#forgotten = true;
  }

  /** @returns {Flight} */
  #begin() {
    const abort = new AbortController();
    /** @type {Flight} */
    const flight = { blob: new Promise(() => {}), ended: null, abort, listeners: new Set(), latest: null };
    flight.blob = this.#fetch((...progress) => {
      flight.latest = progress;
      for (const report of flight.listeners) report(...progress);
    }, abort.signal, this.#forgotten);
    flight.blob.then((blob) => { flight.ended = blob; }, () => {
      // What failed may have come from the browser's cache.
      if (!abort.signal.aborted) this.#forgotten = true;
      this.#drop(flight);
    });
    return flight;
  }

  /** @param {Flight} flight */
  #drop(flight) {
    if (this.#flight === flight) this.#flight = null;
  }
}

const cancelled = () => new Gpt2Error('cancelled', 'the download was cancelled');
