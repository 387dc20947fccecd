import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Gpt2Web } from '../../www/gpt2-web.js';
import { ScriptedWorker, delta, done, error, follow, kind, model, ready, start, types } from './scripted-worker.mjs';

const base = 'http://localhost/';
const files = [{ name: 'm.gguf', blob: new Blob(['GGUF']) }];

test('events arrive in order, and none after the end', async () => {
  follow(model());
  const gpt2 = new Gpt2Web({ base });
  assert.equal((await gpt2.load({ name: 'm', files })).model.name, 'm');
  assert.deepEqual(await types(gpt2.generate('a')), ['start', 'delta', 'delta', 'delta', 'done']);
  let text = '';
  for await (const part of gpt2.text('a')) text += part;
  assert.equal(text, 't0t1t2');
});

test('a message may hold several events', async () => {
  follow(({ type, id }, worker) => {
    if (type === 'generate') worker.emit([start(id), delta(id, 'a'), delta(id, 'b'), done(id, 'max_tokens')]);
  });
  assert.deepEqual(await types(new Gpt2Web({ base }).generate('x')), ['start', 'delta', 'delta', 'done']);
});

test('files are sent by name, options that are undefined are not sent', async () => {
  follow(model());
  const gpt2 = new Gpt2Web({ base });
  await gpt2.load({ name: 'm', files: [new File(['x'], 'config.json'), ...files], precision: 'q8_0' });
  await types(gpt2.generate('a', { seed: 7, top_k: /** @type {any} */ (undefined) }));
  const [load, generate] = /** @type {ScriptedWorker} */ (ScriptedWorker.started[0]).received;
  assert.ok(load?.type === 'load' && generate?.type === 'generate');
  assert.deepEqual(load.files.map((file) => file.name), ['config.json', 'm.gguf']);
  assert.equal(load.precision, 'q8_0');
  assert.deepEqual(generate.options, { seed: 7 });
});

test('the settings of a record are options', async () => {
  follow(model());
  const gpt2 = new Gpt2Web({ base });
  for await (const event of gpt2.generate('a')) {
    if (event.type === 'done') await types(gpt2.generate(event.record.prompt, event.record.settings));
  }
  const again = ScriptedWorker.started[0]?.received[1];
  assert.ok(again?.type === 'generate' && again.options);
  assert.ok('seed' in again.options && !('timeout_ms' in again.options));
});

test('an abort before the run, before the first token, twice and after the end', async () => {
  follow(model({ endless: true }));
  const gpt2 = new Gpt2Web({ base });
  const last = async (/** @type {AbortController} */ controller, /** @type {string} */ at) => {
    let final;
    for await (const event of gpt2.generate('a', { signal: controller.signal })) {
      if (event.type === at) controller.abort(), controller.abort();
      final = event;
    }
    assert.ok(final?.type === 'done');
    controller.abort();
    return final.stop.reason;
  };
  const aborted = new AbortController();
  aborted.abort();
  assert.equal(await last(aborted, 'never'), 'cancelled');
  assert.equal(await last(new AbortController(), 'start'), 'cancelled');
  assert.equal(await last(new AbortController(), 'delta'), 'cancelled');
  const cancels = ScriptedWorker.started[0]?.received.filter(({ type }) => type === 'cancel').map(({ id }) => id);
  assert.deepEqual(cancels, [2, 3], 'one cancel for each run that was sent, none after its end');
});

test('an abort after the end sends nothing', async () => {
  follow(model());
  const gpt2 = new Gpt2Web({ base });
  const controller = new AbortController();
  await types(gpt2.generate('a', { signal: controller.signal }));
  controller.abort();
  await types(gpt2.generate('a'));
  assert.deepEqual(ScriptedWorker.started[0]?.received.map(({ type }) => type), ['generate', 'generate']);
});

test('leaving the loop cancels, and the next run finds the worker free', async () => {
  follow(model({ endless: true }));
  const gpt2 = new Gpt2Web({ base });
  for (let run = 0; run < 2; run++) {
    for await (const event of gpt2.generate('a')) if (event.type === 'delta') break;
  }
  assert.deepEqual(ScriptedWorker.started[0]?.received.map(({ type }) => type), ['generate', 'cancel', 'generate', 'cancel']);
});

