import { make, terms } from './dom.js';
import { hex, integer, label, milliseconds, percent } from './format.js';

/** @typedef {import('../types/StepRecord.js').StepRecord} StepRecord */
/** @typedef {import('../types/Alternative.js').Alternative} Alternative */

/** One step in detail: the candidates at that point, and what the step cost. */
export class Inspector {
  #card;
  #onSelect;

  /**
   * @param {HTMLElement} card
   * @param {(step: number | null) => void} onSelect
   */
  constructor(card, onSelect) {
    this.#card = card;
    this.#onSelect = onSelect;
  }

  /** Before anything is selected. */
  invite() {
    this.#card.hidden = false;
    this.#card.classList.remove('open');
    this.#card.replaceChildren(
      make('h2', { id: 'inspector-title', class: 'eyebrow' }, 'Token'),
      make('p', { class: 'muted' }, 'Click a token to see the other candidates at that point.'),
    );
  }

  /** @param {readonly StepRecord[]} steps @param {number} step @param {boolean} greedy whether the most likely token was taken without sampling */
  show(steps, step, greedy) {
    const record = steps[step];
    if (!record) return;
    this.#card.hidden = false;
    this.#card.classList.add('open');
    const focused = this.#card.contains(document.activeElement) ? document.activeElement?.id : undefined;
    const text = textOf(record);
    this.#card.replaceChildren(
      make('header', {},
        make('h2', { id: 'inspector-title', class: 'eyebrow' }, `Token ${integer(step + 1)} of ${integer(steps.length)}`),
        this.#button('token-previous', 'Previous token', '‹', step > 0 ? step - 1 : null),
        this.#button('token-next', 'Next token', '›', step + 1 < steps.length ? step + 1 : null),
        this.#button('token-close', 'Close', '×', null, true)),
      make('p', { class: 'visually-hidden', role: 'status' }, `“${text}”, probability ${percent(record.logprob)}`),
      ...(record.alternatives.length ? [bars(record, greedy)] : [make('p', { class: 'muted' }, 'No candidates were recorded.')]),
      make('dl', { class: 'facts' }, ...terms(facts(record))),
    );
    if (focused) document.getElementById(focused)?.focus();
  }

  /**
   * @param {string} id @param {string} name @param {string} sign @param {number | null} target
   * @param {boolean} [enabled]
   */
  #button(id, name, sign, target, enabled = target !== null) {
    const button = make('button', { id, type: 'button', class: 'icon', 'aria-label': name, 'aria-disabled': !enabled && 'true' }, sign);
    if (enabled) button.addEventListener('click', () => this.#onSelect(target));
    return button;
  }
}

/** The table of candidates, with the chosen one marked. @param {StepRecord} record @param {boolean} greedy */
function bars(record, greedy) {
  const rows = [...record.alternatives];
  const ranked = rows.some(({ id }) => id === record.token_id);
  if (!ranked) rows.push({ id: record.token_id, text: textOf(record), logprob: record.logprob, filtered_logprob: record.filtered_logprob });
  const widest = Math.max(...rows.map(({ logprob }) => logprob));
  const why = greedy ? 'Temperature 0 always picks the top token.' : 'Struck out: removed by top-k, top-p or min-p.';
  const dropped = rows.some(({ filtered_logprob }) => filtered_logprob === null);
  return make('table', { class: 'alternatives' },
    make('caption', { class: 'visually-hidden' }, 'The most likely tokens at this point'),
    make('thead', {}, make('tr', {},
      make('th', { scope: 'col' }, make('span', { class: 'visually-hidden' }, 'token')),
      make('td', { 'aria-hidden': 'true' }),
      make('th', { scope: 'col' }, 'model'),
      make('th', { scope: 'col' }, 'after settings'))),
    make('tbody', {}, ...rows.map((row) => bar(row, row.id === record.token_id, !ranked && row.id === record.token_id, widest))),
    ...(dropped ? [make('tfoot', {}, make('tr', {}, make('td', { colspan: 4 }, why)))] : []));
}

/** @param {Alternative} row @param {boolean} chosen @param {boolean} apart @param {number} widest */
function bar(row, chosen, apart, widest) {
  const dropped = row.filtered_logprob === null;
  const fill = make('span', { class: 'bar' });
  fill.style.setProperty('--share', String(Math.exp(row.logprob - widest)));
  const name = chosen ? 'chosen' : dropped ? 'dropped' : '';
  return make('tr', { class: `${name}${apart ? ' apart' : ''}` },
    make('th', { scope: 'row' }, make(dropped ? 's' : 'span', {}, label(row.text || '<|endoftext|>')),
      ...(chosen ? [make('span', { class: 'visually-hidden' }, ' (chosen)')] : [])),
    make('td', { 'aria-hidden': 'true' }, fill),
    make('td', {}, percent(row.logprob)),
    make('td', {}, row.filtered_logprob === null ? '–' : percent(row.filtered_logprob)));
}

/** @param {StepRecord} record @returns {[string, string][]} */
function facts(record) {
  return [
    ['position', integer(record.position)],
    ['token id', String(record.token_id)],
    ['forward', record.step === 0 ? 'from the prefill' : milliseconds(record.forward_ms)],
    ['sampling', milliseconds(record.sample_ms)],
    ...(isPartial(record.bytes) ? [/** @type {[string, string]} */ (['incomplete character, bytes', hex(record.bytes)])] : []),
  ];
}

/** The text of this token alone: as its candidate has it, or decoded from its bytes. @param {StepRecord} record */
export function textOf(record) {
  const known = record.alternatives.find(({ id }) => id === record.token_id)?.text;
  return known || (record.bytes.length ? new TextDecoder('utf-8', { ignoreBOM: true }).decode(new Uint8Array(record.bytes)) : '<|endoftext|>');
}

/** Whether bytes are not whole characters. @param {number[]} bytes */
function isPartial(bytes) {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array(bytes));
    return false;
  } catch {
    return true;
  }
}
