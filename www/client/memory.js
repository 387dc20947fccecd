/** How much memory a model takes, from its shape. */

/** @typedef {'f32' | 'q8_0' | 'q4_0'} Precision */
/** @typedef {{ n_layer: number, n_embd: number, n_ctx: number, n_vocab: number }} Shape of a GPT-2 with a tied head. */

/** Bytes of a weight. The quantised formats hold 32 weights in 8 or 4 bits and one 32-bit scale. */
export const BYTES = { f32: 4, q8_0: 36 / 32, q4_0: 20 / 32 };

/** Outputs of a matrix that are kept side by side: only the vocabulary is no multiple of that. */
const ROWS = { f32: 8, q8_0: 4, q4_0: 4 };

/** Width of a head, in every published GPT-2. */
const HEAD = 64;

/** What a 32-bit WebAssembly module can address. */
export const MOST = 2 ** 32;

/** For activations, the tokenizer, the pieces of a file on their way, and the program itself. */
const WORKING_SPACE = 48 * 2 ** 20;

/** Weights of the matrices, which the precision concerns: the embedding and, in a layer, qkv, projection and the two of the MLP. @param {Shape} shape */
const matrices = ({ n_layer, n_embd, n_vocab }) => n_vocab * n_embd + n_layer * (3 + 1 + 4 + 4) * n_embd ** 2;

/** Weights that stay f32: positions, norms and biases. @param {Shape} shape */
const rest = ({ n_layer, n_embd, n_ctx }) => n_ctx * n_embd + n_layer * (3 + 1 + 4 + 1 + 2 * 2) * n_embd + 2 * n_embd;

/** @param {Shape} shape */
export const parameters = (shape) => matrices(shape) + rest(shape);

/**
 * Bytes from the start of the load to a full context, as the loader counts them before it begins
 * (src/gpt2/checkpoint/budget.rs): the weights, the keys and values of every position, the largest matrix that is turned
 * around on its way, and some working space.
 * @param {Shape} shape @param {Precision} precision
 */
export function memoryNeeded(shape, precision) {
  const weights = matrices(shape) * BYTES[precision] + rest(shape) * BYTES.f32;
  // In f32; or keys in 16 bits and values in 8, with a scale each.
  const head = precision === 'f32' ? 2 * 4 * HEAD : (2 + 1) * HEAD + 2 * 4;
  const cache = shape.n_layer * shape.n_ctx * (shape.n_embd / HEAD) * head;
  const turned = precision === 'f32' ? 0 : 4 * (4 * shape.n_embd ** 2);
  const padding = (-shape.n_vocab & (ROWS[precision] - 1)) * shape.n_embd * BYTES[precision];
  return weights + padding + cache + turned + WORKING_SPACE;
}

/**
 * Whether that much can be had, in a word and a sentence.
 * @param {number} needed in bytes
 * @param {number | undefined} [device] the device's memory in GiB, roughly, where the browser tells (`navigator.deviceMemory`)
 * @returns {{ fits: 'yes' | 'perhaps' | 'no', why: string }}
 */
export function verdict(needed, device) {
  const gigabytes = (/** @type {number} */ bytes) => `${(bytes / 1e9).toFixed(1)} GB`;
  if (needed > MOST) return { fits: 'no', why: `needs ${gigabytes(needed)}, and a page can have ${gigabytes(MOST)}` };
  const bytes = device === undefined ? Infinity : device * 2 ** 30;
  if (needed > bytes) return { fits: 'no', why: `needs ${gigabytes(needed)}, and this device has about ${device} GiB` };
  if (needed > bytes / 2) return { fits: 'perhaps', why: `more than half of this device's ${device} GiB` };
  if (needed > 0.9 * MOST) return { fits: 'perhaps', why: `nearly all of the ${gigabytes(MOST)} a page can have` };
  return { fits: 'yes', why: 'fits' };
}
