import { cancelled } from './error.js';

/** @typedef {import('./progress.js').Progress} Progress */
/** Progress, or a sentence for people. @typedef {Progress | { notice: string }} News */
/** @typedef {{ hear: (news: News) => void, reject: (error: unknown) => void }} Participant */

/**
 * One task for several callers. Each caller hears its news and may leave without disturbing the others. When the last
 * caller leaves, the task is cancelled. An error in a caller's callback concerns that caller only.
 *
 * @template T
 */
export class SharedTask {
  /** @type {Promise<T>} */ result;
  #what;
  #strict;
  #abort = new AbortController();
  /** @type {Set<Participant>} */ #participants = new Set();
  /** @type {Map<string, News>} */ #latest = new Map();

  /**
   * @param {string} what it is, for sentences
   * @param {(tell: (news: News) => void, signal: AbortSignal) => Promise<T>} start
   * @param {{ strict?: boolean }} [options] `strict`: the last caller to leave waits for the task's outcome, because it
   *   may have finished already
   */
  constructor(what, start, { strict = false } = {}) {
    this.#what = what;
    this.#strict = strict;
    this.result = start((news) => this.#tell(news), this.#abort.signal);
    this.result.catch(() => {}); // each participant is told
  }

  /** Whether the last caller has left. */
  get abandoned() {
    return this.#abort.signal.aborted;
  }

  /**
   * @param {(news: News) => void} hear
   * @param {AbortSignal} [signal]
   * @returns {Promise<T>}
   */
  join(hear, signal) {
    return new Promise((resolve, reject) => {
      /** @type {Participant} */ const participant = {
        hear: (news) => {
          try {
            hear(news);
          } catch (error) {
            participant.reject(error);
          }
        },
        reject: (error) => { this.#leave(participant); end(); reject(error); },
      };
      const aborted = () => {
        if (this.#strict && this.#participants.size === 1) this.#abort.abort(signal?.reason);
        else participant.reject(cancelled(this.#what, signal));
      };
      const end = () => signal?.removeEventListener('abort', aborted);
      this.#participants.add(participant);
      this.result.then((value) => {
        end();
        this.#participants.delete(participant);
        resolve(value);
      }, (error) => {
        end();
        this.#participants.delete(participant);
        reject(error?.kind === 'cancelled' && signal?.aborted ? cancelled(this.#what, signal) : error);
      });
      if (signal?.aborted) aborted();
      else signal?.addEventListener('abort', aborted, { once: true });
      for (const news of this.#latest.values()) if (this.#participants.has(participant)) participant.hear(news);
    });
  }

  /** Ends the task for all callers. @param {unknown} error */
  end(error) {
    for (const participant of [...this.#participants]) participant.reject(error);
    this.#abort.abort(error);
  }

  /** @param {Participant} participant */
  #leave(participant) {
    if (this.#participants.delete(participant) && this.#participants.size === 0) this.#abort.abort();
  }

  /** @param {News} news */
  #tell(news) {
    this.#latest.set('notice' in news ? news.notice : news.stage, news);
    for (const participant of [...this.#participants]) participant.hear(news);
  }
}
