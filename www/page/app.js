/** Wires the page together: one client, one form, one run at a time. */

import { Gpt2Error, Gpt2Web } from '../gpt2-web.js';
import { entryFrom } from '../client/catalog.js';
import { Controls, FieldError } from './controls.js';
import { byId, make, switchOff, terms } from './dom.js';
import { takeDrops } from './drop.js';
import { integer } from './format.js';
import { Hop } from './hop.js';
import { Inspector } from './inspector.js';
import { decodeLink, encodeLink } from './link.js';
import { LoadProgress, modelFacts } from './loading.js';
import { ModelsDialog } from './models.js';
import { figures, figuresTable, ofRecord, showFigures } from './numbers.js';
import { Output } from './output.js';
import { choose } from './picked.js';
import { showProfile } from './profile.js';
import { copy, flash, save, showSettings } from './record.js';
import { explain } from './stop-reasons.js';
import { Timeline } from './timeline.js';

/** @typedef {import('../types/Record').Record} RunRecord */
/** @typedef {import('../types/StepRecord').StepRecord} StepRecord */
/** @typedef {import('../gpt2-web.js').Loaded} Loaded */

/** How long plot and numbers may lag behind the text while it streams. */
const REDRAW_MS = 200;

const gpt2 = new Gpt2Web();

const form = byId('form', HTMLFormElement);
const prompt = byId('prompt', HTMLTextAreaElement);
const generate = byId('generate');
const stop = byId('stop');
const seed = byId('seed', HTMLInputElement);
const runProgress = byId('run-progress', HTMLProgressElement);
const prefillProgress = byId('prefill-progress', HTMLProgressElement);

const controls = new Controls(form, prompt, byId('settings-summary'));
const output = new Output(byId('output'), select);
const inspector = new Inspector(byId('inspector'), (step) => {
  select(step);
  output.reveal();
});
const timeline = new Timeline({
  section: byId('timeline'), summary: byId('timeline-summary'), plot: byId('plot'), readout: byId('plot-readout'),
  table: byId('steps', HTMLDetailsElement),
}, select);
const loadProgress = new LoadProgress();
const dialog = new ModelsDialog(gpt2, openChoice);

/** @type {AbortController | null} What Stop ends: the run, or the load. */ let work = null;
/** @type {Loaded | null} */ let loaded = null;
/** @type {StepRecord[]} */ let steps = [];
/** @type {number | null} The step in the inspector. */ let selected = null;
let greedy = false;
/** @type {{ record: RunRecord, hop: Hop, fingerprint: string } | null} The last run that came to its end. */ let last = null;

/** @type {Loaded['model'] | null} The model whose SHA-256 will never be known. */ let unidentified = null;
/** Generate was pressed before there was a model: the run begins when there is one. */ let wanted = false;

/** @param {'loading' | 'ready' | 'running' | 'done' | 'error'} state */
function setState(state) {
  document.documentElement.dataset.state = state;
  switchOff(generate, !loaded || work !== null);
  switchOff(stop, work === null);
  dialog.disabled = work !== null;
  byId('queued').hidden = !wanted;
}

/** @param {boolean} now */
function want(now) {
  wanted = now;
  byId('queued').hidden = !now;
}

/** @param {number | null} step */
function select(step) {
  selected = step;
  output.select(step);
  timeline.select(step);
  if (step === null) inspector.invite();
  else inspector.show(steps, step, greedy);
}

/**
 * A sentence in the place of errors.
 * @param {string} message @param {{ label: string, run: () => void }} [remedy]
 */
function showError(message, remedy) {
  const box = byId('error');
  const close = make('button', { type: 'button', class: 'icon', 'aria-label': 'Dismiss' }, '×');
  close.addEventListener('click', () => { box.hidden = true; });
  const children = [make('p', {}, message), close];
  if (remedy) {
    const button = make('button', { type: 'button', class: 'button' }, remedy.label);
    button.addEventListener('click', remedy.run);
    children.splice(1, 0, button);
  }
  box.hidden = false; // before the text: an alert that appears with its text may go unheard
  box.replaceChildren(...children);
  box.scrollIntoView({ block: 'nearest' });
}

/** @param {unknown} cause */
function describe(cause) {
  const message = cause instanceof Error ? cause.message : String(cause);
  // A name at the beginning, of a file or an option, keeps its spelling.
  const sentence = message.replace(/^[a-z]+(?=[ ,])/, (word) => word.charAt(0).toUpperCase() + word.slice(1));
  return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
}

