import { Gpt2Error, cancelled } from './error.js';
import { Watchdog } from './watchdog.js';

/** @typedef {import('../types/Request.js').Request} Request */
/** @typedef {import('../types/Event.js').Event} Event */
/** @typedef {import('./worker-handle.js').WorkerHandle} WorkerHandle */
/** @typedef {import('./worker-handle.js').Listener} Listener */
/** @typedef {{ receive: (event: Event) => void, fail: (error: Gpt2Error) => void }} Pending */
/**
 * @typedef {object} Sent
 * @property {number} id
 * @property {() => void} cancel
 * @property {(file: import('./files.js').ModelFile) => void} provideTokenizer
 */

/**
 * `Omit` for each member of a union.
 * @template T @template {PropertyKey} K
 * @typedef {T extends unknown ? Omit<T, K> : never} DistributiveOmit
 */

/** The events that end a request, besides `error`. @type {ReadonlySet<Event['type']>} */
const ENDS = new Set(/** @type {const} */ (['ready', 'unloaded', 'done', 'experiment_done']));

/** Milliseconds a worker has to start after its request was cancelled. */
const START_TIMEOUT = 1000;

/**
 * Pending requests and the worker that answers them. The worker starts with the first request. Each event goes to its
 * request, and if the worker is lost, every request fails.
 */
export class Requests {
  #open;
  #listener;
  #stall_ms;
  #watchdog;
  /** @type {WorkerHandle | null} */ #worker = null;
  /** @type {Map<number, Pending>} */ #pending = new Map();
  #nextId = 1;
  /** @type {Gpt2Error | null} */ #closed = null;

  /**
   * @param {(listener: Listener) => WorkerHandle} open starts a worker
   * @param {number | null} stall_ms
   * @param {{ lost: (error: Gpt2Error) => void, late: (event: Event) => void }} listener `lost`: the worker has failed;
   *   `late`: an event of a request that has ended
   */
  constructor(open, stall_ms, listener) {
    this.#open = open;
    this.#listener = listener;
    this.#stall_ms = stall_ms;
    this.#watchdog = new Watchdog(stall_ms, {
      ask: () => void this.#worker?.post({ type: 'ping', id: this.#nextId++ }).catch(() => {}), // the failure of the worker is reported separately
      stalled: () => this.#lost(new Gpt2Error('stalled', `the worker has not answered for ${Number(this.#stall_ms) / 1000} seconds, so it was ended; `
        + 'if this device is that slow, give the client a larger `stall_ms`')),
    });
  }

  /** Starts the worker, if there is none. */
  startWorker() {
    if (this.#worker || this.#closed) return;
    /** @type {WorkerHandle} */
    const worker = this.#open({
      event: (event) => { if (worker === this.#worker) this.#receive(event); },
      dead: (error) => { if (worker === this.#worker) this.#lost(error); },
    });
    this.#worker = worker;
    this.#watchdog.reset();
  }

  /** Whether there is a worker that has started. One that is still starting has no model. */
  get running() {
    return this.#worker !== null && this.#watchdog.known;
  }

  /**
   * Posts a request and routes its events to `pending` until the one that ends it.
   *
   * @param {DistributiveOmit<Exclude<Request, { type: 'cancel' | 'provide_tokenizer' | 'ping' }>, 'id'>} request
   * @param {Pending} pending
   * @param {AbortSignal | null} [signal] cancels it
   * @param {Transferable[]} [transfer]
   * @returns {Sent}
   */
  send(request, pending, signal, transfer) {
    const id = this.#nextId++;
    if (this.#closed) {
      pending.fail(this.#closed);
      return { id, cancel() {}, provideTokenizer() {} };
    }
    this.startWorker();
    const worker = /** @type {WorkerHandle} */ (this.#worker);
    /** @type {ReturnType<typeof setTimeout> | undefined} */ let timeout;
    // A worker whose files never arrive cannot confirm that a request was cancelled.
    const limitStart = () => {
      if (!this.#watchdog.known) timeout ??= setTimeout(() => { if (!this.#watchdog.known) this.end(cancelled('the request')); }, START_TIMEOUT);
    };
    const cancel = () => {
      if (!this.#pending.has(id)) return;
      worker.post({ type: 'cancel', id }).catch(() => {}); // nothing to cancel in a dead worker
      limitStart();
    };
    const end = () => {
      this.#pending.delete(id);
      clearTimeout(timeout);
      if (this.#pending.size === 0) this.#watchdog.rest();
      signal?.removeEventListener('abort', cancel);
    };
    this.#pending.set(id, {
      receive: (event) => {
        if (ENDS.has(event.type)) end();
        pending.receive(event);
      },
      fail: (error) => { end(); pending.fail(error); },
    });
    this.#watchdog.watch();
    const post = (/** @type {Request} */ message, /** @type {Transferable[] | undefined} */ given = undefined) => {
      worker.post(message, given).catch((error) => {
        this.#pending.get(id)?.fail(new Gpt2Error('invalid_request', `the request cannot be sent to the worker: ${error.message}`, { cause: error }));
      });
    };
    post({ ...request, id }, transfer);
    if (!signal?.aborted) signal?.addEventListener('abort', cancel, { once: true });
    else if ('cancelled' in request) limitStart();
    else cancel();
    return { id, cancel, provideTokenizer: (file) => post(/** @type {any} */ ({ type: 'provide_tokenizer', id, file })) };
  }

  /** Ends the worker, and every request with this error. The next request starts a new worker. @param {Gpt2Error} error */
  end(error) {
    this.#worker?.terminate();
    this.#worker = null;
    this.#watchdog.rest();
    for (const pending of [...this.#pending.values()]) pending.fail(error);
  }

  /** Like `end`, but later requests fail too. @param {Gpt2Error} error */
  close(error) {
    this.#closed = error;
    this.end(error);
  }

  /** @param {Gpt2Error} error */
  #lost(error) {
    // The listeners may send the next request, to a new worker.
    const pending = [...this.#pending.values()];
    this.#worker?.terminate();
    this.#worker = null;
    this.#watchdog.rest();
    this.#listener.lost(error);
    for (const one of pending) one.fail(error);
  }

  /** @param {Event} event */
  #receive(event) {
    this.#watchdog.heard();
    if (event.type !== 'error') {
      const pending = this.#pending.get(event.id);
      if (pending) pending.receive(event);
      else this.#listener.late(event);
      return;
    }
    const { id, kind, message, record, fits_alone: fitsAlone } = event;
    const error = new Gpt2Error(kind, message, { record, fitsAlone });
    // An error without a request's id may have ended any of them: only a new worker is in a known state.
    if (kind === 'panic' || id === null) this.#lost(error);
    else this.#pending.get(id)?.fail(error);
  }
}
