import { isHtml } from '../html.js';

/**
 * What a file is, although it was taken for a model, and what to do.
 * @typedef {{ what: string, advice: string }} OtherFormat
 */

/** @type {OtherFormat} */
export const HTML_PAGE = { what: 'an HTML page', advice: 'give the address of the file itself' };

/** @type {readonly [beginsWith: RegExp, OtherFormat][]} */
const FORMATS = [
  [/^version https:\/\/git-lfs/, { what: 'a Git LFS pointer, which only says where the file is', advice: 'give the address that the file itself is downloaded from' }],
  [/^PK\x03\x04/, { what: 'a ZIP archive (pytorch_model.bin of PyTorch is one)', advice: 'give the .safetensors file or a GGUF' }],
  [/^\x89HDF/, { what: 'an HDF5 file (tf_model.h5 of TensorFlow)', advice: 'give the .safetensors file or a GGUF' }],
];

/** What the first bytes of a file show it to be; null if it may be a model. @param {Uint8Array} bytes @returns {OtherFormat | null} */
export function otherFormat(bytes) {
  const beginning = new TextDecoder('latin1').decode(bytes.subarray(0, 256));
  if (isHtml(beginning)) return HTML_PAGE;
  return FORMATS.find(([beginsWith]) => beginsWith.test(beginning))?.[1] ?? null;
}
