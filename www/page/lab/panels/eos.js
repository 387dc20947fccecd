import { make } from '../../dom.js';
import { integer } from '../../format.js';
import { chart } from '../chart.js';
import { figure, many, percent, power, short } from '../pieces.js';

/** @typedef {import('../../../types/EosRow.js').EosRow} EosRow */
/** @typedef {import('../../../types/EosSummary.js').EosSummary} EosSummary */

/** @type {import('../panel.js').PanelSpec<EosRow, EosSummary>} */
export const eos = {
  name: 'eos',
  lead: 'A model has no plan to stop. At each step the end-of-text token is one candidate among thousands. Watch how likely it is, after prompts of different kinds.',
  first: ['prompts', 'n'],
  figures(rows, { steps, steps_as_best, ended, max_probability }) {
    return [
      { value: `${integer(steps_as_best)} of ${integer(steps)}`, what: 'steps at which the end was the most likely token' },
      { value: percent(max_probability), what: 'the most it ever had' },
      { value: `${ended} of ${rows.length}`, what: 'texts that ended by themselves' },
    ];
  },
  draw(rows) {
    const most = Math.max(...rows.map(({ tokens }) => tokens));
    const drawings = rows.map(({ prompt, probabilities, stop_reason, tokens, max_step, max_probability }, place) => make('div', { class: 'lab-small' },
      make('p', {}, make('b', {}, `${place + 1}`), ` ${short(prompt, 70)} `, make('span', { class: 'muted' }, stop_reason === 'eos' ? `ended by itself after ${many(tokens, 'token')}` : `most: ${percent(max_probability)} at token ${max_step + 1}`)),
      chart({
        title: `Probability of the end after “${short(prompt)}”`,
        height: 104,
        x: { title: place === rows.length - 1 ? 'output token' : '', min: 1, max: most },
        y: { title: '', log: true, min: 1e-8, max: 1, at: [1e-8, 1e-4, 1], format: (value) => (value === 1 ? '1' : power(value)) },
        marks: [
          { kind: 'line', tone: 'accent', points: probabilities.map((probability, step) => /** @type {const} */ ([step + 1, Math.max(probability, 1e-8)])) },
          { kind: 'dots', tone: stop_reason === 'eos' ? 'warm' : 'ink', points: [[max_step + 1, max_probability]] },
        ],
      })));
    return [figure('The probability of the end-of-text token at each step, on a log scale from one in a hundred million to 1. The dot is the most it had.', ...drawings)];
  },
  columns: [
    { name: 'prompt', text: true, of: ({ prompt }) => short(prompt) },
    { name: 'tokens', of: ({ tokens }) => tokens },
    { name: 'stopped by', text: true, of: ({ stop_reason }) => stop_reason },
    { name: 'most', of: ({ max_probability }) => percent(max_probability) },
    { name: 'at token', of: ({ max_step }) => max_step + 1 },
    { name: 'best rank', of: ({ best_rank }) => integer(best_rank) },
    { name: 'text', text: true, of: ({ text }) => short(text, 90) },
  ],
  read: 'The line must reach the top for a greedy run to stop by itself. Most of the time it lies far below. That is why every program sets a limit, and stop strings.',
  not: 'sampled texts, unless you set a temperature: then even a small chance comes true at some step.',
};
