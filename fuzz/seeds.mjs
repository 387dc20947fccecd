// Writes the inputs the fuzzers start from: valid files of every form, as small as they can be. `node fuzz/seeds.mjs`
// makes fuzz/seeds/ anew; the files are committed, so it only has to run when a form is added.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const FUZZ = import.meta.dirname;
const fixture = (path) => readFileSync(join(FUZZ, '../tests/fixtures', path));

rmSync(join(FUZZ, 'seeds'), { recursive: true, force: true });
function write(name, bytes) {
  const path = join(FUZZ, 'seeds', name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, bytes);
}

// The tensors of a model: name in either format, shape, whether safetensors has it the other way round.
function tensors({ vocab, context, width, head }) {
  const all = [
    ['wte.weight', 'token_embd.weight', [vocab, width]],
    ['wpe.weight', 'position_embd.weight', [context, width]],
    ['ln_f.weight', 'output_norm.weight', [width]],
    ['ln_f.bias', 'output_norm.bias', [width]],
  ];
  for (const [theirs, ours, shape] of [
    ['ln_1', 'attn_norm', [width]],
    ['attn.c_attn', 'attn_qkv', [3 * width, width]],
    ['attn.c_proj', 'attn_output', [width, width]],
    ['ln_2', 'ffn_norm', [width]],
    ['mlp.c_fc', 'ffn_up', [4 * width, width]],
    ['mlp.c_proj', 'ffn_down', [width, 4 * width]],
  ]) {
    all.push([`h.0.${theirs}.weight`, `blk.0.${ours}.weight`, shape, shape.length === 2]);
    all.push([`h.0.${theirs}.bias`, `blk.0.${ours}.bias`, [shape[0]]]);
  }
  if (head) all.push(['lm_head.weight', 'output.weight', [vocab, width]]);
  return all;
}

const count = (shape) => shape.reduce((product, size) => product * size, 1);
// Small numbers that differ from each other; the same bytes are a number in each of the types.
const weights = (number, size) => Buffer.from(Array.from({ length: number * size }, (_, i) => i % size === size - 1 ? 0x3c - (i % 7 & 4) : i * 37 & 0x7f));

function safetensors(shape, dtype, size, { prefix = '', buffers = false, ...more } = {}) {
  const header = {}, data = [];
  let at = 0;
  const add = (name, dtype, shape, bytes) => {
    header[name] = { dtype, shape, data_offsets: [at, at += bytes.length] };
    data.push(bytes);
  };
  for (const [name, , dims, turned] of tensors({ ...shape, ...more })) {
    const key = name === 'lm_head.weight' ? name : prefix + name;
    add(key, dtype, turned ? dims.toReversed() : dims, weights(count(dims), size));
  }
  if (buffers) {
    add(`${prefix}h.0.attn.bias`, 'U8', [1, 1, 4, 4], Buffer.alloc(16, 1));
    add(`${prefix}h.0.attn.masked_bias`, 'F32', [], Buffer.alloc(4));
  }
  let json = JSON.stringify(header);
  json += ' '.repeat(-json.length & 7);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, Buffer.from(json), ...data]);
}

const u32 = (number) => { const bytes = Buffer.alloc(4); bytes.writeUInt32LE(number); return bytes; };
const u64 = (number) => { const bytes = Buffer.alloc(8); bytes.writeBigUInt64LE(BigInt(number)); return bytes; };
const f32 = (number) => { const bytes = Buffer.alloc(4); bytes.writeFloatLE(number); return bytes; };
const text = (string) => { const bytes = Buffer.from(string); return Buffer.concat([u64(bytes.length), bytes]); };
const VALUE = {
  u32: (number) => [u32(4), u32(number)],
  f32: (number) => [u32(6), f32(number)],
  bool: (value) => [u32(7), Buffer.from([value ? 1 : 0])],
  text: (string) => [u32(8), text(string)],
  texts: (strings) => [u32(9), u32(8), u64(strings.length), ...strings.map(text)],
  numbers: (numbers) => [u32(9), u32(5), u64(numbers.length), ...numbers.map(u32)],
};
// The types of GGUF: number, bytes of a block, numbers in it.
const TYPE = { f32: [0, 4, 1], f16: [1, 2, 1], q4_0: [2, 18, 32], q4_1: [3, 20, 32], q5_0: [6, 22, 32], q5_1: [7, 24, 32], q8_0: [8, 34, 32], bf16: [30, 2, 1] };