test('a second run is refused as busy, and the first one continues', async () => {
  follow(model());
  const gpt2 = new Gpt2Web({ base });
  const first = types(gpt2.generate('a'));
  await assert.rejects(types(gpt2.generate('b')), kind('busy'));
  assert.equal((await first).at(-1), 'done');
});

test('a panic fails the run with its message; a new worker gets the model, and the next request works', async () => {
  const healthy = model();
  follow((request, worker) => {
    if (request.type === 'generate' && ScriptedWorker.started.length === 1) worker.emit(error(request.id, 'panic'));
    else healthy(request, worker);
  });
  const gpt2 = new Gpt2Web({ base });
  await gpt2.load({ name: 'm', files });
  await assert.rejects(types(gpt2.generate('a')), (cause) => kind('panic')(cause) && /a sentence about panic/.test(String(cause)));
  assert.equal((await types(gpt2.generate('a'))).at(-1), 'done');
  const [old, fresh] = ScriptedWorker.started;
  assert.ok(old?.terminated && !fresh?.terminated);
  assert.deepEqual(fresh?.received.map(({ type }) => type), ['load', 'generate']);
  old.emit(error(null, 'panic'));
  assert.equal(ScriptedWorker.started.length, 2, 'nothing a dead worker says is heard');
});

test('an uncaught error of a running worker counts as a panic', async () => {
  const healthy = model();
  follow((request, worker) => {
    if (request.type === 'generate' && ScriptedWorker.started.length === 1) {
      worker.dispatchEvent(Object.assign(new Event('error'), { message: 'RuntimeError: unreachable' }));
    } else healthy(request, worker);
  });
  const gpt2 = new Gpt2Web({ base });
  await gpt2.load({ name: 'm', files });
  await assert.rejects(types(gpt2.generate('a')), (cause) => kind('panic')(cause) && /unreachable/.test(String(cause)));
  assert.equal((await types(gpt2.generate('a'))).at(-1), 'done');
});

test('after a load that panics the previous model is loaded again', async () => {
  const healthy = model();
  follow((request, worker) => {
    if (request.type === 'load' && request.name === 'bad') worker.emit(error(request.id, 'panic'));
    else healthy(request, worker);
  });
  const gpt2 = new Gpt2Web({ base });
  await gpt2.load({ name: 'good', files });
  await assert.rejects(gpt2.load({ name: 'bad', files }), kind('panic'));
  await types(gpt2.generate('a'));
  assert.deepEqual(ScriptedWorker.started[1]?.received.map((request) => request.type === 'load' && request.name), ['good', false]);
});

test('that a model cannot be loaded again is reported once, and no more workers are started', async () => {
  follow((request, worker) => {
    if (request.type === 'load' && ScriptedWorker.started.length === 1) return worker.emit(ready(request.id));
    worker.emit(error(request.id, request.type === 'generate' && ScriptedWorker.started.length > 1 ? 'not_loaded' : 'panic'));
  });
  const gpt2 = new Gpt2Web({ base });
  await gpt2.load({ name: 'm', files });
  await assert.rejects(types(gpt2.generate('a')), kind('panic'));
  await assert.rejects(types(gpt2.generate('a')), kind('panic'));
  await assert.rejects(types(gpt2.generate('a')), kind('not_loaded'));
  assert.equal(ScriptedWorker.started.length, 3);
});

test('progress never falls and never exceeds its total', async () => {
  follow(({ id }, worker) => {
    for (const [done, total] of [[1, 4], [3, 4], [2, 4], [5, 4]]) {
      worker.emit({ type: 'progress', id, stage: 'read', done: Number(done), total: Number(total) });
    }
    worker.emit({ type: 'progress', id, stage: 'quantise', done: 1, total: null });
    worker.emit(ready(id));
  });
  /** @type {unknown[]} */ const seen = [];
  await new Gpt2Web({ base }).load({ name: 'm', files, onProgress: ({ stage, done, total }) => seen.push([stage, done, total]) });
  assert.deepEqual(seen, [['read', 1, 4], ['read', 3, 4], ['read', 5, null], ['quantise', 1, null]]);
});

