// What every peer runs: a warm-up prompt, then prompts of several lengths, each followed by single steps, with greedy
// decoding that ignores the end of the text. Also turns the times into samples.
import { SHAPES, VOCAB } from '../../tests/support/shapes.mjs';
import { bytesPerStep } from '../browser/limit.mjs';

/** @typedef {import('../browser/summary.mjs').Sample} Sample */
/** @typedef {keyof typeof BYTES_PER_WEIGHT} Format */

/**
 * A subject of the benchmark that starts its own browser or program.
 * @typedef {Omit<import('../browser/bench.mjs').Subject, 'round'> & { round: () => Promise<Sample[]> }} Subject
 */

/** Steps after each prompt. */
export const STEPS = 16;
/** Tokens of the warm-up prompt. */
export const WARM_UP = 16;
/** In the file formats: 32 weights share a scale of two bytes; in int8 there are hardly any scales. */
const BYTES_PER_WEIGHT = { q8_0: (32 + 2) / 32, q4_0: (16 + 2) / 32, int8: 1 };

/** Lengths of the prompts. @param {boolean} quick */
export const positions = (quick) => (quick ? [16, 512] : [16, 512, 1000]);

/** Bytes of weights that a step reads. @param {Format} format */
export function readsOf(format) {
  const shape = { ...SHAPES.gpt2, vocab_size: VOCAB };
  return bytesPerStep(shape, 'f32') / 4 * BYTES_PER_WEIGHT[format];
}

/**
 * @param {Pick<Subject, 'system' | 'precision'>} subject
 * @param {number} ms that loading the model took
 * @returns {Sample}
 */
export function loaded({ system, precision }, ms) {
  return { measure: 'load', system, precision, position: null, variant: null, value: ms, unit: 'ms' };
}

/**
 * @param {Pick<Subject, 'system' | 'precision' | 'reads'>} subject
 * @param {number} position length of the prompt
 * @param {number[]} times milliseconds from the beginning of the prompt to each token
 * @returns {Sample[]}
 */
export function ran({ system, precision, reads }, position, times) {
  const [first, ...later] = times;
  if (first === undefined || later.length !== STEPS) throw new Error(`${system} gave ${times.length} tokens instead of ${STEPS + 1}`);
  const about = { system, precision, position, variant: null };
  return [
    { measure: 'prefill', ...about, value: position / first * 1000, unit: 'tokens/s' },
    ...later.map((time, i) => ({ measure: /** @type {const} */ ('decode'), ...about, value: time - Number(times[i]), unit: 'ms', reads })),
  ];
}
