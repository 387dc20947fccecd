import { findings } from '../../gpt2-web.js';
import { byId, make, switchOff } from '../dom.js';
import { describe } from '../messages.js';
import { copy, flash } from '../record.js';
import { Fields } from './fields.js';
import { asCsv, asJson, save } from './files.js';
import { figuresList, ms, table } from './pieces.js';
import { questionOf } from './questions.js';
import { png, standalone } from './svg.js';

/** @typedef {import('../../gpt2-web.js').Findings} Findings */
/** @typedef {import('../../gpt2-web.js').Gpt2Web} Gpt2Web */
/** @typedef {import('../../types/ExperimentSpec.js').ExperimentSpec} ExperimentSpec */

/**
 * What a panel can do besides showing.
 * @typedef {object} Desk
 * @property {Record<string, unknown>} conditions of what is shown
 * @property {(options: Record<string, import('./fields.js').Value>) => void} again sets options and runs
 * @property {() => number[]} lastRun the ids of the last run on the page, prompt and output; none if there is none
 */

/**
 * How an experiment is shown. `R` are its rows, `S` its summary.
 * @template R, S
 * @typedef {object} PanelSpec
 * @property {string} name the experiment
 * @property {string} lead what it asks and does
 * @property {readonly string[]} first options that are shown at once
 * @property {readonly string[]} [hidden] options that the panel sets itself; a change of the prompt resets them
 * @property {readonly string[]} [resets] those that the button resets
 * @property {import('./fields.js').Sliders} [sliders]
 * @property {string} [run] what its button says
 * @property {boolean} [live] whether a change of an option runs it again
 * @property {boolean} [usesLastRun] whether it can look at the last run instead of a prompt
 * @property {(rows: R[], summary: S) => import('./pieces.js').Figure[]} figures the answer in a few numbers
 * @property {(rows: R[], summary: S, desk: Desk) => Node[]} draw the picture
 * @property {readonly import('./pieces.js').Column<R>[]} [columns] of the table; none if the picture is one
 * @property {(rows: R[]) => R[]} [tabled] the rows that the table shows; all if absent
 * @property {string | ((rows: R[], summary: S) => string)} read how to read it
 * @property {string} not what it does not show
 */

/** Milliseconds that a change of a slider waits for the next one. */
const LIVE_MS = 120;

/** One experiment on the page: its settings, its run, and what it found. */
export class Panel {
  #spec;
  #gpt2;
  #activity;
  #parts;
  /** @type {Fields | null} */ #fields = null;
  /** @type {[name: string, values: string[]][]} From a link, until there is a form. */ #linked = [];
  /** @type {Findings | null} */ #found = null;
  #root = make('article', { class: 'lab-panel' });
  #form = make('form', { class: 'lab-form', novalidate: true });
  #run = make('button', { type: 'submit', class: 'button primary' });
  #stop = make('button', { type: 'button', class: 'button' }, 'Stop');
  #last = make('button', { type: 'button', class: 'button quiet' }, 'Use the last run');
  #progress = make('progress', { 'aria-label': 'Progress of the experiment' });
  #result = make('div', { class: 'lab-result' });
  #message = make('p', { class: 'lab-message', role: 'status' });
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #pending;
  #running = false;

  /**
   * @param {PanelSpec<any, any>} spec
   * @param {Gpt2Web} gpt2
   * @param {import('../activity.js').Activity} activity
   * @param {{ lastRun: () => number[] }} parts
   */
  constructor(spec, gpt2, activity, parts) {
    this.#spec = spec;
    this.#gpt2 = gpt2;
    this.#activity = activity;
    this.#parts = parts;
    const link = make('button', { type: 'button', class: 'button quiet' }, 'Copy link');
    link.addEventListener('click', () => copy(link, this.link()));
    this.#run.textContent = spec.run ?? 'Run';
    this.#last.hidden = true;
    this.#last.addEventListener('click', () => this.#useLastRun());
    this.#stop.addEventListener('click', () => this.#activity.stop());
    const begin = (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#fields?.reset(spec.resets ?? []);
      void this.run();
    };
    this.#form.addEventListener('submit', begin);
    // A click, because a sandboxed frame may not submit the form.
    this.#run.addEventListener('click', begin);
    if (spec.live) this.#form.addEventListener('input', () => this.#runSoon());
    this.#progress.hidden = true;
    const title = questionOf(spec.name);
    this.#root.append(
      make('h2', { tabindex: '-1' }, title), make('p', { class: 'lab-lead' }, spec.lead),
      this.#form, this.#progress, this.#message, this.#result);
    this.#actions = make('div', { class: 'actions lab-actions' }, this.#run, this.#stop, this.#last, link);
    this.#form.append(this.#actions);
    this.show();
  }