test('a load can be cancelled', async () => {
  const controller = new AbortController();
  follow((request, worker) => {
    if (request.type === 'cancel') worker.emit(error(request.id, 'cancelled'));
    else queueMicrotask(() => controller.abort('enough'));
  });
  const load = new Gpt2Web({ base }).load({ name: 'm', files, signal: controller.signal });
  await assert.rejects(load, (/** @type {any} */ cause) => kind('cancelled')(cause) && cause.name === 'AbortError' && cause.cause === 'enough');
});

test('a request that cannot be cloned is refused', async () => {
  follow(model());
  const gpt2 = new Gpt2Web({ base });
  await assert.rejects(types(gpt2.generate('a', { seed: /** @type {any} */ (() => 7) })), kind('invalid_request'));
  assert.equal((await types(gpt2.generate('a'))).at(-1), 'done');
});

test('a worker that does not start, and a worker that the policy forbids', async () => {
  follow((_, worker) => { worker.dispatchEvent(new Event('error')); });
  const gpt2 = new Gpt2Web({ base });
  const run = types(gpt2.generate('a'));
  await assert.rejects(run, kind('worker_failed'));
  Object.assign(globalThis, { Worker: class { constructor() { throw new Error('violates the Content Security Policy'); } } });
  await assert.rejects(types(gpt2.generate('a')), (cause) => kind('blocked_by_policy')(cause) && /worker-src/.test(String(cause)));
});

test('unload and close', async () => {
  const healthy = model();
  follow((request, worker) => {
    if (request.type === 'generate') gpt2.close();
    else healthy(request, worker);
  });
  const gpt2 = new Gpt2Web({ base });
  await gpt2.unload();
  assert.equal(ScriptedWorker.started.length, 0, 'there was nothing to free');
  await gpt2.load({ name: 'm', files });
  await gpt2.unload();
  assert.ok(ScriptedWorker.started[0]?.terminated, 'memory only goes with its worker');
  await gpt2.load({ name: 'm', files });
  await assert.rejects(types(gpt2.generate('a')), kind('closed'));
  await assert.rejects(types(gpt2.generate('a')), kind('closed'));
  assert.ok(ScriptedWorker.started[1]?.terminated);
});

test('in the page in one file the worker gets the wasm first, and nothing is fetched', async () => {
  follow(model());
  const assets = {
    workerSource: async () => '/* glue and worker */',
    wasm: async () => new ArrayBuffer(8),
    model: async (/** @type {((done: number, total: number | null) => void) | undefined} */ report) => {
      report?.(4, 4);
      return new Blob(['GGUF']);
    },
  };
  const gpt2 = new Gpt2Web({ assets });
  /** @type {unknown[]} */ const seen = [];
  await gpt2.loadEmbedded({ onProgress: ({ stage, done }) => seen.push([stage, done]) });
  const [worker] = ScriptedWorker.started;
  assert.match(worker?.url ?? '', /^blob:/);
  assert.ok(/** @type {any} */ (worker?.received[0]).wasm instanceof ArrayBuffer);
  assert.deepEqual(seen, [['download', 4]]);
});

test('the embedded model is downloaded once, with progress in bytes; a refusal is a sentence', async () => {
  follow(model());
  let fetched = 0;
  /** @type {() => Response} */ let answer = () => new Response('gone', { status: 404, statusText: 'Not Found' });
  Object.assign(globalThis, { fetch: async () => (fetched++, answer()) });
  const gpt2 = new Gpt2Web({ base });
  await assert.rejects(gpt2.loadEmbedded(), (cause) => kind('download_failed')(cause) && /answered 404.*models\/fairy-12m/.test(String(cause)));
  answer = () => new Response('GGUF', { headers: { 'content-length': '4' } });
  /** @type {unknown[]} */ const seen = [];
  await gpt2.loadEmbedded({ onProgress: ({ done, total }) => seen.push([done, total]) });
  await gpt2.loadEmbedded();
  assert.equal(fetched, 2);
  assert.deepEqual(seen, [[0, 4], [4, 4]]);
});

