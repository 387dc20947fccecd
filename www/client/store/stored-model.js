import { isAbsent, nameFor, readJson, storing, writeFile } from './storage.js';

/** @typedef {import('../download/http-download.js').Version} Version */
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

  /** @returns {Promise<ModelEntry | null>} null where there is none, or where it is not to be understood */
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

  /** Everything has arrived. @param {string[]} files */
  async finish(files) {
    const entry = await this.entry();
    if (entry) await this.write({ ...entry, files, date: new Date().toISOString(), complete: true });
  }

  /** The file of this name, with what is known of it. @param {string} name */
  file(name) {
    return storing(async () => {
      // Before their names were hashed, files had their own ones here.
      for (const base of [await nameFor(name), encodeURIComponent(name)]) {
        const info = base.length < 250 ? await readJson(this.#folder, `${base}.json`) : null;
        if (isInfo(info) && info.name === name) return new StoredFile(this.#folder, base, name, this.piece, info);
      }
      return new StoredFile(this.#folder, await nameFor(name), name, this.piece, null);
    });
  }

  /** @returns {Promise<StoredFile[] | null>} of a model of which every byte is here; null where one is missing */
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

  /** @param {FileSystemDirectoryHandle} folder @param {string} base of its names there @param {string} name @param {number} piece @param {FileInfo | null} info */
  constructor(folder, base, name, piece, info) {
    this.#folder = folder;
    this.#base = base;
    this.name = name;
    this.piece = piece;
    this.info = info;
  }

  /**
   * The pieces that are here, as one `Blob` on disk.
   * @returns {Promise<Blob>}
   */
  blob() {
    return storing(async () => {
      const pieces = [];
      try {
        for (;;) pieces.push(await (await this.#folder.getFileHandle(`${this.#base}.${pieces.length}`)).getFile());
      } catch (cause) {
        if (!isAbsent(cause)) throw cause; // the first that is absent ends the file
      }
      this.#pieces = pieces.length;
      return new Blob(pieces);
    });
  }

  /** Begins anew, as this version. @param {string} url @param {Version} version @returns {Promise<void>} */
  async begin(url, version) {
    await this.clear();
    await this.#tell({ ...version, name: this.name, url, complete: false });
  }

  /** @returns {Promise<void>} */
  async clear() {
    await this.blob();
    await storing(async () => {
      // From the last on, so that what is left at any moment is a beginning.
      while (this.#pieces > 0) await this.#folder.removeEntry(`${this.#base}.${--this.#pieces}`);
    });
  }

  /**
   * Adds a piece. After an error everything before it is still here.
   * @param {Blob} piece
   * @returns {Promise<void>}
   * @throws {import('../error.js').Gpt2Error} `storage_failed`
   */
  async append(piece) {
    await storing(() => writeFile(this.#folder, `${this.#base}.${this.#pieces}`, piece));
    this.#pieces++;
  }

  /** Every byte is here. @param {number} size @returns {Promise<void>} */
  async finish(size) {
    if (this.info) await this.#tell({ ...this.info, size, complete: true });
  }

  /** @param {FileInfo} info */
  async #tell(info) {
    await storing(() => writeFile(this.#folder, `${this.#base}.json`, JSON.stringify(info)));
    this.info = info;
  }
}
