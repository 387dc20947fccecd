import { Gpt2Error } from '../error.js';
import { fetchAllowed } from '../csp.js';

/**
 * What tells one state of a file from another. A server of another origin shows its ETag only if it wants to
 * (`Access-Control-Expose-Headers`); the date of the last change is always there to see.
 * @typedef {{ etag: string | null, modified: string | null, size: number | null }} Version
 */

/** Milliseconds before each new try; the count begins anew with every byte that arrives. */
const BACKOFF = [1000, 2000, 4000, 8000, 16000];
/** A connection that has been silent for so long, in milliseconds, counts as broken. */
const SILENCE = 60_000;
/** How often everything may come anew: a file that changes more often than that is not to be had. */
const RESTARTS = 3;
/** Milliseconds for the question whether a file has changed, which can go without an answer. */
const PATIENCE = 10_000;
/** Answers that may be another one in a moment. */
const PASSING = new Set([408, 425, 429, 500, 502, 503, 504]);

/** A failure that another try may mend. */
export class Broken extends Error {}

/**
 * One file from one address: asked for once, and after a broken connection only for what is missing.
 *
 * A new try asks for a range without `If-Range`: that header would need the consent of a server of another origin
 * (a CORS preflight), which hosts that redirect to their storage do not give. The answer's own ETag, date and length
 * say as well whether it continues the same file.
 */
export class HttpDownload {
  /** @type {Version} */ version = { etag: null, modified: null, size: null };
  /** Bytes handed over so far. */ received = 0;
  /**
   * Called where what was handed over is void, because the file has changed, and everything comes anew. Without it that
   * is an error. @type {(() => Promise<void>) | undefined}
   */
  restart;
  #url;
  #label;
  #signal;
  #backoff;
  #silence;
  #cache;
  /** @type {Response | null} */ #response = null;
  /** @type {AbortController | null} Ends the present connection. */ #connection = null;
  #answered = false;
  #encoded = false;
  /** Whether the answer came from another origin, which need not show that it is compressed. */ #foreignAnswer = false;
  /** Bytes of the present answer that were handed over before. */ #skip = 0;
  #failures = 0;
  #restarts = 0;
  /** The server has said that there is nothing after what was handed over. */ #complete = false;

  /**
   * @param {URL} url
   * @param {object} options
   * @param {string} [options.label] what the sentences call the file
   * @param {AbortSignal | undefined} [options.signal]
   * @param {{ version: Version, bytes: number } | null} [options.held] the beginning that is already here
   * @param {readonly number[] | undefined} [options.backoff] in milliseconds, before each new try
   * @param {number | undefined} [options.silence] in milliseconds, after which a connection counts as broken
   * @param {RequestCache | undefined} [options.cache] past the browser's own where absent: it would keep a second copy
   *   of hundreds of megabytes, or none, as it likes
   */
  constructor(url, { label, signal, held, backoff = BACKOFF, silence = SILENCE, cache = 'no-store' } = {}) {
    this.#url = url;
    this.#label = label ?? (url.pathname.split('/').pop() || url.href);
    this.#signal = signal;
    this.#backoff = backoff;
    this.#silence = silence;
    this.#cache = cache;
    if (held && held.bytes > 0) {
      this.version = held.version;
      this.received = held.bytes;
    }
  }

  /**
   * Asks the server; the bytes follow from `chunks`.
   * @returns {Promise<boolean>} false where there is no such file
   * @throws {Gpt2Error}
   */
  async open() {
    try {
      await this.#persist(() => this.#ask());
      return true;
    } catch (error) {
      if (error instanceof NotFound) return false;
      throw error;
    }
  }

  /**
   * The file's length, where that is beyond doubt. A server of another origin tells a length, but shows only if it wants
   * to (`Access-Control-Expose-Headers`) that it is the length of a compressed form.
   * @returns {number | null}
   */
  get length() {
    return this.#foreignAnswer ? null : this.version.size;
  }

