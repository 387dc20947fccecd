import { integer, label } from '../../format.js';
import { chart } from '../chart.js';
import { figure, ms, times } from '../pieces.js';

/** @typedef {import('../../../types/CheckRow.js').CheckRow} CheckRow */
/** @typedef {import('../../../types/CheckSummary.js').CheckSummary} CheckSummary */

/** Sums up to each place. @param {readonly number[]} times @returns {[number, number][]} */
function sums(times) {
  let sum = 0;
  return times.map((time, place) => [place + 1, (sum += time)]);
}

/** @type {import('../panel.js').PanelSpec<CheckRow, CheckSummary>} */
export const check = {
  name: 'check',
  lead: 'The model writes n tokens, one pass for each. Then it reads prompt and output at once, in a single pass. At each position we ask: would you have chosen the same token?',
  first: ['prompt', 'n'],
  figures(rows) {
    const last = /** @type {CheckRow} */ (rows.at(-1));
    return [
      { value: `${integer(last.agree)} of ${integer(last.tokens)}`, what: 'positions agree' },
      { value: times(last.naive_ratio), what: 'naive loop ÷ one pass' },
      { value: times(last.ratio), what: 'cached loop ÷ one pass' },
      { value: ms(last.check_ms), what: `to check all ${integer(last.tokens)}`, ...(last.passes > 1 && { note: `in ${last.passes} passes` }) },
    ];
  },
  draw(rows, { naive_steps_ms, produce_steps_ms }) {
    const last = /** @type {CheckRow} */ (rows.at(-1));
    const drawing = chart({
      title: 'Milliseconds until each number of tokens is produced or checked',
      x: { title: 'tokens', min: 1 },
      y: { title: 'milliseconds in all', min: 0 },
      marks: [
        { kind: 'line', points: sums(naive_steps_ms), tone: 'warm', label: `produced, whole text again each time: ${ms(last.naive_ms)}` },
        { kind: 'line', points: sums(produce_steps_ms), tone: 'accent', label: `produced with the cache: ${ms(last.produce_ms)}` },
        {
          kind: 'dots', tone: 'ink', label: `checked in one pass: ${ms(last.check_ms)}`,
          points: rows.map(({ tokens, check_ms }) => /** @type {const} */ ([tokens, check_ms])),
          ranges: rows.map(({ check_spread: { min, max } }) => /** @type {const} */ ([min, max])),
        },
      ],
    });
    return [figure('Time to produce the first tokens one by one, and to check as many in one pass. Dots are medians, their bars the range.', drawing)];
  },
  columns: [
    { name: 'tokens', of: ({ tokens }) => tokens },
    { name: 'agree', of: ({ agree }) => agree },
    { name: 'produce, ms', of: ({ produce_ms }) => produce_ms },
    { name: 'naive, ms', of: ({ naive_ms }) => naive_ms },
    { name: 'check, ms', of: ({ check_ms }) => check_ms },
    { name: 'cached ÷ check', of: ({ ratio }) => times(ratio) },
    { name: 'naive ÷ check', of: ({ naive_ratio }) => times(naive_ratio) },
    {
      name: 'where they differ', text: true,
      of: ({ disagreements }) => (disagreements.length === 0 ? 'nowhere' : disagreements.map(({ step, produced, checked, produced_logit, checked_logit, near_tie }) =>
        `step ${step}: ${label(produced.text)} (${produced_logit.toFixed(2)}), check says ${label(checked.text)} (${checked_logit.toFixed(2)})${near_tie ? ', a near tie' : ''}`).join('; ')),
    },
  ],
  read: 'The loop is serial because each token must be chosen before the next can be asked for. Once the tokens are known, one pass scores all of them, with one reading of the weights. Speculative decoding lives on that.',
  not: 'a check of sampled text; “Does the check hold for sampling?” shows that. The ratio depends on the length, the machine and the model.',
};
