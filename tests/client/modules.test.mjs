import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';

import { COMPANIONS } from '../../www/client/companions.js';

const IMPORT = /\b(?:from|import)\s*\(?\s*'(\.[^']*)'/g;

/** Which module of the client imports which, types included. */
async function modules() {
  const inside = (await readdir('www/client', { recursive: true })).filter((name) => name.endsWith('.js')).map((name) => join('www/client', name));
  /** @type {Map<string, string[]>} */ const graph = new Map();
  for (const path of ['www/gpt2-web.js', ...inside]) {
    const source = (await readFile(path, 'utf8')).replaceAll(/^ \* {5}.*/gm, ''); // examples in comments
    const imported = [...source.matchAll(IMPORT)].map(([, to = '']) => normalize(join(dirname(path), to)));
    graph.set(path, [...new Set(imported)].filter((to) => to.endsWith('.js') && !to.startsWith('www/types/')));
  }
  return graph;
}

test('the modules of the client import each other in no circle', async () => {
  const graph = await modules();
  /** @type {Set<string>} */ const done = new Set();
  const visit = (/** @type {string} */ path, /** @type {string[]} */ trail) => {
    assert.ok(!trail.includes(path), [...trail.slice(trail.indexOf(path)), path].join(' -> '));
    if (done.has(path)) return;
    const imported = graph.get(path);
    assert.ok(imported, `${trail.at(-1)} imports ${path}, which is not there`);
    for (const to of imported) visit(to, [...trail, path]);
    done.add(path);
  };
  for (const path of graph.keys()) visit(path, []);
});

test('a folder of the client is imported by its index only', async () => {
  for (const [path, imported] of await modules()) {
    for (const to of imported) {
      const folder = dirname(to);
      const entry = folder === 'www' || folder === 'www/client' || folder === dirname(path) || to === join(folder, 'index.js');
      assert.ok(entry, `${path} imports ${to}; ${folder}/index.js is the entry`);
    }
  }
});

test('the client and the loader know the same companion files', async () => {
  const source = await readFile('src/gpt2/checkpoint/names.rs', 'utf8');
  const list = /const COMPANIONS: \[&str; \d+\] = \[([^\]]*)\]/.exec(source)?.[1];
  assert.ok(list, 'src/gpt2/checkpoint/names.rs has no COMPANIONS');
  assert.deepEqual([...COMPANIONS].sort(), [...list.matchAll(/"([^"]+)"/g)].map(([, name]) => name).sort());
});
