import { Gpt2Error } from './error.js';
import { fetchAllowed, repository } from './download/index.js';

/** @typedef {import('./arguments.js').Precision} Precision */
/** @typedef {{ n_layer: number, n_embd: number, n_ctx: number, n_vocab: number }} Shape of a GPT-2 with a tied lm_head. */

/**
 * A known model. `parameters` and `memory` follow from `shape` (`scripts/catalog.mjs` writes them).
 * @typedef {object} CatalogEntry
 * @property {string} name
 * @property {string} about
 * @property {string} source a page about it
 * @property {string} licence
 * @property {string} [repo] on Hugging Face; absent for the embedded model
 * @property {string} [revision] the commit that `sha256` belongs to, if it is known
 * @property {string[]} files the weights last
 * @property {number} download bytes of the weights
 * @property {string | null} sha256 of the weights, if it is known
 * @property {Precision[]} precisions that it can be held in
 * @property {Shape} shape
 * @property {number} parameters
 * @property {{ [precision in Precision]?: number }} memory bytes needed for a full context
 */
/** @typedef {{ models: CatalogEntry[] }} Catalog */

/**
 * @param {URL} url
 * @param {AbortSignal} [signal] whose reason is thrown if it is aborted
 * @returns {Promise<Catalog>}
 * @throws {Gpt2Error}
 */
export async function fetchCatalog(url, signal) {
  try {
    const response = await fetchAllowed(url, { ...(signal && { signal }) });
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    const catalog = await response.json().catch(() => null);
    signal?.throwIfAborted();
    if (!Array.isArray(catalog?.models)) throw new Error('the server did not send a list of models');
    return catalog;
  } catch (cause) {
    if (cause instanceof Gpt2Error) throw cause;
    throw new Gpt2Error('download_failed', `the list of models could not be read: ${cause instanceof Error ? cause.message : cause} (${url.href})`, { cause });
  }
}

/**
 * The known model that was downloaded from `source`, as the store calls it.
 * @param {readonly CatalogEntry[]} catalog @param {string} source
 */
export function entryFrom(catalog, source) {
  return catalog.find(({ repo, revision, files }) => repo && repository(repo, { ...(revision && { revision }), files }).id === source);
}
