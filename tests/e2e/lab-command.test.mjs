// `./build.sh lab`: what it writes where, and how it ends.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { GROUPS } from '../../www/page/lab/questions.js';

/** @param {string[]} args @returns {Promise<{ code: number | null, out: string, err: string }>} */
function lab(...args) {
  const child = spawn(process.execPath, ['scripts/lab.mjs', '--site', /** @type {string} */ (process.env.GPT2_WEB_SITE), ...args]);
  let [out, err] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text) => { out += text; });
  child.stderr.setEncoding('utf8').on('data', (text) => { err += text; });
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, out, err })));
}

test('without a name it lists every experiment that the page has', async () => {
  const { code, out } = await lab();
  assert.equal(code, 0);
  const listed = [...out.matchAll(/^ {2}([a-z-]+) +(.+)$/gm)].map(([, name, question]) => [name, question]);
  const known = GROUPS.flatMap(({ questions }) => questions);
  assert.deepEqual(listed.toSorted(), known.toSorted());
  assert.match(out, /--lengths +How many tokens to generate, for each row\. \(\[8, 16, 32, 64, 128\]\)/);
});

test('rows, summary and conditions go into a file', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gpt2-web-'));
  const { code, out, err } = await lab('naive', '--lengths', '2,4', '--repeats=1', '--prompt', 'Once upon a time', '--textbook', 'false', '--json', join(folder, 'naive.json'));
  const found = JSON.parse(await readFile(join(folder, 'naive.json'), 'utf8'));
  await rm(folder, { recursive: true });
  assert.deepEqual([code, out], [0, ''], err);
  assert.equal(found.experiment, 'naive');
  assert.deepEqual(found.rows.map((/** @type {any} */ row) => [row.tokens, row.naive_positions, row.cached_positions, row.equal]), [[2, 9, 5, true], [4, 22, 7, true]]);
  assert.deepEqual([found.conditions.model, found.conditions.repeats, found.conditions.prompt], ['fairy-12m', 1, 'Once upon a time']);
  assert.match(found.conditions.model_sha256, /^[0-9a-f]{64}$/);
  assert.match(found.conditions.browser, /Chrome/);
});

test('without a file the table is printed', async () => {
  const { code, out } = await lab('eos', '--prompts', 'The end.', '--prompts', 'Once', '--n', '3');
  assert.equal(code, 0);
  const lines = out.trimEnd().split('\n');
  assert.equal(lines.length, 3);
  assert.match(lines[0] ?? '', /prompt +tokens +stop_reason/);
  assert.match(lines[1] ?? '', /"The end\."/);
});

test('what cannot be understood is refused in a sentence', async () => {
  for (const [args, said] of /** @type {[string[], RegExp][]} */ ([
    [['chek'], /no experiment `chek`; did you mean `check`/],
    [['check', 'naive'], /one experiment/],
    [['check', '--tokens', '3'], /no option `tokens`/],
    [['check', '--n', 'many'], /`n` must be a whole number/],
    [['naive', '--lengths', '1,x'], /`lengths` must be a number or a list of numbers/],
    [['check', '--json', 'no such folder/x.json'], /the results could not be written: .*no such folder/],
  ])) {
    const { code, out, err } = await lab(...args);
    assert.deepEqual([code, out], [2, ''], err);
    assert.match(err, said);
  }
});
