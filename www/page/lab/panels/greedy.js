import { make } from '../../dom.js';
import { integer } from '../../format.js';
import { chart } from '../chart.js';
import { figure, percent, short } from '../pieces.js';

/** @typedef {import('../../../types/GreedyRow.js').GreedyRow} GreedyRow */
/** @typedef {import('../../../types/GreedySummary.js').GreedySummary} GreedySummary */

/** The text with each turn of its loop marked. @param {GreedyRow} row */
function looped({ text, repeats }) {
  if (!repeats) return make('p', { class: 'lab-text' }, text);
  const turns = text.slice(repeats.before.length).split(repeats.text);
  // Between the turns there is nothing; after the last there may be the beginning of one.
  const rest = turns.pop() ?? '';
  return make('p', { class: 'lab-text' }, repeats.before,
    ...turns.map((_, place) => make('span', { class: place % 2 ? 'turn odd' : 'turn' }, repeats.text)), rest);
}

/** @type {import('../panel.js').PanelSpec<GreedyRow, GreedySummary>} */
export const greedy = {
  name: 'greedy',
  lead: 'Always the most likely token: the text is the one that the model finds best at every step, and often a dull one. Sample at several temperatures and compare.',
  first: ['prompt', 'n', 'temperatures', 'seeds'],
  figures(rows, { by_temperature }) {
    const [greedy, ...others] = by_temperature;
    const least = others.reduce((least, one) => (one.repeated_share < least.repeated_share ? one : least), others[0] ?? /** @type {NonNullable<typeof greedy>} */ (greedy));
    const loop = rows[0]?.repeats;
    return [
      { value: percent(greedy?.repeated_share ?? 0), what: 'repeated, greedy' },
      { value: percent(least.repeated_share), what: `repeated, temperature ${least.temperature}` },
      { value: (greedy?.mean_logprob ?? 0).toFixed(2), what: 'mean log-probability, greedy', note: `${least.mean_logprob.toFixed(2)} at temperature ${least.temperature}` },
      loop ? { value: `${integer(loop.period)} tokens`, what: 'the greedy text goes round in', note: `from token ${integer(loop.from + 1)} on` } : { value: 'no', what: 'loop in the greedy text', note: 'within these tokens' },
    ];
  },
  draw(rows, { by_temperature }) {
    const drawing = chart({
      title: 'Share of repeated tokens by temperature',
      height: 220,
      x: { title: 'temperature (0 is greedy)', min: 0 },
      y: { title: 'share of n-grams that were there before', min: 0, max: Math.max(0.2, ...rows.map(({ repeated_share }) => repeated_share)), format: (share) => `${Math.round(100 * share)} %` },
      marks: [
        { kind: 'line', tone: 'accent', points: by_temperature.map(({ temperature, repeated_share }) => /** @type {const} */ ([temperature, repeated_share])), label: 'mean' },
        { kind: 'dots', tone: 'ink', points: rows.map(({ temperature, repeated_share }) => /** @type {const} */ ([temperature, repeated_share])) },
      ],
    });
    const first = /** @type {GreedyRow} */ (rows[0]);
    return [
      figure('Each dot is a text.', drawing),
      figure(first.repeats ? 'The greedy text, with the turns of its loop marked.' : 'The greedy text.', looped(first)),
    ];
  },
  columns: [
    { name: 'temperature', of: ({ temperature }) => temperature },
    { name: 'seed', of: ({ seed }) => (seed === null ? 'greedy' : String(seed)) },
    { name: 'tokens', of: ({ tokens }) => tokens },
    { name: 'repeated', of: ({ repeated_share }) => percent(repeated_share) },
    { name: 'distinct', of: ({ distinct_share }) => percent(distinct_share) },
    { name: 'mean log-probability', of: ({ mean_logprob }) => mean_logprob.toFixed(2) },
    { name: 'text', text: true, of: ({ text }) => short(text, 90) },
  ],
  read: 'The greedy text is the most probable one step by step, and it repeats the most. What was said once becomes more likely, and greedy decoding never takes another way out. Sampling trades probability for variety.',
  not: 'quality: at a high temperature a text repeats nothing and means nothing.',
};
