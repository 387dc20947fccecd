import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { TYPES, ggufFile } from '../../benches/browser/gguf.mjs';

const SHAPE = { n_layer: 2, n_head: 2, n_embd: 64 };

/** @type {string} */ let folder;
before(async () => { folder = await mkdtemp(join(tmpdir(), 'gpt2-web-')); });
after(() => rm(folder, { recursive: true }));

/** One of examples/, which read files as the page does. @param {string} name @param {string[]} options */
function example(name, ...options) {
  const { status, stdout, stderr } = spawnSync('cargo', ['run', '--locked', '--quiet', '--example', name, '--', ...options], { encoding: 'utf8', maxBuffer: 1 << 26 });
  assert.equal(status, 0, stderr + stdout);
  return stdout;
}

for (const precision of /** @type {(keyof typeof TYPES)[]} */ (Object.keys(TYPES))) {
  test(`a random model in ${precision} is one that the loader takes whole`, async () => {
    const { path, bytes } = await ggufFile(folder, 'tiny', SHAPE, precision);
    assert.equal((await stat(path)).size, bytes);
    const said = example('inspect', path);
    assert.match(said, new RegExp(`^loads: yes, in ${precision}$`, 'm'));
    assert.match(said, /^tokenizer inside: 50257 tokens, 50000 merges$/m);
  });

  test(`the logits of a random model in ${precision} are those of a model that knows something`, async () => {
    const { path } = await ggufFile(folder, 'tiny', SHAPE, precision);
    const { last_logits } = /** @type {{ last_logits: number[] }} */ (JSON.parse(example('logits', path, '--ids', '464,5822,286,257')));
    assert.equal(last_logits.length, 50257);
    assert.equal(new Set(last_logits).size > 50000, true, 'hardly two are the same');
    const mean = last_logits.reduce((sum, logit) => sum + logit) / last_logits.length;
    const deviation = Math.sqrt(last_logits.reduce((sum, logit) => sum + (logit - mean) ** 2, 0) / last_logits.length);
    // It grows with the root of the width: 4 at 768 are 1.15 at 64.
    assert.ok(deviation > 0.8 && deviation < 1.6, `${deviation}`);
  });
}

test('a file that exists is kept, and one of another size is written again', async () => {
  const [first, again] = [await ggufFile(folder, 'kept', SHAPE, 'q4_0'), await ggufFile(folder, 'kept', SHAPE, 'q4_0')];
  assert.deepEqual(first, again);
  const made = async () => (await stat(first.path)).mtimeMs;
  const before = await made();
  await ggufFile(folder, 'kept', SHAPE, 'q4_0');
  assert.equal(await made(), before);
  await ggufFile(folder, 'kept', { ...SHAPE, n_layer: 1 }, 'q4_0');
  assert.notEqual((await stat(first.path)).size, first.bytes);
});
