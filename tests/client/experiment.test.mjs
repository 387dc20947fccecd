// Experiments through the client, with a scripted worker.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Gpt2Web, findings } from '../../www/gpt2-web.js';
import { asCsv } from '../../www/page/lab/files.js';
import { follow, kind, model, types } from './scripted-worker.mjs';

const base = 'http://localhost/';

/** @param {number} id @param {boolean} [cancelled] @returns {import('../../www/types/Event.js').Event} */
const done = (id, cancelled = false) => ({
  type: 'experiment_done', id, name: 'latency', gpt2_web: '0',
  identity: { model: 'm', model_sha256: null, tokenizer_sha256: '', precision: 'f32', kernel: 'scalar', readers: 4, readers_trial: [] },
  findings: {
    options: { n: 3, prompt: 'a' }, machine: { timer_resolution_ms: 1, probe_ms: null, busy: false },
    summary: cancelled ? null : /** @type {any} */ ({ first_half_ms: 1 }),
  },
});
/** @param {number} id @param {number} step @returns {import('../../www/types/Event.js').Event} */
const row = (id, step) => ({ type: 'row', id, row: { step, position: step, ms: 2 } });

/** Posts three rows, or rows without end until it is cancelled. @param {boolean} endless @returns {import('./scripted-worker.mjs').Script} */
function lab(endless) {
  const others = model();
  let running = -1;
  return (request, worker) => {
    const { id } = request;
    if (request.type === 'cancel' && running === id) {
      running = -1;
      return worker.emit(done(id, true));
    }
    if (request.type !== 'experiment') return others(request, worker);
    worker.emit([{ type: 'experiment_progress', id, done: 0, total: 3 }, row(id, 1), row(id, 2)]);
    if (!endless) return worker.emit([row(id, 3), { type: 'experiment_progress', id, done: 3, total: 3 }, done(id)]);
    running = id;
  };
}

test('rows and progress arrive in order, and the end is the last', async () => {
  follow(lab(false));
  const gpt2 = new Gpt2Web({ base });
  assert.deepEqual(await types(/** @type {any} */ (gpt2.experiment('latency', { n: 3 }))), ['experiment_progress', 'row', 'row', 'row', 'experiment_progress', 'experiment_done']);
});

test('one object holds all that was found, and under which conditions', async () => {
  follow(lab(false));
  const rows = [];
  for await (const event of new Gpt2Web({ base }).experiment('latency')) {
    if (event.type === 'row') rows.push(event.row);
    if (event.type !== 'experiment_done') continue;
    const { experiment, conditions, rows: found, summary } = findings(event, rows);
    assert.deepEqual([experiment, found.length, summary], ['latency', 3, { first_half_ms: 1 }]);
    const { model, precision, kernel, n, prompt, timer_resolution_ms, browser } = conditions;
    assert.deepEqual([model, precision, kernel, n, prompt, timer_resolution_ms], ['m', 'f32', 'scalar', 3, 'a', 1]);
    assert.equal(browser, globalThis.navigator?.userAgent ?? null);
  }
});

test('one that is aborted ends with the rows so far; another request meanwhile is busy', async () => {
  follow(lab(true));
  const gpt2 = new Gpt2Web({ base });
  const controller = new AbortController();
  const seen = [];
  for await (const event of gpt2.experiment('latency', { signal: controller.signal })) {
    seen.push(event.type);
    if (seen.length !== 3) continue;
    await assert.rejects(types(gpt2.generate('a')), kind('busy'));
    controller.abort();
  }
  assert.deepEqual(seen, ['experiment_progress', 'row', 'row', 'experiment_done']);
  assert.deepEqual((await types(gpt2.generate('a'))).at(-1), 'done');
});

test('leaving the loop cancels it', async () => {
  follow(lab(true));
  const gpt2 = new Gpt2Web({ base });
  for await (const { type } of gpt2.experiment('latency')) if (type === 'row') break;
  assert.deepEqual((await types(gpt2.generate('a'))).at(-1), 'done');
});

test('wrong arguments are told before anything is sent', async () => {
  follow(lab(false));
  const gpt2 = new Gpt2Web({ base });
  await assert.rejects(gpt2.experiment(/** @type {any} */ (3)).next(), kind('invalid_request'));
  await assert.rejects(gpt2.experiment('latency', { signal: /** @type {any} */ ('x') }).next(), kind('invalid_request'));
});

test('a table as CSV keeps commas, quotes and line breaks, and is no formula', () => {
  const rows = /** @type {any} */ ([{ a: 1, text: 'x, "y"\nz' }, { a: null, text: '=SUM(A1)', list: [1, 2] }]);
  const csv = asCsv({ experiment: 'e', conditions: { model: 'm\n2', n: 3 }, rows, summary: null });
  assert.equal(csv, '# experiment: e\r\n# model: m 2\r\n# n: 3\r\na,text,list\r\n1,"x, ""y""\nz",\r\n,\'=SUM(A1),"[1,2]"\r\n');
});
