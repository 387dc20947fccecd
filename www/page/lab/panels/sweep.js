import { integer, number } from '../../format.js';
import { chart } from '../chart.js';
import { figure, ms, percent } from '../pieces.js';

/** @typedef {import('../../../types/SweepRow.js').SweepRow} SweepRow */
/** @typedef {import('../../../types/SweepSummary.js').SweepSummary} SweepSummary */
/** @typedef {import('../../../types/Line.js').Line} Line */

/**
 * @param {string} title @param {string} x @param {string} y @param {readonly SweepRow[]} rows @param {Line | null} line
 * @param {(row: SweepRow) => number} tokens @param {(row: SweepRow) => SweepRow['total_spread']} spread
 */
function arm(title, x, y, rows, line, tokens, spread) {
  const most = Math.max(...rows.map(tokens));
  return chart({
    title, height: 220, x: { title: x, min: 0 }, y: { title: y, min: 0 },
    marks: [
      ...(line ? [/** @type {const} */ ({ kind: 'line', tone: 'accent', label: `${ms(Math.max(0, line.intercept))} + ${ms(line.slope)} per token`, points: [[0, line.intercept], [most, line.intercept + most * line.slope]] })] : []),
      { kind: 'dots', tone: 'ink', points: rows.map((row) => /** @type {const} */ ([tokens(row), spread(row).median])), ranges: rows.map((row) => /** @type {const} */ ([spread(row).min, spread(row).max])) },
    ],
  });
}

/** @type {import('../panel.js').PanelSpec<SweepRow, SweepSummary>} */
export const sweep = {
  name: 'sweep',
  lead: 'First the prompt grows and the output stays as it is. Then the output grows and the prompt stays. Two slopes say what a token of each kind costs.',
  first: ['prompt_lengths', 'output_lengths'],
  figures(rows, { prompt_line, output_line, prompt_tokens_per_output_token: ratio }) {
    const contrast = rows.filter(({ arm }) => arm === 'contrast');
    const [long, short] = contrast;
    return [
      { value: prompt_line ? ms(prompt_line.slope) : '–', what: 'per prompt token' },
      { value: output_line ? ms(output_line.slope) : '–', what: 'per output token' },
      { value: ratio === null ? '–' : number(Number(ratio.toPrecision(2))), what: 'prompt tokens cost as much as one output token' },
      ...(long && short ? [{ value: percent(long.prefill_share), what: `of the time is prefill, for ${integer(long.prompt_tokens)} + ${integer(long.output_tokens)} tokens`, note: `${percent(short.prefill_share)} for ${integer(short.prompt_tokens)} + ${integer(short.output_tokens)}; ${ms(long.total_ms)} and ${ms(short.total_ms)} in all` }] : []),
    ];
  },
  draw(rows, { prompt_line, output_line }) {
    return [
      figure('Prompt grows: time to the first token.', arm('Time to the first token by prompt length', 'prompt tokens', 'milliseconds to the first token',
        rows.filter(({ arm }) => arm === 'prompt'), prompt_line, ({ prompt_tokens }) => prompt_tokens, ({ first_token_spread }) => first_token_spread)),
      figure('Output grows: time in all. Dots are medians, their bars the range.', arm('Total time by output length', 'output tokens', 'milliseconds in all',
        rows.filter(({ arm }) => arm === 'output'), output_line, ({ output_tokens }) => output_tokens, ({ total_spread }) => total_spread)),
    ];
  },
  columns: [
    { name: 'what grows', text: true, of: ({ arm }) => ({ prompt: 'prompt', output: 'output', contrast: '(contrast)' })[arm] },
    { name: 'prompt', of: ({ prompt_tokens }) => prompt_tokens },
    { name: 'output', of: ({ output_tokens }) => output_tokens },
    { name: 'first token, ms', of: ({ first_token_ms }) => first_token_ms },
    { name: 'between tokens, ms', of: ({ between_tokens_ms }) => between_tokens_ms },
    { name: 'total, ms', of: ({ total_ms }) => total_ms },
    { name: 'by the formula, ms', of: ({ formula_ms }) => formula_ms },
    { name: 'prefill', of: ({ prefill_share }) => percent(prefill_share) },
  ],
  read: 'The textbook formula is: total = time to the first token + (n − 1) × time between tokens. A prompt token is cheaper because many of them share one reading of the weights. So a long prompt with a short answer can be faster than a short prompt with a long answer.',
  not: 'prompts much longer than these: attention then makes the first line bend upward.',
};
