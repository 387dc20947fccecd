import { make } from '../../dom.js';
import { hex, integer, label } from '../../format.js';
import { chip, figure, table } from '../pieces.js';

/** @typedef {import('../../../types/TokensRow.js').TokensRow} TokensRow */
/** @typedef {import('../../../types/TokensSummary.js').TokensSummary} TokensSummary */

/** @type {import('../panel.js').PanelSpec<TokensRow, TokensSummary>} */
export const tokens = {
  name: 'tokens',
  lead: 'A model reads and writes numbers. Each stands for some bytes, and a character may be cut between two of them. Type something: accents, emoji, other scripts.',
  first: ['text', 'stop'],
  run: 'Cut',
  figures(_, { tokens, characters, bytes, broken, cuts, missed }) {
    return [
      { value: integer(tokens), what: `token${tokens === 1 ? '' : 's'}`, note: `${integer(characters)} characters, ${integer(bytes)} bytes` },
      { value: integer(broken), what: 'broken characters, decoded token by token' },
      { value: `${missed} of ${cuts.length}`, what: 'stop strings missed by their ids' },
    ];
  },
  draw(rows, { stop, cuts }) {
    const strip = make('ol', { class: 'token-strip' }, ...rows.map(({ token_id, bytes, alone, emitted, held_bytes }) => make('li', {},
      chip(emitted, emitted === '' ? 'waiting' : ''),
      make('span', { class: 'muted' }, `id ${token_id}`),
      make('code', {}, hex(bytes)),
      ...(alone === emitted ? [] : [make('span', { class: 'muted' }, `alone: ${label(alone)}`)]),
      ...(held_bytes > 0 ? [make('span', { class: 'muted' }, `${held_bytes} byte${held_bytes === 1 ? '' : 's'} held`)] : []))));
    const chips = (/** @type {readonly { text: string, token_id: number }[]} */ pieces) => make('span', {}, ...pieces.flatMap(({ text, token_id }) => [chip(text), make('small', { class: 'muted' }, ` ${token_id} `)]));
    return [
      figure('The tokens in order. ∅ is a token that completes no character: the incremental decoder waits for the next.', strip),
      ...(stop.length === 0 ? [] : [figure('The stop string alone, and how it is cut after other texts.',
        table([{ left: '(alone)', tokens: stop, found_by_ids: true }, ...cuts.map(({ left, ...cut }) => ({ left: label(left), ...cut }))], [
          { name: 'after', text: true, of: ({ left }) => left },
          { name: 'its tokens', text: true, of: ({ tokens }) => chips(tokens) },
          { name: 'found by ids', text: true, of: ({ found_by_ids }) => (found_by_ids ? 'yes' : 'missed') },
        ], 'Cuts of the stop string'))]),
    ];
  },
  columns: [
    { name: 'place', of: ({ place }) => place },
    { name: 'id', of: ({ token_id }) => String(token_id) },
    { name: 'bytes', text: true, of: ({ bytes }) => hex(bytes) },
    { name: 'alone', text: true, of: ({ alone }) => label(alone) },
    { name: 'emitted', text: true, of: ({ emitted }) => label(emitted) },
    { name: 'bytes held', of: ({ held_bytes }) => held_bytes },
  ],
  read: 'Decoding each token by itself shows � wherever a character is cut. An incremental decoder holds the bytes back until the character is whole. And the same text can be cut in several ways, so a stop string must be looked for in the text, not among the ids.',
  not: 'how the tokens were found: byte-pair encoding merges the most frequent pairs of a training text first.',
};
