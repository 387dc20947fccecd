/** The part of the origin private file system that the store uses, in memory, with a quota. */

export class MemoryFolder {
  kind = /** @type {const} */ ('directory');
  /** @type {Map<string, MemoryFolder | MemoryFile>} */ children = new Map();

  /** @param {{ quota: number, used: number }} [disk] */
  constructor(disk = { quota: Infinity, used: 0 }) {
    this.disk = disk;
  }

  /** @param {string} name @param {{ create?: boolean }} [options] */
  async getDirectoryHandle(name, { create = false } = {}) {
    return /** @type {MemoryFolder} */ (this.#child(name, create, () => new MemoryFolder(this.disk)));
  }

  /** @param {string} name @param {{ create?: boolean }} [options] */
  async getFileHandle(name, { create = false } = {}) {
    return /** @type {MemoryFile} */ (this.#child(name, create, () => new MemoryFile(this.disk)));
  }

  /** @param {string} name @param {boolean} create @param {() => MemoryFolder | MemoryFile} make */
  #child(name, create, make) {
    if (/[\\/]/.test(name)) throw new TypeError(`Name is not allowed: ${name}`);
    let child = this.children.get(name);
    if (!child && !create) throw new DOMException(name, 'NotFoundError');
    if (!child) this.children.set(name, (child = make()));
    return child;
  }

  /** @param {string} name @param {{ recursive?: boolean }} [options] */
  async removeEntry(name, { recursive = false } = {}) {
    const child = this.children.get(name);
    if (!child) throw new DOMException(name, 'NotFoundError');
    if (child.kind === 'directory' && child.children.size > 0 && !recursive) throw new DOMException(name, 'InvalidModificationError');
    this.disk.used -= child.size;
    this.children.delete(name);
  }

  async *entries() {
    yield* this.children;
  }

  /** @returns {number} */
  get size() {
    return [...this.children.values()].reduce((sum, { size }) => sum + size, 0);
  }

  /** Every file's path. @returns {string[]} */
  get paths() {
    return [...this.children].flatMap(([name, child]) => (child.kind === 'directory' ? child.paths.map((path) => `${name}/${path}`) : [name])).sort();
  }
}

class MemoryFile {
  kind = /** @type {const} */ ('file');
  #contents = new Blob([]);

  /** @param {{ quota: number, used: number }} disk */
  constructor(disk) {
    this.disk = disk;
  }

  get size() {
    return this.#contents.size;
  }

  async getFile() {
    return this.#contents;
  }

  async createWritable() {
    /** @type {BlobPart[]} */ const parts = [];
    return {
      write: async (/** @type {BlobPart} */ part) => {
        if (this.disk.used + new Blob([...parts, part]).size > this.disk.quota) throw new DOMException('full', 'QuotaExceededError');
        parts.push(part);
      },
      abort: async () => {},
      close: async () => {
        this.disk.used -= this.size;
        this.#contents = new Blob(parts);
        this.disk.used += this.size;
      },
    };
  }
}