function gguf(shape, type, { version = 3, metadata = [], ...more } = {}) {
  const values = [
    ['general.architecture', 'text', 'gpt2'],
    ['gpt2.context_length', 'u32', shape.context],
    ['gpt2.embedding_length', 'u32', shape.width],
    ['gpt2.feed_forward_length', 'u32', 4 * shape.width],
    ['gpt2.block_count', 'u32', 1],
    ['gpt2.attention.head_count', 'u32', 2],
    ['gpt2.attention.layer_norm_epsilon', 'f32', 1e-5],
    ...metadata,
  ];
  const all = tensors({ ...shape, ...more });
  const header = [Buffer.from('GGUF'), u32(version), u64(all.length), u64(values.length)];
  for (const [key, kind, value] of values) header.push(text(key), ...VALUE[kind](value));
  const data = [];
  let at = 0;
  for (const [, name, dims] of all) {
    const [number, bytes, block] = TYPE[dims.length === 1 ? 'f32' : type];
    header.push(text(name), u32(dims.length), ...dims.toReversed().map(u64), u32(number), u64(at));
    const tensor = weights(count(dims) / block, bytes);
    const padded = Buffer.concat([tensor, Buffer.alloc(-tensor.length & 31)]);
    data.push(padded);
    at += padded.length;
  }
  const before = Buffer.concat(header);
  return Buffer.concat([before, Buffer.alloc(-before.length & 31), ...data]);
}

// The shape in config/plain.
const SMALLEST = { vocab: 8, context: 4, width: 4 };
write('safetensors/f32', safetensors(SMALLEST, 'F32', 4));
write('safetensors/f16', safetensors(SMALLEST, 'F16', 2, { prefix: 'transformer.', buffers: true }));
write('safetensors/bf16-head', safetensors(SMALLEST, 'BF16', 2, { head: true }));

for (const type of ['f32', 'f16', 'bf16']) write(`gguf/${type}`, gguf(SMALLEST, type, { head: type === 'f16' }));
for (const type of ['q8_0', 'q4_0', 'q4_1', 'q5_0', 'q5_1']) write(`gguf/${type}`, gguf({ ...SMALLEST, width: 32 }, type));
write('gguf/v2', gguf(SMALLEST, 'f32', { version: 2 }));

const json = fixture('tiny-tokenizer/tokenizer.json'), vocab = fixture('tiny-tokenizer/vocab.json');
const merges = fixture('tiny-tokenizer/merges.txt');
const { model, ...pipeline } = JSON.parse(json);
const ids = model.vocab;
const tokens = Object.keys(ids).sort((a, b) => ids[a] - ids[b]);
const lists = [
  ['tokenizer.ggml.model', 'text', 'gpt2'],
  ['tokenizer.ggml.pre', 'text', 'gpt-2'],
  // The last ones as llama.cpp's converter pads a vocabulary.
  ['tokenizer.ggml.tokens', 'texts', [...tokens, '[PAD300]', '[PAD301]']],
  ['tokenizer.ggml.token_type', 'numbers', [...tokens.map((_, id) => id === tokens.length - 1 ? 3 : 1), 5, 5]],
  ['tokenizer.ggml.merges', 'texts', model.merges.map((pair) => [pair].flat().join(' '))],
  ['tokenizer.ggml.eos_token_id', 'u32', tokens.length - 1],
  ['tokenizer.ggml.add_space_prefix', 'bool', true],
];
write('gguf/tokenizer', gguf({ ...SMALLEST, vocab: tokens.length + 2 }, 'f32', { metadata: lists }));
write('tokenizer/gguf', gguf(SMALLEST, 'f32', { metadata: lists }));

