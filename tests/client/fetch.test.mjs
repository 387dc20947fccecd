/** Downloads that end early: refused before the weights, cancelled, or with a listener or a store that fails. */

import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';

import { Gpt2Error, Gpt2Web } from '../../www/gpt2-web.js';
import { ModelDownload } from '../../www/client/download/model-download.js';
import { addresses, repository } from '../../www/client/download/source.js';
import { ModelStore } from '../../www/client/store/index.js';
import { hostile, noise } from '../support/hostile-server.mjs';
import { MemoryFolder } from './memory-folder.mjs';
import { error, follow, ready } from './scripted-worker.mjs';

const WEIGHTS = noise(20_000);
/** @type {{ [path: string]: import('../support/hostile-server.mjs').Behaviour }} */ const paths = {};
/** @type {Awaited<ReturnType<typeof hostile>>} */ let server;
/** @type {MemoryFolder} */ let folder;

before(async () => { server = await hostile(paths); });
after(() => server.close());
beforeEach(() => {
  for (const path of Object.keys(paths)) delete paths[path];
  Object.assign(paths, { 'm/config.json': { body: '{"model_type":"gpt2","vocab_size":50257}' }, 'm/model.safetensors': { body: WEIGHTS } });
  server.requests.length = 0;
  server.closed.clear();
  server.onRequest = undefined;
  folder = new MemoryFolder({ quota: Infinity, used: 0 });
  follow(async (request, worker) => {
    if (request.type !== 'load') return;
    try {
      for (const file of /** @type {any[]} */ (request.files)) await new Response(file.blob ?? file.stream).arrayBuffer();
      worker.emit(ready(request.id));
    } catch {
      worker.emit(error(request.id, 'download_failed'));
    }
  });
});

const store = () => new ModelStore({ root: async () => /** @type {any} */ (folder), piece: 4096 });
/** No storage: `getDirectory` fails like in a private window. */
const nowhere = () => new ModelStore({ root: async () => { throw new DOMException('no', 'SecurityError'); } });
const address = () => server.url('m/model.safetensors');
/** A repository on the hostile server. @param {boolean} [listed] whether it tells what it has */
const hub = (listed = false) => ({
  ...repository('owner/name'), url: (/** @type {string} */ file) => server.url(`m/${file}`),
  listing: listed ? { url: server.url('listing'), page: (/** @type {string} */ file) => `https://hub/${file}` } : null,
});
/** @param {Partial<ConstructorParameters<typeof ModelDownload>[1]>} [options] @param {import('../../www/client/download/source.js').Source} [source] */
const fetching = (options, source = hub()) => new ModelDownload(source, { store: store(), backoff: [1], ...options });
const weightsAsked = () => server.asked().filter((path) => /model\.safetensors$/.test(path)).length;

/** @param {import('../../www/client/error.js').ErrorKind} kind @param {RegExp} said */
const refusal = (kind, said) => (/** @type {unknown} */ cause) => {
  assert.ok(cause instanceof Gpt2Error, String(cause));
  assert.equal(cause.kind, kind, cause.message);
  assert.match(cause.message, said);
  return true;
};

test('for a repository with weights in another format the error names it, and says what to do', async () => {
  delete paths['m/model.safetensors'];
  for (const [file, said] of /** @type {[string, RegExp][]} */ ([
    ['pytorch_model.bin', /pytorch_model\.bin.*pickle.*save_pretrained/], ['pytorch_model.bin.index.json', /sharded PyTorch pickles.*save_pretrained/], ['tf_model.h5', /TensorFlow.*save_pretrained/],
    ['flax_model.msgpack', /Flax.*save_pretrained/], ['onnx/model.onnx', /ONNX.*repository/], ['adapter_model.safetensors', /LoRA adapter.*merge/],
  ])) {
    for (const head of [0, 405]) {
      paths[`m/${file}`] = { body: 'x', head };
      await assert.rejects(fetching().run(), refusal('download_failed', said));
    }
    delete paths[`m/${file}`];
    paths['listing'] = { body: JSON.stringify({ siblings: [{ rfilename: 'README.md' }, { rfilename: file }] }) };
    await assert.rejects(fetching({}, hub(true)).run(), refusal('download_failed', said));
  }
  paths['listing'] = { body: JSON.stringify({ siblings: ['pytorch_model.bin', 'a-q8_0.gguf', 'b.gguf', 'sub/model.safetensors'].map((rfilename) => ({ rfilename })) }) };
  await assert.rejects(fetching({}, hub(true)).run(), refusal('download_failed', /it has a-q8_0\.gguf, b\.gguf, sub\/model\.safetensors; give the address.*https:\/\/hub\/a-q8_0\.gguf/));
  for (const body of ['{', '{}', '<!doctype html>']) {
    paths['listing'] = { body };
    paths['m/pytorch_model.bin'] = { body: 'x' };
    await assert.rejects(fetching({}, hub(true)).run(), refusal('download_failed', /pytorch_model\.bin/));
  }
  paths['m/pytorch_model.bin'] = { body: '<!doctype html>', headers: { 'content-type': 'text/html' } };
  await assert.rejects(fetching().run(), refusal('download_failed', /has no model\.safetensors and no.*GGUF file, give the address/));
  assert.deepEqual(folder.paths, []);
});

