// The limits of a step: every weight is read once, and the memory has a bandwidth.

/** @typedef {{ n_layer: number, n_embd: number, vocab_size: number }} Widths */

/** Bytes of a weight in the model; blocks of 32 weights have a scale of 4 bytes. */
const BYTES_PER_WEIGHT = { f32: 4, q8_0: (32 + 4) / 32, q4_0: (16 + 4) / 32 };

/**
 * Bytes of the weights that a step of decode reads: the matrices of all blocks and the lm_head. It reads one row of the
 * embeddings; norms and biases are too small to count.
 * @param {Widths} model
 * @param {keyof typeof BYTES_PER_WEIGHT} precision
 */
export function bytesPerStep({ n_layer, n_embd, vocab_size }, precision) {
  // Queries, keys and values: 3 n²; the output of attention: n²; up and down: 4 n² each.
  const weights = n_layer * 12 * n_embd ** 2 + vocab_size * n_embd;
  return weights * BYTES_PER_WEIGHT[precision];
}

/**
 * Operations that a position of a prompt needs: a multiplication and an addition for each weight of the matrices of all
 * blocks. Attention is small, and the lm_head is used for the last position only.
 * @param {Omit<Widths, 'vocab_size'>} model
 */
export const operationsPerPosition = ({ n_layer, n_embd }) => 2 * n_layer * 12 * n_embd ** 2;

/**
 * The limits of a precision, from everything that was measured. A step is limited by the memory or by the product of one
 * row, whichever is slower; a prompt by the product of many rows.
 * @param {ReturnType<typeof wasm_bindgen.measure_limits>} limits
 * @param {string} precision
 */
export function limitsOf({ stream_gb_s, products }, precision) {
  const rates = products.filter((product) => product.precision === precision);
  const [one, many] = [rates.find(({ rows }) => rows === 1), rates.find(({ rows }) => rows > 1)];
  return { gb_s: Math.min(stream_gb_s, one?.gb_s ?? Infinity), stream_gb_s, product_gb_s: one?.gb_s ?? null, gop_s: many?.gop_s };
}
