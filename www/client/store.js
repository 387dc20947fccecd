/**
 * Downloaded models, kept in the origin private file system (OPFS).
 *
 * Why OPFS and not the Cache API: what comes back is a `File` on disk, of which the worker reads any part and the same
 * part again (after a panic, or for another precision), where a cached `Response` is a stream to be read once or a
 * `Blob` to be copied first. And a file can be kept in pieces. A piece is whole or absent, so a broken connection, a
 * closed tab or a full disk costs no more than the piece that was being written, and the download goes on after it.
 * Both want a secure context (https or localhost); neither exists for a page opened from disk in Chromium.
 *
 * Layout: `gpt2-web-models/ID/`, where ID is a hash of the source, with `model.json` once every file is complete; for
 * each file `NAME.json` (its address and version) and its pieces `NAME.0`, `NAME.1`, …
 */

/** @typedef {import('./download.js').Version} Version */

/** @typedef {Version & { name: string, url: string, complete: boolean }} FileInfo */
/** @typedef {{ source: string, name: string, date: string | null, files: string[], complete: boolean }} ModelEntry */

/**
 * A model as it is listed.
 * @typedef {object} StoredModelInfo
 * @property {string} id for `loadStored` and `deleteStored`
 * @property {string} source the repository or the address it came from
 * @property {string} name
 * @property {number} bytes that are here
 * @property {Date | null} date when it was complete
 * @property {boolean} complete whether the download reached its end; if not, the next one goes on from here
 */

const FOLDER = 'gpt2-web-models';
const PIECE = 32 * 1024 * 1024;

/** There is no storage, or no more of it. */
export class StorageError extends Error {
  /** @param {unknown} cause */
  static from(cause) {
    if (cause instanceof StorageError) return cause;
    const name = cause instanceof Error || cause instanceof DOMException ? cause.name : '';
    const why = name === 'QuotaExceededError' ? 'there is no more room in the browser\'s storage'
      : name === 'SecurityError' || cause instanceof TypeError ? 'this page has no storage (a private window, or a page opened from disk)'
      : `the browser's storage failed (${cause instanceof Error ? cause.message : cause})`;
    return new StorageError(why, { cause });
  }
}

/** @template T @param {() => Promise<T>} action @returns {Promise<T>} */
async function storing(action) {
  try {
    return await action();
  } catch (cause) {
    throw StorageError.from(cause);
  }
}

/** All models that are kept. */
export class ModelStore {
  #root;
  #piece;

  /**
   * @param {object} [options]
   * @param {() => Promise<FileSystemDirectoryHandle>} [options.root]
   * @param {number} [options.piece] bytes in a piece: what is held in memory until it is written
   */
  constructor({ root = () => navigator.storage.getDirectory(), piece = PIECE } = {}) {
    this.#root = root;
    this.#piece = piece;
  }

  /** @param {boolean} create */
  async #folder(create) {
    return (await this.#root()).getDirectoryHandle(FOLDER, { create });
  }

