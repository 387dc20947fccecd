import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';

import { Gpt2Error, Gpt2Web } from '../../www/gpt2-web.js';
import { ModelDownload } from '../../www/client/download/model-download.js';
import * as known from '../../www/client/catalog.js';
import { addresses, repository } from '../../www/client/download/source.js';
import { ModelStore, StoredModel } from '../../www/client/store/index.js';
import { hostile, noise } from '../support/hostile-server.mjs';
import { MemoryFolder } from './memory-folder.mjs';
import { ScriptedWorker, error, follow, ready } from './scripted-worker.mjs';

/** @typedef {import('../../www/client/files.js').ModelFile} ModelFile */

const WEIGHTS = noise(20_000);
const TOKENIZER = { 'm/vocab.json': { body: '{"a":0}' }, 'm/merges.txt': { body: '#version: 0.2\n' } };
/** @type {{ [path: string]: import('../support/hostile-server.mjs').Behaviour }} */ const paths = {};
/** @type {Awaited<ReturnType<typeof hostile>>} */ let server;
/** @type {MemoryFolder} */ let folder;
/** What the worker read, by file. @type {Map<string, Uint8Array>} */ const read = new Map();

before(async () => { server = await hostile(paths); });
after(() => server.close());
beforeEach(() => {
  for (const path of Object.keys(paths)) delete paths[path];
  Object.assign(paths, { 'm/config.json': { body: '{}' }, 'm/model.safetensors': { body: WEIGHTS }, ...TOKENIZER });
  server.requests.length = 0;
  server.closed.clear();
  folder = new MemoryFolder({ quota: Infinity, used: 0 });
  read.clear();
  follow(reading());
});

const store = (piece = 4096) => new ModelStore({ root: async () => /** @type {any} */ (folder), piece });
/** No storage: `getDirectory` fails like in a private window. */
const nowhere = () => new ModelStore({ root: async () => { throw new DOMException('no', 'SecurityError'); } });
const address = () => server.url('m/model.safetensors');
/** @param {ModelStore} [models] */
const client = (models = store()) => new Gpt2Web({ base: 'http://localhost/', store: models });

/**
 * A worker that reads every file, in order and in pieces, and then answers.
 * @param {(request: any, worker: ScriptedWorker) => void} [answer]
 * @returns {import('./scripted-worker.mjs').Script}
 */
function reading(answer = ({ id, sha256 = '00' }, worker) => worker.emit(sha256 === '00' ? ready(id) : error(id, 'damaged_model'))) {
  return async (request, worker) => {
    if (request.type !== 'load') return request.type === 'unload' ? worker.emit({ type: 'unloaded', id: request.id }) : undefined;
    try {
      for (const file of /** @type {ModelFile[]} */ (/** @type {unknown} */ (request.files))) {
        const parts = [];
        const reader = ('blob' in file ? file.blob.stream() : file.stream).getReader();
        for (let part; !(part = await reader.read()).done; ) {
          parts.push(part.value);
          worker.emit({ type: 'progress', id: request.id, stage: 'read', done: parts.length, total: null });
        }
        read.set(file.name, new Uint8Array(await new Blob(/** @type {BlobPart[]} */ (parts)).arrayBuffer()));
      }
      answer(request, worker);
    } catch {
      worker.emit(error(request.id, 'engine'));
    }
  };
}

/** @param {import('../../www/client/error.js').ErrorKind} kind @param {RegExp} said */
const refusal = (kind, said) => (/** @type {unknown} */ cause) => {
  assert.ok(cause instanceof Gpt2Error, String(cause));
  assert.equal(cause.kind, kind, cause.message);
  assert.match(cause.message, said);
  return true;
};

