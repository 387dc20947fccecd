import { make } from '../../dom.js';
import { integer, label } from '../../format.js';
import { figure, many, percent } from '../pieces.js';

/** @typedef {import('../../../types/SamplingRow.js').SamplingRow} SamplingRow */
/** @typedef {import('../../../types/SamplingSummary.js').SamplingSummary} SamplingSummary */

/** @type {{ [filter: string]: string }} */
const FILTERS = { temperature: 'temperature 0', top_k: 'top-k', top_p: 'top-p', min_p: 'min-p' };

/** @param {string} kind @param {number} share of the longest */
function bar(kind, share) {
  const bar = make('i', { class: `share ${kind}` });
  bar.style.setProperty('--share', String(share));
  return bar;
}

/** @type {import('../panel.js').PanelSpec<SamplingRow, SamplingSummary>} */
export const sampling = {
  name: 'sampling',
  lead: 'The model gives every token a probability. Then rules change them, and a coin is drawn. Move a rule and see where the probabilities go; the model does not run again.',
  first: ['prompt', 'temperature', 'top_k', 'top_p', 'min_p', 'repetition_penalty'],
  hidden: ['ids', 'position'],
  sliders: { temperature: [0, 2, 0.05], top_k: [0, 100, 1], top_p: [0.05, 1, 0.01], min_p: [0, 0.5, 0.01], repetition_penalty: [0.5, 2, 0.05] },
  run: 'Show',
  live: true,
  usesLastRun: true,
  figures(_, { kept, vocabulary, entropy_bits, filtered_entropy_bits, removed }) {
    return [
      { value: integer(kept), what: `of ${integer(vocabulary)} tokens can be drawn` },
      { value: `${filtered_entropy_bits.toFixed(1)} bits`, what: 'entropy', note: `${entropy_bits.toFixed(1)} bits before the rules` },
      ...removed.map(({ filter, tokens, mass }) => ({ value: `−${percent(mass)}`, what: `removed by ${FILTERS[filter] ?? filter}`, note: many(tokens, 'token') })),
    ];
  },
  draw(rows, { rest_probability, rest_filtered_probability, rest_drawn, text, position }, { again, conditions }) {
    const most = Math.max(...rows.map(({ probability, filtered_probability }) => Math.max(probability, filtered_probability)));
    const draws = rows.reduce((sum, { drawn }) => sum + drawn, rest_drawn);
    const line = (/** @type {string} */ text, /** @type {number} */ before, /** @type {number} */ after, /** @type {number} */ drawn, /** @type {string} */ note, removed = false) => make('tr', { class: removed ? 'removed' : undefined },
      make('th', { scope: 'row', class: 'text' }, text),
      make('td', { class: 'bars', 'aria-hidden': 'true' }, bar('before', Math.min(1, before / most)), bar('after', Math.min(1, after / most)), ...(draws ? [bar('drawn', Math.min(1, drawn / draws / most))] : [])),
      make('td', {}, percent(before)),
      make('td', {}, after > 0 ? percent(after) : '–'),
      make('td', {}, draws ? percent(drawn / draws) : '–'),
      make('td', { class: 'text' }, note));
    const body = rows.map(({ text, probability, filtered_probability, drawn, removed_by, penalised }) => line(label(text) || '∅', probability, filtered_probability, drawn,
      [penalised && 'penalised', removed_by && `removed by ${FILTERS[removed_by]}`].filter(Boolean).join(', '), removed_by !== null));
    const redraw = make('button', { type: 'button', class: 'button quiet' }, 'Draw again');
    redraw.addEventListener('click', () => again({ seed: Number(conditions.seed ?? 0) + 1 }));
    const places = make('div', { class: 'token-row', role: 'group', 'aria-label': 'The text: choose the token to look at' }, ...text.map(({ text }, place) => {
      const one = make('button', { type: 'button', class: `token-cell${place >= position ? ' later' : ''}${place === position ? ' asks' : ''}`, disabled: place === 0, 'aria-pressed': String(place === position) }, label(text) || '∅');
      one.addEventListener('click', () => again({ position: place }));
      return one;
    }), ...(position < text.length ? [] : [make('span', { class: 'token-cell asks' }, '?')]));
    return [figure('The choice is made at the frame. Choose another token of the text to see what else could have stood there.', places), figure(
      make('span', { class: 'chart-key' }, make('span', {}, make('i', { class: 'key-quiet' }), 'by the model'), ' ', make('span', {}, make('i', { class: 'key-accent' }), 'after the rules'), ' ',
        ...(draws ? [make('span', {}, make('i', { class: 'key-warm' }), `drawn, of ${integer(draws)}`), ' ', redraw] : [])),
      make('div', { class: 'scroll lab-scroll lab-bars', tabindex: '0', role: 'region', 'aria-label': 'The most likely tokens' }, make('table', {},
        make('thead', {}, make('tr', {}, ...['token', '', 'model', 'after', 'drawn', ''].map((name, place) => make(name ? 'th' : 'td', { ...(name && { scope: 'col' }), class: place === 0 || place === 5 ? 'text' : undefined }, name)))),
        make('tbody', {}, ...body, line('everything else', rest_probability, rest_filtered_probability, rest_drawn, '')))))];
  },
  read: 'Temperature changes all probabilities; the rules then cut off the tail, and what is left is made to add up to 1 again. The order is: penalty, temperature, top-k, top-p, min-p. The more draws, the closer the coin comes to the probabilities.',
  not: 'the next step: every token that is drawn leads to another distribution.',
};
