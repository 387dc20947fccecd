// How many parameters a GPT-2 has and how much memory it needs, from its shape. src/gpt2/checkpoint/budget.rs computes the
// same from a header; a test there compares both for every model of the catalogue.

/** @typedef {import('../www/client/arguments.js').Precision} Precision */
/** @typedef {import('../www/client/catalog.js').Shape} Shape */

/** Bytes of a weight. The quantised formats hold 32 weights in 8 or 4 bits and a 32-bit scale. */
const BYTES = { f32: 4, q8_0: 36 / 32, q4_0: 20 / 32 };

/** Outputs of a matrix that are packed side by side. Only the vocabulary is not a multiple. */
const OUTPUTS = { f32: 8, q8_0: 4, q4_0: 4 };

/** Width of an attention head, in every published GPT-2. */
const HEAD_WIDTH = 64;

/** For activations, the tokenizer, the pieces of a file in flight, and the program. */
const WORKING_SPACE = 48 * 2 ** 20;

/** Weights that the precision concerns: the embedding and, in a block, qkv, projection and the two of the MLP. @param {Shape} shape */
const matrices = ({ n_layer, n_embd, n_vocab }) => n_vocab * n_embd + n_layer * (3 + 1 + 4 + 4) * n_embd ** 2;

/** Weights that stay f32: positions, norms and biases. @param {Shape} shape */
const vectors = ({ n_layer, n_embd, n_ctx }) => n_ctx * n_embd + n_layer * (3 + 1 + 4 + 1 + 2 * 2) * n_embd + 2 * n_embd;

/** @param {Shape} shape */
export const parameters = (shape) => matrices(shape) + vectors(shape);

/**
 * Bytes from the start of the load to a full context: the weights, the KV cache, the largest matrix that is transposed
 * during the load, and working space.
 * @param {Shape} shape @param {Precision} precision
 */
export function memoryNeeded(shape, precision) {
  const weights = matrices(shape) * BYTES[precision] + vectors(shape) * BYTES.f32;
  // In f32; or keys in 16 bits and values in 8, with a scale each.
  const position = precision === 'f32' ? 2 * 4 * HEAD_WIDTH : (2 + 1) * HEAD_WIDTH + 2 * 4;
  const cache = shape.n_layer * shape.n_ctx * (shape.n_embd / HEAD_WIDTH) * position;
  const transposed = precision === 'f32' ? 0 : 4 * (4 * shape.n_embd ** 2);
  const padding = (-shape.n_vocab & (OUTPUTS[precision] - 1)) * shape.n_embd * BYTES[precision];
  return weights + padding + cache + transposed + WORKING_SPACE;
}
