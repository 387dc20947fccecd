// One version, wherever it is said.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

test('crates, npm package and page say one version', async () => {
  const said = async (/** @type {string} */ file, /** @type {RegExp} */ pattern) => pattern.exec(await readFile(file, 'utf8'))?.[1];
  const crate = /^version = "(.*)"$/m;
  const version = await said('Cargo.toml', crate);
  assert.match(version ?? '', /^\d+\.\d+\.\d+$/);
  for (const [file, pattern] of /** @type {const} */ ([
    ['benches/probe/Cargo.toml', crate], ['relaxed/Cargo.toml', crate], ['package.json', /"version": "(.*)"/], ['www/index.html', /<p>gpt2-web (\S+)\. /],
  ])) assert.equal(await said(file, pattern), version, file);
});
