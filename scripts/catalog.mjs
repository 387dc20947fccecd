// Computes the parameters and the memory at each precision from the shapes, and writes them into www/models/catalog.json.
//
//     node scripts/catalog.mjs
import { readFile, writeFile } from 'node:fs/promises';
import { memoryNeeded, parameters } from './memory.mjs';

/** @typedef {import('../www/client/catalog.js').Catalog} Catalog */

/** @param {Catalog} catalog @returns {Catalog} */
export const computed = ({ models }) => ({
  models: models.map((model) => ({
    ...model,
    parameters: parameters(model.shape),
    memory: Object.fromEntries(model.precisions.map((precision) => [precision, memoryNeeded(model.shape, precision)])),
  })),
});

if (process.argv[1] === import.meta.filename) {
  const path = new URL('../www/models/catalog.json', import.meta.url);
  await writeFile(path, `${JSON.stringify(computed(JSON.parse(await readFile(path, 'utf8'))), null, 2)}\n`);
}
