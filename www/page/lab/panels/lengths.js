import { integer, number } from '../../format.js';
import { chart } from '../chart.js';
import { figure, percent, short } from '../pieces.js';

/** @typedef {import('../../../types/LengthsRow.js').LengthsRow} LengthsRow */
/** @typedef {import('../../../types/LengthsSummary.js').LengthsSummary} LengthsSummary */

const BINS = 24;

/** @type {import('../panel.js').PanelSpec<LengthsRow, LengthsSummary>} */
export const lengths = {
  name: 'lengths',
  lead: 'One prompt, many seeds. Each text runs until it ends by itself, reaches a stop string, or reaches the limit. A few long ones can take much of the work.',
  first: ['prompt', 'runs', 'n', 'temperature'],
  figures(rows, { percentiles: [p50, p95, p99], limited, longest_1_share, longest_10_share, fitted_median }) {
    return [
      { value: integer(Math.round(p50)), what: 'tokens, median', note: `p95 ${integer(Math.round(p95))}, p99 ${integer(Math.round(p99))}` },
      { value: `${limited} of ${rows.length}`, what: 'texts reached the limit' },
      { value: percent(longest_10_share), what: 'of all steps go to the longest 10 %', note: `${percent(longest_1_share)} to the longest 1 %` },
      { value: fitted_median === null ? '–' : integer(Math.round(fitted_median)), what: 'median of the fitted curve' },
    ];
  },
  draw(rows, { hazard }) {
    const most = Math.max(...rows.map(({ tokens }) => tokens));
    const sorted = rows.map(({ tokens }) => tokens).sort((a, b) => a - b);
    /** @type {[number, number][]} */ const still = [[0, 1], ...sorted.map((tokens, place) => /** @type {[number, number]} */ ([tokens, 1 - (place + 1) / sorted.length]))];
    const width = Math.max(1, most / BINS);
    const bars = Array.from({ length: Math.ceil(most / width) }, (_, bin) => ({ from: bin * width, to: (bin + 1) * width }))
      .map(({ from, to }) => ({ from, to, y: sorted.filter((tokens) => tokens > from && tokens <= to).length, title: `${Math.floor(from) + 1} to ${Math.floor(to)} tokens` }))
      .map((bar) => ({ ...bar, title: `${bar.title}: ${bar.y} text${bar.y === 1 ? '' : 's'}` }));
    const fitted = Array.from({ length: 65 }, (_, place) => /** @type {const} */ ([(place * most) / 64, (1 - hazard) ** ((place * most) / 64)]));
    return [
      figure('How many texts have each length.', chart({
        title: 'Texts by length', height: 200, x: { title: 'tokens', min: 0, max: most }, y: { title: 'texts', min: 0 }, marks: [{ kind: 'bars', bars, tone: 'accent' }],
      })),
      figure('The share of texts that still run after so many tokens, and the curve of a text that ends at each step with the same chance.', chart({
        title: 'Share of texts still running', height: 220, x: { title: 'tokens', min: 0, max: most }, y: { title: 'share still running', min: 0, max: 1, format: (share) => `${Math.round(100 * share)} %` },
        marks: [
          { kind: 'steps', points: still, tone: 'accent', label: 'texts' },
          { kind: 'line', points: fitted, tone: 'warm', dashed: true, label: `chance ${percent(hazard)} per step` },
        ],
      })),
    ];
  },
  columns: [
    { name: 'text', of: ({ run }) => run + 1 },
    { name: 'seed', of: ({ seed }) => String(seed) },
    { name: 'tokens', of: ({ tokens }) => tokens },
    { name: 'stopped by', text: true, of: ({ stop_reason }) => stop_reason },
    { name: 'text', text: true, of: ({ text }) => short(text, 90) },
  ],
  read: (_, { caps }) => `A limit saves work and cuts texts. Here: ${caps.filter((_, place) => place % 2 === 1).map(({ tokens, cut_share, saved_share }) => `${number(tokens)} tokens would cut ${percent(cut_share)} of the texts and save ${percent(saved_share)} of the steps`).join('; ')}. Where the texts leave the dashed curve, their chance to end changes with their length.`,
  not: 'lengths beyond the limit: those texts would have gone on. Other prompts have other lengths.',
};
