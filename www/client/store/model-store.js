/**
 * Downloaded models, kept in the origin private file system (OPFS).
 *
 * Why OPFS and not the Cache API: OPFS returns a `File` on disk. The worker reads any part of it, and reads the same part
 * again after a panic or for another precision. A cached `Response` is a stream that can be read once, or a `Blob` that is
 * copied first. In OPFS a file can also be stored in pieces. A piece is whole or absent, so a broken connection, a closed
 * tab or a full disk loses one piece at most, and the download resumes after it. Both need a secure context (https or
 * localhost); neither exists in Chromium for a page opened from disk.
 *
 * Layout: `gpt2-web-models/ID/`, where ID is a hash of the source. `model.json` is written when the download starts. Each
 * file has `HASH.json` (its name, address and version) and the pieces `HASH.0`, `HASH.1`, …, where HASH is a hash of its
 * name. So no name from a server is too long or collides with another file.
 */

import { ifUnlocked, withLock } from './locks.js';
import { isAbsent, isStorageFailure, storageRoot, storing } from './storage.js';
import { StoredModel } from './stored-model.js';

/**
 * A model in the list.
 * @typedef {object} StoredModelInfo
 * @property {string} id for `loadStored` and `store.delete`
 * @property {string} source the repository or the address it came from
 * @property {string} name
 * @property {number} bytes stored
 * @property {Date | null} date when the download was complete
 * @property {boolean} complete whether every byte is stored; if not, the next download resumes
 */

const FOLDER = 'gpt2-web-models';
const PIECE = 32 * 1024 * 1024;

/** All stored models. A failure of the storage is a `Gpt2Error` of the kind `storage_failed`. */
export class ModelStore {
  #root;
  #piece;

  /**
   * @param {object} [options]
   * @param {() => Promise<FileSystemDirectoryHandle>} [options.root]
   * @param {number} [options.piece] bytes in a piece, which is held in memory until it is written
   */
  constructor({ root = storageRoot, piece = PIECE } = {}) {
    this.#root = root;
    this.#piece = piece;
  }

  async #createFolder() {
    return (await this.#root()).getDirectoryHandle(FOLDER, { create: true });
  }

  /** The folder of all models; null if nothing was ever stored. @returns {Promise<FileSystemDirectoryHandle | null>} */
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
   * The stored model from `source`, created if there is none.
   * @param {string} source @param {string} name what the list calls it
   * @returns {Promise<StoredModel>}
   * @throws {import('../error.js').Gpt2Error} `storage_failed`
   */
  open(source, name) {
    return storing(async () => {
      const folder = await this.#createFolder();
      const id = await StoredModel.id(source);
      const model = new StoredModel(id, await folder.getDirectoryHandle(id, { create: true }), this.#piece);
      if (await model.entry()) return model;
      try {
        await model.write({ source, name, date: null, files: [], complete: false });
      } catch (cause) {
        await folder.removeEntry(id).catch(() => {}); // fails if something is in it
        throw cause;
      }
      return model;
    });
  }

  /**
   * The model with this id, if it is complete.
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
   * All stored models, the newest first; empty if there is no storage. Models that cannot be read are left out. A folder
   * without a readable `model.json` is removed: it cannot be used, and it takes space.
   * @returns {Promise<StoredModelInfo[]>}
   */
  async list() {
    /** @type {StoredModelInfo[]} */ const models = [];
    for (const [id, handle] of await this.#entries()) {
      if (handle.kind !== 'directory' || !isId(id)) continue;
      try {
        const model = new StoredModel(id, /** @type {FileSystemDirectoryHandle} */ (handle), this.#piece);
        const entry = await model.entry();
        // A tab that has just created the folder holds its lock.
        if (!entry) await ifUnlocked(id, async () => { if (!(await model.entry())) await this.remove(id); });
        else models.push(await listed(model, entry));
      } catch (cause) {
        // Another tab has just deleted it, or it is damaged. The others are still listed.
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
   * Deletes a model. Waits while a tab downloads it. Does nothing if there is no such model.
   * @param {string} id @returns {Promise<void>}
   * @throws {import('../error.js').Gpt2Error} `storage_failed`
   */
  async delete(id) {
    if (isId(id)) await withLock(id, () => this.remove(id));
  }

  /** Deletes a model. The caller holds its lock. @param {string} id @returns {Promise<void>} */
  async remove(id) {
    const folder = await this.#folder();
    await storing(async () => {
      try {
        await folder?.removeEntry(id, { recursive: true });
      } catch (cause) {
        if (!isAbsent(cause)) throw cause; // another tab has deleted it
      }
    });
  }

  /**
   * Deletes all models, and anything else in their folder.
   * @returns {Promise<void>}
   * @throws {import('../error.js').Gpt2Error} `storage_failed`, after deleting everything that can be deleted
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

/** Whether it has the form of an id. @param {unknown} id */
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
