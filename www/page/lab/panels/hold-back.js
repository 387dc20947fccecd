import { make } from '../../dom.js';
import { integer, label } from '../../format.js';
import { chart } from '../chart.js';
import { figure, ms, percent } from '../pieces.js';

/** @typedef {import('../../../types/HoldBackRow.js').HoldBackRow} HoldBackRow */
/** @typedef {import('../../../types/HoldBackSummary.js').HoldBackSummary} HoldBackSummary */

/** @type {import('../panel.js').PanelSpec<HoldBackRow, HoldBackSummary>} */
export const holdBack = {
  name: 'hold-back',
  lead: 'Text that could become a stop string must wait: once it is on the page it cannot be taken back. On a fast model the wait is short. Imagine a slower one.',
  first: ['prompt', 'stop', 'n', 'paces'],
  figures(_, { characters, held_characters, max_delay_steps, max_delay_ms, max_paced_ms, stop_string }) {
    return [
      { value: percent(characters === 0 ? 0 : held_characters / characters), what: 'of the characters waited', note: `${integer(held_characters)} of ${integer(characters)}` },
      { value: integer(max_delay_steps), what: `step${max_delay_steps === 1 ? '' : 's'}, the longest wait`, note: `${ms(max_delay_ms)} here` },
      ...(max_paced_ms.length ? [{ value: ms(Math.max(...max_paced_ms)), what: 'at the slowest of the imagined paces' }] : []),
      { value: stop_string === null ? 'none' : label(stop_string), what: 'stop string reached' },
    ];
  },
  draw(rows, { steps }) {
    const text = make('p', { class: 'lab-text' }, ...rows.map(({ text, delay_steps }) => make('span', { class: delay_steps > 0 ? 'held' : undefined, title: delay_steps > 0 ? `waited ${delay_steps} step${delay_steps === 1 ? '' : 's'}` : undefined }, text)));
    const drawing = chart({
      title: 'Steps that text waited, by the step it came out at',
      height: 180,
      x: { title: 'step', min: 0, max: steps + 1 },
      y: { title: 'steps waited', min: 0, max: Math.max(1, ...rows.map(({ delay_steps }) => delay_steps)), at: Array.from({ length: 1 + Math.max(1, ...rows.map(({ delay_steps }) => delay_steps)) }, (_, step) => step) },
      marks: [{ kind: 'bars', tone: 'warm', bars: rows.filter(({ delay_steps }) => delay_steps > 0).map(({ step, delay_steps, text }) => ({ from: step, to: step + 1, y: delay_steps, title: `step ${step}: ${label(text)} waited ${delay_steps}` })) }],
    });
    return [figure('The text. Marked: what came out late, because it could have become a stop string.', text), figure('How many steps the text of each step had waited.', drawing)];
  },
  columns: [
    { name: 'step', of: ({ step }) => step },
    { name: 'text', text: true, of: ({ text }) => label(text) },
    { name: 'characters', of: ({ characters }) => characters },
    { name: 'waited', of: ({ held_characters }) => held_characters },
    { name: 'steps', of: ({ delay_steps }) => delay_steps },
    { name: 'ms', of: ({ delay_ms }) => delay_ms.toFixed(2) },
    { name: 'ms at slower paces', text: true, of: ({ paced_ms }) => paced_ms.map((paced) => String(Math.round(paced))).join(', ') },
  ],
  read: 'Only the end of the text that is also the beginning of a stop string waits, and only until the next token decides. So the wait is counted in tokens, and a pause in the stream is longest where the model is slowest.',
  not: 'waiting for incomplete characters, which is apart: “What is a token?” shows that.',
};
