/** The store of downloaded models: names, earlier layouts, other tabs, and browsers without storage. */

import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';

import { Gpt2Error, Gpt2Web } from '../../www/gpt2-web.js';
import { ifUnlocked, withLock } from '../../www/client/store/locks.js';
import { storageRoot } from '../../www/client/store/storage.js';
import { ModelStore, StoredModel } from '../../www/client/store/index.js';
import { MemoryFolder } from './memory-folder.mjs';

/** @type {MemoryFolder} */ let folder;
beforeEach(() => { folder = new MemoryFolder({ quota: Infinity, used: 0 }); });
const store = () => new ModelStore({ root: async () => /** @type {any} */ (folder), piece: 8 });

/** @param {RegExp} said */
const failure = (said) => (/** @type {unknown} */ cause) => {
  assert.ok(cause instanceof Gpt2Error, String(cause));
  assert.equal(cause.kind, 'storage_failed');
  assert.match(cause.message, said);
  return true;
};

/** Stores a model. @param {string} source @param {{ [name: string]: string }} files */
async function keep(source, files) {
  const model = await store().open(source, `name of ${source}`);
  for (const [name, contents] of Object.entries(files)) {
    const file = await model.file(name);
    await file.begin(`https://host.org/${encodeURIComponent(name)}`, { etag: null, modified: null, size: null });
    for (let at = 0; at < contents.length; at += 8) await file.append(new Blob([contents.slice(at, at + 8)]));
    await file.finish(contents.length);
  }
  await model.finish(Object.keys(files));
  return model;
}

/** @param {string} id */
async function contents(id) {
  const files = (await (await store().find(id))?.files()) ?? [];
  return Object.fromEntries(await Promise.all(files.map(async (file) => /** @type {const} */ ([file.name, await (await file.blob()).text()]))));
}

/** The folder of a model. @param {string} id */
const place = (id) => /** @type {MemoryFolder} */ (/** @type {MemoryFolder} */ (folder.children.get('gpt2-web-models')).children.get(id));
/** @param {MemoryFolder} folder @param {string} name @param {string} text */
async function put(folder, name, text) {
  const writable = await (await folder.getFileHandle(name, { create: true })).createWritable();
  await writable.write(text);
  await writable.close();
}

test('files may have any names, and none is taken for another one or for the entry', async () => {
  const files = Object.fromEntries(['model', 'entry', 'model.json', 'model.0', 'config.json', 'Config.json', 'a/b', 'a%2Fb', '.', '..', '', ' ', 'CON', 'nul.json', 'x'.repeat(255), `${'x'.repeat(254)}ü`,
    '模型.safetensors', '\u{1F600}', 'é', 'e\u0301', 'a:b*?"<>|', '__proto__', 'constructor'].map((name, at) => [name, `contents of ${at}, longer than a piece`]));
  const { id } = await keep('a', files);
  assert.deepEqual(await contents(id), files);
  const [listed, ...others] = await store().list();
  assert.deepEqual([others, listed?.source, listed?.name, listed?.complete], [[], 'a', 'name of a', true]);
  for (const path of folder.paths) assert.match(path, /^gpt2-web-models\/[0-9a-f]{32}\/([0-9a-f]{32}\.(json|\d+)|model\.json)$/, 'a name for any file system');
});

test('a broken entry, an unknown folder or a foreign file never hides the other models; useless folders are removed', async () => {
  const { id } = await keep('good', { 'a.gguf': 'weights' });
  const models = /** @type {MemoryFolder} */ (folder.children.get('gpt2-web-models'));
  await put(models, 'foreign file', 'x');
  await put(await models.getDirectoryHandle('unknown', { create: true }), 'x', 'y');
  const broken = ['', '{', 'null', '7', '[]', '{"name":"n"}', '{"source":1,"name":"n","files":[],"date":null}', '{"source":"s","name":"n","files":{},"date":null}',
    '{"source":"s","name":"n","files":[1],"date":null}', '{"source":"s","name":"n","files":[],"date":"never"}', '{"etag":"1","name":"model","url":"https://host.org/","complete":true}'];
  for (const [at, text] of broken.entries()) await put(await models.getDirectoryHandle(at.toString(16).padStart(32, '0'), { create: true }), 'model.json', text);
  await models.getDirectoryHandle('f'.repeat(32), { create: true });
  assert.deepEqual((await store().list()).map((model) => model.id), [id]);
  assert.deepEqual([...models.children.keys()].sort(), ['foreign file', 'unknown', id].sort());
  await store().clear();
  assert.deepEqual(models.children.size, 0);
  assert.equal(folder.disk.used, 0);
});

