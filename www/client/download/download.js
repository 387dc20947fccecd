import { Gpt2Error, cancelled } from '../error.js';
import { fetchAllowed } from './csp.js';
import { HTML_PAGE, otherFormat } from './first-bytes.js';
import { isIdentified, sameVersion, versionOf, wholeNumber } from './version.js';

/** @typedef {import('./version.js').Version} Version */

/** Milliseconds before each retry. The first byte that arrives starts the list again. */
const BACKOFF = [1000, 2000, 4000, 8000, 16000];
/** A connection without a byte for this many milliseconds counts as broken. */
const IDLE_TIMEOUT = 60_000;
/** Give up on a file that changes more often than this during its download. */
const MAX_RESTARTS = 3;
/** Answers that a retry may change. */
const TRANSIENT = new Set([408, 425, 429, 500, 502, 503, 504]);

/** A failure that a retry may mend. */
export class TransientFailure extends Error {}

/** The server is busy. */
class Busy extends TransientFailure {
  /** @param {string} message @param {string | null} after the header `Retry-After`, in seconds */
  constructor(message, after) {
    super(message);
    this.after = Math.min((wholeNumber(after) ?? 0) * 1000, 60_000);
  }
}

class NotFound extends Error {}

/**
 * One file from one address. After a broken connection only the missing bytes are requested.
 *
 * A retry asks for a range without `If-Range`: on another origin that header needs a CORS preflight, which hosts that
 * redirect to their storage do not answer. ETag, date and length of the answer show whether it continues the same file.
 */
export class Download {
  /** @type {Version} */ version = { etag: null, modified: null, size: null };
  /** Bytes yielded so far. */ received = 0;
  /**
   * Called when the bytes yielded so far are void, because the file has changed and starts anew. Without it, that is an
   * error. @type {(() => Promise<void>) | undefined}
   */
  onRestart;
  #url;
  #label;
  #signal;
  #backoff;
  #idleTimeout;
  #cache;
  /** @type {Response | null} */ #response = null;
  /** @type {AbortController | null} Ends the present connection. */ #connection = null;
  #answered = false;
  #encoded = false;
  /** Whether the answer came from another origin, which need not show that it is compressed. */ #crossOrigin = false;
  /** Bytes of the present answer that were yielded before. */ #skip = 0;
  #failures = 0;
  #restarts = 0;
  /** Whether the server has said that nothing follows the bytes received. */ #atEnd = false;

  /**
   * @param {URL} url
   * @param {object} options
   * @param {string} [options.label] what the sentences call the file
   * @param {AbortSignal | undefined} [options.signal]
   * @param {{ version: Version, bytes: number } | null} [options.held] the first bytes, if they are here already
   * @param {readonly number[] | undefined} [options.backoff] milliseconds before each retry
   * @param {number | undefined} [options.idleTimeout] milliseconds without a byte after which a connection counts as broken
   * @param {RequestCache | undefined} [options.cache] `no-store` by default: the browser's cache would hold a second copy
   *   of hundreds of megabytes
   */
  constructor(url, { label, signal, held, backoff = BACKOFF, idleTimeout = IDLE_TIMEOUT, cache = 'no-store' } = {}) {
    this.#url = url;
    this.#label = label ?? (url.pathname.split('/').pop() || url.href);
    this.#signal = signal;
    this.#backoff = backoff;
    this.#idleTimeout = idleTimeout;
    this.#cache = cache;
    if (held && held.bytes > 0) {
      this.version = held.version;
      this.received = held.bytes;
    }
  }

  /**
   * Sends the request; `chunks` yields the bytes.
   * @returns {Promise<boolean>} false if there is no such file
   * @throws {Gpt2Error}
   */
  async open() {
    try {
      await this.#retrying(() => this.#request());
      return true;
    } catch (error) {
      if (error instanceof NotFound) return false;
      throw error;
    }
  }

  /**
   * The file's length, if it is certain. A server of another origin sends a length, but shows only if it chooses to
   * (`Access-Control-Expose-Headers`) that it is the length of a compressed form.
   * @returns {number | null}
   */
  get certainSize() {
    return this.#crossOrigin ? null : this.version.size;
  }

  /** The error for a required file that does not exist. */
  notFound() {
    return this.#error(`${this.#url.host} answered 404: there is no such file; check the address`);
  }

