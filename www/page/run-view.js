import { byId } from './dom.js';
import { integer } from './format.js';
import { Inspector } from './inspector.js';
import { figures, ofRecord, showFigures } from './numbers.js';
import { Output } from './output.js';
import { showProfile } from './profile.js';
import { showSettings } from './record.js';
import { explain } from './stop-reasons.js';
import { Timeline } from './timeline.js';

/** @typedef {import('../types/Record.js').Record} RunRecord */
/** @typedef {import('../types/StepRecord.js').StepRecord} StepRecord */
/** @typedef {import('../gpt2-web.js').RunEvent} RunEvent */
/** @typedef {import('./latency.js').Latency} Latency */

/** How long plot and figures may lag behind the text while it streams. */
const REDRAW_MS = 200;

/** One run on the page: its text, the selected token, its times and its record. */
export class RunView {
  /** @type {{ record: RunRecord, latency: Latency } | null} The last finished run. */ last = null;
  /** @type {StepRecord[]} */ #steps = [];
  /** @type {number | null} The step in the inspector. */ #selected = null;
  #greedy = false;
  /** @type {import('./numbers.js').Progress} */ #progress = { prompt: 0, generated: 0, positions: 0, firstTokenMs: null, decodeMs: 0, seed: 0 };
  /** @type {Latency | null} */ #latency = null;
  #redrawn = -Infinity;
  #output = new Output(byId('output'), (step) => this.#select(step));
  #inspector = new Inspector(byId('inspector'), (step) => {
    this.#select(step);
    this.#output.reveal();
  });
  #timeline = new Timeline({
    section: byId('timeline'), summary: byId('timeline-summary'), plot: byId('plot'), readout: byId('plot-readout'),
    table: byId('steps', HTMLDetailsElement),
  }, (step) => this.#select(step));
  #bar = byId('run-progress', HTMLProgressElement);
  #prefillBar = byId('prefill-progress', HTMLProgressElement);

  /**
   * The run was accepted: it replaces the previous one.
   * @param {string} prompt @param {Extract<RunEvent, { type: 'start' }>} event @param {number} contextLength @param {Latency} latency
   */
  begin(prompt, { prompt_ids, settings }, contextLength, latency) {
    this.#steps = [];
    this.#selected = null;
    this.last = null;
    this.#latency = latency;
    this.#redrawn = -Infinity;
    this.#greedy = settings.temperature === 0;
    this.#progress = { prompt: prompt_ids.length, generated: 0, positions: 0, firstTokenMs: null, decodeMs: 0, seed: settings.seed };
    this.#output.begin(prompt);
    this.#timeline.begin(this.#steps);
    this.#inspector.invite();
    showProfile(byId('profile', HTMLDetailsElement), null);
    if (byId('empty').contains(document.activeElement)) byId('generate').focus({ preventScroll: true }); // an example was pressed
    for (const id of ['empty', 'ending', 'record', 'copy-fallback']) byId(id).hidden = true;
    byId('story').hidden = false;
    byId('announcement').textContent = '';
    byId('numbers').replaceChildren();
    byId('prompt-count').textContent = `· ${tokens(prompt_ids.length)}`;
    this.#bar.max = Math.min(settings.max_tokens, contextLength - prompt_ids.length + 1);
  }

  /** @param {Extract<RunEvent, { type: 'prefill' }>} event */
  prefill({ done, total, chunk_ms }) {
    this.#timeline.prefill(done, chunk_ms);
    this.#prefillBar.max = total;
    this.#prefillBar.value = done;
    byId('prefill-text').textContent = `Reading the prompt: ${integer(done)} of ${integer(total)} positions`;
    byId('prefill').hidden = done >= total;
  }

  /** @param {Extract<RunEvent, { type: 'delta' }>} event */
  delta({ text, posted_at }) {
    this.#output.delta(text);
    this.#latency?.arrived(posted_at);
  }

  /** @param {Extract<RunEvent, { type: 'step' }>} event */
  step(event) {
    this.#steps.push(event);
    this.#output.step(event);
    this.#bar.hidden = false;
    this.#bar.value = this.#steps.length;
    this.#progress.generated = this.#steps.length;
    this.#progress.positions = event.positions_processed;
    this.#progress.decodeMs += event.forward_ms + event.sample_ms;
    if (performance.now() - this.#redrawn > REDRAW_MS) this.#redraw();
  }

  /** @param {RunRecord} record */
  finish(record) {
    const latency = this.#latency;
    if (!latency) return;
    this.#latency = null;
    this.#output.end();
    this.last = { record, latency };
    const reason = record.stop?.reason ?? 'failed';
    const sentence = explain(record);
    byId('stop-reason').textContent = reason;
    byId('stop-reason').dataset.reason = reason;
    byId('stop-sentence').textContent = sentence;
    byId('ending').hidden = false;
    byId('announcement').textContent = `Finished after ${tokens(record.token_ids.length)}. ${sentence}`;
    const show = () => showFigures(byId('numbers'), figures(ofRecord(record), latency));
    show();
    // The frame of the last delta has not been shown yet.
    requestAnimationFrame(() => setTimeout(() => { if (this.last?.record === record) show(); }));
    showProfile(byId('profile', HTMLDetailsElement), record.profile, record.identity);
    showSettings(byId('effective'), record.settings);
    byId('keep-seed').hidden = byId('seed', HTMLInputElement).value === String(record.settings.seed);
    byId('record').hidden = false;
  }

  /** The run ended without a record, perhaps before it began. */
  fail() {
    if (this.#latency && this.#progress.generated > 0) this.#redraw();
  }

  /** The run is over, whatever the reason. */
  end() {
    this.#output.end();
    this.#timeline.update();
    byId('prefill').hidden = true;
    this.#bar.hidden = true;
    // Now the number of tokens is final, and the selected token may have a next one.
    if (this.#selected !== null) this.#inspector.show(this.#steps, this.#selected, this.#greedy);
  }

  /** @param {number | null} step */
  #select(step) {
    this.#selected = step;
    this.#output.select(step);
    this.#timeline.select(step);
    if (step === null) this.#inspector.invite();
    else this.#inspector.show(this.#steps, step, this.#greedy);
  }

  #redraw() {
    this.#timeline.update();
    if (this.#latency) showFigures(byId('numbers'), figures(this.#progress, this.#latency));
    this.#redrawn = performance.now();
  }
}

/** @param {number} count */
const tokens = (count) => `${integer(count)} token${count === 1 ? '' : 's'}`;
