import { label, number } from '../../format.js';
import { chart } from '../chart.js';
import { figure, percent } from '../pieces.js';

/** @typedef {import('../../../types/SampledCheckRow.js').SampledCheckRow} SampledCheckRow */
/** @typedef {import('../../../types/SampledCheckSummary.js').SampledCheckSummary} SampledCheckSummary */

/** @type {import('../panel.js').PanelSpec<SampledCheckRow, SampledCheckSummary>} */
export const sampledCheck = {
  name: 'sampled-check',
  lead: 'Drawn tokens are often not the most likely ones, so “the same token?” is the wrong question. Speculative sampling asks another one: how likely is this token where it comes from, and how likely in the distribution we want?',
  first: ['prompt', 'n', 'temperature', 'target_temperature'],
  figures(rows, { agree_share, expected_acceptance, accepted_share, expected_run }) {
    return [
      { value: percent(agree_share), what: 'drawn tokens are the most likely ones', note: `${rows.filter(({ agree }) => agree).length} of ${rows.length}` },
      { value: percent(expected_acceptance), what: 'expected to be accepted', note: `${percent(accepted_share)} were, by the coin` },
      { value: expected_run === null ? 'all' : number(Number(expected_run.toPrecision(2))), what: 'accepted in a row, on average' },
    ];
  },
  draw(rows) {
    const bars = rows.map(({ step, probability, text, agree, rank }) => ({
      from: step + 0.5, to: step + 1.5, y: probability, tone: /** @type {'accent' | 'warm'} */ (agree ? 'accent' : 'warm'),
      title: `token ${step + 1}: ${label(text)} ${percent(probability)}, rank ${rank}`,
    }));
    const drawing = chart({
      title: 'Probability of each drawn token, and how likely it is accepted',
      x: { title: 'output token', min: 0.5, max: rows.length + 0.5 },
      y: { title: 'probability', min: 0, max: 1 },
      marks: [
        { kind: 'bars', bars, tone: 'accent', label: 'the most likely token' },
        { kind: 'dots', tone: 'ink', points: rows.map(({ step, accept_probability }) => /** @type {const} */ ([step + 1, accept_probability])) },
      ],
    });
    return [figure('Bars: the probability of each drawn token, green where it is the most likely one, orange where it is not. Dots: how likely the rule accepts it.', drawing)];
  },
  columns: [
    { name: 'token', of: ({ step }) => step + 1 },
    { name: 'drawn', text: true, of: ({ text }) => label(text) },
    { name: 'probability', of: ({ probability }) => percent(probability) },
    { name: 'rank', of: ({ rank }) => rank },
    { name: 'most likely', text: true, of: ({ best }) => `${label(best.text)} ${percent(best.probability)}` },
    { name: 'in the second', of: ({ target_probability }) => percent(target_probability) },
    { name: 'accept', of: ({ accept_probability }) => percent(accept_probability) },
    { name: 'accepted', of: ({ accepted }) => accepted },
  ],
  read: 'The rule accepts a drawn token with probability min(1, p / q): q where it was drawn, p where we want it. What it accepts and what it then draws anew has exactly the wanted distribution. The closer the two distributions, the more is accepted.',
  not: 'a faster model that drafts. Here both distributions come from the same model, at two temperatures.',
};
