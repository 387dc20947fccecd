import { StoredDownload } from './stored-download.js';

/** Milliseconds of work after which the page's other tasks run: a file from the cache arrives all at once. */
const TURN_MS = 8;

/** Resolves in a new task. Not a timer: timers are slowed in hidden tabs. */
const nextTask = () => new Promise((resolve) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    resolve(undefined);
  };
  port2.postMessage(null);
});

/**
 * Collects a whole file, in memory or wherever the browser keeps a `Blob`.
 * @param {AsyncIterable<Uint8Array>} bytes
 */
export async function toBlob(bytes) {
  /** @type {Blob[]} */ const blobs = [];
  /** @type {BlobPart[]} */ let parts = [];
  let began = performance.now();
  for await (const part of bytes) {
    parts.push(/** @type {Uint8Array<ArrayBuffer>} */ (part));
    if (performance.now() - began < TURN_MS) continue;
    // A Blob copies its parts, except parts that are Blobs.
    blobs.push(new Blob(parts));
    parts = [];
    await nextTask();
    began = performance.now();
  }
  return new Blob([...blobs, ...parts]);
}

/**
 * Downloads a whole file without storing it.
 * @param {URL} url
 * @param {(done: number, total: number | null) => void} onProgress in bytes
 * @param {import('./stored-download.js').DownloadOptions} options
 * @returns {Promise<Blob>}
 * @throws {import('../error.js').Gpt2Error}
 */
export async function downloadBlob(url, onProgress, options) {
  const download = new StoredDownload(url, null, 0, options);
  download.onProgress = onProgress;
  try {
    if (!(await download.open())) throw download.notFound();
    return await toBlob(download.bytes());
  } finally {
    download.close();
  }
}
