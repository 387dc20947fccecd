/** Kinds of errors of the client. `src/error.rs` has those of the worker. */
export const CLIENT_ERROR_KINDS = /** @type {const} */ ([
  'worker_failed', // the worker could not be started
  'unsupported', // the browser lacks a feature that the worker needs, or it is switched off
  'stalled', // the worker no longer answered and was ended
  'blocked_by_policy', // the page's Content-Security-Policy forbids the worker, WebAssembly, or a download
  'download_failed', // a file could not be fetched
  'storage_failed', // the browser's storage, where downloads are stored
  'closed', // the client was closed
]);

/** @typedef {import('../types/ErrorKind.js').ErrorKind | typeof CLIENT_ERROR_KINDS[number]} ErrorKind */
/** @typedef {import('../types/Record.js').Record} RunRecord */

/**
 * An error with a `kind` for programs and a `message` for people. The `name` of a cancelled request's error is
 * `AbortError`, as in other web APIs.
 */
export class Gpt2Error extends Error {
  /**
   * @param {ErrorKind} kind
   * @param {string} message
   * @param {ErrorOptions & { record?: RunRecord | null, fitsAlone?: boolean }} [options]
   */
  constructor(kind, message, { record = null, fitsAlone = false, ...options } = {}) {
    super(message, options);
    this.name = kind === 'cancelled' ? 'AbortError' : 'Gpt2Error';
    this.kind = kind;
    /** Of a run that failed after its `start`: the record up to that point, without a `stop`. */
    this.record = record;
    /** Of an `out_of_memory` load: the model would fit if the present one were freed first. */
    this.fitsAlone = fitsAlone;
  }
}

/**
 * The error for the caller that aborted `signal`.
 * @param {string} what was cancelled
 * @param {AbortSignal} [signal]
 */
export const cancelled = (what, signal) => new Gpt2Error('cancelled', `${what} was cancelled`, { cause: signal?.reason });
