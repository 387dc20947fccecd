/** @typedef {'loading' | 'ready' | 'running' | 'done' | 'error'} State */

/** What the page is doing: one load or one run at a time. */
export class Activity {
  /** @type {State} */ state = 'loading';
  /** Generate was pressed during a load: the run starts when the model is loaded. */ queued = false;
  /** @type {AbortController | null} What Stop ends. */ #work = null;
  #onChange;

  /** @param {() => void} onChange */
  constructor(onChange) {
    this.#onChange = onChange;
  }

  get busy() {
    return this.#work !== null;
  }

  /** @param {'loading' | 'running'} state @returns {AbortSignal} */
  begin(state) {
    this.#work = new AbortController();
    this.#set(state);
    return this.#work.signal;
  }

  /** @param {'ready' | 'done' | 'error'} state */
  end(state) {
    this.#work = null;
    this.#set(state);
  }

  stop() {
    this.#work?.abort();
  }

  /** @param {boolean} queued */
  queue(queued) {
    this.queued = queued;
    this.#onChange();
  }

  /** @param {State} state */
  #set(state) {
    this.state = state;
    this.#onChange();
  }
}
