import { make } from '../../dom.js';
import { integer } from '../../format.js';
import { chart } from '../chart.js';
import { figure, percent, short } from '../pieces.js';

/** @typedef {import('../../../types/OneWordRow.js').OneWordRow} OneWordRow */
/** @typedef {import('../../../types/OneWordSummary.js').OneWordSummary} OneWordSummary */

/** Pairs that are shown with their texts. */
const SHOWN = 4;

/** @param {OneWordRow} row */
function pair({ prompt, changed, word, other_word, text, changed_text, common }) {
  const line = (/** @type {string} */ given, /** @type {string} */ one, /** @type {string} */ whole) => make('p', { class: 'lab-text' },
    make('span', { class: 'prompt' }, given.slice(0, given.indexOf(one)), make('b', {}, one), given.slice(given.indexOf(one) + one.length)),
    common, make('span', { class: 'parted' }, short(whole.slice(common.length), 110)));
  return make('div', { class: 'lab-pair' }, line(prompt, word, text), line(changed, other_word, changed_text));
}

/** @type {import('../panel.js').PanelSpec<OneWordRow, OneWordSummary>} */
export const oneWord = {
  name: 'one-word',
  lead: 'Change one word of the prompt and decode both greedily: no chance is involved. After how many tokens do the texts part?',
  first: ['prompts', 'n', 'within'],
  figures(rows, { within_share, within, pairs, median_first_difference }) {
    const same = rows.filter(({ first_difference }) => first_difference === null).length;
    return [
      { value: percent(within_share), what: 'differ within the limit', note: `${within} of ${pairs} pairs` },
      { value: median_first_difference === null ? '–' : String(median_first_difference), what: 'first differing token, median' },
      { value: integer(same), what: `pair${same === 1 ? '' : 's'} did not differ at all` },
    ];
  },
  draw(rows) {
    const firsts = rows.flatMap(({ first_difference }) => first_difference ?? []);
    const most = Math.max(12, ...firsts);
    const bars = Array.from({ length: most }, (_, place) => place + 1).map((token) => ({ token, count: firsts.filter((first) => first === token).length }))
      .filter(({ count }) => count > 0).map(({ token, count }) => ({ from: token - 0.5, to: token + 0.5, y: count, title: `token ${token}: ${count} pair${count === 1 ? '' : 's'}` }));
    const drawing = chart({
      title: 'Pairs by the first token that differs', height: 200,
      x: { title: 'first differing token', min: 0.5, max: most + 0.5 },
      y: { title: 'pairs', min: 0, at: Array.from({ length: 1 + Math.max(1, ...bars.map(({ y }) => y)) }, (_, count) => count) },
      marks: [{ kind: 'bars', bars, tone: 'accent' }],
    });
    return [
      figure('How many pairs part at each token.', drawing),
      figure(`The first ${Math.min(SHOWN, rows.length)} pairs. Marked: what differs.`, ...rows.slice(0, SHOWN).map(pair)),
    ];
  },
  columns: [
    { name: 'prompt', text: true, of: ({ prompt }) => short(prompt) },
    { name: 'word', text: true, of: ({ word, other_word }) => `${word} → ${other_word}` },
    { name: 'first difference', of: ({ first_difference }) => first_difference },
    { name: 'text', text: true, of: ({ text }) => short(text, 70) },
    { name: 'with the other word', text: true, of: ({ changed_text }) => short(changed_text, 70) },
  ],
  read: 'Greedy text is a chain: once one token differs, every later step reads another prefix. Two texts that part do not come together again, except by chance.',
  not: 'how much the meaning differs. The share depends on the prompts, and there are only a few.',
};