  /** The sentence for a file that is not there, where it has to be. */
  missing() {
    return this.#error(`${this.#url.host} answered 404: there is no such file; check the URL`);
  }

  /**
   * The bytes after the first `received`, in order.
   * @returns {AsyncGenerator<Uint8Array, void, void>}
   * @throws {Gpt2Error}
   */
  async *chunks() {
    try {
      while (await this.#persist(() => this.#connected())) {
        const reader = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (this.#response?.body).getReader();
        try {
          for (;;) {
            const part = await this.#read(reader);
            if (!part) break;
            const fresh = this.#skip < part.length ? part.subarray(this.#skip) : null;
            this.#skip -= part.length - (fresh?.length ?? 0);
            if (!fresh?.length) continue;
            if (this.received === 0) this.#refuseForeign(fresh);
            this.received += fresh.length;
            this.#failures = 0;
            // More than was announced: the length was that of a compressed form.
            if (this.version.size !== null && this.received > this.version.size) this.version.size = null;
            yield fresh;
          }
          if (this.version.size === null || this.received >= this.version.size) return;
          throw new Broken(`the connection ended after ${this.received} of ${this.version.size} bytes`);
        } catch (error) {
          this.#disconnect();
          if (this.#whole && !(error instanceof Gpt2Error)) return; // it broke behind the last byte
          await this.#pause(error);
        }
      }
    } catch (error) {
      throw error instanceof NotFound ? this.missing() : error;
    } finally {
      this.#disconnect();
    }
  }

  /** Lets go of the connection. */
  close() {
    this.#disconnect();
  }

  /** @returns {Promise<boolean>} false where nothing is missing */
  async #connected() {
    if (!this.#response) await this.#ask();
    return !this.#whole;
  }

  get #whole() {
    return this.#complete || (this.version.size !== null && this.received === this.version.size);
  }

  /** Repeats `action` with growing backoff while that may help. @template T @param {() => Promise<T>} action */
  async #persist(action) {
    for (;;) {
      try {
        return await action();
      } catch (error) {
        this.#disconnect();
        if (error instanceof NotFound) throw error;
        await this.#pause(error);
      }
    }
  }

