import { Gpt2Error, cancelled } from './error.js';
import { SharedTask } from './shared-task.js';
import { monotone } from './progress.js';

/** @typedef {import('./progress.js').Progress} Progress */
/** @typedef {import('./shared-task.js').News} News */
/** @typedef {{ onProgress?: ((progress: Progress) => void) | null | undefined, onNotice?: ((sentence: string) => void) | null | undefined, signal?: AbortSignal | null | undefined }} LoadHooks `onNotice` hears sentences for people before the event they announce. */

/**
 * The present loads. Equal loads at the same time are one load: each caller hears its news and may leave. During a load
 * that is not cancelled, a different one is refused as `busy`.
 *
 * @template T
 */
export class Loads {
  /** @type {Map<SharedTask<T>, readonly unknown[]>} */ #tasks = new Map();

  /**
   * @param {readonly unknown[]} key equal for equal loads
   * @param {LoadHooks} hooks
   * @param {() => void} check throws if the load may not begin
   * @param {(tell: (news: News) => void, signal: AbortSignal) => Promise<T>} start
   * @returns {Promise<T>}
   * @throws {Gpt2Error}
   */
  async join(key, { onProgress, onNotice, signal }, check, start) {
    if (signal?.aborted) throw cancelled('the load', signal);
    const report = monotone(onProgress ?? undefined);
    const hear = (/** @type {News} */ news) => ('notice' in news ? onNotice?.(news.notice) : report(news));
    for (const [task, other] of this.#tasks) {
      if (task.abandoned) continue;
      if (!same(key, other)) throw new Gpt2Error('busy', 'another load has not ended yet; wait for its end or cancel it first');
      return task.join(hear, signal ?? undefined);
    }
    check();
    const task = new SharedTask('the load', start, { strict: true });
    this.#tasks.set(task, key);
    const settled = () => { this.#tasks.delete(task); };
    task.result.then(settled, settled);
    return task.join(hear, signal ?? undefined);
  }

  /** Ends all loads. @param {Gpt2Error} error */
  end(error) {
    for (const task of this.#tasks.keys()) task.end(error);
  }
}

/** @param {readonly unknown[]} a @param {readonly unknown[]} b */
const same = (a, b) => a.length === b.length && a.every((value, at) => Object.is(value, b[at]));
