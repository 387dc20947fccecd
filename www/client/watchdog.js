/** In so many ticks a worker that is silent is given up. */
const TICKS = 6;
/** Milliseconds between two ticks at most: browsers take a longer time for none at all. */
const LONGEST_TICK = 2 ** 31 - 1;

/**
 * Notices that a worker does not answer any more, as one that hangs inside WebAssembly: no message of its own comes,
 * and none in answer to a question. Ticks are counted and not time, because a computer that slept or a tab whose timers
 * are slowed has had no time in which a worker could have answered.
 */
export class Watchdog {
  #tick;
  #ask;
  #stalled;
  /** @type {ReturnType<typeof setInterval> | null} */ #timer = null;
  #known = false;
  #heard = false;
  #silent = 0;

  /**
   * @param {number | null} stall_ms how long a silence ends the worker; null for none
   * @param {{ ask: () => void, stalled: () => void }} listener `ask`: the worker should say something
   */
  constructor(stall_ms, { ask, stalled }) {
    this.#tick = stall_ms === null ? null : Math.min(stall_ms / TICKS, LONGEST_TICK);
    this.#ask = ask;
    this.#stalled = stalled;
  }

  /** Whether the worker has ever said something. */
  get known() {
    return this.#known;
  }

  /** The worker has said something. */
  heard() {
    this.#known = this.#heard = true;
  }

  /** Something is awaited of the worker. */
  watch() {
    if (this.#tick === null || this.#timer !== null) return;
    this.#silent = 0;
    this.#heard = true; // the first tick only asks
    this.#timer = setInterval(() => this.#look(), this.#tick);
  }

  /** Nothing is awaited any more. */
  rest() {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  /** There is another worker, which may take its time to start. */
  renewed() {
    this.#known = false;
    this.#silent = 0;
  }

  #look() {
    // A worker that was never heard of is on its way: the browser says if it cannot come.
    this.#silent = this.#heard || !this.#known ? 0 : this.#silent + 1;
    this.#heard = false;
    if (this.#silent >= TICKS) return this.#stalled();
    this.#ask();
  }
}
