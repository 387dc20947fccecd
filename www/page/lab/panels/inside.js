import { make } from '../../dom.js';
import { integer, label } from '../../format.js';
import { chip, figure, ms, percent } from '../pieces.js';
import { svg } from '../svg.js';

/** @typedef {import('../../../types/Attention.js').Attention} Attention */
/** @typedef {import('../../../types/Lens.js').Lens} Lens */
/** @typedef {import('../../../types/InsideSummary.js').InsideSummary} InsideSummary */

const CELL = 22;

/** What is selected: it stays when the experiment runs again. */
const selected = { layer: 0, head: 0, query: -1 };

/** @param {readonly (Attention | Lens)[]} rows */
const attentionOf = (rows) => /** @type {Attention[]} */ (rows.filter((row) => 'weights' in row));
/** @param {readonly (Attention | Lens)[]} rows */
const lensOf = (rows) => /** @type {Lens[]} */ (rows.filter((row) => 'candidates' in row));

/** The view of one model over one text. */
class View {
  #rows;
  #lens;
  #summary;
  /** @type {Map<string, number[]>} */ #weights = new Map();
  #strip = make('div', { class: 'token-row', role: 'listbox', 'aria-label': 'Tokens: choose the one that asks', tabindex: '0' });
  #map = make('div', { class: 'attention-map' });
  #table = make('div', {});
  #caption = make('span', {});
  #layer;
  #head;

