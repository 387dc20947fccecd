/** @typedef {import('../types/Event.js').Event} Event */
/** @typedef {Extract<Event, { type: 'start' | 'prefill' | 'delta' | 'step' | 'done' }>} RunEvent What a run yields. */
/** @typedef {Extract<Event, { type: 'experiment_progress' | 'row' | 'experiment_done' }>} ExperimentEvent What an experiment yields. */
/**
 * How to end a run.
 * @typedef {object} Begun
 * @property {() => void} cancel requests its end
 * @property {Promise<void>} ended resolves at its end
 */

/**
 * A run, or an experiment, as an async generator. An `async function*` handles `return()` only at its next `yield`, so leaving a loop would
 * take effect with the next event. This class handles `return()` at once and requests the end of the run.
 *
 * @template T what it yields
 */
export class Run {
  #begin;
  #pick;
  /** @type {Begun | null} */ #begun = null;
  /** @type {T[]} */ #ready = [];
  /** @type {{ resolve: (result: IteratorResult<T, void>) => void, reject: (error: unknown) => void }[]} */ #waiting = [];
  #ended = false;
  /** @type {{ error: unknown } | null} To be thrown by the next `next()`. */ #failure = null;
  #left = false;

  /**
   * @param {(run: Run<T>) => Begun} begin called by the first `next()`
   * @param {(event: any) => T | undefined} pick what to yield for an event of the request; undefined for nothing
   */
  constructor(begin, pick) {
    this.#begin = begin;
    this.#pick = pick;
  }

  /** Whether the caller has left the loop. */
  get left() {
    return this.#left;
  }

  /** @param {RunEvent | ExperimentEvent} event */
  receive(event) {
    const value = this.#left ? undefined : this.#pick(event);
    if (value !== undefined) {
      const next = this.#waiting.shift();
      if (next) next.resolve({ value, done: false });
      else this.#ready.push(value);
    }
    if (event.type === 'done' || event.type === 'experiment_done') this.#end();
  }

  /** @param {unknown} error */
  fail(error) {
    if (this.#ended) return;
    const next = this.#waiting.shift();
    if (next) next.reject(error);
    else if (!this.#left) this.#failure = { error };
    this.#end();
  }

  #end() {
    this.#ended = true;
    for (const { resolve } of this.#waiting.splice(0)) resolve({ value: undefined, done: true });
  }

  /** @returns {Promise<IteratorResult<T, void>>} */
  next() {
    if (!this.#begun && !this.#ended) {
      try {
        this.#begun = this.#begin(this);
      } catch (error) {
        this.#ended = true;
        return Promise.reject(error);
      }
    }
    const value = this.#ready.shift();
    if (value !== undefined) return Promise.resolve({ value, done: false });
    if (this.#failure) {
      const { error } = this.#failure;
      this.#failure = null;
      return Promise.reject(error);
    }
    if (this.#ended) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve, reject) => { this.#waiting.push({ resolve, reject }); });
  }

  /**
   * Leaves the run. Resolves at its end.
   * @returns {Promise<IteratorResult<T, void>>}
   */
  async return() {
    this.#left = true;
    this.#ready = [];
    this.#failure = null;
    const begun = this.#begun;
    const running = begun && !this.#ended;
    this.#end();
    if (running) begun.cancel();
    await begun?.ended;
    return { value: undefined, done: true };
  }

  /** @param {unknown} error @returns {Promise<IteratorResult<T, void>>} */
  async throw(error) {
    await this.return();
    throw error;
  }
}

// Inherit what every async iterator has: `for await`, and `await using` in engines that have it.
Object.setPrototypeOf(Run.prototype, Object.getPrototypeOf(Object.getPrototypeOf(Object.getPrototypeOf((async function* () {})()))));

/**
 * @template T @param {Run<T>} run
 * @returns {AsyncGenerator<T, void, void>}
 */
export const iterable = (run) => /** @type {any} */ (run);