const zero = Buffer.from([0]);
const special = Buffer.from('{"eos_token": {"content": "<|endoftext|>", "lstrip": true, "rstrip": true}, "pad_token": "<pad>"}');
const config = Buffer.from('{"add_prefix_space": true, "added_tokens_decoder": {"301": {"content": "<pad>", "single_word": true}}, "tokenizer_class": "GPT2Tokenizer"}');
write('tokenizer/json', json);
write('tokenizer/json-pipeline', JSON.stringify({
  ...pipeline,
  added_tokens: [...pipeline.added_tokens, { id: 300, content: '  ', normalized: true }, { id: 301, content: '<pad>', rstrip: true, special: true }],
  pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'ByteLevel', add_prefix_space: true, use_regex: false }] },
  post_processor: { type: 'TemplateProcessing', single: [{ Sequence: { id: 'A', type_id: 0 } }] },
  model: { ...model, merges: model.merges.map((pair) => [pair].flat().join(' ')) },
}));
// Trained without all bytes, with ids that no token has, and with what belongs around a text.
const { '~': tilde, 'Ã': byte, ...some } = ids;
write('tokenizer/json-holes', JSON.stringify({
  ...pipeline,
  added_tokens: [...pipeline.added_tokens, { id: 310, content: '<s>', lstrip: true, special: true }],
  post_processor: { type: 'Sequence', processors: [{ type: 'ByteLevel' }, {
    type: 'TemplateProcessing',
    single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
    special_tokens: { '<s>': { id: '<s>', ids: [310], tokens: ['<s>'] } },
  }, { type: 'RobertaProcessing', cls: ['<s>', 310], sep: ['<|endoftext|>', 299] }] },
  model: { ...model, vocab: { ...some, '[UNK]': 305 }, unk_token: '[UNK]', fuse_unk: true },
}));
write('tokenizer/roles', Buffer.concat([vocab, zero, Buffer.from('\uFEFF\n'), merges, Buffer.from('\n\n'), zero,
  Buffer.from('{"add_bos_token": true, "add_eos_token": true, "model_max_length": NaN}'), zero,
  Buffer.from('{"bos_token": "<s>", "eos_token": "</s>"}'), zero, Buffer.from('{"<pad>": 305}'), zero,
  Buffer.from('{"eos_token_id": [299, 7, 50256, -1, null]}')]));
write('tokenizer/vocab-merges', Buffer.concat([vocab, zero, merges]));
write('tokenizer/all-files', Buffer.concat([vocab, zero, merges, zero, config, zero, special, zero, Buffer.from('{"\\n\\n": 300}')]));

write('config/plain', '{"model_type": "gpt2", "vocab_size": 8, "n_positions": 4, "n_embd": 4, "n_layer": 1, "n_head": 2}');
write('config/full', JSON.stringify({
  architectures: ['GPT2LMHeadModel'], model_type: 'gpt2', vocab_size: 8, n_positions: 4, n_ctx: 4, n_embd: 4, n_layer: 1, n_head: 2,
  n_inner: 16, activation_function: 'gelu', layer_norm_epsilon: 1e-6, scale_attn_weights: false,
  scale_attn_by_inverse_layer_idx: true, reorder_and_upcast_attn: true, tie_word_embeddings: false, add_cross_attention: false,
  pruned_heads: {}, quantization_config: null,
}, null, 2));
write('config/defaults', '{}');

const options = (name, values) => write(`options/${name}`, JSON.stringify(values));
options('none', {});
options('settings', {
  max_tokens: 5, temperature: 0.5, top_k: 40, top_p: 0.9, min_p: 0.05, repetition_penalty: 1.1, seed: 9007199254740991,
  stop: ['\n', 'the end'], timeout_ms: 1.5, top_logprobs: 3, parse_special: true,
});
options('one-stop', { stop: 'x', timeout_ms: null, seed: null });
options('no-number', { temperature: '0.5' });
options('a-typo', { max_token: 5 });
