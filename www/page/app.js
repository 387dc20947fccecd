/** Puts the page together: one client, one form, one run at a time. */

import { Gpt2Error, Gpt2Web } from '../gpt2-web.js';
import { Activity } from './activity.js';
import { Controls, FieldError } from './controls.js';
import { byId, switchOff } from './dom.js';
import { takeDrops } from './drop.js';
import { Latency } from './latency.js';
import { decodeLink, encodeLink } from './link.js';
import { describe, hideMessages, showError, showNotices } from './messages.js';
import { figures, figuresTable, ofRecord } from './numbers.js';
import { Opening } from './opening.js';
import { copy, flash, save } from './record.js';
import { RunView } from './run-view.js';

/** @typedef {ReturnType<Controls['read']>} Asked */

/** As many ids of the last run as the lab can look into. */
const MOST_IDS = 128;

const gpt2 = new Gpt2Web();

const form = byId('form', HTMLFormElement);
const prompt = byId('prompt', HTMLTextAreaElement);
const generate = byId('generate');
const stop = byId('stop');
const seed = byId('seed', HTMLInputElement);

const controls = new Controls(form, prompt, byId('settings-summary'));
const view = new RunView();
const activity = new Activity(showActivity);
const opening = new Opening(gpt2, activity, (loaded, embedded) => {
  controls.apply(loaded.options, { embedded });
  if (activity.queued) void run();
});
/** Fingerprint of the last finished run. */
let asked = '';

/** @type {import('./lab/index.js').Lab | null} Fetched when it is first opened. */
let lab = null;

function showActivity() {
  document.documentElement.dataset.state = activity.state;
  switchOff(generate, !opening.loaded || activity.busy);
  switchOff(stop, !activity.busy);
  opening.disabled = activity.busy;
  byId('queued').hidden = !activity.queued;
  lab?.update();
}

