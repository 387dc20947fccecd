import { kindOf, wrong } from './arguments.js';

/**
 * A file as the worker reads it: a blob, or a stream, which can be read once.
 * @typedef {{ name: string, blob: Blob } | { name: string, stream: ReadableStream<Uint8Array>, size: number | null }} ModelFile
 */

/** What a caller may pass: a `File`, or a name and the contents. @typedef {File | { name: string, blob: Blob } | { name: string, bytes: ArrayBufferLike | ArrayBufferView }} GivenFile */
/** One file, or any list of them: an array, a `FileList`, a `Set`. @typedef {GivenFile | Iterable<GivenFile> | FileList} GivenFiles */

const GIVE = 'give a File, { name, blob }, or { name, bytes } with an ArrayBuffer or a typed array';

/**
 * @param {GivenFiles} files
 * @returns {{ files: { name: string, blob: Blob }[], key: unknown[] }} `key` is equal for equal files
 * @throws {import('./error.js').Gpt2Error}
 */
export function fromGiven(files) {
  if (typeof files !== 'object' || files === null || ArrayBuffer.isView(files)) throw wrong(`\`files\` must be files, not ${kindOf(files)}; ${GIVE}, or a list of these`);
  const list = Symbol.iterator in files ? [...files] : [files];
  if (list.length === 0) throw wrong('there is no file in `files`; give a GGUF, or safetensors with their config.json');
  const key = list.flatMap((file) => [file?.name, 'blob' in Object(file) ? /** @type {any} */ (file).blob : /** @type {any} */ (file)?.bytes ?? file]);
  return { files: list.map(fromOne), key };
}

/** @param {GivenFile} file */
function fromOne(file) {
  if (typeof file !== 'object' || file === null) throw wrong(`a file cannot be ${kindOf(file)}; ${GIVE}`);
  const { name, blob, bytes } = /** @type {{ name: unknown, blob?: unknown, bytes?: unknown }} */ (file);
  const contents = file instanceof Blob ? file : blob instanceof Blob ? blob : bytes === undefined ? null : blobOf(bytes);
  if (typeof name !== 'string' || name === '') {
    throw wrong(`${contents ? 'a file has no name' : `a file cannot be ${kindOf(file)}`}; ${GIVE}`);
  }
  if (!contents) throw wrong(`${name} has no contents; ${GIVE}`);
  return { name, blob: contents };
}

/** @param {unknown} bytes @returns {Blob | null} */
function blobOf(bytes) {
  const shared = typeof SharedArrayBuffer === 'function' ? SharedArrayBuffer : null;
  try {
    if (bytes instanceof ArrayBuffer) return new Blob([bytes]);
    // Shared memory may change while it is read.
    if (shared && bytes instanceof shared) return new Blob([new Uint8Array(bytes).slice()]);
    if (!ArrayBuffer.isView(bytes)) return null;
    const { buffer, byteOffset, byteLength } = bytes;
    return new Blob([new Uint8Array(buffer, byteOffset, byteLength).slice()]);
  } catch {
    return null; // a detached buffer
  }
}

/**
 * Replaces streams by blobs in browsers that cannot transfer a stream to a worker.
 * @param {readonly ModelFile[]} files
 * @returns {Promise<ModelFile[]>}
 */
export async function transferable(files) {
  if (!files.some((file) => 'stream' in file) || canTransferStreams()) return [...files];
  const whole = [];
  for (const file of files) whole.push('blob' in file ? file : { name: file.name, blob: await new Response(/** @type {ReadableStream<any>} */ (file.stream)).blob() });
  return whole;
}

/** @type {boolean | undefined} Tested once, because each test creates a pair of ports. */ let transfers;

function canTransferStreams() {
  if (transfers !== undefined) return transfers;
  try {
    const stream = new ReadableStream();
    const copy = structuredClone(stream, { transfer: [/** @type {any} */ (stream)] });
    void copy.cancel().catch(() => {}); // closes the ports
    transfers = true;
  } catch {
    transfers = false;
  }
  return transfers;
}