  /** Waits before the next try, or throws what there is to say. @param {unknown} error */
  async #pause(error) {
    if (this.#signal?.aborted) throw cancelled(this.#signal);
    if (error instanceof Gpt2Error) throw error;
    const why = error instanceof Error ? error.message : String(error);
    // An address that never answered is most likely wrong, or not open to this page: one more try is enough.
    const backoff = this.#answered ? this.#backoff : this.#backoff.slice(0, 1);
    const pause = backoff[this.#failures++];
    if (pause === undefined) throw this.#giveUp(why, error);
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
    if (this.#signal?.aborted) throw cancelled(this.#signal);
  }

  /** @param {string} why @param {unknown} cause */
  #giveUp(why, cause) {
    if (this.#answered) return this.#error(`${why}, after ${this.#failures - 1} retries; check the connection and load it again`, cause);
    return this.#error(`${this.#url.host} cannot be reached (${why}): the URL is wrong, there is no connection, or the server does not allow cross-origin requests (CORS)`, cause);
  }

  async #ask() {
    // Of what is here whole the last byte comes again: behind it there is nothing to ask for.
    const from = this.#whole ? Math.max(this.received - 1, 0) : this.received;
    const connection = (this.#connection = new AbortController());
    const signal = this.#signal ? AbortSignal.any([this.#signal, connection.signal]) : connection.signal;
    // A compressed file cannot be continued in the middle of its other form.
    const headers = from > 0 && !this.#encoded ? { range: `bytes=${from}-` } : undefined;
    const response = await this.#unlessSilent(fetchAllowed(this.#url, { signal, cache: this.#cache, ...(headers && { headers }) }, this.#label));
    this.#answered = true;
    this.#foreignAnswer = response.type === 'cors';
    await this.#judge(response, from);
    this.#response = response;
  }

  /** Decides what an answer means for what is here already. @param {Response} response @param {number} from */
  async #judge(response, from) {
    const { status, headers } = response;
    if (PASSING.has(status)) throw new Busy(`${this.#url.host} answered ${status}`, headers.get('retry-after'));
    const told = { etag: headers.get('etag'), modified: headers.get('last-modified'), size: null };
    if (status === 416 && from > 0) {
      // Nothing comes behind what is here: the length was not known, or the file is shorter now.
      const size = number(/^bytes \*\/(\d+)$/.exec(headers.get('content-range') ?? '')?.[1]);
      if (this.version.size === null && (size ?? from) === from && (size === from || known(told)) && same(this.version, told)) {
        this.#complete = true;
        return;
      }
      await this.#anew('the file became shorter');
    }
    if (status === 404 || status === 410) throw new NotFound();
    if (!response.ok || !response.body) throw this.#refused(status);
    if (/^text\/html\b/i.test(headers.get('content-type') ?? '')) throw this.#foreign(HTML, response);

    const length = number(headers.get('content-length'));
    if (status === 206 && from > 0) {
      const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers.get('content-range') ?? '');
      const size = number(range?.[2]) ?? (length === null ? null : from + length);
      const begins = range ? Number(range[1]) === from : true;
      if (!begins || !same(this.version, { ...told, size })) await this.#anew('the file has changed');
      this.#skip = this.received - from;
      return;
    }
    if (status === 206) throw this.#error(`${this.#url.host} sent a part of the file when all of it was requested`);
    // The length of a compressed answer is not that of the bytes that come out of it.
    this.#encoded = headers.has('content-encoding');
    const version = { ...told, size: this.#encoded ? null : length };
    if (from > 0 && known(version) && same(this.version, version)) {
      this.#skip = this.received;
      return;
    }
    if (from > 0) await this.#anew(null);
    this.#skip = 0;
    this.version = version;
  }

  /** What was handed over is of another file. @param {string | null} why null where the present answer is all of it */
  async #anew(why) {
    if (!this.restart) throw this.#error('the file on the server changed during the download, or the download cannot be resumed; load it again');
    // Bytes that come for nothing again and again must not look like headway.
    if (this.#restarts++ === RESTARTS) throw this.#error(`it had to restart ${RESTARTS} times, because ${this.#url.host} broke the connection and never continued the same file; load it again later`);
    await this.restart();
    this.received = 0;
    this.#skip = 0;
    this.version = { etag: null, modified: null, size: null };
    if (why !== null) throw new Broken(why);
  }

  /** @param {number} status */
  #refused(status) {
    const { host, pathname } = this.#url;
    if (status !== 401 && status !== 403) return this.#error(`${host} answered ${status}; check the URL`);
    if (host !== 'huggingface.co') return this.#error(`${host} answered ${status}: it requires a login. Download the file with your account there, and open it from disk`);
    const ownerless = /^\/[^/]+\/resolve\//.test(pathname) ? ' (nearly all are named owner/name)' : '';
    return this.#error(`${host} answered ${status}: there is no such repository${ownerless}, or it is private or gated. Download the files with your account there, and open them from disk`);
  }

  /** Refuses what is plainly no model before it has arrived. @param {Uint8Array} bytes the first */
  #refuseForeign(bytes) {
    const begins = new TextDecoder('latin1').decode(bytes.subarray(0, 256));
    const found = FOREIGN.find(([beginning]) => beginning.test(begins));
    if (found) throw this.#foreign(found[1], this.#response);
  }

  /**
   * @param {readonly [what: string, advice: string]} found @param {Response | null} response
   */
  #foreign([what, advice], response) {
    const led = response?.redirected ? ` (redirected to ${response.url.replace(/\?.*$/, '')})` : '';
    return new Gpt2Error('not_a_model', `${this.#label}: ${this.#url.host} answered with ${what} instead of a file${led}; ${advice} (${this.#url.href})`);
  }

  /**
   * The next part, or null at the end. Silence for too long is a broken connection.
   * @param {ReadableStreamDefaultReader<Uint8Array>} reader
   */
  async #read(reader) {
    const { done, value } = await this.#unlessSilent(reader.read());
    return done ? null : value;
  }

  /** @template T @param {Promise<T>} answer @returns {Promise<T>} */
  async #unlessSilent(answer) {
    let timer;
    const silence = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Broken(`no data for ${this.#silence / 1000} s`)), this.#silence);
    });
    try {
      return /** @type {T} */ (await Promise.race([answer, silence]));
    } finally {
      clearTimeout(timer);
    }
  }

  #disconnect() {
    this.#connection?.abort();
    this.#connection = null;
    this.#response = null;
  }

  /** @param {string} what @param {unknown} [cause] */
  #error(what, cause) {
    return new Gpt2Error('download_failed', `the download of ${this.#label} failed: ${what} (${this.#url.href})`, { cause });
  }
}

