import { Gpt2Error, cancelled } from './error.js';
import { Flight } from './flight.js';
import { monotone } from './progress.js';

/** @typedef {import('./progress.js').Progress} Progress */
/** @typedef {import('./flight.js').News} News */
/** @typedef {{ onProgress?: ((progress: Progress) => void) | null | undefined, onNotice?: ((sentence: string) => void) | null | undefined, signal?: AbortSignal | null | undefined }} LoadHooks `onNotice` hears what people should know before it happens. */

/**
 * The loads that are asked for. Equal ones at the same time are one load, of which each hears and which each may leave;
 * while one goes on that nobody has cancelled, another is refused as `busy`.
 *
 * @template T
 */
export class Loads {
  /** @type {Map<Flight<T>, readonly unknown[]>} */ #flights = new Map();

  /**
   * @param {readonly unknown[]} key equal for equal loads
   * @param {LoadHooks} hooks
   * @param {() => void} free throws where the load may not begin
   * @param {(tell: (news: News) => void, signal: AbortSignal) => Promise<T>} start
   * @returns {Promise<T>}
   * @throws {Gpt2Error}
   */
  async join(key, { onProgress, onNotice, signal }, free, start) {
    if (signal?.aborted) throw cancelled('the load', signal);
    const report = monotone(onProgress ?? undefined);
    const hear = (/** @type {News} */ news) => ('notice' in news ? onNotice?.(news.notice) : report(news));
    for (const [flight, its] of this.#flights) {
      if (flight.leaving) continue;
      if (!same(key, its)) throw new Gpt2Error('busy', 'another load is in progress; wait for it to finish or cancel it first');
      return flight.join(hear, signal ?? undefined);
    }
    free();
    const flight = new Flight('the load', start, { strict: true });
    this.#flights.set(flight, key);
    const landed = () => { this.#flights.delete(flight); };
    flight.result.then(landed, landed);
    return flight.join(hear, signal ?? undefined);
  }

  /** Ends all. @param {Gpt2Error} error */
  end(error) {
    for (const flight of this.#flights.keys()) flight.end(error);
  }
}

/** @param {readonly unknown[]} a @param {readonly unknown[]} b */
const same = (a, b) => a.length === b.length && a.every((value, at) => Object.is(value, b[at]));
