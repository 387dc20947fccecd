/** The form of an experiment, made from the options that the worker lists. */

import { make } from '../dom.js';
import { escapeStop, parseStops } from '../escapes.js';

/** @typedef {import('../../types/OptionSpec.js').OptionSpec} OptionSpec */
/** @typedef {HTMLInputElement | HTMLTextAreaElement} Control */
/** @typedef {{ spec: OptionSpec, control: Control, slider: HTMLInputElement | null, error: HTMLElement }} Field */
/** @typedef {string | number | boolean | readonly (string | number)[]} Value */
/** @typedef {{ [name: string]: readonly [min: number, max: number, step: number] }} Sliders */

/** Names of the options, for people. @type {{ [name: string]: string }} */
const LABELS = {
  prompt: 'Prompt', ids: 'Token ids', n: 'Tokens', lengths: 'Lengths', repeats: 'Repeats', textbook: 'Textbook model too',
  temperature: 'Temperature', target_temperature: 'Second temperature', seed: 'Seed', prompts: 'Prompts',
  prompt_lengths: 'Prompt lengths', output_lengths: 'Output lengths', fixed_prompt: 'Fixed prompt', fixed_output: 'Fixed output',
  text: 'Text', stop: 'Stop string', left: 'Texts before it', paces: 'Slower paces', runs: 'Runs', abandoned: 'Share who leave',
  within: 'Within', temperatures: 'Temperatures', seeds: 'Texts each', ngram: 'Repeated tokens', choices: 'Chosen ids',
  candidates: 'Candidates', top_k: 'Top-k', top_p: 'Top-p', min_p: 'Min-p', repetition_penalty: 'Repetition penalty',
  draws: 'Draws', most: 'Tokens shown',
};

export class Fields {
  /** @type {Map<string, Field>} */ #fields = new Map();
  /** @type {Map<string, { spec: OptionSpec, value: Value }>} Options without a field. */ #hidden = new Map();
  #sliders;

