/** Requests at the same time: order, sharing, wrong arguments, and how everything ends. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Gpt2Web } from '../../www/gpt2-web.js';
import { ScriptedWorker, done, error, follow, kind, model, ready, start, types } from './scripted-worker.mjs';

const base = 'http://localhost/';
const files = [{ name: 'm.gguf', blob: new Blob(['GGUF']) }];
const received = (worker = 0) => ScriptedWorker.started[worker]?.received.map(({ type }) => type);

/** The first event of a run that goes on. @param {AsyncIterator<{ type: string }>} run */
const begun = async (run) => (await run.next()).value?.type;

/** Replaces `fetch`: the server never ends its answer. */
function endless() {
  /** @type {AbortSignal[]} */ const signals = [];
  /** @type {() => void} */ let asked = () => {};
  const first = new Promise((resolve) => { asked = () => resolve(undefined); });
  Object.assign(globalThis, { fetch: async (/** @type {URL} */ _, /** @type {{ signal: AbortSignal }} */ { signal }) => {
    signals.push(signal);
    asked();
    return new Response(new ReadableStream({ start(controller) {
      signal.addEventListener('abort', () => controller.error(signal.reason));
      controller.enqueue(new Uint8Array(4));
    } }));
  } });
  return { signals, first };
}

test('a run after one that was aborted waits for its end', async () => {
  follow(model({ endless: true }));
  const gpt2 = new Gpt2Web({ base });
  const controller = new AbortController();
  const old = gpt2.generate('a', { signal: controller.signal });
  assert.equal(await begun(old), 'start');
  await assert.rejects(types(gpt2.generate('b')), kind('busy'));
  controller.abort();
  const next = gpt2.generate('b');
  assert.equal(await begun(next), 'start');
  assert.equal((await types(old)).at(-1), 'done');
  assert.deepEqual(received(), ['generate', 'cancel', 'generate']);
  await next.return();
});

test('a run after one that was left waits for its end, even if that one was waiting for an event', async () => {
  follow((request, worker) => {
    if (request.type === 'generate') worker.emit(start(request.id));
    if (request.type === 'cancel') worker.emit(done(request.id, 'cancelled'));
  });
  const gpt2 = new Gpt2Web({ base });
  const old = gpt2.generate('a');
  await begun(old);
  const waiting = old.next();
  const left = old.return();
  const next = gpt2.generate('b');
  assert.equal(await begun(next), 'start');
  assert.deepEqual([await waiting, await left], [{ value: undefined, done: true }, { value: undefined, done: true }]);
  await next.return();
});

test('many runs in a row, each aborted for the next one: the last one runs', async () => {
  follow(model());
  const gpt2 = new Gpt2Web({ base });
  /** @type {Promise<string[]>[]} */ const runs = [];
  for (let effect = 0; effect < 5; effect++) {
    const controller = new AbortController();
    runs.push(types(gpt2.generate(String(effect), { signal: controller.signal })));
    if (effect < 4) controller.abort();
  }
  const seen = await Promise.all(runs);
  assert.deepEqual(seen.slice(1), [['start', 'done'], ['start', 'done'], ['start', 'done'], ['start', 'delta', 'delta', 'delta', 'done']]);
  assert.equal(seen[0]?.at(-1), 'done');
  const prompts = ScriptedWorker.started[0]?.received.flatMap((request) => (request.type === 'generate' ? [request.prompt] : []));
  assert.deepEqual(prompts, ['0', '1', '2', '3', '4']);
});

test('a load and an unload after a run that was aborted wait for its end', async () => {
  follow(model({ endless: true }));
  const gpt2 = new Gpt2Web({ base });
  await gpt2.load({ name: 'm', files });
  for (const after of [() => gpt2.load({ name: 'm', files }), () => gpt2.unload()]) {
    const controller = new AbortController();
    const run = gpt2.generate('a', { signal: controller.signal });
    await begun(run);
    await assert.rejects(after(), kind('busy'));
    controller.abort();
    await after();
    assert.equal((await types(run)).at(-1), 'done');
  }
});