/** Replaces `fetch`: the server answers when the test says so. */
function slowServer() {
  /** @type {{ signal: AbortSignal, cache: string, send: (bytes: string) => void, end: () => void }[]} */ const asked = [];
  Object.assign(globalThis, { fetch: async (/** @type {URL} */ _url, /** @type {{ signal: AbortSignal, cache: string }} */ { signal, cache }) => {
    /** @type {ReadableStreamDefaultController<Uint8Array>} */ let controller;
    const body = new ReadableStream({ start: (given) => { controller = given; } });
    signal.addEventListener('abort', () => controller.error(signal.reason));
    asked.push({ signal, cache, send: (bytes) => controller.enqueue(new TextEncoder().encode(bytes)), end: () => controller.close() });
    return new Response(body, { headers: { 'content-length': '4' } });
  } });
  return asked;
}

const moment = () => new Promise((resolve) => setTimeout(resolve, 5));

test('an embedded model that cannot be loaded is downloaded again, without the cache; a cancelled load keeps it', async () => {
  const healthy = model();
  /** @type {import('../../www/types/ErrorKind.js').ErrorKind | null} */ let refuse = 'not_a_model';
  follow((request, worker) => {
    if (request.type === 'load' && request.name === 'bare') return worker.emit({ type: 'needs_tokenizer', id: request.id });
    const refused = request.type === 'provide_tokenizer' || request.type === 'load' ? refuse : null;
    if (refused) worker.emit(error(request.id, refused));
    else healthy(request, worker);
  });
  /** @type {string[]} */ const caches = [];
  Object.assign(globalThis, { fetch: async (/** @type {URL} */ _url, /** @type {RequestInit} */ { cache }) => {
    caches.push(String(cache));
    return new Response('GGUF');
  } });
  const gpt2 = new Gpt2Web({ base });
  await assert.rejects(gpt2.loadEmbedded(), kind('not_a_model'));
  refuse = 'cancelled';
  await assert.rejects(gpt2.loadEmbedded(), kind('cancelled'));
  refuse = 'bad_tokenizer';
  await assert.rejects(gpt2.load({ name: 'bare', files: [{ name: 'm.safetensors', blob: new Blob(['x']) }] }), kind('bad_tokenizer'));
  refuse = null;
  await gpt2.loadEmbedded();
  await gpt2.loadEmbedded();
  assert.deepEqual(caches, ['default', 'reload', 'reload']);
});

test('two callers wait for the embedded model, both hear progress, and one may leave', async () => {
  follow(model());
  const asked = slowServer();
  const gpt2 = new Gpt2Web({ base });
  const [leaving, staying] = [new AbortController(), new AbortController()];
  /** @type {number[]} */ const seen = [];
  const left = assert.rejects(gpt2.loadEmbedded({ signal: leaving.signal }), kind('cancelled'));
  await moment();
  asked[0]?.send('GG');
  await moment();
  const stayed = gpt2.loadEmbedded({ signal: staying.signal, onProgress: ({ done }) => seen.push(done) });
  await moment();
  leaving.abort();
  await left;
  asked[0]?.send('UF');
  asked[0]?.end();
  await stayed;
  assert.deepEqual([asked.length, seen], [1, [2, 4]]);
});

test('the download of the embedded model ends when the last caller leaves, and the next one starts again', async () => {
  follow(model());
  const asked = slowServer();
  const gpt2 = new Gpt2Web({ base });
  const controllers = [new AbortController(), new AbortController()];
  const loads = controllers.map(({ signal }) => assert.rejects(gpt2.embedded({ signal }), kind('cancelled')));
  await moment();
  controllers[0]?.abort();
  await moment();
  assert.equal(asked[0]?.signal.aborted, false);
  controllers[1]?.abort();
  await Promise.all(loads);
  assert.equal(asked[0]?.signal.aborted, true);
  const again = gpt2.embedded();
  await moment();
  asked[1]?.send('GGUF');
  asked[1]?.end();
  assert.equal(await (await again).text(), 'GGUF');
  await assert.rejects(gpt2.embedded({ signal: AbortSignal.abort() }), kind('cancelled'));
});

test('a prompt or a name that is not a text is refused', async () => {
  const gpt2 = new Gpt2Web();
  await assert.rejects(gpt2.text(/** @type {any} */ (undefined)).next(), /the prompt must be a text, not undefined/);
  await assert.rejects(gpt2.load(/** @type {any} */ ({ files: [] })), /load needs a `name`/);
});
