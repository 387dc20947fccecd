import { integer, median, milliseconds, quantile } from './format.js';

/** @typedef {import('../types/StepRecord.js').StepRecord} StepRecord */
/** @typedef {{ from: number, to: number, ms: number }} Chunk Positions `from..to` of the prompt, in one pass. */

/** The medians of the two halves must differ by more than this to be called a trend. */
const FLAT = 0.1;

/** What a step costs. @param {StepRecord} record */
export const cost = ({ forward_ms, sample_ms }) => forward_ms + sample_ms;

/**
 * The timeline in a sentence or two. A percentile is meaningful only if the times do not drift.
 * @param {readonly Chunk[]} prefill @param {readonly StepRecord[]} steps
 */
export function summarise(prefill, steps) {
  const positions = prefill.at(-1)?.to ?? 0;
  const read = `Prefill: ${integer(positions)} position${positions === 1 ? '' : 's'} in ${milliseconds(prefill.reduce((sum, { ms }) => sum + ms, 0))}.`;
  // The first token needs no pass: its logits come from the prefill.
  const times = steps.slice(1).map(cost);
  if (times.length === 0) return read;
  const half = times.length >> 1;
  const [first, last] = [median(times.slice(0, half)), median(times.slice(-half))];
  const many = `Then ${integer(times.length)} step${times.length === 1 ? '' : 's'}`;
  // A browser's clock may tick once per millisecond, and a tiny model's step can be shorter than that.
  if (median(times) === 0) return `${read} ${many}.`;
  const count = `${many}, median ${milliseconds(median(times))}`;
  if (times.length < 8 || first === 0 || last === 0) return `${read} ${count}.`;
  const ratio = last / first;
  const trend = `second half ÷ first half = ${ratio.toFixed(2)}`;
  if (Math.abs(ratio - 1) > FLAT) return `${read} ${count}; ${trend}: steps are slowing down or speeding up, from longer context or a busy machine.`;
  return `${read} ${count}; ${trend}: flat, thanks to the KV cache. 95th percentile ${milliseconds(quantile(times, 0.95))}.`;
}