  /**
   * @param {readonly OptionSpec[]} specs
   * @param {readonly string[]} first names of the options to show at once; the others are folded away
   * @param {readonly string[]} hidden names of the options that the panel sets itself
   * @param {Sliders} sliders of some numbers
   * @param {HTMLElement} form is filled
   */
  constructor(specs, first, hidden, sliders, form) {
    this.#sliders = sliders;
    const byName = new Map(specs.map((spec) => [spec.name, spec]));
    const shown = first.flatMap((name) => byName.get(name) ?? []);
    for (const name of hidden) {
      const spec = byName.get(name);
      if (spec) this.#hidden.set(name, { spec, value: JSON.parse(spec.default) });
    }
    const others = specs.filter(({ name }) => !first.includes(name) && !hidden.includes(name));
    form.append(make('div', { class: 'lab-fields' }, ...shown.map((spec) => this.#make(spec))));
    if (others.length > 0) {
      form.append(make('details', { class: 'lab-more' }, make('summary', {}, 'More settings'),
        make('div', { class: 'lab-fields' }, ...others.map((spec) => this.#make(spec, true)))));
    }
  }

  /** @param {OptionSpec} spec @param {boolean} [help] whether to show the sentence; else it is a tooltip */
  #make(spec, help = false) {
    const { name, range } = spec;
    const id = `lab-${name}`;
    const attributes = {
      id, name, autocomplete: 'off', spellcheck: 'false', 'aria-describedby': help ? `${id}-help ${id}-error` : `${id}-error`, ...(!help && { title: spec.help }),
    };
    /** @type {Control} */ let control;
    if (range.type === 'flag') control = make('input', { ...attributes, type: 'checkbox' });
    else if (range.type === 'strings' || name === 'text') control = make('textarea', { ...attributes, rows: '4' });
    else if (range.type === 'text') control = make('input', { ...attributes, type: 'text' });
    else control = make('input', { ...attributes, type: 'text', inputmode: range.type === 'integer' ? 'numeric' : range.type === 'number' ? 'decimal' : 'text', size: '1' });
    const error = make('p', { id: `${id}-error`, class: 'field-error' });
    control.addEventListener('change', () => this.#judge(name));
    const reach = this.#sliders[name];
    const slider = reach ? make('input', { type: 'range', min: reach[0], max: reach[1], step: reach[2], tabindex: '-1', 'aria-hidden': 'true' }) : null;
    // The field beside it says the same to those who do not see it, and takes the arrow keys' place.
    slider?.addEventListener('input', () => { control.value = slider.value; });
    control.addEventListener('input', () => { if (slider) slider.value = control.value; });
    this.#fields.set(name, { spec, control, slider, error });
    this.set(name, /** @type {any} */ (spec.default === '' ? '' : JSON.parse(spec.default)));
    const kind = range.type === 'flag' ? 'check' : range.type === 'strings' || name === 'text' ? 'wide' : range.type === 'text' ? 'long' : range.type === 'numbers' ? 'middle' : 'short';
    const label = make('label', { for: id }, LABELS[name] ?? name);
    const texts = help ? [make('p', { id: `${id}-help` }, `${spec.help}${range.type === 'strings' ? ' One per line; \\n is a line break.' : range.type === 'numbers' ? ' With commas between them.' : ''}`)] : [];
    return make('div', { class: `lab-field ${kind}` }, ...(range.type === 'flag' ? [control, label] : [label, control, ...(slider ? [slider] : [])]), ...texts, error);
  }

  /** @param {string} name @returns {Control | undefined} */
  control(name) {
    return this.#fields.get(name)?.control;
  }

  /** Gives options without a field their defaults. @param {readonly string[]} [names] all if absent */
  reset(names = [...this.#hidden.keys()]) {
    for (const name of names) {
      const option = this.#hidden.get(name);
      if (option) option.value = JSON.parse(option.spec.default);
    }
  }

  /** @param {string} name @param {Value} value */
  set(name, value) {
    const hidden = this.#hidden.get(name);
    if (hidden) hidden.value = value;
    const field = this.#fields.get(name);
    if (!field) return;
    const { control, spec, slider } = field;
    if (control.type === 'checkbox') /** @type {HTMLInputElement} */ (control).checked = value === true || value === 'true';
    else if (Array.isArray(value)) control.value = spec.range.type === 'strings' ? value.map((text) => escapeStop(String(text))).join('\n') : value.join(', ');
    else control.value = control instanceof HTMLInputElement && spec.range.type === 'text' ? escapeStop(String(value)) : String(value);
    if (slider) slider.value = control.value;
  }

  /**
   * Fills a field with what a link says.
   * @param {string} name @param {readonly string[]} values @returns {string | null} what is wrong
   */
  fill(name, values) {
    const hidden = this.#hidden.get(name);
    if (hidden) {
      const numbers = values.join(',').split(',').filter((text) => text !== '').map(Number);
      if (!numbers.every((number) => Number.isInteger(number) && number >= 0)) return 'must be whole numbers';
      hidden.value = hidden.spec.range.type === 'numbers' ? numbers : numbers[0] ?? 0;
      return null;
    }
    const field = this.#fields.get(name);
    if (!field) return 'is not a setting of this experiment';
    const { type } = field.spec.range;
    const before = this.#valueOf(field);
    this.set(name, type === 'strings' ? values : type === 'text' ? values[0] ?? '' : values.join(', '));
    const problem = this.#problem(field);
    if (problem) this.set(name, /** @type {any} */ (before.value ?? ''));
    return problem;
  }

  /** The values, or null if one is wrong; then its field says so and has the focus. @returns {Record<string, unknown> | null} */
  read() {
    /** @type {Record<string, unknown>} */ const values = Object.fromEntries([...this.#hidden].map(([name, { value }]) => [name, value]));
    /** @type {Control | null} */ let wrong = null;
    for (const [name, field] of this.#fields) {
      if (!this.#judge(name)) wrong ??= field.control;
      const { value } = this.#valueOf(field);
      if (value !== undefined) values[name] = value;
    }
    if (!wrong) return values;
    const fold = wrong.closest('details');
    if (fold) fold.open = true;
    wrong.focus();
    return null;
  }

  /** What differs from the defaults, for a link. @returns {[name: string, value: string][]} */
  changed() {
    /** @type {[string, string][]} */ const changed = [];
    for (const [name, { spec, value }] of this.#hidden) {
      if (JSON.stringify(value) !== JSON.stringify(JSON.parse(spec.default))) changed.push([name, Array.isArray(value) ? value.join(',') : String(value)]);
    }
    for (const [name, field] of this.#fields) {
      const { value } = this.#valueOf(field);
      if (value === undefined || JSON.stringify(value) === JSON.stringify(field.spec.default === '' ? undefined : JSON.parse(field.spec.default))) continue;
      for (const each of field.spec.range.type === 'strings' ? /** @type {string[]} */ (value) : [value]) changed.push([name, Array.isArray(each) ? each.join(',') : String(each)]);
    }
    return changed;
  }

  /** @param {string} name */
  #judge(name) {
    const field = /** @type {Field} */ (this.#fields.get(name));
    const problem = this.#problem(field);
    field.error.textContent = problem ? `${LABELS[name] ?? name} ${problem}.` : '';
    if (problem) field.control.setAttribute('aria-invalid', 'true');
    else field.control.removeAttribute('aria-invalid');
    return problem === null;
  }

  /** @param {Field} field @returns {string | null} */
  #problem(field) {
    const { value, problem } = this.#valueOf(field);
    const { range } = field.spec;
    if (problem) return problem;
    if (range.type === 'numbers') {
      const { min, max, whole, most } = range;
      const list = /** @type {number[]} */ (value);
      const fits = list.length <= most && list.every((number) => number >= min && number <= max && (!whole || Number.isInteger(number)));
      return fits ? null : `must be at most ${most} ${whole ? 'whole numbers' : 'numbers'} from ${min} to ${max}`;
    }
    if (range.type === 'integer' || range.type === 'number') {
      if (value === undefined) return field.spec.default === '' ? null : 'must be a number';
      const number = /** @type {number} */ (value);
      if (range.type === 'integer' && !Number.isInteger(number)) return 'must be a whole number';
      if (range.type === 'number' && range.open && number <= range.min) return `must be above ${range.min}`;
      if (number < range.min) return `must be at least ${range.min}`;
      if (range.max !== null && number > range.max) return `must be at most ${range.max}`;
    }
    return null;
  }

  /** @param {Field} field @returns {{ value?: unknown, problem?: string }} */
  #valueOf({ spec: { range }, control }) {
    const text = control.value;
    if (control.type === 'checkbox') return { value: /** @type {HTMLInputElement} */ (control).checked };
    try {
      if (range.type === 'strings') return { value: parseStops(text) };
      if (range.type === 'text') return { value: control instanceof HTMLInputElement ? parseStops(text)[0] ?? '' : text };
    } catch (cause) {
      return { problem: `has a mistake: ${cause instanceof Error ? cause.message : cause}` };
    }
    const numbers = text.split(/[\s,]+/).filter((part) => part !== '').map(Number);
    if (numbers.some((number) => !Number.isFinite(number))) return { value: [], problem: range.type === 'numbers' ? 'must be numbers with commas between them' : 'must be a number' };
    if (range.type === 'numbers') return { value: numbers };
    if (numbers.length > 1) return { problem: 'must be one number' };
    return { value: numbers[0] };
  }
}
