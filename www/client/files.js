import { Gpt2Error } from './error.js';

/**
 * A file as the worker takes it: all of it at hand, or as it comes. A stream is read once, in order.
 * @typedef {{ name: string, blob: Blob } | { name: string, stream: ReadableStream<Uint8Array>, size: number | null }} ModelFile
 */

/** What a page may give: a picked `File`, or a name with the contents. @typedef {File | { name: string, blob: Blob } | { name: string, bytes: ArrayBuffer | ArrayBufferView<ArrayBuffer> }} GivenFile */

/**
 * @param {readonly GivenFile[]} files
 * @returns {{ name: string, blob: Blob }[]}
 * @throws {Gpt2Error}
 */
export function fromGiven(files) {
  return files.map((file) => {
    if (file instanceof Blob) return { name: file.name, blob: file };
    if ('blob' in file && file.blob instanceof Blob) return file;
    if ('bytes' in file && (file.bytes instanceof ArrayBuffer || ArrayBuffer.isView(file.bytes))) {
      return { name: file.name, blob: new Blob([file.bytes]) };
    }
    const name = typeof (/** @type {any} */ (file)?.name) === 'string' ? file.name : 'a file';
    throw new Gpt2Error('invalid_request', `${name} has no contents; give a File, { name, blob }, or { name, bytes } with an ArrayBuffer or a typed array`);
  });
}

/**
 * Whether the files say nothing of a tokenizer: they are safetensors, which hold none, without one beside them.
 * @param {readonly { name: string }[]} files
 */
export function lackTokenizer(files) {
  const has = (/** @type {RegExp} */ name) => files.some((file) => name.test(file.name));
  return has(/\.safetensors$/i) && !has(/\.gguf$/i) && !has(/^(tokenizer\.json|vocab\.json|merges\.txt)$/i);
}

/**
 * The streams, for browsers that cannot hand one over to a worker, as what they hold.
 * @param {readonly ModelFile[]} files
 * @returns {Promise<ModelFile[]>}
 */
export async function transferable(files) {
  if (canTransferStreams()) return [...files];
  const whole = [];
  for (const file of files) whole.push('blob' in file ? file : { name: file.name, blob: await new Response(/** @type {ReadableStream<any>} */ (file.stream)).blob() });
  return whole;
}

function canTransferStreams() {
  try {
    const stream = new ReadableStream();
    structuredClone(stream, { transfer: [/** @type {any} */ (stream)] });
    return true;
  } catch {
    return false;
  }
}
