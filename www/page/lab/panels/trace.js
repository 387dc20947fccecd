import { make } from '../../dom.js';
import { integer, label } from '../../format.js';
import { figure, many, percent } from '../pieces.js';

/** @typedef {import('../../../types/TraceRow.js').TraceRow} TraceRow */
/** @typedef {import('../../../types/TraceSummary.js').TraceSummary} TraceSummary */

/** @param {TraceRow} row @param {readonly TraceRow[]} rows @param {import('../panel.js').Desk} desk @param {boolean} open */
function step(row, rows, desk, open) {
  const best = row.candidates[0]?.probability ?? 1;
  const choose = (/** @type {number} */ id) => {
    // Everything before this step stays; everything after it is chosen anew.
    const choices = [...rows.slice(0, row.step).map(({ chosen }) => chosen.token_id), id];
    desk.again({ choices, n: rows.length });
  };
  const candidates = row.candidates.map(({ token_id, text, probability }) => {
    const chosen = token_id === row.chosen.token_id;
    const bar = make('i', { class: 'share' });
    bar.style.setProperty('--share', String(probability / best));
    const button = make('button', { type: 'button', class: 'candidate', 'aria-pressed': String(chosen), title: chosen ? 'chosen' : 'choose this one and go on from here' },
      make('span', { class: 'candidate-text' }, label(text) || '∅'), bar, make('span', { class: 'candidate-share' }, percent(probability)));
    button.addEventListener('click', () => { if (!chosen) choose(token_id); });
    return make('li', {}, button);
  });
  const tail = row.prefix.slice(-80);
  return make('li', { class: 'trace-step', hidden: !open },
    make('p', { class: 'trace-prefix' }, make('span', { class: 'trace-number' }, integer(row.step + 1)), ' ', row.prefix.length > tail.length ? '…' : '', tail,
      make('b', { class: row.given ? 'given' : undefined }, row.chosen.text || '∅')),
    make('p', { class: 'muted trace-note' }, `${many(row.positions, 'position')} processed${row.step === 0 ? ': the prefill' : ', the rest is in the cache'}. ${row.given ? `Your choice: rank ${integer(row.rank)}, ${percent(row.probability)}.` : `The most likely token: ${percent(row.probability)}.`}`),
    make('ol', { class: 'candidates' }, ...candidates));
}

/** @type {import('../panel.js').PanelSpec<TraceRow, TraceSummary>} */
export const trace = {
  name: 'trace',
  lead: 'The decoder by hand. Read the prefix, look at the candidates, take one, and read again. No step can be opened before the one it needs.',
  first: ['prompt', 'n'],
  hidden: ['ids', 'choices'],
  resets: ['choices'],
  run: 'Begin',
  figures(rows, { text, probability }) {
    return [
      { value: many(rows.length, 'step'), what: 'one pass of the model for each' },
      { value: percent(probability), what: 'probability of the whole continuation', note: label(text.trim().slice(0, 40)) },
    ];
  },
  draw(rows, _, desk) {
    // A new choice opens the steps up to it and one more: what follows has changed.
    const given = rows.findLastIndex(({ given }) => given);
    let open = Math.min(rows.length, Math.max(1, given + 2));
    const steps = rows.map((row, place) => step(row, rows, desk, place < open));
    const next = make('button', { type: 'button', class: 'button primary' });
    const all = make('button', { type: 'button', class: 'button quiet' }, 'Open all');
    const show = () => {
      for (const [place, step] of steps.entries()) step.hidden = place >= open;
      next.textContent = open < rows.length ? `Next step (${open + 1} of ${rows.length})` : 'All steps are open';
      next.setAttribute('aria-disabled', String(open >= rows.length));
      all.hidden = open >= rows.length;
    };
    next.addEventListener('click', () => {
      if (open >= rows.length) return;
      open += 1;
      show();
      steps[open - 1]?.scrollIntoView({ block: 'nearest' });
    });
    all.addEventListener('click', () => {
      open = rows.length;
      show();
    });
    show();
    return [figure('Each step with its candidates. Choose another token, and the run goes on from there: everything later changes.',
      make('ol', { class: 'trace' }, ...steps), make('div', { class: 'actions' }, next, all))];
  },
  read: 'This loop is all there is to generation: distribution, choice, longer prefix, next distribution. The step after a choice depends on it, so it cannot be computed before.',
  not: 'sampling: here the choice is the most likely token, or yours. “Where do probabilities go?” shows the rules that draw.',
};