/**
 * Loads a model, with the progress in the header. The one before stays if it fails.
 * @param {(hooks: import('../gpt2-web.js').LoadHooks) => Promise<Loaded>} load
 * @param {(cause: unknown) => void} failed
 * @param {string | null} title what is loaded, as the panel calls it; null for the embedded model
 */
async function open(load, failed, title = null) {
  if (work) return;
  work = new AbortController();
  byId('error').hidden = true;
  if (title !== null) byId('notice').hidden = true;
  loadProgress.begin(title);
  setState('loading');
  /** @type {'ready' | 'error'} */ let state = 'ready';
  try {
    loaded = await load({
      onProgress: (progress) => loadProgress.report(progress), onNotice: (sentence) => showNotices('', [sentence]), signal: work.signal,
    });
    const embedded = title === null;
    controls.apply(loaded.options, { embedded });
    byId('about').hidden = byId('settings-note').hidden = !embedded;
    if (loaded.notices.length > 0) showNotices('', loaded.notices);
  } catch (cause) {
    want(false); // a run that was waiting for this model is for no other
    // A load that was stopped on purpose is no error while there is another model.
    if (!loaded || !(cause instanceof Gpt2Error && cause.kind === 'cancelled')) {
      state = 'error';
      failed(cause);
    }
  }
  work = null;
  loadProgress.end();
  showModel();
  setState(state);
  if (wanted && loaded) await run();
}

/** The model in use, in the header and in its card. */
function showModel() {
  byId('model-status').textContent = loaded ? loaded.model.precision : 'not loaded';
  if (!loaded) return;
  const { model, load_ms, memory_bytes } = loaded;
  byId('model-name').textContent = model.name;
  byId('model-facts').replaceChildren(...terms(modelFacts(model, load_ms, memory_bytes, unidentified === model)));
}

function openEmbedded() {
  return open((hooks) => gpt2.loadEmbedded(hooks), (cause) => {
    // What this browser lacks it lacks the next time too.
    const hopeless = cause instanceof Gpt2Error && cause.kind === 'unsupported';
    showError(`The embedded model could not be loaded. ${describe(cause)}`, hopeless ? undefined : { label: 'Try again', run: openEmbedded });
  });
}

/** @param {import('./models.js').Choice} choice */
async function openChoice(choice) {
  dialog.close();
  if (work) return showError('Something is still going on. Stop it first, and then open the model again.');
  if ('entry' in choice && !choice.entry.repo) return openEmbedded();
  const again = () => void openChoice(choice);
  const title = titleOf(choice);
  await open((hooks) => load(choice, hooks), (cause) => {
    const stays = loaded ? ` ${loaded.model.name} is still loaded.` : '';
    // A file that was picked is what it is; a download may go better the next time.
    const remedy = cause instanceof Gpt2Error && cause.kind === 'download_failed' ? { label: 'Try again', run: again } : undefined;
    showError(`${title} could not be opened. ${describe(cause)}${stays}`, remedy);
  }, title);
}

/** @param {import('./models.js').Choice} choice */
function titleOf(choice) {
  if ('entry' in choice) return choice.entry.name;
  if ('stored' in choice) return choice.stored.name;
  if ('address' in choice) return choice.address;
  return choice.picked.length > 4 ? choice.picked[0]?.path.split('/')[0] ?? '' : choice.picked.map(({ file }) => file.name).join(', ');
}

/**
 * @param {import('./models.js').Choice} choice
 * @param {import('../gpt2-web.js').LoadHooks} hooks
 * @returns {Promise<Loaded>}
 */
async function load(choice, hooks) {
  if ('picked' in choice) {
    const { name, files } = choose(choice.picked);
    return gpt2.load({ name, files, precision: dialog.precisionFor(files.some((file) => /\.safetensors$/i.test(file.name)) ? '' : 'a.gguf'), ...hooks });
  }
  const options = { precision: choice.precision, ...hooks };
  if ('stored' in choice && choice.stored.complete) return gpt2.loadStored(choice.stored.id, options);
  // A download that goes on is checked like one that begins.
  const entry = 'entry' in choice ? choice.entry : 'stored' in choice ? entryFrom(await gpt2.catalog().catch(() => []), choice.stored.source) : undefined;
  if (entry) {
    const { repo = '', revision, files, sha256 } = entry;
    return gpt2.loadRepo(repo, { revision, files, sha256, ...options });
  }
  return gpt2.loadFrom('stored' in choice ? choice.stored.source : 'address' in choice ? choice.address : '', options);
}

