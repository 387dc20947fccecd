/** What a person may type, and the source it means. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Gpt2Error, Gpt2Web } from '../../www/gpt2-web.js';
import { addresses, repository, typed } from '../../www/client/download/source.js';

/** @param {RegExp} said */
const refusal = (said) => (/** @type {unknown} */ cause) => {
  assert.ok(cause instanceof Gpt2Error, String(cause));
  assert.equal(cause.kind, 'invalid_request');
  assert.match(cause.message, said);
  return true;
};

const HUB = 'https://huggingface.co/';
/** What is asked for first, without the hub in front. @param {string} text */
const asks = (text) => {
  const source = typed(text);
  assert.equal(typed(source.id).id, source.id, `what is listed can be asked for again: ${text}`);
  return source.url(source.weights[0] ?? '').href.replace(HUB, '');
};

test('all ways to write a repository', () => {
  for (const [expected, texts] of /** @type {[string, string[]][]} */ ([
    ['gpt2/resolve/main/model.safetensors', ['gpt2', ' gpt2/ ', '"gpt2"', '<https://huggingface.co/gpt2>', 'https://huggingface.co/gpt2', 'https://huggingface.co/gpt2/', 'http://huggingface.co/gpt2',
      'https://www.huggingface.co/gpt2', 'HTTPS://HuggingFace.co/gpt2', 'huggingface.co/gpt2', 'hf.co/gpt2', '//huggingface.co/gpt2', 'hf://gpt2', 'gpt2@main', 'gpt2/tree/main', 'gpt2/tree', 'gpt2/tree/main/',
      'https://huggingface.co/gpt2/tree/main', 'https://huggingface.co/gpt2/commits/main', 'https://huggingface.co/gpt2/discussions', 'https://huggingface.co/gpt2/discussions/3',
      'https://huggingface.co/gpt2?library=transformers#uses', 'gpt2#uses', 'gpt2/model.safetensors', 'hf://gpt2/model.safetensors', 'https://huggingface.co/gpt2/blob/main/model.safetensors',
      'https://huggingface.co/gpt2/resolve/main/model.safetensors', 'https://hf.co/gpt2/raw/main/model.safetensors', 'https://huggingface.co/gpt2/resolve/main/model.safetensors?download=true']],
    ['distilgpt2/resolve/main/model.safetensors', ['https://hf.co/distilgpt2']],
    ['openai-community/gpt2/resolve/main/model.safetensors', ['openai-community/gpt2', 'openai-community\\gpt2', ' https://huggingface.co/openai-community/gpt2 ', 'https://hf.co/openai-community/gpt2/tree/main',
      'hf://openai-community/gpt2', 'https://huggingface.co/openai-community/gpt2/settings', 'openai-community/gpt2/model.safetensors']],
    ['o/n/resolve/v1.0/model.safetensors', ['o/n@v1.0', 'o/n/tree/v1.0', 'https://huggingface.co/o/n/tree/v1.0?x=1', 'hf://o/n@v1.0', 'o/n/blob/v1.0/model.safetensors']],
    ['o/n/resolve/607a30d783dfa663caf39e06633721c8d4cfcd7e/model.safetensors', ['o/n@607a30d783dfa663caf39e06633721c8d4cfcd7e', 'https://huggingface.co/o/n/commit/607a30d783dfa663caf39e06633721c8d4cfcd7e']],
    ['o/n/resolve/branch%2Fwith%2Fslash/model.safetensors', ['o/n/tree/branch/with/slash', 'o/n/tree/branch%2Fwith%2Fslash', 'o/n@branch/with/slash', 'https://huggingface.co/o/n/tree/branch/with/slash']],
    ['o/n/resolve/refs%2Fpr%2F1/model.safetensors', ['o/n/tree/refs/pr/1', 'o/n@refs/pr/1', 'hf://o/n@refs/pr/1', 'o/n/blob/refs/pr/1/model.safetensors', 'o/n/resolve/refs%2Fpr%2F1/model.safetensors']],
    ['o/n/resolve/main/sub/dir/model.safetensors', ['o/n/tree/main/sub/dir', 'hf://o/n/sub/dir', 'o/n/sub/dir/model.safetensors', 'https://huggingface.co/o/n/blob/main/sub/dir/model.safetensors']],
    ['o/n/resolve/v1/a/x.gguf', ['hf://o/n@v1/a/x.gguf', 'o/n/blob/v1/a/x.gguf']],
    ['o/n/resolve/v1/a/model.safetensors', ['hf://o/n@v1/a']],
    ['o/n/resolve/refs%2Fpr%2F1/a/model.safetensors', ['o/n/tree/refs/pr/1/a', 'o/n/tree/refs%2Fpr%2F1/a']],
  ])) for (const text of texts) assert.equal(asks(text), expected, text);
  assert.deepEqual([typed('gpt2').name, typed('o/n').name, typed('gpt2/blob/main/model.safetensors').name, typed('o/n/tree/main/sub').label], ['gpt2', 'n', 'gpt2', 'o/n/sub']);
  assert.equal(typed('o/n@607a30d783dfa663caf39e06633721c8d4cfcd7e').immutable && typed('o/n/blob/607a30d783dfa663caf39e06633721c8d4cfcd7e/a.gguf').immutable, true);
  assert.equal(typed('o/n/tree/main/sub').url('config.json').href, `${HUB}o/n/resolve/main/sub/config.json`);
});

