import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fromDrop, modelFiles } from '../../www/page/selected-files.js';

/** @param {string[]} paths */
const selected = (...paths) => paths.map((path) => ({ path, file: new File(['x'], path.split('/').pop() ?? '') }));
/** @param {string[]} paths */
const chosen = (...paths) => {
  const { name, files } = modelFiles(selected(...paths));
  return [name, ...files.map((file) => file.name).sort()];
};

test('files selected one by one are all kept', () => {
  assert.deepEqual(chosen('tales.gguf'), ['tales', 'tales.gguf']);
  assert.deepEqual(chosen('config.json', 'gpt2.safetensors'), ['gpt2', 'config.json', 'gpt2.safetensors']);
  assert.deepEqual(chosen('model.safetensors'), ['model', 'model.safetensors']);
  assert.deepEqual(chosen('pytorch_model.bin'), ['pytorch_model.bin', 'pytorch_model.bin'], 'the worker knows what it is');
});

test('a folder gives its model and the files that belong to it', () => {
  assert.deepEqual(chosen('gpt2/README.md', 'gpt2/config.json', 'gpt2/merges.txt', 'gpt2/model.safetensors', 'gpt2/pytorch_model.bin', 'gpt2/onnx/config.json', 'gpt2/onnx/model.safetensors'),
    ['gpt2', 'config.json', 'merges.txt', 'model.safetensors']);
  assert.deepEqual(chosen('xl/model.safetensors.index.json', 'xl/model-00001-of-00002.safetensors', 'xl/model-00002-of-00002.safetensors', 'xl/config.json'),
    ['xl', 'config.json', 'model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors', 'model.safetensors.index.json']);
  assert.deepEqual(chosen('a/model.safetensors', 'a/b.gguf', 'a/config.json'), ['a', 'config.json', 'model.safetensors']);
  assert.deepEqual(chosen('a/model.safetensors', 'a/added_tokens.json'), ['a', 'added_tokens.json', 'model.safetensors']);
  assert.deepEqual(chosen('a/b/c.gguf', 'a/b/config.json'), ['c', 'c.gguf']);
  assert.throws(() => chosen('a/b.gguf', 'a/c.gguf'), /several models: b\.gguf, c\.gguf/);
  assert.throws(() => chosen('a/x.txt'), /The folder a has no/);
});

test('a Hugging Face cache folder whose links were not followed is refused with the reason', () => {
  const hash = 'a'.repeat(64);
  const commit = 'b'.repeat(40);
  assert.throws(() => chosen(`models--openai--gpt2/blobs/${hash}`, 'models--openai--gpt2/refs/main'), /models--openai--gpt2 is a Hugging Face cache folder.*links.*blobs.*--local-dir/);
  assert.throws(() => chosen(`blobs/${hash}`, `blobs/${'c'.repeat(40)}`), /links/);
  const empty = { path: `m/snapshots/${commit}/model.safetensors`, file: new File([], 'model.safetensors') };
  assert.throws(() => modelFiles([empty]), /links/);
  assert.deepEqual(chosen(`m/snapshots/${commit}/model.safetensors`, `m/blobs/${hash}`), [commit, 'model.safetensors'], 'where they were followed it loads');
});

test('a dropped folder is read to the end, batch by batch', async () => {
  const file = (/** @type {string} */ name) => ({ isFile: true, isDirectory: false, name, file: (/** @type {(file: File) => void} */ give) => give(new File(['x'], name)) });
  const folder = (/** @type {string} */ name, /** @type {any[][]} */ ...parts) => ({
    isFile: false, isDirectory: true, name, createReader: () => ({ readEntries: (/** @type {(entries: any[]) => void} */ give) => give(parts.shift() ?? []) }),
  });
  const entry = folder('gpt2', [file('config.json')], [folder('.git', [file('model.gguf')]), folder('onnx', [file('x.onnx')]), file('model.safetensors')]);
  const items = [{ kind: 'file', webkitGetAsEntry: () => entry, getAsFile: () => null }, { kind: 'string' },
    { kind: 'file', webkitGetAsEntry: () => null, getAsFile: () => new File(['x'], 'alone.gguf') }];
  const found = await fromDrop(/** @type {any} */ ({ items }));
  assert.deepEqual(found.map(({ path }) => path), ['gpt2/config.json', 'gpt2/onnx/x.onnx', 'gpt2/model.safetensors', 'alone.gguf']);
});
