// Bytes to base64 in lines, which HTML, mail and editors leave unchanged, and back.

/** Characters in a line. A mail server may refuse more than 998. A multiple of four, so that each line can be decoded alone. */
const LINE = 900;
/** About how many characters are decoded at once. */
const PART = 1 << 19;

/** @param {Uint8Array} bytes @returns {string} */
export function encode(bytes) {
  const digits = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
  return digits.replaceAll(new RegExp(`.{1,${LINE}}`, 'g'), '$&\n');
}

/**
 * @param {string} text the result of `encode`, with any white space around its lines
 * @param {number} [size] characters in a part, at least
 * @returns {Generator<Uint8Array<ArrayBuffer>, void, void>} the bytes, in parts
 */
export function* decode(text, size = PART) {
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\n', at + size);
    const next = end < 0 ? text.length : end + 1;
    yield bytes(text.slice(at, next));
    at = next;
  }
}

/** @param {string} digits @returns {Uint8Array<ArrayBuffer>} */
function bytes(digits) {
  const { fromBase64 } = /** @type {{ fromBase64?: (digits: string) => Uint8Array<ArrayBuffer> }} */ (/** @type {unknown} */ (Uint8Array));
  // Missing in the oldest browsers that the page supports.
  if (fromBase64) return fromBase64.call(Uint8Array, digits);
  const characters = atob(digits);
  const decoded = new Uint8Array(characters.length);
  for (let i = 0; i < decoded.length; i++) decoded[i] = characters.charCodeAt(i);
  return decoded;
}