class NotFound extends Error {}

/** A page that says something went wrong, or that a login is needed, often comes as a success. @type {readonly [string, string]} */
const HTML = ['an HTML page', 'give the URL of the file itself'];
/** How files begin that are taken for models, what they are, and what to do. @type {readonly [RegExp, readonly [string, string]][]} */
const FOREIGN = [
  [/^[\s\xef\xbb\xbf]*<(!doctype html|html)\b/i, HTML],
  [/^version https:\/\/git-lfs/, ['a Git LFS pointer, not the file', 'give the URL that downloads the file itself']],
  [/^PK\x03\x04/, ['a ZIP archive (pytorch_model.bin of PyTorch is one)', 'give the .safetensors file or a GGUF']],
  [/^\x89HDF/, ['an HDF5 file (tf_model.h5 of TensorFlow)', 'give the .safetensors file or a GGUF']],
];

/** The server asks for patience. */
class Busy extends Broken {
  /** @param {string} message @param {string | null} after seconds, as the server wrote them */
  constructor(message, after) {
    super(message);
    this.after = Math.min((number(after) ?? 0) * 1000, 60_000);
  }
}

/**
 * Whether what the server holds now is still this version. Null where it cannot be told: no connection, or a server
 * that answers no such question.
 * @param {URL} url @param {Version} version @param {AbortSignal} [signal]
 * @returns {Promise<boolean | null>}
 */
export async function unchanged(url, version, signal) {
  try {
    const patience = AbortSignal.timeout(PATIENCE);
    const { ok, headers, type } = await fetch(url, { method: 'HEAD', cache: 'no-store', signal: signal ? AbortSignal.any([signal, patience]) : patience });
    if (!ok) return null;
    const told = { etag: headers.get('etag'), modified: headers.get('last-modified'), size: number(headers.get('content-length')) };
    // It may be the length of a compressed form, which another origin need not show: the rest says more.
    const sure = (told.etag !== null && version.etag !== null) || (told.modified !== null && version.modified !== null);
    if (headers.has('content-encoding') || (type === 'cors' && sure)) told.size = null;
    return same(version, told);
  } catch {
    if (signal?.aborted) throw cancelled(signal);
    return null;
  }
}

/** Two answers are of one file if nothing that both of them say differs. @param {Version} a @param {Version} b */
function same(a, b) {
  /** @param {unknown} x @param {unknown} y */
  const differ = (x, y) => x !== null && y !== null && x !== y;
  const strong = (/** @type {string | null} */ etag) => etag?.replace(/^W\//, '') ?? null;
  return !differ(strong(a.etag), strong(b.etag)) && !differ(a.modified, b.modified) && !differ(a.size, b.size);
}

/** Whether there is anything to know it by. @param {Version} version */
const known = ({ etag, modified }) => etag !== null || modified !== null;

/** @param {string | null | undefined} text */
function number(text) {
  return text && /^\d+$/.test(text) ? Number(text) : null;
}

/** What aborted the signal is the cause. @param {AbortSignal} signal */
export const cancelled = ({ reason }) => new Gpt2Error('cancelled', 'the download was cancelled', { cause: reason });
