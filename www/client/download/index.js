/**
 * Downloads of models: where their files are, and how they come into the store or as streams to the worker. The rest of
 * the client imports this module only.
 *
 * A `ModelDownload` is a whole model. It is made of `StoredDownload`s, one per file, which write into the store what a
 * `Download` receives.
 */

export { fetchAllowed } from './csp.js';
export { ModelDownload } from './model-download.js';
export { SharedDownload } from './shared-download.js';
export { addresses, repository, typed } from './source.js';
export { downloadBlob } from './to-blob.js';
/** @typedef {import('./source.js').Source} Source */
