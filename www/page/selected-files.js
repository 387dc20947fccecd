/** What belongs to a model among the files that were selected or dropped. */

import { isCompanion, isIndex } from '../client/companions.js';

/** @typedef {{ path: string, file: File }} Picked `path` has the folders in it, if a folder was given. */

const WEIGHTS = /\.(safetensors|gguf)$/i;

/**
 * @param {readonly Picked[]} picked
 * @returns {{ name: string, files: File[] }}
 * @throws {Error} with a sentence
 */
export function choose(picked) {
  const folder = picked.some(({ path }) => path.includes('/'));
  // Files chosen one by one are all meant; what is no model among them the worker knows by name.
  const model = folder ? fromFolder(picked) : [...picked];
  const weights = model.find(({ file }) => WEIGHTS.test(file.name)) ?? model[0];
  if (!weights) throw new Error('Nothing that was dropped is a file.');
  const stem = weights.file.name.replace(WEIGHTS, '').replace(/-\d{5}-of-\d{5}$/, '');
  return { name: stem === 'model' ? weights.path.split('/').at(-2) ?? stem : stem, files: model.map(({ file }) => file) };
}

/** @param {readonly Picked[]} picked */
function fromFolder(picked) {
  const depth = ({ path = '' }) => path.split('/').length;
  const weights = picked.filter(({ path }) => WEIGHTS.test(path)).sort((a, b) => depth(a) - depth(b));
  const [first] = weights;
  if (cached(picked) && (!first || first.file.size === 0)) {
    throw new Error(`${picked[0]?.path.split('/')[0] ?? 'This'} is a folder of Hugging Face's cache. Its files are links, which a browser does not follow. `
      + 'Choose the files in its folder blobs, or download the model with `hf download OWNER/NAME --local-dir FOLDER` and open that folder.');
  }
  if (!first) throw new Error(`The folder ${picked[0]?.path.split('/')[0] ?? ''} has no .safetensors or .gguf file.`);
  const home = parent(first);
  const here = weights.filter((file) => parent(file) === home);
  const tensors = here.filter(({ path }) => /\.safetensors$/i.test(path));
  const chosen = tensors.length > 0 ? tensors : here;
  const shards = chosen.every(({ path }) => /-\d{5}-of-\d{5}\.safetensors$/i.test(path));
  if (chosen.length > 1 && !shards) {
    throw new Error(`The folder contains several models: ${chosen.map(({ file }) => file.name).join(', ')}. Open just one of them.`);
  }
  const companions = picked.filter((file) => parent(file) === home && isCompanion(file.file.name)
    && (shards || !isIndex(file.file.name)));
  return [...chosen, ...(tensors.length > 0 ? companions : [])];
}

/**
 * Whether these are of a cache: its files lie in `blobs`, named by their hashes, and `snapshots` holds links to them.
 * @param {readonly Picked[]} picked
 */
const cached = (picked) => picked.some(({ path }) => /(^|\/)(blobs\/([0-9a-f]{40}|[0-9a-f]{64})|snapshots\/[0-9a-f]{40}\/.*|refs\/main)$/.test(path))
  || picked.every(({ path }) => /^models--/.test(path));

/** @param {Picked} picked */
const parent = ({ path }) => path.slice(0, path.lastIndexOf('/') + 1);

/** @param {Iterable<File>} files of an input */
export const fromInput = (files) => [...files].map((file) => ({ path: file.webkitRelativePath || file.name, file }));

/**
 * Has to be called while the drop is handled: afterwards its items are gone.
 * @param {DataTransfer} transfer
 * @returns {Promise<Picked[]>}
 */
export async function fromDrop(transfer) {
  const items = [...transfer.items].filter(({ kind }) => kind === 'file');
  const entries = items.map((item) => ({ entry: item.webkitGetAsEntry?.() ?? null, file: item.getAsFile() }));
  const found = await Promise.all(entries.map(({ entry, file }) => (entry?.isDirectory ? walk(/** @type {FileSystemDirectoryEntry} */ (entry), '') : file ? [{ path: file.name, file }] : [])));
  return found.flat();
}

/** Subfolders of a repository hold other formats; deeper there is no model. @param {FileSystemDirectoryEntry} folder @param {string} path @returns {Promise<Picked[]>} */
async function walk(folder, path) {
  const here = `${path}${folder.name}/`;
  const reader = folder.createReader();
  /** @type {Picked[]} */ const found = [];
  for (;;) {
    // Entries come by the hundred; an empty answer is the end.
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (entries.length === 0) return found;
    for (const entry of entries) {
      if (entry.isFile) {
        const file = await new Promise((resolve, reject) => /** @type {FileSystemFileEntry} */ (entry).file(resolve, reject));
        found.push({ path: `${here}${entry.name}`, file });
      } else if (here.split('/').length <= 3 && !entry.name.startsWith('.')) {
        found.push(...(await walk(/** @type {FileSystemDirectoryEntry} */ (entry), here)));
      }
    }
  }
}
