import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';

import { computed } from '../../scripts/catalog.mjs';
import { fetchCatalog } from '../../www/client/catalog.js';
import { memoryNeeded, parameters, verdict } from '../../www/client/memory.js';
import { hostile } from './hostile-server.mjs';

test('the catalogue says what follows from the shapes', async () => {
  /** @type {import('../../www/client/catalog.js').Catalog} */ const catalog = JSON.parse(await readFile(new URL('../../www/models/catalog.json', import.meta.url), 'utf8'));
  assert.deepEqual(catalog, computed(catalog), 'run: node scripts/catalog.mjs');
  assert.deepEqual(catalog.models.map(({ name }) => name), ['fairy-12m', 'distilgpt2', 'gpt2', 'gpt2-medium', 'gpt2-large', 'gpt2-xl']);
  // The published counts; f32 files hold four bytes of each, a header, and masks that are not weights.
  assert.deepEqual(catalog.models.slice(1).map(({ shape }) => parameters(shape)), [81_912_576, 124_439_808, 354_823_168, 774_030_080, 1_557_611_200]);
  for (const { repo, download, parameters } of catalog.models) if (repo) assert.ok(download / parameters > 4 && download / parameters < 4.5);
});

test('whether a model fits', () => {
  const xl = { n_layer: 48, n_embd: 1600, n_ctx: 1024, n_vocab: 50257 };
  assert.equal(verdict(memoryNeeded(xl, 'f32')).fits, 'no');
  assert.equal(verdict(memoryNeeded(xl, 'q4_0')).fits, 'yes');
  assert.match(verdict(memoryNeeded(xl, 'q4_0'), 1).why, /this device has about 1 GiB/);
  assert.equal(verdict(memoryNeeded(xl, 'q4_0'), 2).fits, 'perhaps');
  assert.equal(verdict(memoryNeeded({ ...xl, n_layer: 28 }, 'f32')).fits, 'perhaps');
});

/** @type {{ [path: string]: import('./hostile-server.mjs').Behaviour }} */ const paths = {};
/** @type {Awaited<ReturnType<typeof hostile>>} */ let server;
before(async () => { server = await hostile(paths); });
after(() => server.close());

test('a list of models that is none is a sentence with its address', async () => {
  paths['catalog.json'] = { body: '{"models":[]}' };
  assert.deepEqual(await fetchCatalog(server.url('catalog.json')), { models: [] });
  for (const body of ['<!doctype html>', '{}', 'null', '']) {
    paths['catalog.json'] = { body };
    await assert.rejects(fetchCatalog(server.url('catalog.json')), /no list of models \(http:.*catalog\.json\)/);
  }
  await assert.rejects(fetchCatalog(server.url('gone.json')), /answered 404 \(http:.*gone\.json\)/);
});