test('equal loads at the same time are one, which each caller may leave; a different one is busy', async () => {
  /** @type {() => void} */ let answer = () => {};
  follow((request, worker) => {
    if (request.type !== 'load') return;
    worker.emit({ type: 'progress', id: request.id, stage: 'read', done: 1, total: 2 });
    answer = () => worker.emit(ready(request.id));
    leaving.abort('left');
  });
  const leaving = new AbortController();
  const gpt2 = new Gpt2Web({ base });
  /** @type {number[]} */ const seen = [];
  const onProgress = (/** @type {{ done: number }} */ { done }) => void seen.push(done);
  const left = gpt2.load({ name: 'm', files, signal: leaving.signal, onProgress });
  const stays = gpt2.load({ name: 'm', files: [...files], onProgress });
  await assert.rejects(gpt2.load({ name: 'other', files }), kind('busy'));
  await assert.rejects(left, (/** @type {any} */ cause) => kind('cancelled')(cause) && cause.cause === 'left');
  answer();
  assert.equal((await stays).model.name, 'm');
  assert.deepEqual([received(), seen], [['load'], [1, 1]]);
});

test('two loads of the embedded model at the same time are one', async () => {
  follow(model());
  let fetched = 0;
  Object.assign(globalThis, { fetch: async () => (fetched++, new Response('GGUF')) });
  const gpt2 = new Gpt2Web({ base });
  const [a, b] = await Promise.all([gpt2.loadEmbedded(), gpt2.loadEmbedded()]);
  assert.equal(a, b);
  assert.deepEqual([fetched, received()], [1, ['load']]);
});

test('a load after a cancelled one waits for its end, also if both are equal', async () => {
  follow((request, worker) => {
    if (request.type === 'cancel') worker.emit(error(request.id, 'cancelled'));
    else if (request.type === 'load' && ScriptedWorker.started[0]?.received.some(({ type }) => type === 'cancel')) worker.emit(ready(request.id));
    else controller.abort();
  });
  const controller = new AbortController();
  const gpt2 = new Gpt2Web({ base });
  const old = gpt2.load({ name: 'm', files, signal: controller.signal });
  const next = new Promise((resolve) => controller.signal.addEventListener('abort', () => resolve(gpt2.load({ name: 'm', files }))));
  await assert.rejects(old, kind('cancelled'));
  await next;
  assert.deepEqual(received(), ['load', 'cancel', 'load']);
});

test('an error in the caller\'s callback reaches the caller and ends the load', async () => {
  const mine = new Error('my own mistake');
  const onProgress = () => { throw mine; };
  /** @type {(type: string) => void} */ let heard = () => {};
  follow((request, worker) => {
    heard(request.type);
    if (request.type === 'load') worker.emit({ type: 'progress', id: request.id, stage: 'read', done: 1, total: 2 });
    if (request.type === 'cancel') worker.emit(error(request.id, 'cancelled'));
  });
  const cancel = new Promise((resolve) => { heard = (type) => type === 'cancel' && resolve(type); });
  await assert.rejects(new Gpt2Web({ base }).load({ name: 'm', files, onProgress }), mine);
  await cancel;
  const server = endless();
  for (const method of /** @type {const} */ (['loadEmbedded', 'embedded'])) await assert.rejects(new Gpt2Web({ base })[method]({ onProgress }), mine);
  await assert.rejects(new Gpt2Web({ base }).loadUrl('https://host/m.gguf', { onProgress }), mine);
  assert.ok(server.signals.every((signal) => signal.aborted));
});

test('close ends downloads, loads and runs; later calls make no request', async () => {
  follow(model({ endless: true }));
  for (const load of /** @type {((gpt2: Gpt2Web) => Promise<unknown>)[]} */ ([(gpt2) => gpt2.loadUrl('https://host/m.gguf'), (gpt2) => gpt2.loadEmbedded(), (gpt2) => gpt2.embedded()])) {
    const { signals, first } = endless();
    const gpt2 = new Gpt2Web({ base });
    const loading = load(gpt2);
    await first;
    gpt2.close();
    await assert.rejects(loading, kind('closed'));
    assert.deepEqual(signals.map(({ aborted }) => aborted), [true]);
    await assert.rejects(load(gpt2), kind('closed'));
    for (const refused of [gpt2.load({ name: 'm', files }), gpt2.loadStored('x'), gpt2.loadRepo('a/b'), gpt2.loadFrom('a/b'), gpt2.unload(), gpt2.catalog(), types(gpt2.generate('a'))]) {
      await assert.rejects(refused, kind('closed'));
    }
    assert.equal(signals.length, 1);
    gpt2.close();
  }
});