test('a model is downloaded with its companions, each address once, and is stored for the next time', async () => {
  const gpt2 = client();
  /** @type {[string, number, number | null][]} */ const seen = [];
  const loaded = await gpt2.loadUrl(address(), { precision: 'q8_0', onProgress: ({ stage, done, total }) => seen.push([stage, done, total]) });
  assert.deepEqual(loaded.notices, []);
  assert.deepEqual([...read.keys()], ['config.json', 'vocab.json', 'merges.txt', 'model.safetensors']);
  assert.deepEqual(read.get('model.safetensors'), WEIGHTS);
  assert.deepEqual(server.asked(), ['m/config.json', 'm/generation_config.json', 'm/tokenizer.json', 'm/vocab.json', 'm/merges.txt', 'm/added_tokens.json',
    'm/tokenizer_config.json', 'm/special_tokens_map.json', 'm/model.safetensors']);
  const downloads = seen.filter(([stage]) => stage === 'download');
  assert.ok(downloads.every(([, done, total], at) => done >= (downloads[at - 1]?.[1] ?? 0) && (total === null || done <= total)));
  assert.deepEqual(downloads.at(-1), ['download', 20_000, 20_000]);
  assert.ok(seen.findIndex(([stage]) => stage === 'read') > seen.lastIndexOf(/** @type {any} */ (downloads.at(-1))));

  const [kept] = await gpt2.store.list();
  assert.ok(kept?.complete && kept.name === 'm' && kept.bytes > 20_000 && kept.date);
  server.requests.length = 0;
  await gpt2.loadUrl(address());
  await gpt2.loadStored(kept.id);
  assert.deepEqual(server.asked(), [], 'only asks whether it has changed');
  assert.deepEqual(read.get('model.safetensors'), WEIGHTS);
});

test('a model that changed on the server is downloaded again; without the server the stored one is used', async () => {
  const gpt2 = client();
  await gpt2.loadUrl(address());
  const other = WEIGHTS.map((byte) => byte ^ 255);
  paths['m/model.safetensors'] = { body: other, etag: '"2"' };
  const { notices } = await gpt2.loadUrl(address());
  assert.match(notices.join(), /has changed since it was stored/);
  assert.deepEqual(read.get('model.safetensors'), other);
  for (const path of Object.keys(paths)) paths[path] = { status: 500, body: '' };
  assert.deepEqual((await gpt2.loadUrl(address())).notices, []);
  assert.equal((await gpt2.store.list()).length, 1);
});

test('the next visit resumes after the pieces that arrived before the download failed', async () => {
  paths['m/model.safetensors'] = { body: WEIGHTS, breaks: [9000, 0, 0] };
  const fetch = () => new ModelDownload(addresses(address()), { store: store(), backoff: [1, 1] });
  await assert.rejects(fetch().run(), refusal('download_failed', /model\.safetensors from 127.*connection|terminated/));
  const [partial] = await store().list();
  assert.ok(partial && !partial.complete && partial.bytes > 8192 + 400, JSON.stringify(partial));
  assert.equal(await store().find(partial.id), null);
  server.requests.length = 0;
  await client().loadUrl(address());
  assert.deepEqual(read.get('model.safetensors'), WEIGHTS);
  assert.match(server.asked().join(), /m\/model\.safetensors bytes=[89]\d{3}-$/);
});

test('files that are no model are never kept: a 404, an HTML page, a cut file, and what the worker refuses', async () => {
  const gpt2 = client();
  /** @type {[import('../support/hostile-server.mjs').Behaviour | undefined, RegExp][]} */ const cases = [
    [undefined, /answered 404/], [{ status: 403, body: '' }, /403/], [{ body: '<html>', headers: { 'content-type': 'text/html' } }, /HTML page/],
  ];
  for (const [behaviour, said] of cases) {
    if (behaviour) paths['m/model.safetensors'] = behaviour;
    else delete paths['m/model.safetensors'];
    await assert.rejects(gpt2.loadUrl(address()), (cause) => said.test(String(cause)));
    assert.deepEqual(folder.paths, []);
  }
  paths['m/model.safetensors'] = { body: WEIGHTS.slice(0, 500), claims: 600 };
  await assert.rejects(new ModelDownload(addresses(address()), { store: store(), backoff: [1] }).run(), refusal('download_failed', /./));
  assert.deepEqual(folder.paths, []);
  paths['m/model.safetensors'] = { body: WEIGHTS };
  follow(reading(({ id }, worker) => worker.emit(error(id, 'damaged_model'))));
  await assert.rejects(gpt2.loadUrl(address()), refusal('damaged_model', /./));
  assert.deepEqual(folder.paths, []);
});

