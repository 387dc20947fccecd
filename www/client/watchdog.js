/** A worker that is silent for this many ticks has stalled. */
const TICKS = 6;
/** The most milliseconds between two ticks: browsers treat longer intervals as 0. */
const MAX_TICK = 2 ** 31 - 1;

/**
 * Notices a worker that no longer answers, such as one that hangs inside WebAssembly. It counts ticks instead of time,
 * because on a computer that slept, or in a tab with slowed timers, the worker had no time to answer.
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
   * @param {number | null} stall_ms how long a worker may be silent; null for ever
   * @param {{ ask: () => void, stalled: () => void }} listener `ask` sends the worker a message that it answers
   */
  constructor(stall_ms, { ask, stalled }) {
    this.#tick = stall_ms === null ? null : Math.min(stall_ms / TICKS, MAX_TICK);
    this.#ask = ask;
    this.#stalled = stalled;
  }

  /** Whether the worker has ever sent a message. */
  get known() {
    return this.#known;
  }

  /** The worker has sent a message. */
  heard() {
    this.#known = this.#heard = true;
  }

  /** Starts to watch, because an answer is expected. */
  watch() {
    if (this.#tick === null || this.#timer !== null) return;
    this.#silent = 0;
    this.#heard = true; // the first tick only asks
    this.#timer = setInterval(() => this.#check(), this.#tick);
  }

  /** Stops watching. */
  rest() {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  /** There is a new worker, which takes time to start. */
  reset() {
    this.#known = false;
    this.#silent = 0;
  }

  #check() {
    // A worker that never sent a message is still starting: the browser reports if it cannot.
    this.#silent = this.#heard || !this.#known ? 0 : this.#silent + 1;
    this.#heard = false;
    if (this.#silent >= TICKS) return this.#stalled();
    this.#ask();
  }
}
