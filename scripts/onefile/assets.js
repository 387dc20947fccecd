// The parts inside the page in one file, in the form that the client takes (`InlineAssets`).

import catalog from '../../www/models/catalog.json';

/** @typedef {import('../../www/client/worker-handle.js').InlineAssets} InlineAssets */
/** @typedef {import('../../www/client/catalog.js').Catalog} Catalog */

/** @param {string} id @returns {HTMLScriptElement} the element with a part */
const part = (id) => /** @type {HTMLScriptElement} */ (document.getElementById(id));

/**
 * @param {string} id of the element with the part
 * @param {(done: number, total: number) => void} [onProgress] in bytes
 * @returns {Promise<ArrayBuffer>}
 */
async function unpack(id, onProgress) {
  const { dataset, text } = part(id);
  const size = Number(dataset.size);
  const url = URL.createObjectURL(new Blob([part('gpt2-web-unpack').text], { type: 'text/javascript' }));
  const worker = new Worker(url);
  try {
    return await new Promise((resolve, reject) => {
      worker.onmessage = ({ data: { done, whole, error } }) => {
        if (whole) resolve(whole);
        else if (error) reject(new Error(error));
        else onProgress?.(done, size);
      };
      worker.onerror = ({ message }) => reject(new Error(`a part of this file could not be unpacked: ${message}`));
      worker.postMessage({ text, size });
    });
  } finally {
    worker.terminate();
    URL.revokeObjectURL(url);
  }
}

/** @type {InlineAssets} */
const assets = {
  workerSource: async () => part('gpt2-web-worker').text,
  wasm: () => unpack('gpt2-web-wasm'),
  catalog: /** @type {Catalog} */ (catalog),
  model: async (onProgress) => new Blob([await unpack('gpt2-web-model', onProgress)]),
};
/** @type {{ GPT2_WEB_INLINE?: InlineAssets }} */ (globalThis).GPT2_WEB_INLINE = assets;
