// This project's own system: the 124M shape in each precision, and the embedded model.
import { SHAPES, VOCAB } from '../../tests/support/shapes.mjs';
import { ggufFile } from './gguf.mjs';
import { bytesPerStep, operationsPerPosition } from './limit.mjs';
import { shown } from './shown.mjs';
import { starts } from './start.mjs';
import { Tab } from './tab.mjs';

/** @typedef {import('./bench.mjs').Subject} Subject */
/** @typedef {import('./summary.mjs').Sample} Sample */
/** @typedef {import('./gguf.mjs').Precision} Precision */
/** @typedef {import('../../www/types/ModelInfo.js').ModelInfo} ModelInfo */
/** @typedef {import('../../www/types/Record.js').Record} Record */

/** Steps measured after a prompt; few enough to count as being at its end. */
const STEPS = 16;
/** The shape of the embedded model, to check what it reports. */
const EMBEDDED = { n_layer: 6, n_embd: 192, vocab_size: VOCAB };
const EVERY_FILTER = { temperature: 0.8, top_k: 50, top_p: 0.95, min_p: 0.02, repetition_penalty: 1.2, top_logprobs: 20 };
/** Tokens of the run in which the browser compiles the hot functions. */
const WARM_UP = 64;

/** Makes samples of one system in one precision. @param {string} system @param {string} precision */
function sampler(system, precision) {
  /**
   * @param {import('./summary.mjs').Measure} measure
   * @param {number} value
   * @param {string} unit
   * @param {Partial<Sample>} [more]
   * @returns {Sample}
   */
  return (measure, value, unit, more = {}) => ({ measure, system, precision, position: null, variant: null, value, unit, ...more });
}

/**
 * Decode and prefill by position, sampling, memory. A run near the end of the context continues to its end.
 * @param {Tab} tab with a model
 * @param {ModelInfo} model
 * @param {number[]} positions
 * @param {number} reads bytes of weights that a step reads
 * @param {number} operations that a position of a prompt needs
 * @param {ReturnType<typeof sampler>} sample
 */
async function runs(tab, model, positions, reads, operations, sample) {
  const samples = [sample('memory', await tab.memory() / 1e6, 'MB', { variant: 'after load' })];
  /** @param {Record} record */
  const steps = (record) => record.steps.slice(1, STEPS + 1);
  await tab.run(WARM_UP, { max_tokens: WARM_UP });
  for (const position of positions) {
    const fills = model.context_length - position <= 2 * STEPS;
    const record = await tab.run(position, { max_tokens: fills ? model.context_length : STEPS + 1 });
    if (fills) samples.push(sample('memory', await tab.memory() / 1e6, 'MB', { variant: 'full context' }));
    samples.push(sample('prefill', position / record.prefill_ms * 1000, 'tokens/s', { position, operations }));
    for (const { forward_ms, sample_ms } of steps(record)) {
      samples.push(sample('decode', forward_ms + sample_ms, 'ms', { position, reads }));
      samples.push(sample('sampling', sample_ms, 'ms', { variant: 'default settings' }));
    }
  }
  for (const { sample_ms } of steps(await tab.run(WARM_UP, { ...EVERY_FILTER, max_tokens: STEPS + 1 }))) {
    samples.push(sample('sampling', sample_ms, 'ms', { variant: 'every filter' }));
  }
  return samples;
}

/**
 * A tab with a model from a picked file.
 * @param {import('./tab.mjs').Place} place
 * @param {string} path
 * @param {Precision} precision
 * @returns {Promise<{ tab: Tab, model: ModelInfo, ms: number, least: number }>} how long loading the file took, and how
 *   long only reading it
 */
async function loaded(place, path, precision) {
  const tab = await Tab.open(place);
  await tab.pick(path);
  const least = await tab.read();
  return { tab, least, ...await tab.load(precision) };
}

/** @param {Precision} precision @param {boolean} quick @returns {Subject} */
function gpt2(precision, quick) {
  const [system, sample] = ['gpt2-web', sampler('gpt2-web', precision)];
  const reads = bytesPerStep({ ...SHAPES.gpt2, vocab_size: VOCAB }, precision);
  let path = '';
  return {
    system, precision, reads,
    async prepare(folder) { ({ path } = await ggufFile(folder, 'gpt2', SHAPES.gpt2, precision)); },
    async round(place) {
      const { tab, model, ms, least } = await loaded(place, path, precision);
      const samples = [
        sample('load', least, 'ms', { variant: 'only reading the file' }), sample('load', ms, 'ms', { variant: 'file', least }),
        ...await runs(tab, model, quick ? [16, 512] : [16, 128, 512, 1000], reads, operationsPerPosition(SHAPES.gpt2), sample),
      ];
      await tab.close();
      if (precision === 'f32') {
        // As for a published checkpoint.
        const { tab, ms, least } = await loaded(place, path, 'q8_0');
        samples.push(sample('load', ms, 'ms', { variant: 'file, quantised to q8_0', least }));
        await tab.close();
      }
      return samples;
    },
  };
}

/** The embedded model. @param {boolean} quick @returns {Subject} */
function embedded(quick) {
  const [system, precision] = ['gpt2-web, embedded model', /** @type {const} */ ('q8_0')];
  const sample = sampler(system, precision);
  const reads = bytesPerStep(EMBEDDED, precision);
  return {
    system, precision, reads,
    async prepare() {},
    async round(place) {
      const tab = await Tab.open(place);
      const { model } = await tab.loadEmbedded();
      if (model.precision !== precision || bytesPerStep(model, precision) !== reads) {
        throw new Error('the embedded model has another shape or precision than the benchmark knows');
      }
      const samples = await runs(tab, model, quick ? [16, 480] : [16, 128, 256, 480], reads, operationsPerPosition(EMBEDDED), sample);
      await tab.close();
      for (const ms of await starts(place)) samples.push(sample('start', ms, 'ms', { variant: 'page open to first token' }));
      for (const { ms, least } of await shown(place)) samples.push(sample('page', ms, 'ms', { variant: 'token to token, shown', least }));
      return samples;
    },
  };
}

/** @param {{ quick: boolean }} options @returns {Subject[]} */
export function subjects({ quick }) {
  return [gpt2('q8_0', quick), gpt2('q4_0', quick), gpt2('f32', quick), embedded(quick)];
}
