// Full-size checkpoints of random weights through the file picker, as a user opens them. Minutes and gigabytes of disk:
// `./build.sh test --large`. The figures it prints stand in docs/models.md.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Site } from '../support/harness.mjs';
import { SHAPES, config, writeSafetensors } from '../support/shapes.mjs';

const MIB = 2 ** 20;

/** @type {Site} */ let site;
/** @type {string} */ let folder;
before(async () => {
  site = await Site.open('chrome');
  folder = await mkdtemp(join(tmpdir(), 'gpt2-web-'));
});
after(async () => {
  await site.close();
  await rm(folder, { recursive: true });
});

for (const { name, type, precision, tokens } of /** @type {const} */ ([
  { name: 'gpt2', type: 'F32', precision: 'q8_0', tokens: 16 },
  { name: 'gpt2', type: 'F32', precision: 'q4_0', tokens: 16 },
  { name: 'gpt2-xl', type: 'F16', precision: 'q4_0', tokens: 2 },
])) {
  test(`${name} in ${type}, held in ${precision}, writes ${tokens} tokens`, async () => {
    const shape = SHAPES[name];
    const weights = join(folder, 'model.safetensors');
    const configuration = join(folder, 'config.json');
    const size = await writeSafetensors(weights, shape, type);
    await writeFile(configuration, config(shape));
    const visit = await site.served();
    const before = await visit.fact('worker memory');
    await visit.page.evaluate((precision) => {
      const choice = /** @type {HTMLSelectElement} */ (document.getElementById('precision'));
      choice.value = precision;
      choice.dispatchEvent(new Event('change', { bubbles: true }));
    }, precision);
    await visit.pick(weights, configuration);
    const { reason, error } = await visit.run('Once upon a time', { max_tokens: tokens, temperature: 0 });
    assert.equal(reason, 'max_tokens', error);
    console.log(`${name} ${type} ${(size / MIB).toFixed(0)} MiB as ${precision}: loaded in ${await visit.fact('loaded in')},`
      + ` memory ${await visit.fact('worker memory')} (${before} with the embedded model alone), ${await visit.fact('precision')}`);
    await visit.leave();
  });
}
