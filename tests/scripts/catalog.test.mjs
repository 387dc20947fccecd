import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { computed } from '../../scripts/catalog.mjs';
import { parameters } from '../../scripts/memory.mjs';

test('the numbers of the catalogue follow from the shapes', async () => {
  /** @type {import('../../www/client/catalog.js').Catalog} */ const catalog = JSON.parse(await readFile(new URL('../../www/models/catalog.json', import.meta.url), 'utf8'));
  assert.deepEqual(catalog, computed(catalog), 'run: node scripts/catalog.mjs');
  assert.deepEqual(catalog.models.map(({ name }) => name), ['fairy-12m', 'distilgpt2', 'gpt2', 'gpt2-medium', 'gpt2-large', 'gpt2-xl']);
  // The published counts. A file in f32 has four bytes per weight, a header, and masks.
  assert.deepEqual(catalog.models.slice(1).map(({ shape }) => parameters(shape)), [81_912_576, 124_439_808, 354_823_168, 774_030_080, 1_557_611_200]);
  for (const { repo, download, parameters } of catalog.models) if (repo) assert.ok(download / parameters > 4 && download / parameters < 4.5);
});
