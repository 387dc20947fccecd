import { cancelled } from '../error.js';
import { SharedTask } from '../shared-task.js';

/** @typedef {(done: number, total: number | null) => void} OnProgress in bytes */

/** A file that is downloaded once for all callers. The download is cancelled when the last caller has left. */
export class SharedDownload {
  #download;
  /** @type {SharedTask<Blob> | null} */ #task = null;
  /** @type {Blob | null} */ #blob = null;
  #fresh = false;

  /** @param {(onProgress: OnProgress, signal: AbortSignal, fresh: boolean) => Promise<Blob>} download `fresh`: not from a cache */
  constructor(download) {
    this.#download = download;
  }

  /**
   * @param {OnProgress} onProgress
   * @param {AbortSignal} [signal]
   * @returns {Promise<Blob>}
   * @throws {import('../error.js').Gpt2Error}
   */
  async get(onProgress, signal) {
    if (signal?.aborted) throw cancelled('the download', signal);
    if (this.#blob) return this.#blob;
    const task = this.#task && !this.#task.abandoned ? this.#task : this.#start();
    return task.join((news) => { if ('stage' in news) onProgress(news.done, news.total); }, signal);
  }

  /** The next caller gets a new copy, because this one is damaged. Ignores blobs of other files. @param {Blob} blob */
  forget(blob) {
    if (this.#blob !== blob) return;
    this.#blob = null;
    this.#fresh = true;
  }

  /** Ends the download for all callers. @param {unknown} error */
  end(error) {
    this.#task?.end(error);
  }

  /** @returns {SharedTask<Blob>} */
  #start() {
    /** @type {SharedTask<Blob>} */
    const task = new SharedTask('the download', (tell, signal) => this.#download((done, total) => tell({ stage: 'download', done, total }), signal, this.#fresh));
    this.#task = task;
    const settled = (/** @type {Blob | null} */ blob) => {
      if (this.#task !== task) return;
      this.#task = null;
      this.#blob = blob;
    };
    task.result.then(settled, () => {
      // What failed may have come from the browser's cache.
      if (!task.abandoned) this.#fresh = true;
      settled(null);
    });
    return task;
  }
}