/** @param {string} title @param {readonly string[]} sentences */
function showNotices(title, sentences) {
  const notice = byId('notice');
  notice.hidden = sentences.length === 0;
  notice.replaceChildren(...(title ? [make('p', {}, title)] : []), make('ul', {}, ...sentences.map((sentence) => make('li', {}, sentence))));
}

/** One run, from the form to the record. */
async function run() {
  want(work !== null && document.documentElement.dataset.state === 'loading');
  if (work || !loaded) return;
  byId('error').hidden = true;
  byId('notice').hidden = true;
  let request;
  try {
    request = controls.read();
  } catch (cause) {
    if (cause instanceof FieldError) reveal(cause.field);
    showError(describe(cause));
    return;
  }
  work = new AbortController();
  setState('running');
  const hop = new Hop();
  /** @type {import('./numbers.js').Progress} */
  const sofar = { prompt: 0, generated: 0, positions: 0, firstTokenMs: null, decodeMs: 0, seed: 0 };
  let shown = -Infinity;
  const show = () => {
    timeline.update();
    showFigures(byId('numbers'), figures(sofar, hop));
    shown = performance.now();
  };
  /** @type {'done' | 'error'} */ let state = 'done';
  try {
    for await (const event of gpt2.generate(request.prompt, { ...request.options, signal: work.signal })) {
      switch (event.type) {
        case 'start':
          // Not before: a request that is refused leaves the run before it on the page.
          begin(request.prompt);
          byId('prompt-count').textContent = `· ${integer(event.prompt_ids.length)} token${event.prompt_ids.length === 1 ? '' : 's'}`;
          runProgress.max = Math.min(event.settings.max_tokens, loaded.model.context_length - event.prompt_ids.length + 1);
          sofar.prompt = event.prompt_ids.length;
          sofar.seed = event.settings.seed;
          greedy = event.settings.temperature === 0;
          break;
        case 'prefill':
          showPrefill(event);
          break;
        case 'delta':
          output.delta(event.text);
          hop.arrived(event.posted_at);
          break;
        case 'step':
          steps.push(event);
          output.step(event);
          runProgress.hidden = false;
          runProgress.value = steps.length;
          sofar.generated = steps.length;
          sofar.positions = event.positions_processed;
          sofar.decodeMs += event.forward_ms + event.sample_ms;
          if (performance.now() - shown > REDRAW_MS) show();
          break;
        case 'done':
          finish(event.record, hop, request);
          break;
      }
    }
  } catch (cause) {
    state = 'error';
    if (cause instanceof Gpt2Error && cause.record) finish(cause.record, hop, request);
    else if (sofar.generated > 0) show();
    byId('announcement').textContent = 'The run failed.';
    showError(describe(cause));
    if (gpt2.recovery) await recover(cause);
  }
  output.end();
  timeline.update();
  byId('prefill').hidden = true;
  runProgress.hidden = true;
  if (selected !== null) inspector.show(steps, selected, greedy); // of so many tokens, and there may be a next one now
  work = null;
  setState(state);
}

/** After a panic the client loads the model into a new worker; the page says when that is done. @param {unknown} cause */
async function recover(cause) {
  try {
    await gpt2.recovery;
    showError(`${describe(cause)} A new worker has the model again: you can go on.`);
  } catch (again) {
    loaded = null;
    showModel();
    showError(`${describe(cause)} The model could not be loaded again. ${describe(again)}`, { label: 'Try again', run: openEmbedded });
  }
}

/** @param {string} text the prompt */
function begin(text) {
  steps = [];
  selected = null;
  last = null;
  output.begin(text);
  timeline.begin(steps);
  inspector.invite();
  showProfile(byId('profile', HTMLDetailsElement), null);
  if (byId('empty').contains(document.activeElement)) generate.focus({ preventScroll: true }); // an example was pressed
  byId('empty').hidden = true;
  byId('story').hidden = false;
  byId('ending').hidden = true;
  byId('record').hidden = true;
  byId('copy-fallback').hidden = true;
  byId('announcement').textContent = '';
  byId('numbers').replaceChildren();
}

/** @param {Extract<import('../gpt2-web.js').RunEvent, { type: 'prefill' }>} event */
function showPrefill({ done, total, chunk_ms }) {
  timeline.prefill(done, chunk_ms);
  prefillProgress.max = total;
  prefillProgress.value = done;
  byId('prefill-text').textContent = `Reading the prompt: ${integer(done)} of ${integer(total)} positions`;
  byId('prefill').hidden = done >= total;
}