  /**
   * The bytes after the first `received`, in order.
   * @returns {AsyncGenerator<Uint8Array, void, void>}
   * @throws {Gpt2Error}
   */
  async *chunks() {
    try {
      while (await this.#retrying(() => this.#connected())) {
        const reader = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (this.#response?.body).getReader();
        try {
          for (;;) {
            const part = await this.#read(reader);
            if (!part) break;
            const fresh = this.#skip < part.length ? part.subarray(this.#skip) : null;
            this.#skip -= part.length - (fresh?.length ?? 0);
            if (!fresh?.length) continue;
            if (this.received === 0) this.#refuseOtherFormat(fresh);
            this.received += fresh.length;
            this.#failures = 0;
            // More than was announced: the length was that of a compressed form.
            if (this.version.size !== null && this.received > this.version.size) this.version.size = null;
            yield fresh;
          }
          if (this.version.size === null || this.received >= this.version.size) return;
          throw new TransientFailure(`the connection ended after ${this.received} of ${this.version.size} bytes`);
        } catch (error) {
          this.close();
          if (this.#complete && !(error instanceof Gpt2Error)) return; // it broke after the last byte
          await this.#waitToRetry(error);
        }
      }
    } catch (error) {
      throw error instanceof NotFound ? this.notFound() : error;
    } finally {
      this.close();
    }
  }

  /** Closes the connection. */
  close() {
    this.#connection?.abort();
    this.#connection = null;
    this.#response = null;
  }

  /** @returns {Promise<boolean>} false if no byte is missing */
  async #connected() {
    if (!this.#response) await this.#request();
    return !this.#complete;
  }

  get #complete() {
    return this.#atEnd || (this.version.size !== null && this.received === this.version.size);
  }

  /** Repeats `action`, with growing pauses, while a retry may help. @template T @param {() => Promise<T>} action */
  async #retrying(action) {
    for (;;) {
      try {
        return await action();
      } catch (error) {
        this.close();
        if (error instanceof NotFound) throw error;
        await this.#waitToRetry(error);
      }
    }
  }