test('a model with a missing piece is listed as incomplete and is not loaded', async () => {
  const { id } = await keep('a', { 'a.gguf': 'more than one piece of it' });
  const [last] = [...place(id).children.keys()].filter((name) => name.endsWith('.3'));
  await place(id).removeEntry(String(last));
  assert.deepEqual((await store().list()).map(({ complete }) => complete), [false]);
  assert.equal(await store().find(id), null);
  for (const [name, text] of /** @type {const} */ ([['.json', '{'], ['.json', '{"url":1}']])) {
    const [info = ''] = [...place(id).children.keys()].filter((entry) => entry.endsWith(name) && entry !== 'model.json');
    await put(place(id), info, text);
    assert.equal((await store().list())[0]?.complete, false);
    assert.equal(await store().find(id), null);
  }
});

test('models of an earlier layout, with files under their own names, can still be loaded', async () => {
  const source = 'https://host.org/w.safetensors';
  const id = await StoredModel.id(source);
  const models = await folder.getDirectoryHandle('gpt2-web-models', { create: true });
  const old = await models.getDirectoryHandle(id, { create: true });
  await put(old, 'model.json', JSON.stringify({ source, name: 'w', date: '2026-01-02T03:04:05.000Z', files: ['d/w.safetensors'], complete: true }));
  await put(old, 'd%2Fw.safetensors.json', JSON.stringify({ etag: null, modified: null, size: 5, name: 'd/w.safetensors', url: source, complete: true }));
  await put(old, 'd%2Fw.safetensors.0', 'wei');
  await put(old, 'd%2Fw.safetensors.1', 'gh');
  assert.deepEqual((await store().list()).map(({ name, complete, date }) => [name, complete, date?.getUTCFullYear()]), [['w', true, 2026]]);
  assert.deepEqual(await contents(id), { 'd/w.safetensors': 'weigh' });
});

test('deleting does nothing in a new browser, or for an unknown id', async () => {
  const { store: models } = new Gpt2Web({ store: store() });
  await models.clear();
  await models.delete('0'.repeat(32));
  for (const id of ['', 'x', '..', 'a/b', undefined, null, 7]) await models.delete(/** @type {any} */ (id));
  assert.deepEqual(folder.paths, []);
  const { id } = await keep('a', { 'a.gguf': 'x' });
  await models.delete('0'.repeat(32));
  assert.deepEqual((await models.list()).length, 1);
  await models.delete(id);
  await models.delete(id);
  await models.clear();
  assert.equal(await models.find(id), null);
});

test('what cannot be deleted is reported after everything else is deleted', async () => {
  const [a, b] = [await keep('a', { f: 'x' }), await keep('b', { f: 'x' })];
  const models = /** @type {any} */ (folder.children.get('gpt2-web-models'));
  const { removeEntry } = models;
  models.removeEntry = async function remove(/** @type {string} */ name, /** @type {any} */ options) {
    if (name === a.id) throw new DOMException('busy', 'NoModificationAllowedError');
    return removeEntry.call(this, name, options);
  };
  await assert.rejects(store().clear(), failure(/another tab is writing/));
  assert.deepEqual((await store().list()).map(({ id }) => id), [a.id]);
  assert.equal(await store().find(b.id), null);
});