test('wrong arguments are refused before anything starts', async () => {
  follow(model());
  const gpt2 = new Gpt2Web({ base });
  const controller = new AbortController();
  const any = (/** @type {unknown} */ value) => /** @type {any} */ (value);
  const options = [null, new Map(), 7, 'x', [], controller.signal, () => {}].map((given) => any(given));
  const hooks = [{ signal: controller }, { signal: true }, { signal: 'x' }, { signal: {} }, { onProgress: 7 }, { onNotice: 'x' }, { precision: 'q5' }, { precision: 8 }, { sha256: 5 }].map((given) => any(given));
  /** @type {[string, (given: any) => Promise<unknown>][]} */ const methods = [
    ['load', (given) => gpt2.load(given && typeof given === 'object' && Object.keys(given).length > 0 ? { name: 'm', files, ...given } : given)], ['loadUrl', (given) => gpt2.loadUrl('https://host/m.gguf', given)], ['loadRepo', (given) => gpt2.loadRepo('a/b', given)],
    ['loadFrom', (given) => gpt2.loadFrom('a/b', given)], ['loadStored', (given) => gpt2.loadStored('x', given)], ['loadEmbedded', (given) => gpt2.loadEmbedded(given)], ['embedded', (given) => gpt2.embedded(given)],
  ];
  for (const [name, method] of methods) for (const given of [...options, ...hooks]) await assert.rejects(method(given), kind('invalid_request'), `${name} ${String(given)}`);
  for (const given of [...options, ...hooks.slice(0, 4)]) {
    await assert.rejects(types(gpt2.generate('a', given)), kind('invalid_request'));
    await assert.rejects(gpt2.text('a', given).next(), kind('invalid_request'));
  }
  for (const given of [undefined, null, 5, 'x', [], [null], [5], new Uint8Array(3), Promise.resolve(files), [new Blob(['x'])], new Blob(['x']), [{ name: 'm' }], [{ name: 5, blob: new Blob() }], new Map([['a', 1]])]) {
    await assert.rejects(gpt2.load({ name: 'm', files: any(given) }), kind('invalid_request'), String(given));
  }
  for (const given of [undefined, null, 5, {}, [5], []]) await assert.rejects(gpt2.loadUrl(any(given)), kind('invalid_request'));
  for (const given of [undefined, 5]) for (const method of /** @type {const} */ (['loadRepo', 'loadFrom', 'loadStored'])) await assert.rejects(gpt2[method](any(given)), kind('invalid_request'));
  await assert.rejects(types(gpt2.generate(any(5))), kind('invalid_request'));
  for (const given of [null, 5, { stall_ms: -1 }, { stall_ms: 'x' }, { base: 5 }, { store: null }, { store: 'opfs' }, { assets: 5 }]) assert.throws(() => new Gpt2Web(any(given)), kind('invalid_request'));
  assert.equal(ScriptedWorker.started.length, 0);
  gpt2.close();
});

test('files may be any kind of list, or one file', async () => {
  follow(model());
  const gpt2 = new Gpt2Web({ base });
  const file = new File(['GGUF'], 'a.gguf');
  const list = { 0: file, length: 1, * [Symbol.iterator]() { yield file; } }; // like a FileList
  const shared = new Uint8Array(new SharedArrayBuffer(4));
  for (const given of [file, [file], new Set([file]), list, { name: 'a.gguf', blob: new Blob(['x']) }, { name: 'a.gguf', bytes: shared }, Object.assign(new Blob(['x']), { name: 'a.gguf' })]) {
    await gpt2.load({ name: 'm', files: /** @type {any} */ (given) });
  }
  for (const request of ScriptedWorker.started[0]?.received ?? []) assert.ok(request.type === 'load' && request.files[0]?.name === 'a.gguf' && Object.keys(request.files[0]).length === 2);
});

test('the worker gets a tokenizer if it asks for one; if there is none, the error says why', async () => {
  const lending = () => follow((request, worker) => {
    if (request.type === 'load') worker.emit({ type: 'needs_tokenizer', id: request.id });
    if (request.type === 'provide_tokenizer') worker.emit(ready(request.id));
    if (request.type === 'cancel') worker.emit(error(request.id, 'cancelled'));
  });
  lending();
  Object.assign(globalThis, { fetch: async () => new Response('GGUF') });
  const bare = [{ name: 'weights', blob: new Blob(['x']) }];
  await new Gpt2Web({ base }).load({ name: 'm', files: bare });
  assert.deepEqual(received(), ['load', 'provide_tokenizer']);
  lending();
  Object.assign(globalThis, { fetch: async () => new Response('', { status: 404 }) });
  await assert.rejects(new Gpt2Web({ base: `${base}folder` }).load({ name: 'm', files: bare }),
    (cause) => kind('download_failed')(cause) && /m comes without a tokenizer.*http:\/\/localhost\/folder\/models\/fairy/.test(String(cause)));
});

