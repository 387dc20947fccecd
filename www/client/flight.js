import { cancelled } from './error.js';

/** @typedef {import('./progress.js').Progress} Progress */
/** What is heard on the way: how far it is, or a sentence for people. @typedef {Progress | { notice: string }} News */
/** @typedef {{ hear: (news: News) => void, reject: (error: unknown) => void }} Passenger */

/**
 * Work that is done once for all who want it at the same time. Each hears of it and may leave without a harm to the
 * others; when the last one leaves, the work is cancelled. What a passenger's own callback throws is that passenger's.
 *
 * @template T
 */
export class Flight {
  /** What is awaited. @type {Promise<T>} */ result;
  #what;
  #strict;
  #abort = new AbortController();
  /** @type {Set<Passenger>} */ #passengers = new Set();
  /** @type {Map<string, News>} */ #latest = new Map();

  /**
   * @param {string} what it is, for sentences
   * @param {(tell: (news: News) => void, signal: AbortSignal) => Promise<T>} start
   * @param {{ strict?: boolean }} [options] `strict`: the last to leave learns whether it was cancelled or had been done
   *   by then
   */
  constructor(what, start, { strict = false } = {}) {
    this.#what = what;
    this.#strict = strict;
    this.result = start((news) => this.#tell(news), this.#abort.signal);
    this.result.catch(() => {}); // told to each passenger
  }

  /** Whether nobody wants it any more. */
  get leaving() {
    return this.#abort.signal.aborted;
  }

  /**
   * @param {(news: News) => void} hear
   * @param {AbortSignal} [signal]
   * @returns {Promise<T>}
   */
  join(hear, signal) {
    return new Promise((resolve, reject) => {
      /** @type {Passenger} */ const passenger = {
        hear: (news) => {
          try {
            hear(news);
          } catch (error) {
            passenger.reject(error);
          }
        },
        reject: (error) => { this.#leave(passenger); end(); reject(error); },
      };
      const aborted = () => {
        if (this.#strict && this.#passengers.size === 1) this.#abort.abort(signal?.reason);
        else passenger.reject(cancelled(this.#what, signal));
      };
      const end = () => signal?.removeEventListener('abort', aborted);
      this.#passengers.add(passenger);
      this.result.then((value) => {
        end();
        this.#passengers.delete(passenger);
        resolve(value);
      }, (error) => {
        end();
        this.#passengers.delete(passenger);
        reject(error?.kind === 'cancelled' && signal?.aborted ? cancelled(this.#what, signal) : error);
      });
      if (signal?.aborted) aborted();
      else signal?.addEventListener('abort', aborted, { once: true });
      for (const news of this.#latest.values()) if (this.#passengers.has(passenger)) passenger.hear(news);
    });
  }

  /** Ends it for everybody. @param {unknown} error */
  end(error) {
    for (const passenger of [...this.#passengers]) passenger.reject(error);
    this.#abort.abort(error);
  }

  /** @param {Passenger} passenger */
  #leave(passenger) {
    if (this.#passengers.delete(passenger) && this.#passengers.size === 0) this.#abort.abort();
  }

  /** @param {News} news */
  #tell(news) {
    this.#latest.set('notice' in news ? news.notice : news.stage, news);
    for (const passenger of [...this.#passengers]) passenger.hear(news);
  }
}
