import { byId, make } from './dom.js';
import { bytes, integer } from './format.js';

/** @typedef {import('../client/progress.js').Progress} Progress */
/** @typedef {import('../types/ModelInfo.js').ModelInfo} ModelInfo */

/** Where each stage begins on the bar. It ends where the next one begins. */
const BEGINS = { download: 0, read: 0.55, quantise: 0.55 };

/** One bar and a status for the whole load; for a model that the user opens, also one bar per stage. */
export class LoadProgress {
  #bar = byId('load-progress', HTMLProgressElement);
  #status = byId('model-status');
  #panel = byId('loading');
  #stages = byId('stages');
  /** @type {Map<Progress['stage'], { bar: HTMLProgressElement, words: HTMLElement }>} */ #rows = new Map();
  #reached = 0;

  /** @param {string | null} title of the panel; null shows no panel */
  begin(title) {
    this.#reached = 0;
    this.#bar.hidden = false;
    this.#bar.removeAttribute('value');
    this.#status.textContent = 'loading';
    this.#rows.clear();
    this.#stages.replaceChildren();
    this.#panel.hidden = title === null;
    if (title === null) return;
    byId('loading-title').textContent = `Loading ${title}`;
    byId('model-name').textContent = title.split('/').pop() ?? title;
  }

  /** @param {Progress} progress */
  report({ stage, done, total }) {
    this.#status.textContent = words(stage, done, total);
    const begin = BEGINS[stage];
    const end = Math.min(...Object.values(BEGINS).filter((next) => next > begin), 1);
    this.#reached = Math.max(this.#reached, begin + (total ? done / total : 0) * (end - begin));
    if (this.#reached > 0) this.#bar.value = this.#reached;
    this.#row(stage, done, total);
  }

  /** @param {Progress['stage']} stage @param {number} done @param {number | null} total */
  #row(stage, done, total) {
    let row = this.#rows.get(stage);
    if (!row) {
      for (const { bar } of this.#rows.values()) bar.value = bar.max = 1; // the stages before have ended
      row = { bar: make('progress', { 'aria-label': LABELS[stage] }), words: make('span', { class: 'muted' }) };
      this.#rows.set(stage, row);
      this.#stages.append(make('li', {}, make('span', {}, LABELS[stage]), row.bar, row.words));
    }
    row.words.textContent = amount(done, total);
    if (total === null || total === 0) row.bar.removeAttribute('value');
    else Object.assign(row.bar, { max: total, value: done });
  }

  end() {
    const focused = this.#panel.contains(document.activeElement);
    this.#bar.hidden = true;
    this.#panel.hidden = true;
    if (focused) byId('open-model').focus(); // where the load began
  }
}

/** @type {{ [stage in Progress['stage']]: string }} */
const LABELS = { download: 'Download', read: 'Read', quantise: 'Read and quantise' };

/** @param {number} done @param {number | null} total */
function amount(done, total) {
  return total === null ? (done > 0 ? bytes(done) : '') : `${bytes(done)} of ${bytes(total)}`;
}

/** @param {Progress['stage']} stage @param {number} done @param {number | null} total */
function words(stage, done, total) {
  // The one-file page contains the embedded model.
  const download = 'GPT2_WEB_INLINE' in globalThis ? 'unpacking' : 'downloading';
  const doing = { download, read: 'reading', quantise: 'quantising' };
  return `${doing[stage]} ${amount(done, total)}`.trim();
}

/** @param {number} count of parameters */
export function parameters(count) {
  if (count >= 1e9) return `${(count / 1e9).toFixed(2)} B`;
  return count >= 1e6 ? `${(count / 1e6).toFixed(count < 1e8 ? 1 : 0)} M` : integer(count);
}

/** @param {ModelInfo} model @param {number} loadMs @param {number} memoryBytes @param {boolean} unknown whether its SHA-256 cannot be computed any more @returns {[string, string][]} */
export function modelFacts(model, loadMs, memoryBytes, unknown) {
  return [
    ['parameters', parameters(model.parameters)],
    ['precision', model.precision],
    ['layers × width', `${model.n_layer} × ${model.n_embd}, ${model.n_head} heads`],
    ['context', `${integer(model.context_length)} positions`],
    ['loaded in', `${(loadMs / 1000).toFixed(2)} s`],
    ['worker memory', bytes(memoryBytes)],
    ['SHA-256', model.sha256 === null ? (unknown ? 'unknown' : 'computing') : `${model.sha256.slice(0, 12)}…`],
  ];
}