test('if two models do not fit, the old one is freed with a notice, and loaded again if the new one fails', async () => {
  for (const fails of [false, true]) {
    follow((request, worker) => {
      if (request.type !== 'load') return;
      if (request.name === 'small') worker.emit(ready(request.id));
      else if (ScriptedWorker.started.length === 1) worker.emit({ .../** @type {any} */ (error(request.id, 'out_of_memory')), fits_alone: true });
      else worker.emit(fails ? error(request.id, 'damaged_model') : ready(request.id));
    });
    const gpt2 = new Gpt2Web({ base });
    await gpt2.load({ name: 'small', files });
    /** @type {string[]} */ const notices = [];
    const loading = gpt2.load({ name: 'large', files, onNotice: (sentence) => notices.push(sentence) });
    if (fails) await assert.rejects(loading, (cause) => kind('damaged_model')(cause) && /m is loaded again/.test(String(cause)));
    else assert.match((await loading).notices[0] ?? '', /do not fit into memory: m was freed/);
    assert.match(notices.join(), /m is freed, and then large is loaded/);
    assert.ok(ScriptedWorker.started[0]?.terminated);
    assert.deepEqual(received(1), fails ? ['load', 'load'] : ['load']);
  }
});

test('a SHA-256 that arrives after the load is filled in and announced', async () => {
  follow((request, worker) => {
    if (request.type !== 'load') return;
    const event = /** @type {any} */ (ready(request.id));
    worker.emit({ ...event, model: { ...event.model, sha256: null } });
    queueMicrotask(() => queueMicrotask(() => worker.emit({ type: 'hashed', id: request.id, model_sha256: 'abc', notice: null })));
  });
  const gpt2 = new Gpt2Web({ base });
  const told = new Promise((resolve) => { gpt2.onhashed = resolve; });
  const loaded = await gpt2.load({ name: 'm', files });
  assert.deepEqual(await told, { model_sha256: 'abc', notice: null });
  assert.equal(loaded.model.sha256, 'abc');
});

test('the error of a failed run has its record', async () => {
  const { record } = /** @type {any} */ (done(1, 'eos'));
  follow((request, worker) => {
    worker.emit(start(request.id));
    worker.emit({ .../** @type {any} */ (error(request.id, 'engine')), record: { ...record, stop: null } });
  });
  await assert.rejects(types(new Gpt2Web({ base }).generate('a')), (/** @type {any} */ cause) => cause.record.prompt === 'a' && cause.record.stop === null);
});

test('a worker that hangs is replaced by a new one with the model; one that answers is not', async () => {
  const healthy = model({ endless: true });
  let pings = 0;
  follow((request, worker) => {
    const hung = ScriptedWorker.started.length === 1 && worker.received.some(({ type }) => type === 'generate');
    if (!hung) healthy(request, worker);
    else if (request.type === 'generate') worker.emit(start(request.id));
    if (request.type === 'ping') pings++;
  });
  const gpt2 = new Gpt2Web({ base, stall_ms: 60 });
  await gpt2.load({ name: 'm', files });
  await assert.rejects(types(gpt2.generate('a')), (cause) => kind('stalled')(cause) && /stall_ms/.test(String(cause)));
  assert.ok(ScriptedWorker.started[0]?.terminated && pings >= 4);
  const run = gpt2.generate('a');
  await begun(run);
  await run.return();
  assert.deepEqual(received(1)?.filter((type) => type !== 'ping'), ['load', 'generate', 'cancel']);

  // It only answers pings.
  let answered = 0;
  follow((request, worker) => {
    if (request.type === 'generate') worker.emit(start(request.id));
    if (request.type !== 'ping') return;
    worker.emit({ type: 'pong', id: request.id });
    if (++answered === 20) worker.emit(done(worker.received[0]?.id ?? 0, 'eos'));
  });
  assert.deepEqual(await types(new Gpt2Web({ base, stall_ms: 60 }).generate('a')), ['start', 'done']);
});

test('a `stall_ms` longer than the longest timer does not end a worker', async () => {
  follow(model());
  for (const stall_ms of [1e11, 1e300, Number.MAX_SAFE_INTEGER]) {
    const gpt2 = new Gpt2Web({ base, stall_ms });
    await gpt2.load({ name: 'm', files });
    const run = gpt2.generate('a');
    await begun(run);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal((await types(run)).at(-1), 'done');
  }
  // A worker that works without a message.
  follow((request, worker) => {
    if (request.type === 'load') setTimeout(() => worker.emit(ready(request.id)), 200);
    if (request.type === 'generate') setTimeout(() => worker.emit(done(request.id, 'eos')), 200);
  });
  const gpt2 = new Gpt2Web({ base, stall_ms: 1e12 });
  await gpt2.load({ name: 'm', files });
  assert.deepEqual(await types(gpt2.generate('a')), ['done']);
  gpt2.close();
});

