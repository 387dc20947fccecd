import { Gpt2Error } from './error.js';
import { fetchCatalog } from './catalog.js';
import { downloadBlob } from './download/index.js';

/** @typedef {import('./worker-handle.js').InlineAssets} InlineAssets */

/** The file of the small model that comes with the page. */
export const EMBEDDED_FILE = 'fairy-12m-q8_0.gguf';

/** The files that gpt2-web is made of: beside its module, in another folder, or inside the page in one file. */
export class SiteFiles {
  #base;
  #workerUrl;
  #moduleUrl;
  /** @type {InlineAssets | undefined} @readonly */ assets;

  /**
   * @param {object} options
   * @param {string | URL | undefined} options.base folder of worker.js and models/; that of the module if absent
   * @param {string | URL | undefined} options.workerUrl
   * @param {InlineAssets | undefined} options.assets
   * @param {string | undefined} options.moduleUrl absent in a bundle
   */
  constructor({ base, workerUrl, assets, moduleUrl }) {
    this.#base = base;
    this.#workerUrl = workerUrl;
    this.#moduleUrl = moduleUrl;
    this.assets = assets;
  }

  /** @throws {Gpt2Error} */
  workerUrl() {
    return this.#url(this.#workerUrl ?? 'worker.js');
  }

  /**
   * @param {(done: number, total: number | null) => void} onProgress
   * @param {AbortSignal} signal
   * @param {boolean} fresh whether to bypass the browser's cache
   * @throws {Gpt2Error}
   */
  async embeddedModel(onProgress, signal, fresh) {
    if (this.assets) return this.assets.model(onProgress);
    return downloadBlob(this.#url(`models/${EMBEDDED_FILE}`), onProgress, { signal, cache: fresh ? 'reload' : 'default' });
  }

  /** @param {AbortSignal} signal @throws {Gpt2Error} */
  async catalog(signal) {
    return this.assets?.catalog ?? fetchCatalog(this.#url('models/catalog.json'), signal);
  }

  /** @param {string | URL} path */
  #url(path) {
    const page = globalThis.document?.baseURI ?? globalThis.location?.href;
    try {
      return new URL(path, this.#base ? folder(new URL(this.#base, page)) : (this.#moduleUrl ?? page));
    } catch (cause) {
      throw new Gpt2Error('invalid_request', `${this.#base ?? path} is not an address; give \`base\` the folder of worker.js`, { cause });
    }
  }
}

/** With a slash at its end; without it the last part of the path would count as a file. @param {URL} url */
function folder(url) {
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url;
}
