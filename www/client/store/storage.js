/** The origin private file system (OPFS), with sentences for its failures. */

import { Gpt2Error } from '../error.js';

/**
 * @returns {Promise<FileSystemDirectoryHandle>}
 * @throws {Gpt2Error} `storage_failed`
 */
export function storageRoot() {
  return storing(async () => {
    const storage = globalThis.navigator?.storage;
    if (!storage?.getDirectory) throw failed(whyNone() ?? 'this browser has no storage for files (OPFS); use a newer version of it');
    const { prototype } = globalThis.FileSystemFileHandle ?? {};
    if (prototype && !('createWritable' in prototype)) throw failed(CANNOT_WRITE);
    return storage.getDirectory();
  });
}

const CANNOT_WRITE = 'this browser does not let pages write files to its storage (createWritable is missing, as in Safari before 26); use a newer version';

/** Why a page has no storage at all, and what would help; null if that is unknown. */
function whyNone() {
  if (globalThis.isSecureContext === false) return 'this page came over plain http, and browsers give storage only to https and localhost; open the page from there';
  if (globalThis.location?.protocol === 'file:') return 'this page was opened from disk, where this browser gives no storage; open it from https or localhost';
  if (globalThis.origin === 'null') return 'this page is in a sandboxed frame, which has no storage; the frame needs sandbox="allow-same-origin", or open the page outside the frame';
  return null;
}

/** @param {string} why @param {unknown} [cause] */
const failed = (why, cause) => new Gpt2Error('storage_failed', why, { cause });

/**
 * Runs an action on the storage and turns its failure into a sentence.
 * @template T @param {() => Promise<T>} action
 * @returns {Promise<T>}
 * @throws {Gpt2Error} `storage_failed`
 */
export async function storing(action) {
  try {
    return await action();
  } catch (cause) {
    if (cause instanceof Gpt2Error) throw cause;
    const { name = '', message = String(cause) } = /** @type {Error} */ (cause ?? {});
    throw failed(name === 'QuotaExceededError' ? 'the browser\'s storage is full; delete a saved model, or free space on the disk'
      : name === 'SecurityError' ? whyNone() ?? 'this page has no storage (it is in a private window, or the browser is set to store nothing for this site); open it in an ordinary window, or allow its data'
      : name === 'NoModificationAllowedError' ? 'another tab is writing there; wait until it has finished, or close it'
      : `the browser's storage failed (${message})`, cause);
  }
}

/** Whether the storage failed. @param {unknown} cause @returns {cause is Gpt2Error} */
export const isStorageFailure = (cause) => cause instanceof Gpt2Error && cause.kind === 'storage_failed';

/** Whether there is no file or folder of that name. @param {unknown} cause */
export const isAbsent = (cause) => cause instanceof DOMException && cause.name === 'NotFoundError';

/**
 * A name for the storage: `text` may be of any length and have any characters.
 * @param {string} text
 */
export async function nameFor(text) {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return [...new Uint8Array(digest).subarray(0, 16)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Writes a whole file or none. @param {FileSystemDirectoryHandle} folder @param {string} name @param {Blob | string} contents */
export async function writeFile(folder, name, contents) {
  const handle = await folder.getFileHandle(name, { create: true });
  /** @type {FileSystemWritableFileStream | undefined} */ let writable;
  try {
    if (typeof handle.createWritable !== 'function') throw failed(CANNOT_WRITE);
    writable = await handle.createWritable();
    await writable.write(contents);
    await writable.close();
  } catch (cause) {
    // An open file is locked, and an empty file must not replace what could not be written. The first failure is the one
    // to report.
    await writable?.abort().catch(() => {});
    await folder.removeEntry(name).catch(() => {});
    throw cause;
  }
}

/**
 * @param {FileSystemDirectoryHandle} folder @param {string} name
 * @returns {Promise<any>} null if there is no such file, or if it is not JSON
 */
export async function readJson(folder, name) {
  try {
    return JSON.parse(await (await (await folder.getFileHandle(name)).getFile()).text());
  } catch (cause) {
    if (cause instanceof SyntaxError || isAbsent(cause)) return null;
    throw cause;
  }
}

/**
 * How much space the browser gives this page, and whether it has promised to keep what is stored.
 * @returns {Promise<{ used: number, quota: number, persisted: boolean } | null>} null if the browser does not tell
 */
export async function storageEstimate() {
  const storage = globalThis.navigator?.storage;
  if (!storage?.estimate) return null;
  try {
    const { usage = 0, quota = 0 } = await storage.estimate();
    return { used: usage, quota, persisted: (await storage.persisted?.()) ?? false };
  } catch {
    return null; // a page without an origin
  }
}