test('a store that fails is a Gpt2Error of its kind, and an error in the program is not', async () => {
  for (const [thrown, said] of /** @type {[unknown, RegExp][]} */ ([
    [new DOMException('no', 'SecurityError'), /no storage.*private window/], [new DOMException('odd', 'UnknownError'), /storage failed \(odd\)/],
    [new TypeError('x is not a function'), /storage failed \(x is not a function\)/], ['text', /storage failed \(text\)/],
  ])) {
    const models = new ModelStore({ root: async () => { throw thrown; } });
    for (const action of [() => models.clear(), () => models.delete('0'.repeat(32)), () => models.open('a', 'a'), () => models.find('0'.repeat(32))]) {
      await assert.rejects(action, failure(said));
    }
    assert.deepEqual(await models.list(), []);
    await assert.rejects(new Gpt2Web({ store: models }).loadStored('0'.repeat(32)), failure(said));
  }
});

test('a model that cannot be written leaves nothing', async () => {
  folder.disk.quota = 3;
  await assert.rejects(store().open('a', 'a'), failure(/storage is full/));
  assert.deepEqual([...(/** @type {MemoryFolder} */ (folder.children.get('gpt2-web-models')).children.keys())], []);
});

const GLOBALS = /** @type {const} */ (['navigator', 'isSecureContext', 'origin', 'location', 'FileSystemFileHandle']);
const own = GLOBALS.map((name) => /** @type {const} */ ([name, Object.getOwnPropertyDescriptor(globalThis, name)]));
afterEach(() => { for (const [name, value] of own) value ? Object.defineProperty(globalThis, name, value) : Reflect.deleteProperty(globalThis, name); });
/** @param {Partial<Record<typeof GLOBALS[number], unknown>>} values */
const environment = (values) => { for (const [name, value] of Object.entries(values)) Object.defineProperty(globalThis, name, { configurable: true, value }); };

test('without storage the sentence says why, and what would help', async () => {
  const refuses = { storage: { getDirectory: async () => { throw new DOMException('no', 'SecurityError'); } } };
  for (const [values, said] of /** @type {[Parameters<typeof environment>[0], RegExp][]} */ ([
    [{ navigator: {}, isSecureContext: false }, /plain http.*https/], [{ navigator: refuses, origin: 'null' }, /sandboxed frame.*allow-same-origin/],
    [{ navigator: refuses, origin: 'null', location: { protocol: 'file:' } }, /from disk.*https or localhost/], [{ navigator: refuses, isSecureContext: true }, /private window.*ordinary window/],
    [{ navigator: { storage: {} }, isSecureContext: true }, /newer version/],
    [{ navigator: { storage: { getDirectory: async () => folder } }, FileSystemFileHandle: class { createSyncAccessHandle() {} } }, /Safari before 26.*newer version/],
  ])) {
    environment({ isSecureContext: true, origin: 'https://host.org', location: { protocol: 'https:' }, FileSystemFileHandle: undefined, ...values });
    await assert.rejects(storageRoot(), failure(said));
  }
});

test('a handle that cannot be written to counts as no storage, and leaves no empty file', async () => {
  const { getFileHandle } = MemoryFolder.prototype;
  try {
    MemoryFolder.prototype.getFileHandle = async function handle(...given) {
      return Object.assign(await getFileHandle.apply(this, given), { createWritable: undefined });
    };
    await assert.rejects(store().open('a', 'a'), failure(/createWritable/));
  } finally {
    MemoryFolder.prototype.getFileHandle = getFileHandle;
  }
  assert.deepEqual(folder.paths, []);
});

test('without locks, and with one that is stolen, the action runs once and to its end', async () => {
  const refuse = async () => { throw new DOMException('no', 'SecurityError'); };
  const steal = async (/** @type {string} */ _, /** @type {unknown} */ __, /** @type {(lock: object) => Promise<unknown>} */ action) => {
    action({}).catch(() => {});
    throw new DOMException('stolen', 'AbortError');
  };
  for (const locks of [undefined, { request: refuse }, { request: steal }]) {
    environment({ navigator: { locks } });
    let runs = 0;
    assert.equal(await withLock('a', async () => (await null, ++runs)), 1);
    await ifUnlocked('a', async () => void runs++);
    assert.equal(runs, 2);
    await assert.rejects(withLock('a', async () => { throw new Error('its own'); }), /its own/);
  }
});