/** What a run is asked for but for its seed, to compare. @param {ReturnType<Controls['read']>} request */
const fingerprint = ({ prompt, options }) => JSON.stringify([loaded?.model, prompt, { ...options, seed: undefined }]);

/** @param {RunRecord} record @param {Hop} hop @param {ReturnType<Controls['read']>} request */
function finish(record, hop, request) {
  output.end();
  last = { record, hop, fingerprint: fingerprint(request) };
  const reason = record.stop?.reason ?? 'failed';
  const sentence = explain(record);
  byId('stop-reason').textContent = reason;
  byId('stop-reason').dataset.reason = reason;
  byId('stop-sentence').textContent = sentence;
  byId('ending').hidden = false;
  byId('announcement').textContent = `Ended by ${reason.replace('_', ' ')}. ${sentence} ${integer(record.token_ids.length)} tokens.`;
  const show = () => showFigures(byId('numbers'), figures(ofRecord(record), hop));
  show();
  // The last delta's frame is still to come.
  requestAnimationFrame(() => setTimeout(() => { if (last?.hop === hop) show(); }));
  showProfile(byId('profile', HTMLDetailsElement), record.profile, record.identity);
  showSettings(byId('effective'), record.settings);
  byId('keep-seed').hidden = seed.value === String(record.settings.seed);
  byId('record').hidden = false;
}

/** Opens what hides a field and goes there. @param {HTMLElement} field */
function reveal(field) {
  for (let fold = field.closest('details'); fold; fold = fold.parentElement?.closest('details') ?? null) fold.open = true;
  field.focus();
}

/** The record as JSON, with what only the page could measure beside what the worker wrote. */
function recordJson() {
  if (!last) return '';
  const { record, hop } = last;
  const page = { hop_handler_ms: hop.handler, hop_frame_ms: hop.frame, user_agent: navigator.userAgent };
  return `${JSON.stringify({ ...record, page }, null, 2)}\n`;
}

function copyLink() {
  let fields;
  try {
    fields = controls.fields();
    // While the form asks for what the run on the page was asked for, the link leads to the same text.
    if (last?.fingerprint === fingerprint(controls.read())) fields.seed ??= String(last.record.settings.seed);
  } catch (cause) {
    showError(describe(cause));
    return;
  }
  const address = new URL(location.href);
  address.hash = encodeLink(prompt.value, fields);
  copy(byId('copy-link'), address.href);
}

function openLink() {
  const link = decodeLink(location.hash);
  if (!link) return;
  byId('prompt-count').textContent = '';
  const problems = [...link.problems, ...controls.fill(link.prompt, link.fields)];
  showNotices('This link asks for something the page cannot take:', problems);
}

// Not by submitting the form, which a sandboxed frame may not.
generate.addEventListener('click', run);
form.addEventListener('keydown', (event) => {
  const start = event.ctrlKey || event.metaKey || event.target instanceof HTMLInputElement;
  if (event.key !== 'Enter' || !start) return;
  event.preventDefault();
  run();
});
prompt.addEventListener('input', () => { byId('prompt-count').textContent = ''; });
stop.addEventListener('click', () => work?.abort());
byId('cancel-load').addEventListener('click', () => work?.abort());
byId('take-back').addEventListener('click', () => {
  want(false);
  generate.focus();
});
gpt2.onhashed = ({ model_sha256, notice }) => {
  if (model_sha256 === null) unidentified = loaded?.model ?? null;
  showModel();
  if (notice !== null) showNotices('', [notice]);
};
takeDrops(byId('veil'), (picked) => openChoice({ picked }));
byId('examples').addEventListener('click', ({ target }) => {
  if (!(target instanceof HTMLButtonElement)) return;
  prompt.value = target.textContent ?? '';
  run();
});
byId('copy-link').addEventListener('click', copyLink);
byId('copy-record').addEventListener('click', () => copy(byId('copy-record'), recordJson()));
byId('save-record').addEventListener('click', () => {
  save(byId('save-record'), `gpt2-web-${last?.record.settings.seed}.json`, recordJson());
});
byId('copy-numbers').addEventListener('click', () => {
  if (last) copy(byId('copy-numbers'), figuresTable(figures(ofRecord(last.record), last.hop)));
});
byId('keep-seed').addEventListener('click', () => {
  seed.value = String(last?.record.settings.seed ?? '');
  seed.dispatchEvent(new Event('input', { bubbles: true }));
  flash(byId('keep-seed'), 'Kept');
});
addEventListener('hashchange', openLink);

openLink();
openEmbedded();