test('an address, with and without its scheme', () => {
  for (const [expected, text] of /** @type {[string, string][]} */ ([
    ['https://host.org/x.gguf', 'https://host.org/x.gguf'], ['https://host.org/x.gguf', 'host.org/x.gguf'], ['https://host.org/x.gguf', 'https://host.org/x.gguf#part'],
    ['https://host.org/a/b/c', 'host.org/a/b/c'], ['http://localhost:8000/x.gguf', 'localhost:8000/x.gguf'], ['http://127.0.0.1:8000/m/x.gguf', '127.0.0.1:8000/m/x.gguf'],
    ['https://host.org:8443/x.gguf', 'host.org:8443/x.gguf'], ['https://host.org/model', 'https://host.org/model'], ['https://host.org/x/', 'https://host.org/x/'],
  ])) {
    const source = typed(text);
    assert.equal(source.url(source.weights[0] ?? '').href, expected);
    assert.equal(typed(source.id).id, source.id);
  }
  const keyed = typed('https://host.org/a/model.safetensors?key=1');
  assert.deepEqual([keyed.url('config.json').href, keyed.name], ['https://host.org/a/config.json?key=1', 'a']);
  assert.deepEqual([typed('https://host.org/x.gguf').name, typed('https://host.org/x.gguf').discover], ['x', false]);
  const both = typed('https://host.org/c/config.json https://huggingface.co/gpt2/blob/main/model.safetensors');
  assert.deepEqual([both.companions, both.url('model.safetensors').href], [['config.json'], `${HUB}gpt2/resolve/main/model.safetensors`]);
});

test('the page about a file becomes the address of the file', () => {
  const source = addresses('https://huggingface.co/openai-community/gpt2/blob/main/onnx/model.safetensors?download=true');
  assert.equal(source.url('model.safetensors').href, `${HUB}openai-community/gpt2/resolve/main/onnx/model.safetensors`);
  assert.equal(source.url('config.json').href, `${HUB}openai-community/gpt2/resolve/main/onnx/config.json`);
  for (const source of [repository('a/b', { revision: 'refs/pr/1' }), repository('a'), repository('a/b', { files: ['x, y#%.json', 'd/z.gguf'] }), addresses(['https://host.org/c.json', 'https://host.org/w.gguf'])]) {
    assert.equal(typed(source.id).id, source.id, 'what is listed can be asked for again');
  }
  const odd = repository('a/b', { files: ['x, y#%.json', 'd/z.gguf'] });
  assert.deepEqual([typed(odd.id).weights, odd.url('x, y#%.json').href], [['d/z.gguf'], `${HUB}a/b/resolve/main/x%2C%20y%23%25.json`]);
  const several = addresses(['https://host.org/c/config.json', 'https://host.org/w/w.safetensors']);
  assert.deepEqual([several.companions, several.weights, several.url('config.json').href], [['config.json'], ['w.safetensors'], 'https://host.org/c/config.json']);
  assert.throws(() => addresses(['https://a.org/x.gguf', 'https://b.org/x.gguf']), refusal(/same file name/));
});

test('addresses of other things are refused with what to give', async () => {
  for (const [text, said] of /** @type {[string, RegExp][]} */ ([
    ['', /owner\/name/], ['https://huggingface.co/', /front page.*owner\/name/], ['huggingface.co', /front page/], ['https://huggingface.co/models', /list of models.*owner\/name/],
    ['https://huggingface.co/models?search=gpt2', /list of models/], ['https://huggingface.co/datasets/x/y', /dataset, not a model.*owner\/name/], ['datasets/squad', /dataset/], ['hf://datasets/x/y', /dataset/],
    ['https://huggingface.co/spaces/x/y', /Space.*not a model/], ['https://huggingface.co/docs/transformers', /not the page of a model/], ['https://huggingface.co/o/n/onnx', /not a page of o\/n.*tree\/main\/onnx/],
    ['model.safetensors', /without its repository/], ['x.gguf', /without its repository/], ['o/n@', /no revision/], ['..', /not an address/], ['o/n n', /one repository, or addresses/],
    ['ftp://host/x', /https:/], ['https://', /not an address/], ['C:\\models\\x.gguf', /open the file instead/], ['file:///x.gguf', /open the file instead/], ['https://me:secret@host.org/x.gguf', /user name or a password/],
    ['https://host.org/100%.gguf', /%25/], ['https://host.org/a%zz/model.safetensors', /%25/], ['https://huggingface.co/a/b/tree/%', /%25/], ['https://huggingface.co/a/b#files=%', /%25/],
  ])) {
    assert.throws(() => typed(text), refusal(said), text);
    assert.throws(() => typed(text), (/** @type {Error} */ { message }) => !/secret|undefined/.test(message));
  }
  const gpt2 = new Gpt2Web();
  for (const load of [() => gpt2.loadFrom(/** @type {any} */ (undefined)), () => gpt2.loadFrom(/** @type {any} */ (7)), () => gpt2.loadUrl(/** @type {any} */ (undefined)), () => gpt2.loadUrl([/** @type {any} */ (null)]), () => gpt2.loadUrl([]),
    () => gpt2.loadRepo('a/b', { revision: /** @type {any} */ (7) }), () => gpt2.loadRepo('a/b', { files: /** @type {any} */ ('x.gguf') }), () => gpt2.loadRepo('a/b', { files: [] })]) {
    await assert.rejects(load, refusal(/address|revision|files/));
  }
  for (const repo of ['', 'a/b/c', '../x', 'a/..', '.', undefined]) await assert.rejects(gpt2.loadRepo(/** @type {any} */ (repo)), refusal(/owner\/name/));
});
