/**
 * Downloaded models, kept in the origin private file system (OPFS).
 *
 * Why OPFS and not the Cache API: what comes back is a `File` on disk, of which the worker reads any part and the same
 * part again (after a panic, or for another precision), where a cached `Response` is a stream to be read once or a
 * `Blob` to be copied first. And a file can be kept in pieces. A piece is whole or absent, so a broken connection, a
 * closed tab or a full disk costs no more than the piece that was being written, and the download goes on after it.
 * Both want a secure context (https or localhost); neither exists for a page opened from disk in Chromium.
 *
 * Layout: `gpt2-web-models/ID/`, where ID is a hash of the source, with `model.json` once the download has begun; for
 * each file `HASH.json` (its name, address and version) and its pieces `HASH.0`, `HASH.1`, …, where HASH is that of its
 * name: no name that a server gives can be too long, or that of another file.
 */

import { ifUnlocked, withLock } from './locks.js';
import { isAbsent, isStorageFailure, storageRoot, storing } from './storage.js';
import { StoredModel } from './stored-model.js';

export { StoredModel } from './stored-model.js';

/**
 * A model as it is listed.
 * @typedef {object} StoredModelInfo
 * @property {string} id for `loadStored` and `store.delete`
 * @property {string} source the repository or the address it came from
 * @property {string} name
 * @property {number} bytes that are here
 * @property {Date | null} date when it was complete
 * @property {boolean} complete whether every byte is here; if not, the next download goes on from what is
 */

const FOLDER = 'gpt2-web-models';
const PIECE = 32 * 1024 * 1024;

/** All models that are kept. What goes wrong with the storage is a `Gpt2Error` of the kind `storage_failed`. */
export class ModelStore {
  #root;
  #piece;

  /**
   * @param {object} [options]
   * @param {() => Promise<FileSystemDirectoryHandle>} [options.root]
   * @param {number} [options.piece] bytes in a piece: what is held in memory until it is written
   */
  constructor({ root = storageRoot, piece = PIECE } = {}) {
    this.#root = root;
    this.#piece = piece;
  }

  /** All models' folder, made for the first of them. */
  async #made() {
    return (await this.#root()).getDirectoryHandle(FOLDER, { create: true });
  }

  /** All models' folder; null where nothing was ever kept. @returns {Promise<FileSystemDirectoryHandle | null>} */
  #folder() {
    return storing(async () => {
      try {
        return await (await this.#root()).getDirectoryHandle(FOLDER);
      } catch (cause) {
        if (isAbsent(cause)) return null;
        throw cause;
      }
    });
  }

  /**
   * The place of the model from `source`, made if need be.
   * @param {string} source @param {string} name what the list calls it
   * @returns {Promise<StoredModel>}
   * @throws {import('../error.js').Gpt2Error} `storage_failed`
   */
  open(source, name) {
    return storing(async () => {
      const folder = await this.#made();
      const id = await StoredModel.id(source);
      const model = new StoredModel(id, await folder.getDirectoryHandle(id, { create: true }), this.#piece);
      if (await model.entry()) return model;
      try {
        await model.write({ source, name, date: null, files: [], complete: false });
      } catch (cause) {
        await folder.removeEntry(id).catch(() => {}); // unless something is in it; the cause is what there is to tell
        throw cause;
      }
      return model;
    });
  }

  /**
   * The model with this id, if every byte of it is here.
   * @param {string} id
   * @returns {Promise<StoredModel | null>}
   * @throws {import('../error.js').Gpt2Error} `storage_failed`
   */
  async find(id) {
    const folder = isId(id) ? await this.#folder() : null;
    if (!folder) return null;
    return storing(async () => {
      try {
        const model = new StoredModel(id, await folder.getDirectoryHandle(id), this.#piece);
        return (await model.files()) && model;
      } catch (cause) {
        if (isAbsent(cause)) return null;
        throw cause;
      }
    });
  }

  /**
   * Everything that is kept, the newest first; empty where there is no storage. What cannot be read is left out, and
   * a model's folder that says nothing of its model is removed: nobody can use it, and it takes room.
   * @returns {Promise<StoredModelInfo[]>}
   */
  async list() {
    /** @type {StoredModelInfo[]} */ const models = [];
    for (const [id, handle] of await this.#entries()) {
      if (handle.kind !== 'directory' || !isId(id)) continue;
      try {
        const model = new StoredModel(id, /** @type {FileSystemDirectoryHandle} */ (handle), this.#piece);
        const entry = await model.entry();
        // A tab that has just made it has its lock.
        if (!entry) await ifUnlocked(id, async () => { if (!(await model.entry())) await this.remove(id); });
        else models.push(await listed(model, entry));
      } catch (cause) {
        // Another tab has just deleted it, or it is damaged: the others are here all the same.
        if (!isStorageFailure(cause) && !isAbsent(cause)) throw cause;
      }
    }
    return models.sort((a, b) => Number(b.date ?? 0) - Number(a.date ?? 0));
  }

  /** @returns {Promise<[string, FileSystemHandle][]>} */
  async #entries() {
    try {
      const folder = await this.#folder();
      return folder ? await storing(() => names(folder)) : [];
    } catch (cause) {
      if (isStorageFailure(cause)) return [];
      throw cause;
    }
  }

  /**
   * Waits while a tab downloads it. Where there is nothing of that id there is nothing to do.
   * @param {string} id @returns {Promise<void>}
   * @throws {import('../error.js').Gpt2Error} `storage_failed`
   */
  async delete(id) {
    if (isId(id)) await withLock(id, () => this.remove(id));
  }

  /** Deletes it for whoever has its lock. @param {string} id @returns {Promise<void>} */
  async remove(id) {
    const folder = await this.#folder();
    await storing(async () => {
      try {
        await folder?.removeEntry(id, { recursive: true });
      } catch (cause) {
        if (!isAbsent(cause)) throw cause; // another tab was first
      }
    });
  }

  /**
   * Deletes all, and what else lies among them.
   * @returns {Promise<void>}
   * @throws {import('../error.js').Gpt2Error} `storage_failed`, after everything that can be deleted is
   */
  async clear() {
    const folder = await this.#folder();
    if (!folder) return;
    /** @type {unknown[]} */ const failures = [];
    for (const [id] of await storing(() => names(folder))) {
      await withLock(id, () => this.remove(id)).catch((cause) => failures.push(cause));
    }
    if (failures.length > 0) throw failures[0];
  }
}

/** Whether it can be one of ours. @param {unknown} id */
const isId = (id) => typeof id === 'string' && /^[0-9a-f]{32}$/.test(id);

/** @param {FileSystemDirectoryHandle} folder */
async function names(folder) {
  /** @type {[string, FileSystemHandle][]} */ const found = [];
  for await (const entry of folder.entries()) found.push(entry);
  return found;
}

/** @param {StoredModel} model @param {import('./stored-model.js').ModelEntry} entry @returns {Promise<StoredModelInfo>} */
async function listed(model, { source, name, date }) {
  const complete = (await model.files()) !== null;
  return { id: model.id, source, name, complete, bytes: await model.bytes(), date: date === null ? null : new Date(date) };
}