/** Shows the view that the fragment of the address names, with its settings. @param {boolean} asked whether the reader asked for it just now */
async function route(asked) {
  const parameters = new URLSearchParams(location.hash.replace(/^#/, ''));
  const toLab = parameters.has('lab');
  byId('write-view').hidden = toLab;
  byId('lab-view').hidden = !toLab;
  for (const [id, here] of /** @type {const} */ ([['to-write', !toLab], ['to-lab', toLab]])) {
    if (here) byId(id).setAttribute('aria-current', 'page');
    else byId(id).removeAttribute('aria-current');
  }
  if (!toLab) return openLink();
  try {
    const { Lab } = await import('./lab/index.js');
    lab ??= new Lab(byId('lab-view'), {
      gpt2, activity, loaded: () => opening.loaded,
      lastRun: () => (view.last ? [...view.last.record.prompt_ids, ...view.last.record.token_ids].slice(0, MOST_IDS) : []),
    });
    lab.open(parameters, { focus: asked });
  } catch (cause) {
    showError(`The lab could not be opened. ${describe(cause)}`);
  }
}

/** One run, from the form to the record. */
async function run() {
  activity.queue(activity.state === 'loading');
  const { loaded } = opening;
  if (activity.busy || !loaded) return;
  hideMessages();
  /** @type {Asked} */ let request;
  try {
    request = controls.read();
  } catch (cause) {
    if (cause instanceof FieldError) reveal(cause.field);
    showError(describe(cause));
    return;
  }
  const signal = activity.begin('running');
  /** @type {'done' | 'error'} */ let state = 'done';
  try {
    for await (const event of gpt2.generate(request.prompt, { ...request.options, signal })) {
      switch (event.type) {
        // Only now: after a refused request the previous run stays on the page.
        case 'start': view.begin(request.prompt, event, loaded.model.context_length, new Latency()); break;
        case 'prefill': view.prefill(event); break;
        case 'delta': view.delta(event); break;
        case 'step': view.step(event); break;
        case 'done': finish(event.record, request); break;
      }
    }
  } catch (cause) {
    state = 'error';
    if (cause instanceof Gpt2Error && cause.record) finish(cause.record, request);
    else view.fail();
    byId('announcement').textContent = 'The run failed.';
    showError(describe(cause));
    if (gpt2.recovery) await recover(cause);
  }
  view.end();
  activity.end(state);
}

/** @param {import('../types/Record.js').Record} record @param {Asked} request */
function finish(record, request) {
  asked = fingerprint(request);
  view.finish(record);
}

/** After a panic the client loads the model into a new worker. @param {unknown} cause */
async function recover(cause) {
  try {
    await gpt2.recovery;
    showError(`${describe(cause)} The model has been reloaded; you can continue.`);
  } catch (again) {
    opening.lost();
    showError(`${describe(cause)} The model could not be loaded again. ${describe(again)}`, { label: 'Try again', run: () => void opening.embedded() });
  }
}

/** Everything a run depends on except the seed, for comparison. @param {Asked} request */
const fingerprint = ({ prompt, options }) => JSON.stringify([opening.loaded?.model, prompt, { ...options, seed: undefined }]);

/** Opens the folds around a field and focuses it. @param {HTMLElement} field */
function reveal(field) {
  for (let fold = field.closest('details'); fold; fold = fold.parentElement?.closest('details') ?? null) fold.open = true;
  field.focus();
}

/** The record as JSON, with what only the page can measure. */
function recordJson() {
  if (!view.last) return '';
  const { record, latency } = view.last;
  const page = { worker_to_page_ms: latency.handler, worker_to_screen_ms: latency.frame, user_agent: navigator.userAgent };
  return `${JSON.stringify({ ...record, page }, null, 2)}\n`;
}

function copyLink() {
  let fields;
  try {
    fields = controls.fields();
    // If the form still asks for the run on the page, the link leads to the same text.
    if (view.last && asked === fingerprint(controls.read())) fields.seed ??= String(view.last.record.settings.seed);
  } catch (cause) {
    showError(describe(cause));
    return;
  }
  const url = new URL(location.href);
  url.hash = encodeLink(prompt.value, fields);
  copy(byId('copy-link'), url.href);
}

function openLink() {
  const link = decodeLink(location.hash);
  if (!link) return;
  byId('prompt-count').textContent = '';
  const problems = [...link.problems, ...controls.fill(link.prompt, link.fields)];
  showNotices('Some settings in this link were ignored:', problems);
}

// A click, because a sandboxed frame may not submit the form.
generate.addEventListener('click', run);
form.addEventListener('keydown', (event) => {
  const start = event.ctrlKey || event.metaKey || event.target instanceof HTMLInputElement;
  if (event.key !== 'Enter' || !start) return;
  event.preventDefault();
  run();
});
prompt.addEventListener('input', () => { byId('prompt-count').textContent = ''; });
stop.addEventListener('click', () => activity.stop());
byId('cancel-load').addEventListener('click', () => activity.stop());
byId('take-back').addEventListener('click', () => {
  activity.queue(false);
  generate.focus();
});
takeDrops(byId('veil'), (selected) => opening.choose({ selected }));
byId('examples').addEventListener('click', ({ target }) => {
  if (!(target instanceof HTMLButtonElement)) return;
  prompt.value = target.textContent ?? '';
  run();
});
byId('copy-link').addEventListener('click', copyLink);
byId('copy-record').addEventListener('click', () => copy(byId('copy-record'), recordJson()));
byId('save-record').addEventListener('click', () => {
  save(byId('save-record'), `gpt2-web-${view.last?.record.settings.seed}.json`, recordJson());
});
byId('copy-numbers').addEventListener('click', () => {
  if (view.last) copy(byId('copy-numbers'), figuresTable(figures(ofRecord(view.last.record), view.last.latency)));
});
byId('keep-seed').addEventListener('click', () => {
  seed.value = String(view.last?.record.settings.seed ?? '');
  seed.dispatchEvent(new Event('input', { bubbles: true }));
  flash(byId('keep-seed'), 'Set');
});
addEventListener('hashchange', () => void route(true));

void route(false);
void opening.embedded();