  /** @param {readonly (Attention | Lens)[]} rows @param {InsideSummary} summary */
  constructor(rows, summary) {
    this.#rows = attentionOf(rows);
    this.#lens = lensOf(rows);
    this.#summary = summary;
    for (const { layer, head, query, weights } of this.#rows) this.#weights.set(`${layer} ${head} ${query}`, weights);
    const { layers, heads, tokens } = summary;
    if (selected.layer < 1 || selected.layer > layers) selected.layer = Math.ceil(layers / 2);
    if (selected.head > heads) selected.head = 0;
    if (selected.query < 0 || selected.query >= tokens.length) selected.query = tokens.length - 1;
    this.#layer = choice('Block', Array.from({ length: layers }, (_, place) => [String(place + 1), `${place + 1} of ${layers}`]), String(selected.layer), (value) => { selected.layer = Number(value); this.show(); });
    this.#head = choice('Head', [['0', 'mean of all'], ...Array.from({ length: heads }, (_, place) => /** @type {[string, string]} */ ([String(place + 1), `${place + 1} of ${heads}`]))], String(selected.head), (value) => { selected.head = Number(value); this.show(); });
    this.#strip.append(...tokens.map(({ text }, place) => {
      const one = make('span', { role: 'option', class: 'token-cell', id: `inside-${place}` }, label(text) || '∅');
      one.addEventListener('click', () => this.#select(place));
      one.addEventListener('pointerenter', () => this.#shade(place));
      return one;
    }));
    this.#strip.addEventListener('pointerleave', () => this.#shade(selected.query));
    this.#strip.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      this.#select(Math.min(tokens.length - 1, Math.max(0, selected.query + step)));
    });
    this.show();
  }

  nodes() {
    const all = make('div', { class: 'heads' }, ...this.#thumbnails());
    return [
      make('div', { class: 'lab-fields' }, this.#layer, this.#head),
      figure('From the chosen token: the stronger a token is shaded, the more this head takes from it. Choose with a click or the arrow keys; look around with the pointer.', this.#strip),
      make('div', { class: 'inside-pair' },
        figure(this.#caption, this.#map),
        figure('What each block would have said next, if the model ended there (the “logit lens”). Marked: the model’s own answer.', this.#table)),
      figure('Every head of every block. Choose one.', all),
    ];
  }

  /** @param {number} query */
  #select(query) {
    selected.query = query;
    this.show();
    this.#strip.querySelector(`#inside-${query}`)?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }

  /** The weights of a query, in the chosen head or on average. @param {number} layer @param {number} head @param {number} query */
  #of(layer, head, query) {
    if (head > 0) return this.#weights.get(`${layer} ${head} ${query}`) ?? [];
    const { heads } = this.#summary;
    const all = Array.from({ length: heads }, (_, place) => this.#weights.get(`${layer} ${place + 1} ${query}`) ?? []);
    return (all[0] ?? []).map((_, key) => all.reduce((sum, weights) => sum + (weights[key] ?? 0), 0) / heads);
  }

  /** @param {number} query */
  #shade(query) {
    const weights = this.#of(selected.layer, selected.head, query);
    for (const [place, cell] of [...this.#strip.children].entries()) {
      const one = /** @type {HTMLElement} */ (cell);
      one.style.setProperty('--weight', String(weights[place] ?? 0));
      one.title = place <= query ? percent(weights[place] ?? 0) : 'not read: it comes later';
      one.classList.toggle('later', place > query);
      one.classList.toggle('asks', place === query);
      one.setAttribute('aria-selected', String(place === selected.query));
    }
    this.#strip.setAttribute('aria-activedescendant', `inside-${selected.query}`);
  }

  show() {
    const { layer, head, query } = selected;
    const { tokens, sinks } = this.#summary;
    this.#shade(query);
    this.#map.replaceChildren(this.#drawMap());
    const mine = sinks.filter((sink) => sink.layer === layer && (head === 0 || sink.head === head));
    const sink = mine.reduce((sum, { share }) => sum + share, 0) / Math.max(1, mine.length);
    this.#caption.textContent = `Block ${layer}, ${head === 0 ? 'mean of all heads' : `head ${head}`}. Each row is a token that asks. ${tokens.length > 1 ? `${percent(sink)} goes to the first token${sink > 0.3 ? ': an “attention sink”, a place for attention that is not needed' : ''}.` : ''}`;
    this.#table.replaceChildren(this.#drawLens());
    for (const thumbnail of this.#table.ownerDocument.querySelectorAll('.heads button')) {
      thumbnail.setAttribute('aria-pressed', String(thumbnail.getAttribute('data-head') === `${layer} ${head}`));
    }
  }

  #drawMap() {
    const { tokens } = this.#summary;
    const { layer, head, query } = selected;
    const n = tokens.length;
    const cell = n > 40 ? 10 : n > 24 ? 14 : CELL;
    const left = 84;
    const size = n * cell;
    const root = svg('svg', { viewBox: `0 0 ${left + size + 2} ${size + 2}`, width: left + size + 2, height: size + 2, class: 'chart-drawing map', role: 'img', 'aria-label': `Attention of block ${layer}, ${head === 0 ? 'mean of all heads' : `head ${head}`}` });
    for (let row = 0; row < n; row++) {
      const weights = this.#of(layer, head, row);
      if (cell >= 14 || row % 2 === 0) root.append(svg('text', { class: row === query ? 'tick asks' : 'tick', x: left - 8, y: row * cell + cell / 2 + 4, 'text-anchor': 'end' }, label(tokens[row]?.text ?? '').slice(0, 11)));
      for (const [key, weight] of weights.entries()) {
        const square = svg('rect', { class: 'cell', x: left + key * cell + 1, y: row * cell + 1, width: cell - 2, height: cell - 2, rx: 2, 'fill-opacity': 0.06 + 0.94 * Math.sqrt(weight) }, svg('title', {}, `${tokens[row]?.text} → ${tokens[key]?.text}: ${percent(weight)}`));
        square.addEventListener('click', () => this.#select(row));
        root.append(square);
      }
    }
    root.append(svg('rect', { class: 'frame', x: left, y: query * cell, width: (query + 1) * cell, height: cell, rx: 3 }));
    return root;
  }

  #drawLens() {
    const { layers, decided_at, tokens } = this.#summary;
    const { query } = selected;
    const rows = this.#lens.filter(({ position }) => position === query).sort((a, b) => b.layer - a.layer);
    const answer = rows[0]?.token_id;
    const names = ['1st', '2nd', '3rd', '4th', '5th'];
    const most = Math.min(rows[0]?.candidates.length ?? 0, 3);
    const cell = (/** @type {Lens['candidates'][number]} */ { token_id, text, probability }) => {
      const one = chip(text, token_id === answer ? 'answer' : '');
      one.append(make('small', {}, ` ${percent(probability)}`));
      one.style.setProperty('--weight', String(probability));
      return make('td', { class: 'text' }, one);
    };
    const decided = decided_at[query] ?? layers;
    return make('div', {},
      make('div', { class: 'scroll lab-scroll lens', tabindex: '0', role: 'region', 'aria-label': 'What each block would have said' }, make('table', {},
        make('thead', {}, make('tr', {}, make('th', { scope: 'col', class: 'text' }, 'after block'), ...names.slice(0, most).map((name) => make('th', { scope: 'col', class: 'text' }, name)))),
        make('tbody', {}, ...rows.map(({ layer, candidates }) => make('tr', { class: layer >= decided ? 'decided' : undefined },
          make('th', { scope: 'row', class: 'text' }, layer === 0 ? '0 (embeddings)' : String(layer)), ...candidates.slice(0, most).map(cell)))))),
      make('p', { class: 'muted' }, `After “${label(tokens[query]?.text ?? '')}” the answer is decided ${decided === 0 ? 'by the embeddings alone' : `from block ${decided} on`}.`));
  }

  #thumbnails() {
    const { layers, heads, tokens } = this.#summary;
    const n = tokens.length;
    return Array.from({ length: layers }, (_, place) => place + 1).map((layer) => make('div', { class: 'heads-row' },
      make('span', { class: 'muted' }, `block ${layer}`),
      ...Array.from({ length: heads }, (_, place) => place + 1).map((head) => {
        const canvas = make('canvas', { width: n, height: n });
        const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
        const [red, green, blue] = colour();
        const image = context.createImageData(n, n);
        for (let query = 0; query < n; query++) {
          for (const [key, weight] of (this.#weights.get(`${layer} ${head} ${query}`) ?? []).entries()) {
            image.data.set([red, green, blue, 255 * Math.sqrt(weight)], 4 * (query * n + key));
          }
        }
        context.putImageData(image, 0, 0);
        const button = make('button', { type: 'button', 'data-head': `${layer} ${head}`, 'aria-label': `Block ${layer}, head ${head}`, 'aria-pressed': String(selected.layer === layer && selected.head === head) }, canvas);
        button.addEventListener('click', () => {
          [selected.layer, selected.head] = [layer, head];
          for (const [field, value] of /** @type {const} */ ([[this.#layer, layer], [this.#head, head]])) /** @type {HTMLSelectElement} */ (field.querySelector('select')).value = String(value);
          this.show();
        });
        return button;
      })));
  }
}

/** The accent of the page, as numbers. @returns {[number, number, number]} */
function colour() {
  const text = getComputedStyle(document.documentElement).getPropertyValue('--accent').trim();
  const [red = 11, green = 107, blue = 99] = (/^#(..)(..)(..)$/.exec(text) ?? []).slice(1).map((part) => Number.parseInt(part, 16));
  return [red, green, blue];
}

/** @param {string} name @param {readonly (readonly [string, string] | string[])[]} options @param {string} value @param {(value: string) => void} change */
function choice(name, options, value, change) {
  const id = `inside-${name.toLowerCase()}`;
  const select = make('select', { id }, ...options.map(([value, text]) => make('option', { value: value ?? '' }, text ?? '')));
  select.value = value;
  select.addEventListener('change', () => change(select.value));
  return make('div', { class: 'lab-field select' }, make('label', { for: id }, name), select);
}

/** @type {import('../panel.js').PanelSpec<Attention | Lens, InsideSummary>} */
export const inside = {
  name: 'inside',
  lead: 'To choose the next token, each head of each block takes something from the tokens before it. Choose a token, a block and a head. The textbook model computes this, slowly and in plain sight.',
  first: ['prompt'],
  hidden: ['ids'],
  usesLastRun: true,
  run: 'Look',
  figures(_, { layers, heads, tokens, sink_share, decided_at, ms: took }) {
    const mean = decided_at.reduce((sum, layer) => sum + layer, 0) / Math.max(1, decided_at.length);
    return [
      { value: `${layers} × ${heads}`, what: 'blocks × heads', note: `${integer(tokens.length)} tokens in ${ms(took)}` },
      ...(sink_share === null ? [] : [{ value: percent(sink_share), what: 'of all attention goes to the first token' }]),
      { value: `block ${mean.toFixed(1)}`, what: 'decides the answer, on average', note: `of ${layers}` },
    ];
  },
  draw: (rows, summary) => new View(rows, summary).nodes(),
  columns: [
    { name: 'position', of: (row) => /** @type {Lens} */ (row).position },
    { name: 'after block', of: ({ layer }) => layer },
    { name: 'would say', text: true, of: (row) => label(/** @type {Lens} */ (row).token) },
    { name: 'probability', of: (row) => percent(/** @type {Lens} */ (row).probability) },
  ],
  tabled: (rows) => lensOf(rows),
  read: 'A row of the map says where a token looks; it never looks ahead. The layers’ answers often begin with the word itself and come to the next word in the last blocks. Attention shows where information comes from, not why the model answers as it does.',
  not: 'the other half of the network, the MLPs. The textbook model uses the loaded weights in f32; the fast network rounds activations to 8 bits, so its last digits can differ.',
};