test('a model that is too large for the memory stays stored', async () => {
  follow(reading(({ id }, worker) => worker.emit(error(id, 'out_of_memory'))));
  await assert.rejects(client().loadUrl(address()), refusal('out_of_memory', /./));
  assert.equal((await store().list())[0]?.complete, true);
});

test('without storage the weights stream into the worker, each address once, with a notice', async () => {
  /** @type {string[]} */ const stages = [];
  const { notices } = await client(nowhere()).loadUrl(address(), { onProgress: ({ stage }) => stages.push(stage) });
  assert.match(notices.join(), /not saved for the next visit: this page has no storage/);
  const sent = /** @type {any} */ (ScriptedWorker.started[0]?.received[0]).files.at(-1);
  assert.deepEqual([sent.name, sent.size, sent.stream instanceof ReadableStream], ['model.safetensors', 20_000, true]);
  assert.deepEqual(read.get('model.safetensors'), WEIGHTS);
  assert.equal(server.asked().length, 9);
  assert.ok(!stages.includes('read') || stages.indexOf('read') > stages.lastIndexOf('download'), 'one stage at a time');
});

test('a broken stream continues; if it fails, the error is that of the download', async () => {
  paths['m/model.safetensors'] = { body: WEIGHTS, breaks: [9000] };
  await client(nowhere()).loadUrl(address());
  assert.deepEqual(read.get('model.safetensors'), WEIGHTS);
  paths['m/model.safetensors'] = { body: WEIGHTS, breaks: [9000], etag: '', ranges: false };
  await assert.rejects(client(nowhere()).loadUrl(address()), refusal('download_failed', /cannot be continued/));
});

test('if the quota is reached during the download, nothing is downloaded twice, and nothing is left', async () => {
  for (const quota of [400, 9000, 14_000]) {
    read.clear();
    server.requests.length = 0;
    folder = new MemoryFolder({ quota, used: 0 });
    const { notices } = await client().loadUrl(address());
    assert.match(notices.join(), /storage is full/);
    assert.equal(notices.length, 1);
    assert.deepEqual(read.get('model.safetensors'), WEIGHTS);
    assert.deepEqual([...read.keys()], ['config.json', 'vocab.json', 'merges.txt', 'model.safetensors']);
    assert.equal(server.asked().length, 9, server.asked().join());
    assert.deepEqual(folder.paths, []);
    assert.equal(folder.disk.used, 0);
  }
});

test('a cancelled download, with and without storage, leaves nothing and closes the connection', async () => {
  for (const models of [store(), nowhere()]) {
    server.closed.clear();
    paths['m/model.safetensors'] = { body: WEIGHTS, pause: 5 };
    follow(reading((request, worker) => worker.emit(error(request.id, 'cancelled'))));
    const controller = new AbortController();
    const load = client(models).loadUrl(address(), {
      signal: controller.signal, onProgress: ({ done }) => { if (done > 6000) controller.abort(); },
    });
    await assert.rejects(load, refusal('cancelled', /./));
    await server.closing('m/model.safetensors');
    assert.deepEqual(folder.paths, []);
  }
});

test('a cancel while a stored model is checked for changes leaves the model', async () => {
  await client().loadUrl(address());
  const kept = folder.paths;
  for (const early of [true, false]) {
    const controller = new AbortController();
    if (early) controller.abort();
    const run = new ModelDownload(addresses(address()), { store: store(), signal: controller.signal }).run();
    server.onRequest = () => controller.abort();
    await assert.rejects(run, refusal('cancelled', /./)).finally(() => { server.onRequest = undefined; });
    assert.deepEqual(folder.paths, kept);
  }
});

/** Web Locks for a runtime without them. */
function shareLocks() {
  /** @type {Map<string, Promise<unknown>>} */ const last = new Map();
  const locks = {
    /** @param {string} name @param {any} options @param {(lock: any) => Promise<any>} action */
    async request(name, { signal, ifAvailable }, action) {
      const before = last.get(name);
      if (before && ifAvailable) return action(null);
      let done = () => {};
      const mine = new Promise((resolve) => { done = () => { if (last.get(name) === mine) last.delete(name); resolve(undefined); }; });
      last.set(name, mine);
      try {
        if (before) await Promise.race([before, new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))]);
      } catch (cause) {
        before?.then(done);
        throw cause;
      }
      try {
        return await action({ name });
      } finally {
        done();
      }
    },
  };
  const own = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  Object.defineProperty(globalThis, 'navigator', { configurable: true, value: { locks } });
  return () => void (own ? Object.defineProperty(globalThis, 'navigator', own) : Reflect.deleteProperty(globalThis, 'navigator'));
}

