import { make } from '../dom.js';
import { Panel } from './panel.js';
import { PANELS } from './panels.js';
import { GROUPS } from './questions.js';

/** @typedef {import('../../gpt2-web.js').Gpt2Web} Gpt2Web */
/** @typedef {import('../../gpt2-web.js').Loaded} Loaded */

/** The lab: an index of questions, and the panel of one. */
export class Lab {
  #root;
  #parts;
  /** @type {Map<string, Panel>} Those that were opened, with what they found. */ #panels = new Map();
  #place = make('div', { class: 'lab-place' });
  #select = make('select', { id: 'lab-question', 'aria-label': 'Question' });
  #open = '';

  /**
   * @param {HTMLElement} root is filled
   * @param {{ gpt2: Gpt2Web, activity: import('../activity.js').Activity, loaded: () => Loaded | null, lastRun: () => number[] }} parts
   */
  constructor(root, parts) {
    this.#root = root;
    this.#parts = parts;
    const nav = make('nav', { class: 'lab-index', 'aria-label': 'Questions' }, ...GROUPS.map(({ title, questions }) => make('section', {},
      make('h2', { class: 'eyebrow' }, title),
      make('ul', {}, ...questions.map(([name, question]) => make('li', {}, make('a', { href: `#lab=${name}`, 'data-name': name }, question)))))));
    this.#select.append(...GROUPS.map(({ title, questions }) => make('optgroup', { label: title },
      ...questions.map(([name, question]) => make('option', { value: name }, question)))));
    this.#select.addEventListener('change', () => { location.hash = `#lab=${this.#select.value}`; });
    root.append(nav, this.#select, this.#place);
  }

  /** Opens the panel that a link names, with its settings. @param {URLSearchParams} parameters @param {{ focus?: boolean }} [how] */
  open(parameters, { focus = false } = {}) {
    const given = parameters.get('lab') ?? '';
    const name = PANELS.has(given) ? given : this.#open || 'check';
    const spec = /** @type {NonNullable<ReturnType<typeof PANELS.get>>} */ (PANELS.get(name));
    let panel = this.#panels.get(name);
    if (!panel) {
      panel = new Panel(spec, this.#parts.gpt2, this.#parts.activity, { lastRun: this.#parts.lastRun });
      this.#panels.set(name, panel);
    }
    this.#open = name;
    this.#select.value = name;
    for (const link of this.#root.querySelectorAll('.lab-index a')) {
      if (/** @type {HTMLElement} */ (link).dataset.name === name) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    this.#place.replaceChildren(panel.root);
    this.update();
    if ([...parameters.keys()].some((key) => key !== 'lab')) panel.open(parameters);
    if (focus) panel.focus();
  }

  /** The model or the activity of the page changed. */
  update() {
    this.#panels.get(this.#open)?.show(this.#parts.loaded()?.experiments);
  }
}