test('a model with another kind of tokenizer is refused before the weights are downloaded, and nothing is stored', async () => {
  for (const [vocab, file, said] of /** @type {[number, string, RegExp][]} */ ([
    [300, 'vocab.txt', /only vocab\.txt \(WordPiece.*tokenizer\.json.*300/], [32_000, 'spiece.model', /spiece\.model \(SentencePiece/], [32_000, 'tokenizer.model', /tokenizer\.model/],
    [250_002, 'sentencepiece.bpe.model', /250002/], [300, 'README.md', /has no tokenizer that this program reads: .*50257 tokens.*300/],
  ])) {
    paths['m/config.json'] = { body: `{"model_type":"gpt2","initializer_range":NaN,"vocab_size":${vocab}}`.padEnd(3000) };
    paths[`m/${file}`] = { body: 'x', ...(vocab === 32_000 && { head: 501 }) };
    await assert.rejects(fetching().run(), refusal('bad_tokenizer', said));
    await assert.rejects(fetching({}, addresses(address())).run(), refusal('bad_tokenizer', said));
    delete paths[`m/${file}`];
    assert.deepEqual([weightsAsked(), folder.paths], [0, []]);
  }
});

test('a vocabulary without merges is refused before the weights are downloaded, and nothing is stored', async () => {
  paths['m/vocab.json'] = { body: '{}' };
  await assert.rejects(fetching().run(), refusal('bad_tokenizer', /vocab\.json.*no merges\.txt.*give/));
  assert.equal(weightsAsked(), 0);
  assert.deepEqual(folder.paths, []);
});

test('accepted vocabularies: GPT-2\'s, GPT-2\'s padded, one of unknown size, and any with a tokenizer', async () => {
  paths['m/vocab.txt'] = { body: 'x' };
  for (const config of ['{"vocab_size":50257}', '{}', '{', '7', '{"vocab_size":"many"}', '\ufeff{"vocab_size":50257}']) {
    paths['m/config.json'] = { body: config, etag: `"${config.length}"` };
    assert.equal((await fetching({ store: nowhere() }).run()).files.at(-1)?.name, 'model.safetensors');
  }
  delete paths['m/vocab.txt'];
  paths['m/config.json'] = { body: '{"vocab_size":50304}' };
  await fetching({ store: nowhere() }).run();
  Object.assign(paths, { 'm/config.json': { body: '{"vocab_size":300}' }, 'm/tokenizer.json': { body: '{}' } });
  await fetching({ store: nowhere() }).run();
});

test('a model of another kind is refused before the weights are downloaded', async () => {
  paths['m/config.json'] = { body: '{"model_type":"bert","vocab_size":30522}' };
  await assert.rejects(fetching().run(), refusal('unsupported_model', /type bert.*only GPT-2/));
  assert.deepEqual([weightsAsked(), folder.paths], [0, []]);
});

test('an address that ends in a slash, or in a name that the store uses', async () => {
  const gpt2 = new Gpt2Web({ base: 'http://localhost/', store: store() });
  for (const path of ['model', 'x/', 'entry', 'model.json', 'a.0', `${'n'.repeat(200)}.gguf`, '%E6%A8%A1.gguf']) {
    paths[path] = { body: `weights of ${path}` };
    await gpt2.loadUrl(server.url(path));
  }
  const listed = await gpt2.store.list();
  assert.deepEqual(listed.map(({ complete, source }) => [complete, typeof source]), Array(7).fill([true, 'string']));
  for (const { id } of listed) await gpt2.loadStored(id);
});

test('a listener that throws ends the download, and the caller gets its error', async () => {
  for (const mine of [new Error('my own mistake'), new Gpt2Error('download_failed', 'mine'), new DOMException('mine', 'AbortError'), 'mine']) {
    for (const [models, at] of /** @type {[ModelStore, number][]} */ ([[store(), 0], [store(), 1], [store(), 6000], [nowhere(), 1], [nowhere(), 6000]])) {
      server.closed.clear();
      paths['x.gguf'] = { body: WEIGHTS, pause: 1 };
      const load = new Gpt2Web({ base: 'http://localhost/', store: models }).loadUrl(server.url('x.gguf'), { onProgress: ({ done }) => { if (done >= at) throw mine; } });
      await assert.rejects(load, (cause) => cause === mine);
      if (at > 1) await server.closing('x.gguf');
      await store().clear();
    }
    paths['models/fairy-12m-q8_0.gguf'] = { body: WEIGHTS, pause: 1 };
    const embedded = new Gpt2Web({ base: server.url(''), store: nowhere() }).embedded({ onProgress: ({ done }) => { if (done > 0) throw mine; } });
    await assert.rejects(embedded, (cause) => cause === mine);
    await server.closing('models/fairy-12m-q8_0.gguf');
  }
});

test('the embedded model resumes after a broken connection, and is refused by its first bytes', async () => {
  const path = 'models/fairy-12m-q8_0.gguf';
  paths[path] = { body: '<!doctype html>' };
  const gpt2 = new Gpt2Web({ base: server.url(''), store: nowhere() });
  await assert.rejects(gpt2.embedded(), refusal('not_a_model', /HTML page.*models\/fairy-12m/));
  paths[path] = { body: WEIGHTS, chunked: true };
  assert.deepEqual(new Uint8Array(await (await gpt2.embedded()).arrayBuffer()), WEIGHTS);
});

/** A write into the store that never ends. */
function stuck() {
  let begun = () => {};
  const writing = new Promise((resolve) => { begun = () => resolve(undefined); });
  const { getFileHandle } = MemoryFolder.prototype;
  folder.getDirectoryHandle = async function inner(name, options) {
    const child = await MemoryFolder.prototype.getDirectoryHandle.call(this, name, options);
    child.getDirectoryHandle = inner;
    child.getFileHandle = async function file(...given) {
      const handle = await getFileHandle.apply(this, given);
      const { createWritable } = handle;
      if (/\.1$/.test(String(given[0]))) handle.createWritable = async () => ({ ...(await createWritable.call(handle)), write: () => { begun(); return new Promise(() => {}); } });
      return handle;
    };
    return child;
  };
  return writing;
}

test('a cancel does not wait for the store, and closes the connection', async () => {
  const writing = stuck();
  paths['m/model.safetensors'] = { body: WEIGHTS, pause: 5 };
  const controller = new AbortController();
  const run = assert.rejects(fetching({ signal: controller.signal }).run(), refusal('cancelled', /./));
  await writing;
  controller.abort();
  await run;
  await server.closing('m/model.safetensors');
});

test('a cancel ends the wait for a retry or an answer, and works before the first request', async () => {
  paths['m/config.json'] = { busy: [503, 503, 503] };
  const pausing = new AbortController();
  server.onRequest = () => { pausing.abort(); };
  await assert.rejects(fetching({ signal: pausing.signal, backoff: [600_000] }).run(), refusal('cancelled', /./));
  const waiting = new AbortController();
  paths['m/config.json'] = { silent: true };
  server.onRequest = () => { waiting.abort(); };
  await assert.rejects(fetching({ signal: waiting.signal }).run(), refusal('cancelled', /./));
  await server.closing('m/config.json');
  server.requests.length = 0;
  await assert.rejects(fetching({ signal: AbortSignal.abort('my reason') }).run(), (cause) => refusal('cancelled', /./)(cause) && /** @type {Error} */ (cause).cause === 'my reason');
  assert.deepEqual([server.requests, folder.paths], [[], []]);
});

test('if the store fails at any moment, the model is still loaded', async () => {
  let calls = 0;
  const failing = (/** @type {number} */ from) => {
    const models = store();
    calls = 0;
    for (const name of /** @type {const} */ (['getFileHandle', 'removeEntry', 'getDirectoryHandle'])) {
      const own = MemoryFolder.prototype[name];
      folder[name] = async function fails(...given) {
        if (calls++ >= from) throw new DOMException('the disk is gone', 'UnknownError');
        const child = await /** @type {any} */ (own).apply(this, given);
        if (child instanceof MemoryFolder) child[name] = /** @type {any} */ (fails);
        return child;
      };
    }
    return models;
  };
  for (let from = 0; from < 12; from++) {
    folder = new MemoryFolder({ quota: Infinity, used: 0 });
    const fetched = await fetching({ store: failing(from) }).run().catch((cause) => assert.fail(`${from}: ${cause}`));
    const weights = /** @type {any} */ (fetched.files.at(-1));
    assert.deepEqual(new Uint8Array(await new Response(weights.blob ?? weights.stream).arrayBuffer()), WEIGHTS, String(from));
    if (fetched.notices.length > 0) assert.match(fetched.notices.join(), /^This model is not saved for the next visit: .*the disk is gone[^.]*\.$/);
    await fetched.end();
  }
});

test('a stored model that cannot be read is downloaded, and stays', async () => {
  await fetching().run();
  const kept = folder.paths;
  const { getFileHandle } = MemoryFolder.prototype;
  let reads = 0;
  try {
    MemoryFolder.prototype.getFileHandle = async function handle(...given) {
      // The entry says that the model is complete; then the disk fails.
      if (/\.0$/.test(String(given[0])) && ++reads > 2) throw new DOMException('the disk is gone', 'NotReadableError');
      return getFileHandle.apply(this, given);
    };
    server.requests.length = 0;
    const fetched = await fetching().run();
    assert.equal(weightsAsked(), 1);
    assert.match(fetched.notices.join(), /not saved.*the disk is gone/);
    const weights = /** @type {any} */ (fetched.files.at(-1));
    assert.deepEqual(new Uint8Array(await new Response(weights.stream).arrayBuffer()), WEIGHTS);
    MemoryFolder.prototype.getFileHandle = getFileHandle;
    await fetched.end();
  } finally {
    MemoryFolder.prototype.getFileHandle = getFileHandle;
  }
  assert.deepEqual(folder.paths, kept);
});

test('a failed cleanup never hides the cause', async () => {
  const models = store();
  models.remove = async () => { throw new Gpt2Error('storage_failed', 'the disk is gone'); };
  models.delete = models.remove;
  paths['m/model.safetensors'] = { status: 403, body: '' };
  await assert.rejects(fetching({ store: models }).run(), refusal('download_failed', /403/));
  paths['x.gguf'] = { body: WEIGHTS };
  follow((request, worker) => worker.emit(error(Number(request.id), 'damaged_model')));
  await assert.rejects(new Gpt2Web({ base: 'http://localhost/', store: models }).loadUrl(server.url('x.gguf')), refusal('damaged_model', /./));
});

test('a changed file is never mixed with the previous version, even if nothing can be deleted', async () => {
  const changed = WEIGHTS.map((byte) => byte ^ 255);
  paths['m/model.safetensors'] = { body: WEIGHTS, breaks: [9000] };
  const removing = MemoryFolder.prototype.removeEntry;
  try {
    MemoryFolder.prototype.removeEntry = async () => { throw new DOMException('the disk is gone', 'UnknownError'); };
    const fetched = await fetching({ backoff: [1, 1], onProgress: (done) => { if (done > 8500) paths['m/model.safetensors'] = { body: changed, etag: '"2"' }; } }).run();
    const weights = /** @type {any} */ (fetched.files.at(-1));
    assert.deepEqual(new Uint8Array(await new Response(weights.blob ?? weights.stream).arrayBuffer()), changed);
    assert.match(fetched.notices.join(), /not saved.*the disk is gone/);
  } finally {
    MemoryFolder.prototype.removeEntry = removing;
  }
});

test('a download that was complete when its tab was closed is not repeated', async () => {
  const place = await store().open(addresses(server.url('x.gguf')).id, 'x');
  const file = await place.file('x.gguf');
  await file.begin(server.url('x.gguf').href, { etag: '"1"', modified: null, size: WEIGHTS.length });
  await file.append(new Blob([WEIGHTS]));
  paths['x.gguf'] = { body: WEIGHTS };
  const { files } = await fetching({}, addresses(server.url('x.gguf'))).run();
  assert.deepEqual(server.asked(), [`x.gguf bytes=${WEIGHTS.length - 1}-`]);
  assert.equal(/** @type {any} */ (files[0]).blob.size, WEIGHTS.length);
  assert.equal((await store().list())[0]?.complete, true);
});