test('a second tab that waits for the same model and is cancelled, or deletes it, does not disturb the download', async () => {
  const restore = shareLocks();
  try {
    paths['m/model.safetensors'] = { body: WEIGHTS, pause: 5 };
    const second = new AbortController();
    /** @type {Promise<unknown>[]} */ const others = [];
    const begun = (/** @type {number} */ done) => {
      if (done < 9000 || others.length > 0) return;
      others.push(assert.rejects(new ModelDownload(addresses(address()), { store: store(), signal: second.signal }).run(), refusal('cancelled', /./)));
      setTimeout(() => second.abort(), 5);
    };
    const first = await new ModelDownload(addresses(address()), { store: store(), onProgress: begun }).run();
    await Promise.all(others);
    assert.equal(others.length, 1);
    assert.deepEqual([first.notices, (await store().list())[0]?.complete], [[], true]);
    await store().clear();

    /** @type {Promise<void> | undefined} */ let deletion;
    const again = await new ModelDownload(addresses(address()), { store: store(), onProgress: (done) => { if (done > 9000) deletion ??= store().clear(); } }).run();
    const weights = again.files.at(-1);
    assert.ok(weights && 'blob' in weights && weights.blob.size === 20_000, 'nothing is missing in the middle');
    await deletion;
    assert.deepEqual(folder.paths, []);
  } finally {
    restore();
  }
});

test('a stored part that was deleted is never a gap in the weights', async () => {
  folder = new MemoryFolder({ quota: 14_000, used: 0 });
  paths['m/model.safetensors'] = { body: WEIGHTS, pause: 1 };
  const fetched = await new ModelDownload(addresses(address()), { store: store() }).run();
  const weights = fetched.files.at(-1);
  for (const models of folder.children.values()) for (const place of /** @type {any} */ (models).children.values()) place.children.clear();
  assert.ok(weights && 'stream' in weights);
  await assert.rejects(new Response(weights.stream).arrayBuffer());
  assert.match(String(fetched.failure), /stored part was deleted/);
});

test('shards are found through their index, in order, once each', async () => {
  delete paths['m/model.safetensors'];
  const index = { metadata: { total_size: 3000 }, weight_map: { a: 'model-00002-of-00002.safetensors', b: 'model-00001-of-00002.safetensors', c: 'model-00001-of-00002.safetensors' } };
  paths['m/model.safetensors.index.json'] = { body: JSON.stringify(index) };
  paths['m/model-00001-of-00002.safetensors'] = { body: WEIGHTS.slice(0, 1600) };
  paths['m/model-00002-of-00002.safetensors'] = { body: WEIGHTS.slice(1600, 3100) };
  for (const models of [store(), nowhere()]) {
    /** @type {(number | null)[][]} */ const seen = [];
    paths['m/model-00001-of-00002.safetensors'] = { body: WEIGHTS.slice(0, 1600), pause: 5 };
    server.requests.length = 0;
    await client(models).loadUrl(server.url('m/model.safetensors.index.json'), { onProgress: ({ stage, done, total }) => {
      seen.push([done, total]);
      if (stage === 'download' && done < 1600) assert.doesNotMatch(server.asked().join(), /00002-of/, 'one after the other');
    } });
    assert.equal(server.asked().filter((path) => /-of-/.test(path)).length, 2);
    assert.deepEqual([...read.keys()].slice(-3), ['model.safetensors.index.json', 'model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors']);
    assert.equal(read.get('model-00002-of-00002.safetensors')?.length, 1500);
    assert.ok(seen.some(([done, total]) => done === 3100 && total === 3100));
  }
  paths['m/model.safetensors.index.json'] = { body: '{"weight_map":{"a":"../../secret"}}', etag: '"2"' };
  await assert.rejects(client(nowhere()).loadUrl(server.url('m/model.safetensors.index.json')), refusal('damaged_model', /weight_map/));
});

