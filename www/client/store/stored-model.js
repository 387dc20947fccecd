import { isAbsent, nameFor, readJson, storing, writeFile } from './storage.js';

/**
 * The state of a file on its server. A server of another origin shows its ETag only if it chooses to
 * (`Access-Control-Expose-Headers`); the date of the last change is always visible.
 * @typedef {{ etag: string | null, modified: string | null, size: number | null }} Version
 */
/** @typedef {Version & { name: string, url: string, complete: boolean }} FileInfo */
/** @typedef {{ source: string, name: string, date: string | null, files: string[], complete: boolean }} ModelEntry */

const text = (/** @type {unknown} */ value) => typeof value === 'string';
const textOrNull = (/** @type {unknown} */ value) => value === null || text(value);

/** @param {any} value @returns {value is ModelEntry} */
const isEntry = (value) => text(value?.source) && text(value.name) && Array.isArray(value.files) && value.files.every(text)
  && (value.date === null || (text(value.date) && !Number.isNaN(Date.parse(value.date))));

/** @param {any} value @returns {value is FileInfo} */
const isInfo = (value) => text(value?.url) && text(value.name) && textOrNull(value.etag) && textOrNull(value.modified)
  && (value.size === null || Number.isSafeInteger(value.size));

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
  static id(source) {
    return nameFor(source);
  }

  /** @returns {Promise<ModelEntry | null>} null if there is none, or if it is damaged */
  entry() {
    return storing(async () => {
      const entry = await readJson(this.#folder, 'model.json');
      return isEntry(entry) ? entry : null;
    });
  }

  /** @param {ModelEntry} entry */
  write(entry) {
    return storing(() => writeFile(this.#folder, 'model.json', JSON.stringify(entry)));
  }

  /** Marks the model as complete. @param {string[]} files */
  async finish(files) {
    const entry = await this.entry();
    if (entry) await this.write({ ...entry, files, date: new Date().toISOString(), complete: true });
  }

  /** @param {string} name */
  file(name) {
    return storing(async () => {
      // Earlier versions stored files under their own names.
      for (const base of [await nameFor(name), encodeURIComponent(name)]) {
        const info = base.length < 250 ? await readJson(this.#folder, `${base}.json`) : null;
        if (isInfo(info) && info.name === name) return new StoredFile(this.#folder, base, name, this.piece, info);
      }
      return new StoredFile(this.#folder, await nameFor(name), name, this.piece, null);
    });
  }

  /** @returns {Promise<StoredFile[] | null>} null if a byte of the model is missing */
  async files() {
    const entry = await this.entry();
    if (!entry?.complete || entry.files.length === 0) return null;
    const files = await Promise.all(entry.files.map((name) => this.file(name)));
    for (const file of files) if (!file.info?.complete || (await file.blob()).size !== file.info.size) return null;
    return files;
  }

  bytes() {
    return storing(async () => {
      let bytes = 0;
      for await (const [, handle] of this.#folder.entries()) {
        if (handle.kind === 'file') bytes += (await /** @type {FileSystemFileHandle} */ (handle).getFile()).size;
      }
      return bytes;
    });
  }
}

/** One file, in pieces. */
export class StoredFile {
  #folder;
  #base;
  #pieces = 0;

  /** @param {FileSystemDirectoryHandle} folder @param {string} base what its names in the folder begin with @param {string} name @param {number} piece @param {FileInfo | null} info */
  constructor(folder, base, name, piece, info) {
    this.#folder = folder;
    this.#base = base;
    this.name = name;
    this.piece = piece;
    this.info = info;
  }

  /**
   * The stored pieces, as one `Blob` on disk.
   * @returns {Promise<Blob>}
   */
  blob() {
    return storing(async () => {
      const pieces = [];
      try {
        for (;;) pieces.push(await (await this.#folder.getFileHandle(`${this.#base}.${pieces.length}`)).getFile());
      } catch (cause) {
        if (!isAbsent(cause)) throw cause; // the first absent piece ends the file
      }
      this.#pieces = pieces.length;
      return new Blob(pieces);
    });
  }

  /** Starts again, as this version. @param {string} url @param {Version} version @returns {Promise<void>} */
  async begin(url, version) {
    await this.clear();
    await this.#writeInfo({ ...version, name: this.name, url, complete: false });
  }

  /** @returns {Promise<void>} */
  async clear() {
    await this.blob();
    await storing(async () => {
      // From the last piece on, so that at any moment the rest is the beginning of the file.
      while (this.#pieces > 0) await this.#folder.removeEntry(`${this.#base}.${--this.#pieces}`);
    });
  }

  /**
   * Adds a piece. If that fails, the pieces before it remain.
   * @param {Blob} piece
   * @returns {Promise<void>}
   * @throws {import('../error.js').Gpt2Error} `storage_failed`
   */
  async append(piece) {
    await storing(() => writeFile(this.#folder, `${this.#base}.${this.#pieces}`, piece));
    this.#pieces++;
  }

  /** Marks the file as complete. @param {number} size @returns {Promise<void>} */
  async finish(size) {
    if (this.info) await this.#writeInfo({ ...this.info, size, complete: true });
  }

  /** @param {FileInfo} info */
  async #writeInfo(info) {
    await storing(() => writeFile(this.#folder, `${this.#base}.json`, JSON.stringify(info)));
    this.info = info;
  }
}
