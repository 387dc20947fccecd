import { Gpt2Error } from './error.js';
import { fetchAllowed } from './policy.js';

/**
 * How far a load is. `done` never falls within a stage and never passes `total`, which is null where it is unknown.
 * In bytes of the files; what is quantised is quantised as it is read.
 * @typedef {{ stage: 'download' | import('../types/Stage').Stage, done: number, total: number | null }} Progress
 */

/** Milliseconds after which the page gets its turn: of a file from the cache all bytes are there at once. */
const TURN_MS = 8;

/** Resolves in a task of its own. Not a timer: timers are slowed in hidden tabs. */
const turn = () => new Promise((resolve) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    resolve(undefined);
  };
  port2.postMessage(null);
});

/**
 * Fetches a file, reporting every piece of it.
 *
 * @param {URL} url
 * @param {(done: number, total: number | null) => void} progress in bytes
 * @param {{ signal: AbortSignal, fresh?: boolean }} options `fresh`: past the browser's own cache
 */
export async function download(url, progress, { signal, fresh = false }) {
  try {
    const response = await fetchAllowed(url, { signal, cache: fresh ? 'reload' : 'default' });
    if (!response.ok || !response.body) throw new Error(`the server answered ${response.status} ${response.statusText}`.trim());
    // The length of a compressed answer is not that of the bytes that come out of it.
    const length = response.headers.has('content-encoding') ? NaN : Number(response.headers.get('content-length') ?? NaN);
    const total = length > 0 ? length : null;
    /** @type {Blob[]} */ const blobs = [];
    /** @type {BlobPart[]} */ let chunks = [];
    const reader = response.body.getReader();
    progress(0, total);
    for (let done = 0, began = performance.now(), part; !(part = await reader.read()).done; ) {
      chunks.push(part.value);
      progress((done += part.value.length), total);
      if (performance.now() - began < TURN_MS) continue;
      // A Blob copies what it is made of, unless that is Blobs.
      blobs.push(new Blob(chunks));
      chunks = [];
      await turn();
      began = performance.now();
    }
    return new Blob([...blobs, ...chunks]);
  } catch (cause) {
    if (signal.aborted) throw new Gpt2Error('cancelled', 'the download was cancelled', { cause });
    if (cause instanceof Gpt2Error) throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new Gpt2Error('download_failed', `the download of ${url.pathname.split('/').pop()} failed: ${why}; check the connection and load it again`, { cause });
  }
}

/**
 * A listener that hears of no step back, and of no total that turned out too small.
 * @param {((progress: Progress) => void) | undefined} onProgress
 * @returns {(progress: Progress) => void}
 */
export function monotone(onProgress) {
  /** @type {Map<Progress['stage'], number>} */ const furthest = new Map();
  return ({ stage, done, total }) => {
    if (done < (furthest.get(stage) ?? 0)) return;
    furthest.set(stage, done);
    onProgress?.({ stage, done, total: total !== null && done > total ? null : total });
  };
}
