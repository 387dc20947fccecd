// `./build.sh generate`: what it writes where, and how it ends.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

/**
 * @param {string[]} args
 * @param {(child: import('node:child_process').ChildProcessWithoutNullStreams, text: string) => void} [onText] hears of every piece of output
 * @returns {Promise<{ code: number | null, out: string, err: string }>}
 */
function generate(args, onText) {
  const child = spawn(process.execPath, ['scripts/generate.mjs', '--site', /** @type {string} */ (process.env.GPT2_WEB_SITE), ...args]);
  let [out, err] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text) => { out += text; onText?.(child, out); });
  child.stderr.setEncoding('utf8').on('data', (text) => { err += text; });
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, out, err })));
}

test('one seed gives one text; standard error has one line about it; the record says the same', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gpt2-web-'));
  const args = ['Once upon a time', '--max-tokens', '12', '--seed=7'];
  const first = await generate([...args, '--json', join(folder, 'record.json')]);
  const record = JSON.parse(await readFile(join(folder, 'record.json'), 'utf8'));
  await rm(folder, { recursive: true });
  assert.equal(first.code, 0, first.err);
  assert.match(first.err, /^\[max_tokens: 12 tokens, first after \d+ ms, [\d.]+ tokens\/s\]\n$/);
  assert.equal(first.out, `${record.text}\n`);
  assert.deepEqual([record.settings.seed, record.token_ids.length], [7, 12]);
  assert.equal((await generate(args)).out, first.out);
});

/** The run goes on while this test reads: on a busy machine it may be over first, and is tried again. */
const TRIES = 10;

test('text comes piece by piece', async () => {
  const lengths = new Set();
  // All of it at once would be no stream, however often.
  for (let tries = 0; tries < TRIES && lengths.size < 3; tries++) {
    lengths.clear();
    const { code } = await generate(['Once upon a time', '--max-tokens', '400', '--seed', '7'], (_, out) => lengths.add(out.length));
    assert.equal(code, 0);
  }
  assert.ok(lengths.size >= 3, `the output came in ${lengths.size} pieces`);
});

test('--stop may be given several times', async () => {
  const args = ['Once upon a time', '--temperature', '0', '--max-tokens', '30'];
  const { out } = await generate(args);
  const stop = out.trimEnd().slice(-6, -2);
  const cut = await generate([...args, '--stop', 'never written', '--stop', stop]);
  assert.equal(cut.out, `${out.slice(0, out.indexOf(stop))}\n`);
  assert.match(cut.err, /^\[stop_string /);
});

test('what cannot be understood is refused in a sentence', async () => {
  for (const [args, said] of /** @type {[string[], RegExp][]} */ ([
    [[], /prompt is missing/],
    [['one', 'two'], /one prompt/],
    [['a', '--seed'], /--seed needs a value/],
    [['a', '--max-token', '3'], /no option `max_token`; did you mean `max_tokens`/],
    [['a', '--temperature', 'hot'], /temperature/],
    [['a', '--top-p', '2'], /top_p/],
    [['a', '--json', 'no such folder/record.json'], /the record could not be written: .*no such folder/],
  ])) {
    const { code, out, err } = await generate(args);
    assert.deepEqual([code, out], [2, ''], err);
    assert.match(err, said);
  }
});

test('Ctrl-C ends the run, not only the program', async () => {
  let end;
  for (let tries = 0; tries < TRIES && !/^\[cancelled: /.test(end?.err ?? ''); tries++) {
    let interrupted = false;
    end = await generate(['Once upon a time', '--max-tokens', '100000'], (child, out) => {
      if (interrupted || out.length < 20) return;
      interrupted = true;
      child.kill('SIGINT');
    });
  }
  assert.match(end?.err ?? '', /^\[cancelled: /);
  assert.equal(end?.code, 130);
});