test('a repository: its model, its shards, or a sentence', async () => {
  const source = { ...repository('owner/name'), url: (/** @type {string} */ file) => server.url(`m/${file}`) };
  const fetch = () => new ModelDownload(source, { store: nowhere() }).run();
  assert.deepEqual((await fetch()).files.map(({ name }) => name), ['config.json', 'vocab.json', 'merges.txt', 'model.safetensors']);
  delete paths['m/model.safetensors'];
  await assert.rejects(fetch(), refusal('download_failed', /owner\/name has no model\.safetensors and no model\.safetensors\.index\.json/));
});

test('files that change a tokenizer are downloaded only with a tokenizer', async () => {
  for (const name of ['generation_config', 'added_tokens', 'tokenizer_config', 'special_tokens_map']) paths[`m/${name}.json`] = { body: '{}' };
  await client(nowhere()).loadUrl(address());
  assert.deepEqual([...read.keys()], ['config.json', 'generation_config.json', 'vocab.json', 'merges.txt', 'added_tokens.json', 'tokenizer_config.json', 'special_tokens_map.json', 'model.safetensors']);
  read.clear();
  delete paths['m/vocab.json'];
  const { files } = await new ModelDownload(addresses(address()), { store: nowhere() }).run();
  assert.deepEqual(files.map(({ name }) => name), ['config.json', 'generation_config.json', 'model.safetensors']);
});

test('a companion that the server refuses counts as absent, with a notice; one that breaks off does not', async () => {
  for (const models of [store(), nowhere()]) {
    paths['m/tokenizer.json'] = { status: 403, body: '' };
    paths['m/added_tokens.json'] = { body: '<!doctype html>' };
    const { files, notices } = await new ModelDownload(addresses(address()), { store: models, backoff: [1] }).run();
    assert.deepEqual(files.map(({ name }) => name), ['config.json', 'vocab.json', 'merges.txt', 'model.safetensors']);
    assert.match(notices.join(' '), /without tokenizer\.json: .*403.*without added_tokens\.json: .*HTML/);
    await store().clear();
    for (const behaviour of [{ body: '{"a":0}', breaks: [2, 0, 0] }, { busy: [503, 503, 503] }]) {
      paths['m/tokenizer.json'] = behaviour;
      await assert.rejects(new ModelDownload(addresses(address()), { store: models, backoff: [1] }).run(), refusal('download_failed', /tokenizer\.json/));
    }
  }
});

test('two files of one repository are two models', async () => {
  for (const [file, body] of /** @type {[string, string][]} */ ([['a.gguf', 'first'], ['b.gguf', 'second']])) {
    paths[`m/${file}`] = { body };
    const source = { ...repository('owner/name', { files: [file] }), url: (/** @type {string} */ name) => server.url(`m/${name}`) };
    const { files } = await new ModelDownload(source, { store: store() }).run();
    assert.deepEqual(await Promise.all(files.map(async (found) => [found.name, 'blob' in found && await found.blob.text()])), [[file, body]]);
  }
});

test('a wrong checksum deletes the file, and the present model stays', async () => {
  const gpt2 = client();
  await gpt2.load({ name: 'before', files: [{ name: 'before.gguf', bytes: new Uint8Array(4) }] });
  let unloads = 0;
  const answer = reading();
  follow((request, worker) => {
    if (request.type === 'unload') unloads++;
    return answer(request, worker);
  });
  await assert.rejects(gpt2.loadUrl(address(), { sha256: 'ff' }), refusal('damaged_model', /./));
  assert.deepEqual(folder.paths, []);
  assert.equal(unloads, 0);
  assert.equal((await gpt2.loadUrl(address(), { sha256: '00' })).model.sha256, '00');
});