  #actions;

  get root() {
    return this.#root;
  }

  /** Whether there is something to lose. */
  get running() {
    return this.#running;
  }

  /** A link to this panel with its settings. */
  link() {
    const parameters = new URLSearchParams([['lab', this.#spec.name], ...(this.#fields?.changed() ?? [])]);
    const url = new URL(location.href);
    url.hash = `#${parameters}`;
    return url.href;
  }

  /** Takes the settings of a link. @param {URLSearchParams} parameters @returns {string[]} what was ignored, and why */
  open(parameters) {
    this.#linked = [...new Set(parameters.keys())].filter((name) => name !== 'lab').map((name) => [name, parameters.getAll(name)]);
    return this.#takeLinked();
  }

  #takeLinked() {
    const fields = this.#fields;
    if (!fields) return [];
    const problems = this.#linked.flatMap(([name, values]) => {
      const problem = fields.fill(name, values);
      return problem ? [`${name}=${values.join(', ')} ${problem}`] : [];
    });
    this.#linked = [];
    if (problems.length > 0) this.#message.textContent = `Ignored: ${problems.join('; ')}.`;
    return problems;
  }

  /** Shows what is possible now: called when the model or the activity of the page changes. @param {readonly ExperimentSpec[]} [experiments] */
  show(experiments) {
    const spec = experiments?.find(({ name }) => name === this.#spec.name);
    if (spec && !this.#fields) {
      const holder = make('div', {});
      this.#fields = new Fields(spec.options, this.#spec.first, this.#spec.hidden ?? [], this.#spec.sliders ?? {}, holder);
      this.#fields.control('prompt')?.addEventListener('input', () => this.#fields?.reset());
      this.#form.prepend(holder);
      this.#takeLinked();
    }
    const { busy, state } = this.#activity;
    switchOff(this.#run, !this.#fields || busy);
    this.#stop.hidden = !this.#running;
    this.#last.hidden = !this.#spec.usesLastRun || this.#parts.lastRun().length === 0;
    if (!this.#fields) this.#message.textContent = state === 'error' ? 'There is no model. Open one.' : 'The model is loading.';
    else if (this.#message.textContent === 'The model is loading.') this.#message.textContent = '';
  }

  #runSoon() {
    clearTimeout(this.#pending);
    if (!this.#found) return;
    this.#pending = setTimeout(() => void this.run(), LIVE_MS);
  }

  #useLastRun() {
    const ids = this.#parts.lastRun();
    this.#fields?.reset();
    this.#fields?.set('ids', ids);
    void this.run();
  }

  /** Sets options and runs. @param {Parameters<Desk['again']>[0]} options */
  #again(options) {
    for (const [name, value] of Object.entries(options)) this.#fields?.set(name, value);
    void this.run();
  }

  async run() {
    clearTimeout(this.#pending);
    const fields = this.#fields;
    if (!fields) return;
    if (this.#activity.busy) {
      if (this.#running && this.#spec.live) this.#pending = setTimeout(() => void this.run(), LIVE_MS);
      return;
    }
    const options = fields.read();
    if (!options) return;
    this.#running = true; // before the activity changes, which shows the button that stops
    const signal = this.#activity.begin('running');
    const quiet = this.#spec.live === true && this.#found !== null;
    this.#begin(quiet);
    /** @type {import('../../types/Row.js').Row[]} */ const rows = [];
    /** @type {'done' | 'error'} */ let state = 'done';
    try {
      for await (const event of this.#gpt2.experiment(this.#spec.name, { ...options, signal })) {
        if (event.type === 'row') rows.push(event.row);
        else if (event.type === 'experiment_progress') {
          this.#progress.max = event.total;
          this.#progress.value = event.done;
        } else this.#end(findings(event, rows));
      }
    } catch (cause) {
      state = 'error';
      this.#message.textContent = describe(cause);
      this.#message.classList.add('error');
    }
    this.#running = false;
    this.#progress.hidden = true;
    this.#activity.end(state);
  }

  /** @param {boolean} quiet whether what is shown stays until there is something new */
  #begin(quiet) {
    this.#message.textContent = quiet ? '' : 'Running.';
    this.#message.classList.remove('error');
    this.#progress.removeAttribute('value');
    this.#progress.hidden = quiet;
    if (!quiet) this.#result.classList.add('stale');
  }

  /** @param {Findings} found */
  #end(found) {
    this.#result.classList.remove('stale');
    const cancelled = found.summary === null;
    if (!cancelled || !this.#found) this.#found = found;
    this.#message.textContent = cancelled ? `Stopped after ${found.rows.length} row${found.rows.length === 1 ? '' : 's'}.${this.#found === found ? '' : ' The result before is still shown.'}` : '';
    if (this.#found === found) this.#draw(found);
    if (!cancelled && !this.#spec.live) this.#showAnswer();
  }

  /** Brings the answer into view where it came below the fold, as on a phone. */
  #showAnswer() {
    const answer = this.#result.querySelector('.lab-figures');
    if (answer && answer.getBoundingClientRect().bottom > innerHeight) answer.scrollIntoView({ block: 'start' });
  }

  /** @param {Findings} found */
  #draw(found) {
    const { name, figures, draw, columns, tabled, read, not } = this.#spec;
    const { rows, summary, conditions } = found;
    const busy = conditions.busy === true;
    const desk = { conditions, again: (/** @type {any} */ options) => this.#again(options), lastRun: this.#parts.lastRun };
    const whole = summary === null ? [] : [
      figuresList(figures(rows, summary)),
      ...(busy ? [make('p', { class: 'lab-warning' }, 'This machine was busy: a fixed computation between the measurements took very different times. Run it again when it is quiet.')] : []),
      ...draw(rows, summary, desk),
      make('p', { class: 'lab-read' }, make('strong', {}, 'How to read it. '), typeof read === 'string' ? read : read(rows, summary)),
      make('p', { class: 'lab-not muted' }, 'Not shown: ', not),
    ];
    const shown = tabled ? tabled(rows) : rows;
    this.#result.replaceChildren(
      ...whole,
      ...(columns && shown.length > 0 ? [table(shown, columns, `All rows of “${questionOf(name)}”`)] : []));
    this.#result.append(this.#foot(found)); // what can be saved depends on what is shown
  }

  /** The conditions, and the files. @param {Findings} found */
  #foot(found) {
    const { model, precision, kernel, timer_resolution_ms: tick, probe_ms: probe, browser } = /** @type {Record<string, any>} */ (found.conditions);
    const clock = tick > 0 ? `clock ticks every ${tick >= 0.01 ? Number(tick.toPrecision(2)) : '0.01'} ms` : 'clock does not tick';
    const program = /Firefox\/[\d.]+|(?:Headless)?Chrome\/\d+|Version\/[\d.]+(?=.*Safari)/.exec(String(browser))?.[0].replace('/', ' ').replace('Headless', '').replace('Version', 'Safari') ?? 'this browser';
    const steady = probe ? [`a fixed computation took ${ms(probe.min)} to ${ms(probe.max)}`] : [];
    const button = (/** @type {string} */ label, /** @type {(button: HTMLButtonElement) => unknown} */ act) => {
      const button = make('button', { type: 'button', class: 'button quiet' }, label);
      button.addEventListener('click', () => act(button));
      return button;
    };
    const file = (/** @type {string} */ extension) => `gpt2-web-${found.experiment}.${extension}`;
    const saved = (/** @type {HTMLButtonElement} */ button, /** @type {string} */ extension, /** @type {BlobPart} */ content, /** @type {string} */ type) => {
      save(file(extension), new Blob([content], { type }));
      flash(button, 'Saved');
    };
    const drawing = () => /** @type {SVGSVGElement | null} */ (this.#result.querySelector('svg.chart-drawing'));
    const picture = (/** @type {SVGSVGElement} */ svg) => standalone(svg, questionOf(found.experiment));
    const pictures = () => (this.#result.querySelector('.chart, svg.chart-drawing') ? [
      button('SVG', (button) => { const svg = drawing(); if (svg) saved(button, 'svg', picture(svg), 'image/svg+xml'); }),
      button('PNG', async (button) => { const svg = drawing(); if (svg) saved(button, 'png', await png(picture(svg)), 'image/png'); }),
    ] : []);
    return make('div', { class: 'lab-foot' },
      make('p', { class: 'lab-conditions muted' }, [model, precision, kernel, program, clock, ...steady].join(' · ')),
      make('div', { class: 'actions' },
        button('CSV', (button) => saved(button, 'csv', asCsv(found), 'text/csv;charset=utf-8')),
        button('JSON', (button) => saved(button, 'json', asJson(found), 'application/json')),
        button('Copy JSON', (button) => copy(button, asJson(found))),
        ...pictures(),
        // The page in one file has no other page beside it.
        ...(this.#gpt2.inOneFile ? [] : [make('a', { class: 'lab-docs', href: `${DOCS}#${found.experiment}`, target: '_blank', rel: 'noopener' }, 'More about this')])));
  }

  /** Moves the focus to the title. */
  focus() {
    /** @type {HTMLElement} */ (this.#root.querySelector('h2')).focus({ preventScroll: true });
    byId('lab-view').scrollIntoView({ block: 'nearest' });
  }
}

/** docs/lab.md, as the build puts it beside the page. */
const DOCS = 'lab.html';
