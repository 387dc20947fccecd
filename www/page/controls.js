import { make } from './dom.js';
import { escapeStop, parseStops } from './escapes.js';

/** @typedef {import('../types/OptionSpec.js').OptionSpec} OptionSpec */
/** @typedef {import('../gpt2-web.js').GenerateOptions} GenerateOptions */
/** @typedef {import('./link.js').Fields} Fields */
/** @typedef {HTMLInputElement | HTMLTextAreaElement} Control */

/** A field whose value cannot be used. */
export class FieldError extends Error {
  /** @param {HTMLElement} field @param {string} message */
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

/** The form: the prompt and one control for each option, whose name is the option's. */
export class Controls {
  #form;
  #prompt;
  #summary;
  /** @type {ReadonlyMap<string, string>} The page's defaults, tuned for the embedded model. */ #own;

  /** @param {HTMLFormElement} form @param {HTMLTextAreaElement} prompt @param {HTMLElement} summary */
  constructor(form, prompt, summary) {
    this.#form = form;
    this.#prompt = prompt;
    this.#summary = summary;
    this.#own = new Map(this.#controls().map(({ name, defaultValue }) => [name, defaultValue]));
    form.addEventListener('input', () => this.#summarise());
    this.#summarise();
  }

  /**
   * Takes ranges and help texts from the worker's list of options. A control for an option that is not in the list is
   * switched off. With any model except the embedded one, untouched numbers get the worker's default.
   * @param {readonly OptionSpec[]} specs @param {{ embedded: boolean }} model
   */
  apply(specs, { embedded }) {
    for (const control of this.#controls()) {
      const spec = specs.find(({ name }) => name === control.name);
      control.disabled = !spec;
      if (!spec) continue;
      const help = document.getElementById(`${control.id}-help`);
      if (help) help.textContent = spec.help;
      const { range } = spec;
      if (range.type !== 'integer' && range.type !== 'number') continue;
      control.setAttribute('min', String(range.min));
      if (range.max !== null) control.setAttribute('max', String(range.max));
      control.toggleAttribute('data-open', range.type === 'number' && range.open);
      // A field follows its default until it is touched.
      control.defaultValue = embedded ? this.#own.get(spec.name) ?? '' : spec.default;
    }
    this.#summarise();
  }

  /**
   * @returns {{ prompt: string, options: GenerateOptions }}
   * @throws {FieldError}
   */
  read() {
    /** @type {{ [name: string]: unknown }} */ const options = {};
    for (const control of this.#controls()) {
      if (control.disabled) continue;
      if (control instanceof HTMLInputElement && control.type === 'checkbox') options[control.name] = control.checked;
      else if (control instanceof HTMLTextAreaElement) options[control.name] = stops(control);
      else {
        if (control.validity.badInput) throw new FieldError(control, `${title(control)} is not a number.`);
        if (control.value === '' && !control.required) continue;
        const problem = outOfRange(control, control.value);
        if (problem) throw new FieldError(control, `${title(control)} ${problem}.`);
        options[control.name] = Number(control.value);
      }
    }
    return { prompt: this.#prompt.value, options };
  }

  /** What the fields hold, for a link; empty ones are left out. @returns {Fields} */
  fields() {
    /** @type {Fields} */ const fields = {};
    for (const control of this.#controls()) {
      if (control instanceof HTMLTextAreaElement) fields[control.name] = stops(control);
      else if (control.type === 'checkbox') control.checked && (fields[control.name] = 'true');
      else if (control.value !== '') fields[control.name] = control.value;
    }
    return fields;
  }

  /**
   * Fills the form. Fields that are absent or invalid get their default, so that a link means the same everywhere.
   * @param {string | null} prompt @param {Fields} fields
   * @returns {string[]} what was ignored, and why
   */
  fill(prompt, fields) {
    this.#form.reset();
    if (prompt !== null) this.#prompt.value = prompt;
    const problems = [];
    const controls = this.#controls();
    for (const [name, value] of Object.entries(fields)) {
      const control = controls.find((control) => control.name === name);
      const problem = control ? put(control, value) : 'is not a setting of this page';
      if (problem) problems.push(`${name}=${[value].flat().join(', ')} ${problem}`);
    }
    this.#summarise();
    return problems;
  }

  #controls() {
    return [...this.#form.elements].filter(isControl);
  }

  /** The settings in one line, shown while they are folded away. */
  #summarise() {
    const { max_tokens: most, temperature, top_p: topP, seed, stop = [] } = /** @type {Fields} */ (this.#quietFields());
    const parts = [
      `${most ?? '?'} tokens`, `temperature ${temperature ?? '?'}`, `top-p ${topP ?? '?'}`, seed ? `seed ${seed}` : 'random seed',
      ...(stop.length ? [`${stop.length === 1 ? 'one stop string' : `${stop.length} stop strings`}`] : []),
    ];
    this.#summary.replaceChildren(...parts.flatMap((part) => [make('span', {}, part), ' ']));
  }

  #quietFields() {
    try {
      return this.fields();
    } catch {
      return {};
    }
  }
}

/** @param {Element} element @returns {element is Control} */
function isControl(element) {
  return element instanceof HTMLInputElement || (element instanceof HTMLTextAreaElement && element.name !== '');
}

/** @param {HTMLTextAreaElement} control */
function stops(control) {
  try {
    return parseStops(control.value);
  } catch (cause) {
    throw new FieldError(control, `${title(control)}: ${cause instanceof Error ? cause.message : cause}.`);
  }
}

/** @param {Control} control */
const title = (control) => control.labels?.[0]?.textContent ?? control.name;

/**
 * @param {Control} control
 * @param {string | string[]} value
 * @returns {string | null} why it was not accepted
 */
function put(control, value) {
  if (control instanceof HTMLTextAreaElement) {
    control.value = [value].flat().map(escapeStop).join('\n');
    return null;
  }
  const text = String(value);
  if (control.type === 'checkbox') {
    if (text !== 'true' && text !== 'false') return 'must be true or false';
    control.checked = text === 'true';
    return null;
  }
  const problem = outOfRange(control, text);
  if (problem) return `${problem}; using ${control.value || control.placeholder}`;
  control.value = String(Number(text)); // Number accepts spellings that would empty the field
  return null;
}

/**
 * @param {Control} control
 * @param {string} text
 * @returns {string | null} what is wrong with it
 */
function outOfRange(control, text) {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) return 'must be a number';
  const limit = (/** @type {string} */ name) => Number(control.getAttribute(name) ?? NaN);
  const [min, max] = [limit('min'), limit('max')];
  if (control.getAttribute('step') === '1' && !Number.isInteger(value)) return 'must be a whole number';
  if (control.hasAttribute('data-open') && value <= min) return `must be above ${min}`;
  if (value < min) return `must be at least ${min}`;
  if (value > max) return `must be at most ${max}`;
  return null;
}
