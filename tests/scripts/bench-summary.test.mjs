import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesPerStep, limitsOf, operationsPerPosition } from '../../benches/browser/limit.mjs';
import { limitOf, median, summarise, table } from '../../benches/browser/summary.mjs';

/** @typedef {import('../../benches/browser/summary.mjs').Sample} Sample */

/** @param {Partial<Sample>} sample @returns {Sample} */
const sample = (sample) => ({ measure: 'decode', system: 'ours', precision: 'q8_0', position: 16, variant: null, value: 1, unit: 'ms', ...sample });

const SPEEDS = [{ system: 'ours', precision: 'q8_0', gb_s: 10 }, { system: 'ours', precision: 'f32', gb_s: 5 }];

test('a median is the middle number, or the mean of the two middle ones', () => {
  assert.deepEqual([median([3, 1, 2]), median([4, 1, 3, 2]), median([7]), median([])], [2, 2.5, 7, NaN]);
});

test('a result is the median of the samples that differ only in their value', () => {
  const results = summarise([
    sample({ value: 10 }), sample({ value: 30 }), sample({ value: 11 }),
    sample({ value: 50, position: 512 }), sample({ value: 60, precision: 'f32' }), sample({ value: 70, variant: 'other' }),
  ], SPEEDS);
  assert.deepEqual(results.map(({ value, samples }) => [value, samples]), [[11, 3], [50, 1], [60, 1], [70, 1]]);
  assert.deepEqual(results[0], { measure: 'decode', system: 'ours', precision: 'q8_0', position: 16, variant: null, value: 11, unit: 'ms', of_limit: null, samples: 3 });
});

test('the share of the limit is the shortest possible time divided by the time', () => {
  // 100 MB at 10 GB/s take 10 ms.
  const results = summarise([sample({ value: 20, reads: 100e6 }), sample({ value: 40, reads: 100e6 }), sample({ value: 25, reads: 100e6 })], SPEEDS);
  assert.equal(results[0]?.of_limit, 0.4);
  const [load] = summarise([sample({ measure: 'load', value: 300, least: 100 }), sample({ measure: 'load', value: 800, least: 400 })], SPEEDS);
  assert.ok(Math.abs((load?.of_limit ?? NaN) - (1 / 3 + 1 / 2) / 2) < 1e-12);
});

test('the share of a rate is the rate divided by the peak rate', () => {
  // 2 GOP a token at 100 GOP/s: 50 tokens/s.
  const speeds = [{ system: 'ours', precision: 'q8_0', gb_s: 10, gop_s: 100 }];
  const results = summarise([sample({ measure: 'prefill', value: 40, unit: 'tokens/s', operations: 2e9 })], speeds);
  assert.equal(results[0]?.of_limit, 0.8);
  assert.equal(summarise([sample({ measure: 'prefill', value: 40, operations: 2e9 })], SPEEDS)[0]?.of_limit, null);
  assert.equal(operationsPerPosition({ n_layer: 12, n_embd: 768 }), 2 * 84_934_656);
});

test('a step is limited by the memory or by its product, whichever is slower', () => {
  const product = (/** @type {string} */ precision, /** @type {number} */ rows, /** @type {number} */ gb_s) => ({ precision, rows, gb_s, gop_s: 2 * gb_s });
  const limits = { stream_gb_s: 20, by_streams: [], products: [product('q8_0', 1, 30), product('q8_0', 32, 1), product('q4_0', 1, 15)] };
  assert.deepEqual(limitsOf(limits, 'q8_0'), { gb_s: 20, stream_gb_s: 20, product_gb_s: 30, gop_s: 2 });
  assert.deepEqual(limitsOf(limits, 'q4_0'), { gb_s: 15, stream_gb_s: 20, product_gb_s: 15, gop_s: undefined });
  assert.deepEqual(limitsOf(limits, 'f32'), { gb_s: 20, stream_gb_s: 20, product_gb_s: null, gop_s: undefined });
});

test('the limit of a precision is that of memory as large as its weights', () => {
  const results = summarise([sample({ value: 20, reads: 100e6 }), sample({ value: 40, precision: 'f32', reads: 100e6 }), sample({ precision: 'q4_0', reads: 100e6 })], SPEEDS);
  assert.deepEqual(results.map(({ of_limit }) => of_limit), [0.5, 0.5, null]);
  const speeds = [8, 11, 12].map((gb_s) => ({ system: 'ours', precision: 'q8_0', gb_s }));
  assert.equal(limitOf(speeds, { system: 'ours', precision: 'q8_0' }), 11);
  assert.ok(Number.isNaN(limitOf(speeds, { system: 'theirs', precision: 'q8_0' })));
});

test('a step reads every weight of the blocks and of the lm_head once', () => {
  const gpt2 = { n_layer: 12, n_embd: 768, vocab_size: 50257 };
  // All 124 439 808 weights of GPT-2 except positions, norms and biases.
  const weights = 12 * 12 * 768 * 768 + 50257 * 768;
  assert.equal(bytesPerStep(gpt2, 'f32'), 4 * weights);
  assert.equal(bytesPerStep(gpt2, 'q8_0'), weights * 1.125);
  assert.equal(bytesPerStep(gpt2, 'q4_0'), weights * 0.625);
});

test('the table is sorted by measure and compares figures with each other', () => {
  const results = summarise([
    sample({ measure: 'size', precision: null, position: null, variant: 'module, raw', value: 3.5, unit: 'MB' }),
    sample({ measure: 'load', position: null, variant: 'file', value: 300, least: 200 }),
    sample({ measure: 'prefill', position: 512, value: 200, unit: 'tokens/s' }),
    sample({ measure: 'sampling', position: null, variant: 'every filter', value: 0.5 }),
    sample({ value: 20, reads: 150e6 }), sample({ value: 24, position: 512, reads: 150e6 }),
    sample({ value: 40, precision: 'q4_0' }),
  ], SPEEDS);
  assert.deepEqual(table(results).split('\n'), [
    'measure   system  precision  at            median  unit      of limit',
    'decode    ours    q8_0       16             20.00  ms            75 %  50.0 tokens/s',
    'decode    ours    q8_0       512            24.00  ms            63 %  41.7 tokens/s, 1.20 x position 16',
    'decode    ours    q4_0       16             40.00  ms                  25.0 tokens/s',
    'prefill   ours    q8_0       512           200.00  tokens/s            a position takes 0.25 of a step at 16',
    'sampling  ours    q8_0       every filter   0.500  ms                  2.5 % of a step at 16',
    'load      ours    q8_0       file          300.00  ms            67 %  1.50 x reading the file',
    'size      ours               module, raw    3.500  MB',
  ]);
});