test('a cancelled request ends although the worker never starts, and the next request starts another worker', { timeout: 10_000 }, async () => {
  for (const way of ['load', 'aborted run', 'left run', 'run aborted before']) {
    follow(() => {});
    const gpt2 = new Gpt2Web({ base });
    const controller = new AbortController();
    const { signal } = controller;
    if (way === 'run aborted before') controller.abort();
    const run = gpt2.generate('a', { signal });
    const going = way === 'load' ? gpt2.load({ name: 'm', files, signal }) : run.next();
    await new Promise((resolve) => setTimeout(resolve, 20));
    if (way === 'left run') assert.deepEqual(await Promise.all([run.return(), going]), [{ value: undefined, done: true }, { value: undefined, done: true }]);
    else {
      controller.abort();
      await assert.rejects(going, kind('cancelled'), way);
    }
    assert.equal(ScriptedWorker.started[0]?.terminated, true);
    ScriptedWorker.script = model();
    await gpt2.load({ name: 'm', files });
    assert.equal(ScriptedWorker.started.length, 2);
    gpt2.close();
  }
});

test('a load or a run that waits for a lost model can be cancelled', async () => {
  follow(model());
  const gpt2 = new Gpt2Web({ base });
  await gpt2.load({ name: 'm', files });
  ScriptedWorker.script = (request, worker) => { if (ScriptedWorker.started.length === 1 && request.type === 'generate') worker.emit(error(null, 'panic')); };
  await assert.rejects(types(gpt2.generate('a')), kind('panic'));
  const controller = new AbortController();
  const loading = gpt2.load({ name: 'other', files, signal: controller.signal });
  await new Promise((resolve) => setTimeout(resolve, 20));
  const { recovery } = gpt2;
  controller.abort();
  await assert.rejects(loading, kind('cancelled'));
  assert.ok(recovery && gpt2.recovery === recovery);
  const stop = new AbortController();
  const run = gpt2.generate('a', { signal: stop.signal }).next();
  setTimeout(() => stop.abort(), 20);
  await assert.rejects(run, kind('cancelled'));
  await assert.rejects(gpt2.generate('a', { signal: AbortSignal.abort() }).next(), kind('cancelled'));
  assert.equal(gpt2.recovery, recovery);
  const coming = ScriptedWorker.started[1];
  coming?.emit(ready(Number(coming.received[0]?.id)));
  await recovery;
  ScriptedWorker.script = model();
  assert.equal((await types(gpt2.generate('a'))).at(-1), 'done');
  gpt2.close();
});

test('an unload frees the model even if the worker hangs or panics', async () => {
  for (const way of ['hang', 'panic']) {
    const healthy = model();
    follow((request, worker) => {
      if (ScriptedWorker.started.length > 1) return healthy(request, worker);
      if (request.type === 'load') worker.emit(ready(request.id));
      if (request.type === 'unload' && way === 'panic') worker.emit(error(request.id, 'panic'));
    });
    const gpt2 = new Gpt2Web({ base, stall_ms: 60 });
    await gpt2.load({ name: 'm', files });
    await gpt2.unload();
    assert.equal(gpt2.recovery, null);
    assert.deepEqual([ScriptedWorker.started.length, ScriptedWorker.started[0]?.terminated], [1, true]);
    await gpt2.load({ name: 'm', files });
    assert.deepEqual(received(1)?.filter((type) => type !== 'ping'), ['load']);
    gpt2.close();
  }
});

test('close also ends the request for the list of models', async () => {
  follow(() => {});
  const { first } = endless();
  const gpt2 = new Gpt2Web({ base });
  const listing = gpt2.catalog();
  await first;
  gpt2.close();
  await assert.rejects(listing, kind('closed'));
});

test('runs and loads remove their listeners', async () => {
  follow(model());
  const gpt2 = new Gpt2Web({ base });
  const { signal } = new AbortController();
  let listeners = 0;
  const { addEventListener, removeEventListener } = signal;
  Object.assign(signal, {
    addEventListener: (/** @type {Parameters<typeof addEventListener>} */ ...given) => (listeners++, addEventListener.apply(signal, given)),
    removeEventListener: (/** @type {Parameters<typeof removeEventListener>} */ ...given) => (listeners--, removeEventListener.apply(signal, given)),
  });
  for (let n = 0; n < 20; n++) await gpt2.load({ name: 'm', files, signal });
  for (let n = 0; n < 20; n++) await types(gpt2.generate('a', { signal }));
  assert.equal(listeners, 0);
});
