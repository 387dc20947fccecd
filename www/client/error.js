/** Kinds of error that arise on this side of the worker, beside those of `src/error.rs`. */
export const CLIENT_ERROR_KINDS = /** @type {const} */ ([
  'worker_failed', // the worker could not be started
  'blocked_by_policy', // the page's Content-Security-Policy forbids the worker, WebAssembly, or a download
  'download_failed', // a file could not be fetched
  'storage_failed', // this browser's storage, where downloads are kept
  'closed', // the client was closed
]);

/** @typedef {import('../types/ErrorKind').ErrorKind | typeof CLIENT_ERROR_KINDS[number]} ErrorKind */

/** What went wrong: a `kind` from a closed list, for programs, and a `message`, for people. */
export class Gpt2Error extends Error {
  /**
   * @param {ErrorKind} kind
   * @param {string} message
   * @param {ErrorOptions} [options]
   */
  constructor(kind, message, options) {
    super(message, options);
    this.name = 'Gpt2Error';
    this.kind = kind;
  }
}
