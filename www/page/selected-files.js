/** Finds the files of one model among those that the user selected or dropped. */

import { COMPANIONS } from '../client/companions.js';

/** The file that says which shard holds each tensor. @param {string} name */
const isIndex = (name) => /\.safetensors\.index\.json$/i.test(name);
/** @param {string} name */
const isCompanion = (name) => COMPANIONS.some((companion) => companion === name.toLowerCase()) || isIndex(name);

/** @typedef {{ path: string, file: File }} SelectedFile `path` includes the folders, if a folder was selected. */

const WEIGHTS = /\.(safetensors|gguf)$/i;

/**
 * @param {readonly SelectedFile[]} selected
 * @returns {{ name: string, files: File[] }}
 * @throws {Error} with a sentence
 */
export function modelFiles(selected) {
  const folder = selected.some(({ path }) => path.includes('/'));
  // Files selected one by one are all kept: if one of them is not a model, the worker names it.
  const model = folder ? fromFolder(selected) : [...selected];
  const weights = model.find(({ file }) => WEIGHTS.test(file.name)) ?? model[0];
  if (!weights) throw new Error('No files were dropped.');
  const stem = weights.file.name.replace(WEIGHTS, '').replace(/-\d{5}-of-\d{5}$/, '');
  return { name: stem === 'model' ? weights.path.split('/').at(-2) ?? stem : stem, files: model.map(({ file }) => file) };
}

/** @param {readonly SelectedFile[]} selected */
function fromFolder(selected) {
  const depth = ({ path = '' }) => path.split('/').length;
  const weights = selected.filter(({ path }) => WEIGHTS.test(path)).sort((a, b) => depth(a) - depth(b));
  const [first] = weights;
  if (cached(selected) && (!first || first.file.size === 0)) {
    throw new Error(`${selected[0]?.path.split('/')[0] ?? 'This'} is a Hugging Face cache folder. Its files are links, which browsers do not follow. `
      + 'Choose the files in its blobs folder, or download the model with `hf download OWNER/NAME --local-dir FOLDER` and open that folder.');
  }
  if (!first) throw new Error(`The folder ${selected[0]?.path.split('/')[0] ?? ''} has no .safetensors or .gguf file.`);
  const home = parent(first);
  const here = weights.filter((file) => parent(file) === home);
  const tensors = here.filter(({ path }) => /\.safetensors$/i.test(path));
  const chosen = tensors.length > 0 ? tensors : here;
  const shards = chosen.every(({ path }) => /-\d{5}-of-\d{5}\.safetensors$/i.test(path));
  if (chosen.length > 1 && !shards) {
    throw new Error(`The folder contains several models: ${chosen.map(({ file }) => file.name).join(', ')}. Open just one of them.`);
  }
  const companions = selected.filter((file) => parent(file) === home && isCompanion(file.file.name)
    && (shards || !isIndex(file.file.name)));
  return [...chosen, ...(tensors.length > 0 ? companions : [])];
}

/**
 * Whether these come from Hugging Face's cache: `blobs` has the files, named by hash, and `snapshots` has links to them.
 * @param {readonly SelectedFile[]} selected
 */
const cached = (selected) => selected.some(({ path }) => /(^|\/)(blobs\/([0-9a-f]{40}|[0-9a-f]{64})|snapshots\/[0-9a-f]{40}\/.*|refs\/main)$/.test(path))
  || selected.every(({ path }) => /^models--/.test(path));

/** @param {SelectedFile} selected */
const parent = ({ path }) => path.slice(0, path.lastIndexOf('/') + 1);

/** @param {Iterable<File>} files of an input */
export const fromInput = (files) => [...files].map((file) => ({ path: file.webkitRelativePath || file.name, file }));

/**
 * Must be called while the drop event is handled: afterwards its items are gone.
 * @param {DataTransfer} transfer
 * @returns {Promise<SelectedFile[]>}
 */
export async function fromDrop(transfer) {
  const items = [...transfer.items].filter(({ kind }) => kind === 'file');
  const entries = items.map((item) => ({ entry: item.webkitGetAsEntry?.() ?? null, file: item.getAsFile() }));
  const found = await Promise.all(entries.map(({ entry, file }) => (entry?.isDirectory ? walk(/** @type {FileSystemDirectoryEntry} */ (entry), '') : file ? [{ path: file.name, file }] : [])));
  return found.flat();
}

/** Subfolders of a repository hold other formats; there are no models deeper down. @param {FileSystemDirectoryEntry} folder @param {string} path @returns {Promise<SelectedFile[]>} */
async function walk(folder, path) {
  const here = `${path}${folder.name}/`;
  const reader = folder.createReader();
  /** @type {SelectedFile[]} */ const found = [];
  for (;;) {
    // Entries come in batches of a hundred; an empty batch is the end.
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
