import { integer } from '../../format.js';
import { chart } from '../chart.js';
import { figure, percent, short } from '../pieces.js';

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
    const tones = /** @type {const} */ (['accent', 'warm', 'ink', 'quiet']);
    const drawing = chart({
      title: 'Probability of the end-of-text token at each step',
      x: { title: 'output token', min: 1 },
      y: { title: 'probability of the end, on a log scale', log: true, min: 1e-8, max: 1, format: percent },
      height: 300,
      marks: rows.map(({ probabilities }, place) => ({
        kind: 'line', tone: tones[place % tones.length] ?? 'ink', dashed: place >= tones.length, label: `${place + 1}`,
        points: probabilities.map((probability, step) => /** @type {const} */ ([step + 1, Math.max(probability, 1e-8)])),
      })),
    });
    return [figure('One line for each prompt, by its number in the table.', drawing)];
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
