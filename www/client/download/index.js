/** Downloads: everything the client needs of them. */

export { ModelDownload } from './model-download.js';
export { SharedDownload } from './shared-download.js';
export { addresses, repository, typed } from './source.js';
export { fetchWhole } from './stored-download.js';