  /**
   * The place of the model from `source`, made if need be.
   * @param {string} source @param {string} name what the list calls it
   * @returns {Promise<StoredModel>}
   * @throws {StorageError}
   */
  place(source, name) {
    return storing(async () => {
      const id = await StoredModel.id(source);
      const folder = await (await this.#folder(true)).getDirectoryHandle(id, { create: true });
      const model = new StoredModel(id, folder, this.#piece);
      if (!(await model.entry())) await model.write({ source, name, date: null, files: [], complete: false });
      return model;
    });
  }

  /**
   * The model with this id, if every byte of it is here.
   * @param {string} id
   * @returns {Promise<StoredModel | null>}
   */
  async find(id) {
    try {
      const model = new StoredModel(id, await (await this.#folder(false)).getDirectoryHandle(id), this.#piece);
      return (await model.entry())?.complete ? model : null;
    } catch {
      return null;
    }
  }

  /**
   * Everything that is kept, the newest first; empty where there is no storage.
   * @returns {Promise<StoredModelInfo[]>}
   */
  async list() {
    /** @type {StoredModelInfo[]} */ const models = [];
    let folder;
    try {
      folder = await this.#folder(false);
    } catch {
      return models;
    }
    for await (const [id, handle] of folder.entries()) {
      if (handle.kind !== 'directory') continue;
      const model = new StoredModel(id, /** @type {FileSystemDirectoryHandle} */ (handle), this.#piece);
      const entry = await model.entry();
      if (!entry) continue;
      const { source, name, date, complete } = entry;
      const bytes = await model.bytes().catch(() => null);
      if (bytes === null) continue; // another tab has just deleted it
      models.push({ id, source, name, complete, bytes, date: date === null ? null : new Date(date) });
    }
    return models.sort((a, b) => Number(b.date ?? 0) - Number(a.date ?? 0));
  }

  /** Waits while a tab downloads it. @param {string} id @returns {Promise<void>} */
  async delete(id) {
    await locked(id, () => this.remove(id));
  }

  /** Deletes it for whoever has its lock. @param {string} id @returns {Promise<void>} */
  async remove(id) {
    await storing(async () => (await this.#folder(false)).removeEntry(id, { recursive: true }));
  }

  /** @returns {Promise<void>} */
  async clear() {
    await storing(async () => {
      /** @type {string[]} */ const ids = [];
      for await (const [id] of (await this.#folder(false)).entries()) ids.push(id);
      for (const id of ids) await this.delete(id);
    });
  }
}

/**
 * Runs `action` while no other tab loads or deletes the same model: a second download waits and finds it stored.
 * @template T @param {string} id @param {() => Promise<T>} action @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
export async function locked(id, action, signal) {
  const locks = globalThis.navigator?.locks;
  return locks ? locks.request(`gpt2-web-models/${id}`, { ...(signal && { signal }) }, action) : action();
}

/** Runs `action` with the lock, or not at all where another tab has it. @param {string} id @param {() => Promise<void>} action */
export async function free(id, action) {
  const locks = globalThis.navigator?.locks;
  if (!locks) return action();
  await locks.request(`gpt2-web-models/${id}`, { ifAvailable: true }, async (lock) => { if (lock) await action(); });
}

/** One model's folder. */
export class StoredModel {
  #folder;

  /** @param {string} id @param {FileSystemDirectoryHandle} folder @param {number} piece */
  constructor(id, folder, piece) {
    this.id = id;
    this.piece = piece;
    this.#folder = folder;
  }

  /** @param {string} source */
  static async id(source) {
    const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(source));
    return [...new Uint8Array(digest).subarray(0, 16)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  }

  /** @returns {Promise<ModelEntry | null>} null where it cannot be read */
  entry() {
    return readJson(this.#folder, 'model.json');
  }

  /** @param {ModelEntry} entry */
  write(entry) {
    return storing(() => writeFile(this.#folder, 'model.json', JSON.stringify(entry)));
  }

  /** Everything has arrived. @param {string[]} files */
  async finish(files) {
    const entry = await this.entry();
    if (entry) await this.write({ ...entry, files, date: new Date().toISOString(), complete: true });
  }

  /** The file of this name, with what is known of it. @param {string} name */
  async file(name) {
    return new StoredFile(this.#folder, name, this.piece, await readJson(this.#folder, `${encodeURIComponent(name)}.json`));
  }

  /** @returns {Promise<StoredFile[]>} of a complete model */
  async files() {
    const { files } = (await this.entry()) ?? { files: [] };
    return Promise.all(files.map((name) => this.file(name)));
  }

  async bytes() {
    let bytes = 0;
    for await (const [, handle] of this.#folder.entries()) {
      if (handle.kind === 'file') bytes += (await /** @type {FileSystemFileHandle} */ (handle).getFile()).size;
    }
    return bytes;
  }
}

/** One file, in pieces. */
export class StoredFile {
  #folder;
  #pieces = 0;

  /** @param {FileSystemDirectoryHandle} folder @param {string} name @param {number} piece @param {FileInfo | null} info */
  constructor(folder, name, piece, info) {
    this.#folder = folder;
    this.name = name;
    this.piece = piece;
    this.info = info;
  }

  #path(/** @type {number | string} */ part) {
    return `${encodeURIComponent(this.name)}.${part}`;
  }

  /**
   * The pieces that are here, as one `Blob` on disk.
   * @returns {Promise<Blob>}
   */
  async blob() {
    const pieces = [];
    for (;;) {
      try {
        pieces.push(await (await this.#folder.getFileHandle(this.#path(pieces.length))).getFile());
      } catch {
        break; // the first that is absent ends the file
      }
    }
    this.#pieces = pieces.length;
    return new Blob(pieces);
  }

  /** Begins anew, as this version. @param {string} url @param {Version} version @returns {Promise<void>} */
  async begin(url, version) {
    await this.clear();
    this.info = { ...version, name: this.name, url, complete: false };
    await storing(() => writeFile(this.#folder, this.#path('json'), JSON.stringify(this.info)));
  }

  /** @returns {Promise<void>} */
  async clear() {
    await storing(async () => {
      await this.blob();
      // From the last on, so that what is left at any moment is a beginning.
      while (this.#pieces > 0) await this.#folder.removeEntry(this.#path(--this.#pieces));
    });
  }

  /**
   * Adds a piece. After an error everything before it is still here.
   * @param {Blob} piece
   * @returns {Promise<void>}
   * @throws {StorageError}
   */
  async append(piece) {
    await storing(() => writeFile(this.#folder, this.#path(this.#pieces), piece));
    this.#pieces++;
  }

  /** Every byte is here. @param {number} size @returns {Promise<void>} */
  async finish(size) {
    if (!this.info) return;
    this.info = { ...this.info, size, complete: true };
    await storing(() => writeFile(this.#folder, this.#path('json'), JSON.stringify(this.info)));
  }
}

/** Writes a file whole or not at all. @param {FileSystemDirectoryHandle} folder @param {string} name @param {Blob | string} contents */
async function writeFile(folder, name, contents) {
  const handle = await folder.getFileHandle(name, { create: true });
  /** @type {FileSystemWritableFileStream | undefined} */ let writable;
  try {
    writable = await handle.createWritable();
    await writable.write(contents);
    await writable.close();
  } catch (cause) {
    // It holds a lock while it is open; and an empty file must not stand for what could not be written.
    await writable?.abort().catch(() => {});
    await folder.removeEntry(name).catch(() => {});
    throw cause;
  }
}

/** @param {FileSystemDirectoryHandle} folder @param {string} name */
async function readJson(folder, name) {
  try {
    return JSON.parse(await (await (await folder.getFileHandle(name)).getFile()).text());
  } catch {
    return null;
  }
}

/**
 * How much room the browser gives this page, and whether it has promised to keep it.
 * @returns {Promise<{ used: number, quota: number, persisted: boolean } | null>} null where there is no storage
 */
export async function room() {
  try {
    const { usage = 0, quota = 0 } = await navigator.storage.estimate();
    return { used: usage, quota, persisted: await navigator.storage.persisted() };
  } catch {
    return null;
  }
}
