// Files that cannot be loaded, each refused on the page in a sentence of its own; and the page goes on.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { SHAPES, header, config as shapeConfig } from '../support/shapes.mjs';
import { BROWSERS, Site } from '../support/harness.mjs';

const PLAIN = 'tests/fixtures/checkpoints/plain-f32';

/** @typedef {{ dtype: string, shape: number[], data_offsets: [number, number] }} Entry */
/** @typedef {{ [name: string]: Entry }} Header */

const weights = await readFile(`${PLAIN}/model.safetensors`);
const config = await readFile(`${PLAIN}/config.json`, 'utf8');
const tokenizer = await readFile('tests/fixtures/tiny-tokenizer/tokenizer.json', 'utf8');
const vocab = await readFile('tests/fixtures/tiny-tokenizer/vocab.json', 'utf8');
const gguf = await readFile('tests/fixtures/gguf/f32.gguf');
const headerBytes = Number(weights.readBigUInt64LE());
const data = weights.subarray(8 + headerBytes);

/** The plain checkpoint's weights with another header, or other data. @param {(header: Header, data: Buffer) => Buffer | void} edit */
function edited(edit) {
  const header = JSON.parse(weights.subarray(8, 8 + headerBytes).toString());
  const copy = Buffer.from(data);
  const after = edit(header, copy) ?? copy;
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, after]);
}

/** @param {Header} header @param {string} end of a tensor's name @returns {[string, Entry]} */
const tensor = (header, end) => /** @type {[string, Entry]} */ (Object.entries(header).find(([name]) => name.endsWith(end)));

/** @type {{ what: string, files: { [name: string]: string | Buffer }, says: RegExp }[]} */
const REFUSED = [
  { what: 'an HTML page', files: { 'model.gguf': '<!doctype html><title>404</title>' }, says: /HTML page/ },
  { what: 'a ZIP', files: { 'pytorch_model.bin': Buffer.from('PK\x03\x04rest', 'latin1') }, says: /ZIP archive/ },
  { what: 'a pickle', files: { 'model.bin': Buffer.from('\x80\x02}q\x00', 'latin1') }, says: /pickle/ },
  { what: 'ONNX', files: { 'model.onnx': Buffer.from([0x08, 0x07, 0x12, 0x07]) }, says: /ONNX/ },
  { what: 'a truncated GGUF', files: { 'model.gguf': gguf.subarray(0, gguf.length - 1000) }, says: /cut short|download it again/ },
  { what: 'truncated safetensors', files: { 'model.safetensors': weights.subarray(0, -1000) }, says: /cut short|download it again/ },
  {
    what: 'overlapping offsets',
    files: { 'model.safetensors': edited((header) => { tensor(header, 'ln_f.weight')[1].data_offsets[0] -= 4; }) },
    says: /begins at byte|download/,
  },
  {
    what: 'offsets that leave the file',
    files: { 'model.safetensors': edited((header) => { for (const { data_offsets } of Object.values(header)) if (data_offsets?.[1] === data.length) data_offsets[1] += 1 << 20; }) },
    says: /download|bytes/,
  },
  {
    what: 'a header larger than the file',
    files: { 'model.safetensors': Buffer.concat([Buffer.from([0xff, 0xff, 0xff, 0, 0, 0, 0, 0]), Buffer.from('{"a":1}')]) },
    says: /header/,
  },
  { what: 'an unknown dtype', files: { 'model.safetensors': edited((header) => { tensor(header, 'ln_f.weight')[1].dtype = 'F4'; }) }, says: /F4/ },
  {
    what: 'a missing tensor',
    files: {
      'model.safetensors': edited((header) => {
        const [name, entry] = tensor(header, 'h.1.mlp.c_fc.bias');
        header['h.1.attn.masked_bias'] = entry;
        delete header[name];
      }),
    },
    says: /h\.1\.mlp\.c_fc\.bias/,
  },
  {
    what: 'an unexpected tensor',
    files: {
      'model.safetensors': edited((header, bytes) => {
        header['h.0.adapter.weight'] = { dtype: 'F32', shape: [2], data_offsets: [data.length, data.length + 8] };
        return Buffer.concat([bytes, Buffer.alloc(8)]);
      }),
    },
    says: /h\.0\.adapter\.weight/,
  },
  { what: 'a wrong shape', files: { 'model.safetensors': edited((header) => { tensor(header, 'wte.weight')[1].shape.reverse(); }) }, says: /\[\d+, \d+\].*\[\d+, \d+\]/ },
  {
    what: 'weights that are no numbers',
    files: { 'model.safetensors': edited((header, bytes) => { bytes.writeFloatLE(NaN, tensor(header, 'h.0.attn.c_attn.weight')[1].data_offsets[0]); }) },
    says: /c_attn\.weight/,
  },
  { what: 'another architecture', files: { 'model.safetensors': weights, 'config.json': '{"model_type": "llama"}' }, says: /llama/ },
  { what: 'a field that would change the result', files: { 'model.safetensors': weights, 'config.json': config.replace('{', '{"add_cross_attention": true,') }, says: /add_cross_attention/ },
  { what: 'a tokenizer without merges', files: { 'model.safetensors': weights, 'config.json': config, 'vocab.json': vocab }, says: /merges/ },
  {
    what: 'a vocabulary of another model',
    files: {
      'model.safetensors': weights, 'config.json': config, 'merges.txt': await readFile('tests/fixtures/gpt2-tokenizer/merges.txt'),
      'vocab.json': await readFile('tests/fixtures/gpt2-tokenizer/vocab.json'),
    },
    says: /50257.*300/,
  },
  { what: 'a missing shard', files: {
    'model-00001-of-00002.safetensors': await readFile('tests/fixtures/checkpoints/sharded-f32/model-00001-of-00002.safetensors'),
    'model.safetensors.index.json': await readFile('tests/fixtures/checkpoints/sharded-f32/model.safetensors.index.json'),
    'config.json': config,
  }, says: /model-00002-of-00002/ },
];

