/** Kinds of error that arise on this side of the worker, beside those of `src/error.rs`. */
export const CLIENT_ERROR_KINDS = /** @type {const} */ ([
  'worker_failed', // the worker could not be started
  'unsupported', // this browser lacks what the worker needs, or has it switched off
  'stalled', // the worker did not answer any more, and was ended
  'blocked_by_policy', // the page's Content-Security-Policy forbids the worker, WebAssembly, or a download
  'download_failed', // a file could not be fetched
  'storage_failed', // this browser's storage, where downloads are kept
  'closed', // the client was closed
]);

/** @typedef {import('../types/ErrorKind.js').ErrorKind | typeof CLIENT_ERROR_KINDS[number]} ErrorKind */
/** @typedef {import('../types/Record.js').Record} RunRecord */

/**
 * What went wrong: a `kind` from a closed list, for programs, and a `message`, for people. What was cancelled has the
 * name `AbortError`, as everywhere in the web.
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
    /** Of a run that failed after its `start`: everything up to there, with no `stop`. */
    this.record = record;
    /** Of a load that is `out_of_memory`: the model would fit if the one in use were freed first. */
    this.fitsAlone = fitsAlone;
  }
}

/**
 * What the one who aborted `signal` gets.
 * @param {string} what was cancelled
 * @param {AbortSignal} [signal]
 */
export const cancelled = (what, signal) => new Gpt2Error('cancelled', `${what} was cancelled`, { cause: signal?.reason });
