import { make } from './dom.js';
import { TokenSpans } from './token-spans.js';

/** @typedef {import('../types/StepRecord.js').StepRecord} StepRecord */

/** Nats of surprise at which the tint is strongest: one chance in about four hundred. */
const STRONGEST = 6;

/**
 * The text as it streams: one span per token, tinted by its surprise. The spans carry `data-step`; one of them is in the
 * tab order, and the arrow keys move on from it.
 */
export class Output {
  #container;
  #onSelect;
  /** @type {StepRecord[]} */ #steps = [];
  #tokenSpans = new TokenSpans();
  /** @type {HTMLElement | null} Text whose token is not known yet. */ #fresh = null;
  /** @type {HTMLElement | null} The span in the tab order. */ #current = null;
  /** @type {number | null} */ #selected = null;
  #following = false;

  /**
   * @param {HTMLElement} container
   * @param {(step: number | null) => void} onSelect
   */
  constructor(container, onSelect) {
    this.#container = container;
    this.#onSelect = onSelect;
    container.addEventListener('click', ({ target }) => {
      const step = stepOf(/** @type {Element} */ (target));
      // A drag over the text is a selection to copy, not a click on a token.
      if (step !== null && getSelection()?.isCollapsed !== false) {
        this.#onSelect(step === this.#selected ? null : step);
        this.reveal();
      }
    });
    container.addEventListener('keydown', (event) => this.#key(event));
  }

  /** @param {string} prompt shown muted before what is generated */
  begin(prompt) {
    this.#steps = [];
    this.#tokenSpans = new TokenSpans();
    this.#fresh = this.#current = this.#selected = null;
    this.#container.replaceChildren(...(prompt ? [make('span', { class: 'prompt' }, prompt)] : []));
    this.#container.setAttribute('aria-busy', 'true');
  }

  /** Shows `text` at once; which token it belongs to comes with the step. @param {string} text */
  delta(text) {
    this.#settle();
    this.#fresh = make('span', { class: 'token' });
    write(this.#fresh, text);
    this.#container.append(this.#fresh);
    this.#follow();
  }

  /** @param {StepRecord} record */
  step(record) {
    this.#steps.push(record);
    this.#tokenSpans.add(record.bytes);
    this.#settle();
  }

  end() {
    this.#settle();
    this.#container.setAttribute('aria-busy', 'false');
  }

  /** Marks the spans of a step; null marks none. @param {number | null} step */
  select(step) {
    for (const span of this.#container.querySelectorAll('.selected')) span.classList.remove('selected');
    this.#selected = step;
    const spans = step === null ? [] : this.#spans(step);
    for (const span of spans) span.classList.add('selected');
    if (spans[0]) this.#makeCurrent(spans[0]);
  }

  /** @param {number} step @returns {HTMLElement[]} */
  #spans(step) {
    return [...this.#container.querySelectorAll(`[data-step="${step}"]`)].filter((span) => span instanceof HTMLElement);
  }

  /** Gives the fresh text to its tokens. */
  #settle() {
    const fresh = this.#fresh;
    if (!fresh || this.#steps.length === 0) return;
    this.#fresh = null;
    const pieces = this.#tokenSpans.take(fresh.textContent ?? '');
    const spans = pieces.map(({ step, text }, index) => {
      const span = index === 0 ? fresh : make('span', { class: 'token' });
      if (span.textContent !== text) write(span, text);
      span.dataset.step = String(step);
      span.tabIndex = -1;
      const logprob = this.#steps[step]?.logprob ?? 0;
      span.style.setProperty('--surprise', String(Math.min(1, -logprob / STRONGEST)));
      return span;
    });
    fresh.after(...spans.slice(1));
    if (!this.#current && spans[0]) this.#makeCurrent(spans[0]);
  }

  /** @param {HTMLElement} span */
  #makeCurrent(span) {
    if (this.#current) this.#current.tabIndex = -1;
    this.#current = span;
    span.tabIndex = 0;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const from = /** @type {HTMLElement} */ (event.target);
    const step = stepOf(from);
    if (step === null || event.ctrlKey || event.altKey || event.metaKey) return;
    const tokens = /** @type {HTMLElement[]} */ ([...this.#container.querySelectorAll('[data-step]')]);
    const at = tokens.indexOf(from);
    /** @type {HTMLElement | null | undefined} */ let to;
    switch (event.key) {
      case 'ArrowLeft': to = tokens[at - 1]; break;
      case 'ArrowRight': to = tokens[at + 1]; break;
      case 'ArrowUp': to = nextLine(tokens.slice(0, at).reverse(), from); break;
      case 'ArrowDown': to = nextLine(tokens.slice(at + 1), from); break;
      case 'Home': to = tokens[0]; break;
      case 'End': to = tokens.at(-1); break;
      case 'Enter': case ' ': to = from; break;
      case 'Escape': this.#onSelect(null); return;
      default: return;
    }
    event.preventDefault();
    if (!to) return;
    to.focus();
    this.#onSelect(stepOf(to));
    this.reveal();
  }

  /** Scrolls to the selected token if it is not in view. */
  reveal() {
    if (this.#selected !== null) this.#current?.scrollIntoView({ block: 'nearest' });
  }

  /** Keeps the end of the text in view if it was in view before; once per frame, because it needs the layout. */
  #follow() {
    if (this.#following) return;
    this.#following = true;
    requestAnimationFrame(() => {
      this.#following = false;
      const below = (this.#container.lastElementChild?.getBoundingClientRect().bottom ?? 0) + 32 - innerHeight;
      if (below > 0 && below < 120) scrollBy(0, below);
    });
  }
}

/** The text of a token, with its leading white space outside the tint. @param {HTMLElement} span @param {string} text */
function write(span, text) {
  const word = text.trimStart() || text;
  span.replaceChildren(text.slice(0, text.length - word.length), make('b', {}, word));
}

/** @param {Element} element */
function stepOf(element) {
  const step = element.closest('[data-step]')?.getAttribute('data-step');
  return step == null ? null : Number(step);
}

/**
 * The token on the next line, above or below, that is nearest to `from`.
 * @param {HTMLElement[]} tokens from the nearest on
 * @param {HTMLElement} from
 */
function nextLine(tokens, from) {
  const { left, top } = firstBox(from);
  let line = NaN;
  let best = null;
  let distance = Infinity;
  for (const token of tokens) {
    const box = firstBox(token);
    if (Math.abs(box.top - top) < 4) continue;
    if (Number.isNaN(line)) line = box.top;
    if (Math.abs(box.top - line) > 4) break;
    if (Math.abs(box.left - left) < distance) {
      distance = Math.abs(box.left - left);
      best = token;
    }
  }
  return best;
}

/** @param {HTMLElement} element */
const firstBox = (element) => element.getClientRects()[0] ?? element.getBoundingClientRect();
