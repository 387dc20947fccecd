import { bytes, integer, number } from '../../format.js';
import { chart } from '../chart.js';
import { figure, ms, percent } from '../pieces.js';

/** @typedef {import('../../../types/PrecisionRow.js').PrecisionRow} PrecisionRow */
/** @typedef {import('../../../types/PrecisionSummary.js').PrecisionSummary} PrecisionSummary */

/** @type {{ [precision: string]: 'accent' | 'warm' }} */
const TONES = { q8_0: 'accent', q4_0: 'warm' };

/** @type {import('../panel.js').PanelSpec<PrecisionRow, PrecisionSummary>} */
export const precision = {
  name: 'precision',
  lead: 'The same weights in 32, 8 and 4 bits, the same prompts and the same text. How soon does the greedy text differ, and how much worse is the model?',
  first: ['prompts', 'n'],
  figures(rows, { tokens }) {
    const of = (/** @type {string} */ name) => rows.find(({ precision }) => precision === name);
    const [full, eight, four] = ['f32', 'q8_0', 'q4_0'].map(of);
    const differ = (/** @type {PrecisionRow | undefined} */ row) => row && `${row.first_differences.filter((first) => first !== null).length} of ${row.first_differences.length}`;
    return [
      ...(eight ? [{ value: differ(eight) ?? '', what: 'texts differ in 8 bits', note: `${percent(eight.e)} chance per token` }] : []),
      ...(four ? [{ value: differ(four) ?? '', what: 'texts differ in 4 bits', note: `${percent(four.e)} chance per token` }] : []),
      ...(full ? [{ value: number(full.perplexity), what: 'perplexity in f32', note: [eight && `8 bits ${number(eight.perplexity)}`, four && `4 bits ${number(four.perplexity)}`].filter(Boolean).join(', ') + `; ${integer(tokens)} tokens` }] : []),
    ];
  },
  draw(rows) {
    const others = rows.filter(({ precision }) => precision !== 'f32');
    const n = Math.max(0, ...others.map(({ surviving }) => surviving.length - 1));
    const drawing = chart({
      title: 'Share of texts that are still those of f32',
      x: { title: 'output token', min: 0, max: n },
      y: { title: 'share still the same', min: 0, max: 1, format: (share) => `${Math.round(100 * share)} %` },
      marks: others.flatMap(({ precision, surviving, e }) => {
        const tone = TONES[precision] ?? 'ink';
        return [
          /** @type {const} */ ({ kind: 'steps', tone, label: precision, points: surviving.map((share, token) => /** @type {const} */ ([token, share])) }),
          /** @type {const} */ ({ kind: 'line', tone, dashed: true, points: surviving.map((_, token) => /** @type {const} */ ([token, (1 - e) ** token])) }),
        ];
      }),
    });
    const loaded = rows.find(({ loaded }) => loaded)?.precision;
    const made = loaded === 'f32' ? '' : ` The weights are loaded in ${loaded}; f32 here holds the same rounded numbers. To compare with the exact ones, open the model’s f32 or f16 file with the precision “Full”.`;
    return [figure(`The share of texts that are still those of f32, and the curve (1 − e)ⁿ of an equal chance e at each token.${made}`, drawing)];
  },
  columns: [
    { name: 'precision', text: true, of: ({ precision, loaded }) => (loaded ? `${precision} (as loaded)` : precision) },
    { name: 'weights', of: ({ weight_bytes }) => bytes(weight_bytes) },
    { name: 'perplexity', of: ({ perplexity }) => perplexity.toFixed(3) },
    { name: 'mean divergence, nats', of: ({ mean_divergence }) => mean_divergence.toPrecision(2) },
    { name: 'same best token', of: ({ same_best_share }) => percent(same_best_share) },
    { name: 'texts that differ', of: ({ first_differences }) => `${first_differences.filter((first) => first !== null).length} of ${first_differences.length}` },
    { name: 'e', of: ({ e }) => percent(e) },
    { name: 'step', of: ({ step_ms }) => ms(step_ms) },
  ],
  read: 'A text differs as soon as one token does. Two candidates that are nearly as good change places when numbers are rounded. A small divergence at each token is enough for most texts to differ in the end, and the text is not worse for it; the perplexity says how much worse the model is.',
  not: 'quality beyond perplexity, and more texts than these few. The time of a step in f32 is that of its own kernels.',
};
