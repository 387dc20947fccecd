import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { fetchCatalog } from '../../www/client/catalog.js';
import { verdict } from '../../www/client/memory.js';
import { hostile } from '../support/hostile-server.mjs';

test('whether a model fits', () => {
  const GIB = 2 ** 30;
  assert.equal(verdict(4.1 * GIB).fits, 'no');
  assert.equal(verdict(GIB).fits, 'yes');
  assert.match(verdict(1.1 * GIB, 1).why, /this device has about 1 GiB/);
  assert.equal(verdict(1.1 * GIB, 2).fits, 'perhaps');
  assert.equal(verdict(3.7 * GIB).fits, 'perhaps');
});

/** @type {{ [path: string]: import('../support/hostile-server.mjs').Behaviour }} */ const paths = {};
/** @type {Awaited<ReturnType<typeof hostile>>} */ let server;
before(async () => { server = await hostile(paths); });
after(() => server.close());

test('a list of models that is none is a sentence with its address', async () => {
  paths['catalog.json'] = { body: '{"models":[]}' };
  assert.deepEqual(await fetchCatalog(server.url('catalog.json')), { models: [] });
  for (const body of ['<!doctype html>', '{}', 'null', '']) {
    paths['catalog.json'] = { body };
    await assert.rejects(fetchCatalog(server.url('catalog.json')), /did not send a list of models \(http:.*catalog\.json\)/);
  }
  await assert.rejects(fetchCatalog(server.url('gone.json')), /answered 404 \(http:.*gone\.json\)/);
});
