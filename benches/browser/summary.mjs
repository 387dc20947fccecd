// Samples to results, and results to a table. Measures nothing.

/** What benches/probe measures. @typedef {ReturnType<typeof wasm_bindgen.measure_limits>} Limits */
/**
 * What the machine reached in the same run: gigabytes per second through as many weights as the model has, and 10⁹
 * operations per second with many rows at a time, if that is known.
 * @typedef {{ system: string, precision: string, gb_s: number, gop_s?: number | undefined }} Speed
 */
/** @typedef {'decode' | 'prefill' | 'sampling' | 'page' | 'load' | 'memory' | 'start' | 'size'} Measure */

/**
 * What was measured. A result is the median of all samples that agree in these.
 * @typedef {object} Key
 * @property {Measure} measure
 * @property {string} system
 * @property {string | null} precision
 * @property {number | null} position tokens before the step, or of the prompt
 * @property {string | null} variant what else distinguishes values of a measure
 */

/**
 * One measurement.
 * @typedef {Key & { value: number, unit: string, least?: number, reads?: number, operations?: number }} Sample
 * `least`: the lower bound of the value, in its unit. `reads`: bytes that must come from memory; they set the shortest time
 * in milliseconds. `operations`: per thing that the value counts per second; they set the highest value.
 */

/**
 * @typedef {Key & { value: number, unit: string, of_limit: number | null, samples: number }} Result
 * `of_limit`: the share of the limit that was reached, at most 1.
 */

/** In the order of the table. @type {Measure[]} */
const MEASURES = ['decode', 'prefill', 'sampling', 'page', 'load', 'memory', 'start', 'size'];

/** @param {readonly number[]} numbers */
export function median(numbers) {
  const sorted = numbers.toSorted((a, b) => a - b);
  const [below, above] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  return below === undefined || above === undefined ? NaN : (below + above) / 2;
}

/**
 * A limit of a system in a precision: the median of the measurements, NaN without any.
 * @param {readonly Speed[]} speeds
 * @param {{ system: string, precision: string | null }} of
 * @param {'gb_s' | 'gop_s'} [which]
 */
export function limitOf(speeds, of, which = 'gb_s') {
  const mine = speeds.filter(({ system, precision }) => system === of.system && precision === of.precision);
  return median(mine.flatMap((speed) => speed[which] ?? []));
}

/**
 * @param {readonly Sample[]} samples
 * @param {readonly Speed[]} speeds
 * @returns {Result[]}
 */
export function summarise(samples, speeds) {
  /** @type {Map<string, Sample[]>} */ const groups = new Map();
  for (const sample of samples) {
    const { measure, system, precision, variant, position } = sample;
    const key = JSON.stringify([measure, system, precision, variant, position]);
    groups.set(key, [...groups.get(key) ?? [], sample]);
  }
  const results = [...groups.values()].map((group) => {
    const [{ measure, system, precision, position, variant, unit }] = /** @type {[Sample]} */ (group);
    const speed = limitOf(speeds, { system, precision });
    const operationsPerSecond = limitOf(speeds, { system, precision }, 'gop_s') * 1e9;
    const shares = group.flatMap(({ value, least, operations, reads = NaN }) => {
      if (operations !== undefined) return Number.isNaN(operationsPerSecond) ? [] : [value * operations / operationsPerSecond];
      const bound = least ?? reads / speed / 1e6;
      return Number.isNaN(bound) ? [] : [bound / value];
    });
    return {
      measure, system, precision, position, variant, value: median(group.map(({ value }) => value)), unit,
      of_limit: shares.length ? median(shares) : null, samples: group.length,
    };
  });
  return results.toSorted((a, b) => MEASURES.indexOf(a.measure) - MEASURES.indexOf(b.measure));
}

/**
 * What a result means beside others of its system and precision.
 * @param {Result} result
 * @param {readonly Result[]} results
 */
function remark(result, results) {
  const first = results.find(({ measure, system, precision }) =>
    measure === 'decode' && system === result.system && precision === result.precision);
  switch (result.measure) {
    case 'decode': {
      const speed = `${(1000 / result.value).toFixed(1)} tokens/s`;
      return first && first !== result ? `${speed}, ${(result.value / first.value).toFixed(2)} x position ${first.position}` : speed;
    }
    case 'prefill':
      return first ? `a position takes ${(1000 / result.value / first.value).toFixed(2)} of a step at ${first.position}` : '';
    case 'sampling':
      return first ? `${(result.value / first.value * 100).toFixed(1)} % of a step at ${first.position}` : '';
    case 'page':
      return `${(1000 / result.value).toFixed(0)} tokens/s`;
    case 'load':
      return result.of_limit === null ? '' : `${(1 / result.of_limit).toFixed(2)} x reading the file`;
    default:
      return '';
  }
}

/** @param {readonly Result[]} results @returns {string} */
export function table(results) {
  const rows = results.map((result) => [
    result.measure, result.system, result.precision ?? '', [result.position, result.variant].filter((part) => part !== null).join(', '),
    result.value.toFixed(result.value < 10 ? 3 : result.value < 1000 ? 2 : 0), result.unit,
    result.of_limit === null ? '' : `${(result.of_limit * 100).toFixed(0)} %`, remark(result, results),
  ]);
  const lines = [['measure', 'system', 'precision', 'at', 'median', 'unit', 'of limit', ''], ...rows];
  const widths = lines.reduce((widths, line) => line.map((cell, i) => Math.max(cell.length, widths[i] ?? 0)), /** @type {number[]} */ ([]));
  // Numbers are aligned to the right.
  const toTheRight = new Set([4, 6]);
  const pad = (/** @type {string} */ cell, /** @type {number} */ i) => (toTheRight.has(i) ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0));
  return lines.map((line) => line.map(pad).join('  ').trimEnd()).join('\n');
}
