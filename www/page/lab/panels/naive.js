import { integer, number } from '../../format.js';
import { chart } from '../chart.js';
import { figure, ms, times } from '../pieces.js';

/** @typedef {import('../../../types/NaiveRow.js').NaiveRow} NaiveRow */
/** @typedef {import('../../../types/NaiveSummary.js').NaiveSummary} NaiveSummary */

/** @param {readonly number[]} times @returns {[number, number][]} */
const steps = (times) => times.map((time, place) => [place + 1, time]);

/** @type {import('../panel.js').PanelSpec<NaiveRow, NaiveSummary>} */
export const naive = {
  name: 'naive',
  lead: 'Without a cache, the whole text is run again for every token. With the KV cache, each step runs one position. Both choose the same tokens; count what they process.',
  first: ['prompt', 'lengths'],
  figures(rows, { waste_factor, slowdown, equal, textbook_equal }) {
    const last = /** @type {NaiveRow} */ (rows.at(-1));
    return [
      { value: times(waste_factor), what: 'positions processed', note: `${integer(last.naive_positions)} instead of ${integer(last.cached_positions)} for ${integer(last.tokens)} tokens` },
      { value: times(slowdown), what: 'time', note: `${ms(last.naive_ms)} instead of ${ms(last.cached_ms)}` },
      ...(last.textbook_ms === null ? [] : [{ value: times(last.textbook_ms / last.cached_ms), what: 'textbook ÷ cached', note: `${ms(last.textbook_ms)} in plain matrix operations` }]),
      { value: equal ? 'yes' : 'no', what: 'the same tokens', note: textbook_equal === false ? 'the textbook model, in f32, differs at a near tie' : equal ? 'at every step of every row' : 'see the table' },
    ];
  },
  draw(rows) {
    const last = /** @type {NaiveRow} */ (rows.at(-1));
    const { cached_ms, naive_ms, textbook_ms } = last.steps;
    const drawing = chart({
      title: 'Milliseconds of each step, with and without the cache',
      x: { title: 'output token', min: 1 },
      y: { title: 'milliseconds per step', min: 0 },
      marks: [
        ...(textbook_ms.length ? [/** @type {const} */ ({ kind: 'line', points: steps(textbook_ms), tone: 'quiet', label: `textbook, whole text again: ${ms(last.textbook_ms ?? 0)}` })] : []),
        { kind: 'line', points: steps(naive_ms), tone: 'warm', label: `whole text again: ${ms(last.naive_ms)}` },
        { kind: 'line', points: steps(cached_ms), tone: 'accent', label: `with the cache: ${ms(last.cached_ms)}` },
      ],
    });
    return [figure(`Time of each step of the longest row. Medians of the repeats; the textbook model runs once.`, drawing)];
  },
  columns: [
    { name: 'tokens', of: ({ tokens }) => tokens },
    { name: 'positions, naive', of: ({ naive_positions }) => integer(naive_positions) },
    { name: 'positions, cached', of: ({ cached_positions }) => integer(cached_positions) },
    { name: 'waste', of: ({ waste_factor }) => times(waste_factor) },
    { name: 'ms, naive', of: ({ naive_ms }) => number(naive_ms) },
    { name: 'ms, cached', of: ({ cached_ms }) => number(cached_ms) },
    { name: 'ms, textbook', of: ({ textbook_ms }) => textbook_ms },
    { name: 'µs per position, naive', of: ({ naive_us_per_position }) => naive_us_per_position },
    { name: 'µs per position, cached', of: ({ cached_us_per_position }) => cached_us_per_position },
    { name: 'same tokens', text: true, of: ({ equal, differences }) => `${equal ? 'yes' : 'no'}${differences.map(({ way, step, logit_gap }) => `; ${way} differs at step ${step}, logits ${logit_gap.toFixed(3)} apart`).join('')}` },
  ],
  read: 'For n tokens the naive loop processes prefixes of growing length, so its work grows with the square of n. The cached loop processes each position once. The time grows less than the work, because many positions in one pass share one reading of the weights.',
  not: 'what the cache costs: memory for the keys and values of every position. The ratio depends on the length, the model and the machine.',
};
