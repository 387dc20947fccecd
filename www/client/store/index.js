/** Models kept in this browser. The rest of the client imports this module only. */

export { ifUnlocked, withLock } from './locks.js';
export { ModelStore } from './model-store.js';
export { isStorageFailure, storageEstimate } from './storage.js';
export { StoredModel } from './stored-model.js';
/** @typedef {import('./model-store.js').StoredModelInfo} StoredModelInfo */
/** @typedef {import('./stored-model.js').StoredFile} StoredFile */
/** @typedef {import('./stored-model.js').Version} Version */