test('after a panic a stored model is loaded again; one that is not stored is not downloaded', async () => {
  for (const models of [store(), nowhere()]) {
    server.requests.length = 0;
    follow((request, worker) => {
      if (request.type !== 'generate') return reading()(request, worker);
      worker.emit(error(request.id, ScriptedWorker.started.length === 1 ? 'panic' : 'busy'));
    });
    const gpt2 = client(models);
    await gpt2.loadUrl(address());
    const asked = server.asked().length;
    await assert.rejects(gpt2.text('a').next(), refusal('panic', /./));
    const [stored] = await models.list();
    // The new worker answers `busy`, so it has the model.
    await assert.rejects(gpt2.text('a').next(), stored ? refusal('busy', /./) : refusal('not_loaded', /not saved in this browser/));
    assert.equal(server.asked().length, asked);
  }
});

test('bytes may have every form; a file without contents is a sentence', async () => {
  const gpt2 = client();
  const bytes = Uint8Array.from([0, 71, 71, 85, 70, 0]);
  for (const file of [new File([bytes.subarray(1, 5)], 'm.gguf'), { name: 'm.gguf', blob: new Blob([bytes.subarray(1, 5)]) },
    { name: 'm.gguf', bytes: bytes.buffer.slice(1, 5) }, { name: 'm.gguf', bytes: bytes.subarray(1, 5) }]) {
    await gpt2.load({ name: 'm', files: [file] });
    assert.equal(new TextDecoder().decode(read.get('m.gguf')), 'GGUF');
  }
  await assert.rejects(gpt2.load({ name: 'm', files: [/** @type {any} */ ({ name: 'm.gguf' })] }), refusal('invalid_request', /m\.gguf has no contents/));
});

test('notices of the worker come with the model', async () => {
  follow(reading(({ id }, worker) => worker.emit(/** @type {any} */ ({ ...ready(id), notices: ['heads were guessed'] }))));
  assert.deepEqual((await client().load({ name: 'm', files: [{ name: 'm.gguf', bytes: new Uint8Array(4) }] })).notices, ['heads were guessed']);
});

test('one stored model can be deleted, or all', async () => {
  const gpt2 = client();
  await gpt2.loadUrl(address());
  paths['n.gguf'] = { body: WEIGHTS };
  await gpt2.loadUrl(server.url('n.gguf'));
  const [newest, oldest] = await gpt2.store.list();
  assert.deepEqual([newest?.name, oldest?.name], ['n', 'm']);
  await gpt2.store.delete(String(newest?.id));
  assert.deepEqual((await gpt2.store.list()).map(({ name }) => name), ['m']);
  await assert.rejects(gpt2.loadStored(String(newest?.id)), refusal('not_loaded', /not saved/));
  await gpt2.store.clear();
  assert.deepEqual(await gpt2.store.list(), []);
  assert.equal(folder.disk.used, 0);
  assert.deepEqual(await nowhere().list(), []);
});

test('a folder that cannot be read hides neither the cause of a failure nor the other models', async (t) => {
  paths['n.gguf'] = { body: WEIGHTS };
  await client().loadUrl(server.url('n.gguf'));
  const { prototype } = StoredModel;
  const { bytes } = prototype;
  let calls = 0;
  t.mock.method(prototype, 'bytes', /** @this {StoredModel} */ async function bytesOnce() {
    if (calls++ === 0) throw new DOMException('gone', 'NotFoundError');
    return bytes.call(this);
  });
  paths['m/model.safetensors'] = { status: 403, body: '' };
  await assert.rejects(client().loadUrl(address()), refusal('download_failed', /403/));
  paths['m/model.safetensors'] = { body: WEIGHTS };
  await client().loadUrl(address());
  calls = 0;
  assert.equal((await store().list()).length, 1);
});

test('a stored model is found in the catalogue by its source', () => {
  const catalog = /** @type {any[]} */ ([{ name: 'own', files: ['x.gguf'] }, { name: 'a', repo: 'o/a', revision: 'v1', files: ['c.json', 'w'] }, { name: 'b', repo: 'o/b', files: ['w'] }]);
  for (const { name, repo, revision, files } of catalog.slice(1)) {
    assert.equal(known.entryFrom(catalog, repository(repo, { ...(revision && { revision }), files }).id)?.name, name);
  }
  assert.equal(known.entryFrom(catalog, repository('o/a', { files: ['c.json', 'w'] }).id), undefined, 'another revision');
});