  /** Waits before the next attempt, or throws if there is none. @param {unknown} error */
  async #waitToRetry(error) {
    if (this.#signal?.aborted) throw cancelled('the download', this.#signal);
    if (error instanceof Gpt2Error) throw error;
    const why = error instanceof Error ? error.message : String(error);
    // An address that never answered is most likely wrong, or closed to this page: one retry is enough.
    const backoff = this.#answered ? this.#backoff : this.#backoff.slice(0, 1);
    const pause = backoff[this.#failures++];
    if (pause === undefined) throw this.#givenUp(why, error);
    const wait = error instanceof Busy ? Math.max(pause, error.after) : pause;
    await new Promise((resolve) => {
      const timer = setTimeout(done, wait);
      const signal = this.#signal;
      signal?.addEventListener('abort', done);
      function done() {
        clearTimeout(timer);
        signal?.removeEventListener('abort', done);
        resolve(undefined);
      }
    });
    if (this.#signal?.aborted) throw cancelled('the download', this.#signal);
  }

  /** @param {string} why @param {unknown} cause */
  #givenUp(why, cause) {
    if (this.#answered) return this.#error(`${why}, also after ${this.#failures - 1} more tries; check the connection and load it again`, cause);
    return this.#error(`${this.#url.host} cannot be reached (${why}): the address is wrong, there is no connection, or the server does not let other pages read it (CORS)`, cause);
  }

  async #request() {
    // If all bytes are here, the last one is requested again: a range after it would be empty.
    const from = this.#complete ? Math.max(this.received - 1, 0) : this.received;
    const connection = (this.#connection = new AbortController());
    const signal = this.#signal ? AbortSignal.any([this.#signal, connection.signal]) : connection.signal;
    // A range of a compressed answer would count compressed bytes.
    const headers = from > 0 && !this.#encoded ? { range: `bytes=${from}-` } : undefined;
    const response = await this.#unlessIdle(fetchAllowed(this.#url, { signal, cache: this.#cache, ...(headers && { headers }) }, this.#label));
    this.#answered = true;
    this.#crossOrigin = response.type === 'cors';
    await this.#accept(response, from);
    this.#response = response;
  }

  /** Decides what an answer means for the bytes that are here. @param {Response} response @param {number} from */
  async #accept(response, from) {
    const { status, headers } = response;
    if (TRANSIENT.has(status)) throw new Busy(`${this.#url.host} answered ${status}`, headers.get('retry-after'));
    const answered = versionOf(headers, null);
    if (status === 416 && from > 0) {
      // Nothing follows the bytes that are here: the length was unknown, or the file is shorter now.
      const size = wholeNumber(/^bytes \*\/(\d+)$/.exec(headers.get('content-range') ?? '')?.[1]);
      if (this.version.size === null && (size ?? from) === from && (size === from || isIdentified(answered)) && sameVersion(this.version, answered)) {
        this.#atEnd = true;
        return;
      }
      await this.#restart('the file became shorter');
    }
    if (status === 404 || status === 410) throw new NotFound();
    if (!response.ok || !response.body) throw this.#refused(status);
    if (/^text\/html\b/i.test(headers.get('content-type') ?? '')) throw this.#notTheFile(HTML_PAGE, response);

    const length = wholeNumber(headers.get('content-length'));
    if (status === 206 && from > 0) {
      const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers.get('content-range') ?? '');
      const size = wholeNumber(range?.[2]) ?? (length === null ? null : from + length);
      const continues = range ? Number(range[1]) === from : true;
      if (!continues || !sameVersion(this.version, { ...answered, size })) await this.#restart('the file has changed');
      this.#skip = this.received - from;
      return;
    }
    if (status === 206) throw this.#error(`${this.#url.host} sent a part, although the whole file was requested`);
    // The length of a compressed answer is not that of the bytes in it.
    this.#encoded = headers.has('content-encoding');
    const version = { ...answered, size: this.#encoded ? null : length };
    if (from > 0 && isIdentified(version) && sameVersion(this.version, version)) {
      this.#skip = this.received;
      return;
    }
    if (from > 0) await this.#restart(null);
    this.#skip = 0;
    this.version = version;
  }

  /** The bytes yielded so far belong to another file. @param {string | null} why null if the present answer is the whole file */
  async #restart(why) {
    if (!this.onRestart) throw this.#error('the file on the server changed during the download, or it cannot be continued; load it again');
    // Otherwise a server that never continues a file would be asked for ever.
    if (this.#restarts++ === MAX_RESTARTS) throw this.#error(`it had to start again ${MAX_RESTARTS} times, because ${this.#url.host} broke off and never continued the same file; load it again later`);
    await this.onRestart();
    this.received = 0;
    this.#skip = 0;
    this.version = { etag: null, modified: null, size: null };
    if (why !== null) throw new TransientFailure(why);
  }

  /** @param {number} status */
  #refused(status) {
    const { host, pathname } = this.#url;
    if (status !== 401 && status !== 403) return this.#error(`${host} answered ${status}; check the address`);
    if (host !== 'huggingface.co') return this.#error(`${host} answered ${status}: it requires a login. Download the file with your account there, and open it from disk`);
    const ownerless = /^\/[^/]+\/resolve\//.test(pathname) ? ' (except for a few old ones, names are owner/name)' : '';
    return this.#error(`${host} answered ${status}: there is no such repository${ownerless}, or it is private or gated. Download the files with your account there, and open them from disk`);
  }

  /** Refuses what is clearly no model, before all of it has arrived. @param {Uint8Array} bytes the first */
  #refuseOtherFormat(bytes) {
    const found = otherFormat(bytes);
    if (found) throw this.#notTheFile(found, this.#response);
  }

  /** @param {import('./first-bytes.js').OtherFormat} format @param {Response | null} response */
  #notTheFile({ what, advice }, response) {
    const redirected = response?.redirected ? ` (after a redirect to ${response.url.replace(/\?.*$/, '')})` : '';
    return new Gpt2Error('not_a_model', `${this.#label}: ${this.#url.host} answered with ${what} instead of a file${redirected}; ${advice} (${this.#url.href})`);
  }

  /**
   * The next part, or null at the end.
   * @param {ReadableStreamDefaultReader<Uint8Array>} reader
   */
  async #read(reader) {
    const { done, value } = await this.#unlessIdle(reader.read());
    return done ? null : value;
  }

  /** @template T @param {Promise<T>} answer @returns {Promise<T>} */
  async #unlessIdle(answer) {
    let timer;
    const idle = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new TransientFailure(`nothing came for ${this.#idleTimeout / 1000} s`)), this.#idleTimeout);
    });
    try {
      return /** @type {T} */ (await Promise.race([answer, idle]));
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {string} what @param {unknown} [cause] */
  #error(what, cause) {
    return new Gpt2Error('download_failed', `the download of ${this.#label} failed: ${what} (${this.#url.href})`, { cause });
  }
}