/** What weights come with: without it they would be refused before they are looked at. @param {{ [name: string]: string | Buffer }} files */
const beside = (files) => ('model.safetensors' in files ? { 'config.json': config, ...('vocab.json' in files ? {} : { 'tokenizer.json': tokenizer }) } : {});

for (const browser of BROWSERS) {
  describe(`files that cannot be loaded in ${browser}`, () => {
    /** @type {Site} */ let site;
    /** @type {string} */ let folder;
    before(async () => {
      site = await Site.open(browser);
      folder = await mkdtemp(join(tmpdir(), 'gpt2-web-'));
    });
    after(async () => {
      await site.close();
      await rm(folder, { recursive: true });
    });

    test('each is refused in a sentence, and the page goes on', async () => {
      const visit = await site.served();
      const before = parseFloat(await visit.fact('worker memory'));
      for (const [index, { what, files, says }] of REFUSED.entries()) {
        const paths = [];
        for (const [name, contents] of Object.entries({ ...beside(files), ...files })) {
          const path = join(folder, name);
          await writeFile(path, contents);
          paths.push(path);
        }
        await visit.pick(...paths);
        assert.match((await visit.result()).error, says, what);
        if (index % 5 === 0) assert.equal((await visit.run('Once upon a time', { max_tokens: 3, seed: 1 })).reason, 'max_tokens', what);
        for (const path of paths) await rm(path);
      }
      assert.equal((await visit.run('Once upon a time', { max_tokens: 3, seed: 1 })).reason, 'max_tokens');

      // GPT-2 XL in f32, 6 GB of holes: refused by its header, before anything of it is read.
      const shape = /** @type {import('../support/shapes.mjs').Shape} */ (SHAPES['gpt2-xl']);
      const { bytes, data } = header(shape, 'F32');
      const [large, configuration] = [join(folder, 'model.safetensors'), join(folder, 'config.json')];
      await writeFile(large, bytes);
      await truncate(large, bytes.length + data);
      await writeFile(configuration, shapeConfig(shape));
      await visit.page.evaluate(() => {
        const choice = /** @type {HTMLSelectElement} */ (document.getElementById('precision'));
        choice.value = 'f32';
        choice.dispatchEvent(new Event('change', { bubbles: true }));
      });
      await visit.pick(large, configuration);
      assert.match((await visit.result()).error, /needs \d+ MiB of at most \d+/);

      // A worker never gives memory back: what it has now is the most it ever had. None of this took more than a few pieces
      // of a file.
      await visit.pick('tests/fixtures/gguf/f32.gguf');
      const after = parseFloat(await visit.fact('worker memory'));
      assert.ok(after <= before + 16, `${before} MB before, ${after} MB after`);
      await visit.leave();
    });
  });
}
