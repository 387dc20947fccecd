import { number } from '../../format.js';
import { chart } from '../chart.js';
import { figure, ms } from '../pieces.js';

/** @typedef {import('../../../types/LatencyRow.js').LatencyRow} LatencyRow */
/** @typedef {import('../../../types/LatencySummary.js').LatencySummary} LatencySummary */

/** Steps whose mean makes a point of the line. */
const WINDOW = 16;

/** @param {readonly LatencyRow[]} rows @returns {[number, number][]} */
function smooth(rows) {
  /** @type {[number, number][]} */ const points = [];
  for (let from = 0; from + WINDOW <= rows.length; from += WINDOW) {
    const part = rows.slice(from, from + WINDOW);
    const mean = (/** @type {(row: LatencyRow) => number} */ of) => part.reduce((sum, row) => sum + of(row), 0) / part.length;
    points.push([mean(({ position }) => position), mean(({ ms }) => ms)]);
  }
  return points;
}

/** @type {import('../panel.js').PanelSpec<LatencyRow, LatencySummary>} */
export const latency = {
  name: 'latency',
  lead: 'With the cache, a step runs one position. But its attention reads the keys and values of all positions before it. One long run shows whether that can be seen.',
  first: ['prompt', 'n'],
  figures(_, { first_half_ms, second_half_ms, line, arithmetic_slope_ms, drift, percentiles_ms: [p50, p95, p99] }) {
    const perHundred = (/** @type {number} */ slope) => `${number(100_000 * slope)} µs`;
    return [
      { value: ms(first_half_ms), what: 'mean step, first half' },
      { value: ms(second_half_ms), what: 'mean step, second half', note: `${(second_half_ms / first_half_ms).toFixed(2)} × the first` },
      ...(line ? [{ value: perHundred(line.slope), what: 'more per 100 positions', note: arithmetic_slope_ms === null ? `r² ${line.r2.toFixed(2)}` : `arithmetic alone: ${perHundred(arithmetic_slope_ms)}; r² ${line.r2.toFixed(2)}` }] : []),
      drift ? { value: 'drift', what: 'percentiles say little here', note: `p50 ${ms(p50)}, p95 ${ms(p95)}: they mix early and late steps` } : { value: ms(p95), what: '95th percentile', note: `p50 ${ms(p50)}, p99 ${ms(p99)}` },
    ];
  },
  draw(rows, { line }) {
    const sorted = rows.map(({ ms }) => ms).sort((a, b) => a - b);
    const most = (sorted[Math.floor(sorted.length * 0.98)] ?? 1) * 1.4;
    const above = rows.filter(({ ms }) => ms > most).length;
    const [first, last] = [rows[0]?.position ?? 0, rows.at(-1)?.position ?? 1];
    const at = (/** @type {number} */ position) => /** @type {const} */ ([position, line ? line.intercept + line.slope * position : 0]);
    const drawing = chart({
      title: 'Milliseconds of each step by position',
      x: { title: 'position', min: first, max: last },
      y: { title: 'milliseconds per step', min: 0, max: most },
      marks: [
        { kind: 'dots', points: rows.filter(({ ms }) => ms <= most).map(({ position, ms }) => /** @type {const} */ ([position, ms])), tone: 'quiet' },
        { kind: 'line', points: smooth(rows), tone: 'accent', label: `means of ${WINDOW} steps` },
        ...(line ? [/** @type {const} */ ({ kind: 'line', points: [at(first), at(last)], tone: 'warm', dashed: true, label: 'fitted line' })] : []),
      ],
    });
    return [figure(`Each dot is a step.${above > 0 ? ` ${above} slower step${above === 1 ? ' is' : 's are'} above the frame.` : ''}`, drawing)];
  },
  columns: [
    { name: 'step', of: ({ step }) => step },
    { name: 'position', of: ({ position }) => position },
    { name: 'ms', of: ({ ms }) => ms.toFixed(3) },
  ],
  read: 'If the weights take most of the time, the line is nearly flat: they are read once per step, however long the text. What grows is attention. Where it grows faster than arithmetic says, reading the cache costs more than multiplying with it.',
  not: 'other lengths than these, and the prefill. One run is one sample: other work on the machine can bend the line.',
};
