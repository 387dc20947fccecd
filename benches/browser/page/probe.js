// A worker that measures the machine. It answers a message with `{ value }` or `{ error }`.
importScripts('/probe/gpt2_web_probe.js');
/** @typedef {{ read: Blob } | { limits: number }} Question a file to read, or megabytes to measure the memory with */

/** Bytes that the model's worker reads from a file at once. */
const PIECE_BYTES = 4 << 20;
/** Pieces that it requests while it works on one. */
const AHEAD = 2;

/** Milliseconds to read a whole file. @param {Blob} file */
async function read(file) {
  const began = performance.now();
  /** @type {Promise<ArrayBuffer>[]} */ const coming = [];
  for (let at = 0; at < file.size; at += PIECE_BYTES) {
    coming.push(file.slice(at, at + PIECE_BYTES).arrayBuffer());
    if (coming.length > AHEAD) await coming.shift();
  }
  await Promise.all(coming);
  return performance.now() - began;
}

/** @param {number} megabytes */
async function limits(megabytes) {
  await wasm_bindgen({ module_or_path: await fetch('/probe/gpt2_web_probe_bg.wasm') });
  return wasm_bindgen.measure_limits(megabytes);
}

self.onmessage = ({ data }) => {
  const question = /** @type {Question} */ (data);
  const answer = 'read' in question ? read(question.read) : limits(question.limits);
  answer.then((value) => self.postMessage({ value }), (error) => self.postMessage({ error: String(error) }));
};
