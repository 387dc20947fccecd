/** @typedef {import('../types/Event.js').Event} Event */
/** @typedef {Extract<Event, { type: 'start' | 'prefill' | 'delta' | 'step' | 'done' }>} RunEvent What a run yields. */
/**
 * A run's way to whoever began it.
 * @typedef {object} Begun
 * @property {() => void} cancel asks for the end
 * @property {Promise<void>} ended resolves when it has come
 */

/**
 * A run as an async generator. A written one (`async function*`) is deaf while it waits for an event: leaving it would
 * take effect with the next one. This one hears `return()` at once, and asks for the end of the run.
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
  /** @type {{ error: unknown } | null} Not told yet. */ #failure = null;
  #left = false;

  /**
   * @param {(run: Run<T>) => Begun} begin called by the first `next()`
   * @param {(event: RunEvent) => T | undefined} pick what is yielded of an event
   */
  constructor(begin, pick) {
    this.#begin = begin;
    this.#pick = pick;
  }

  /** Whether nobody listens any more. */
  get left() {
    return this.#left;
  }

  /** @param {RunEvent} event */
  receive(event) {
    const value = this.#left ? undefined : this.#pick(event);
    if (value !== undefined) {
      const next = this.#waiting.shift();
      if (next) next.resolve({ value, done: false });
      else this.#ready.push(value);
    }
    if (event.type === 'done') this.#end();
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
   * Leaves the run. Resolves when it has ended.
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

// What every async iterator can do: `for await`, and `await using` where there is such a thing.
Object.setPrototypeOf(Run.prototype, Object.getPrototypeOf(Object.getPrototypeOf(Object.getPrototypeOf((async function* () {})()))));

/**
 * @template T @param {Run<T>} run
 * @returns {AsyncGenerator<T, void, void>}
 */
export const iterable = (run) => /** @type {any} */ (run);
