// GGUF files of a published shape with seeded random weights and GPT-2's tokenizer. A step costs as much as with the real
// model, but the tokens make no text.
import { mkdir, open, readFile, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { POSITIONS, VOCAB, randomNumbers, tensors } from '../../tests/support/shapes.mjs';

/** @typedef {import('../../tests/support/shapes.mjs').Shape} Shape */
/** @typedef {keyof typeof TYPES} Precision */

/** Version of the files' contents; a file of another version is written again. */
const VERSION = 2;
const TOKENIZER = new URL('../../tests/fixtures/gpt2-tokenizer/', import.meta.url);
const END_OF_TEXT = '<|endoftext|>';
const EPSILON = 1e-5;
/** The tensor data and each tensor in it start at a multiple of this. */
const ALIGNMENT = 32;
/** Weights in a block of the quantised types; f32 weights are counted in blocks too. */
const BLOCK = 32;
/**
 * Number of random blocks; then they repeat. A prime above the number of rows of any matrix, so no two rows are equal, and
 * no two tokens have equal logits.
 */
const BLOCKS = 65537;
/**
 * Scale of the last norm. With weights of deviation 0.02 the logits have a deviation of about 4, like those of the trained
 * model. With a nearly flat distribution, top-p would sort the whole vocabulary.
 */
const SHARPNESS = 7;

/** Mantissas that leave a scale between 1 and 1.25 times its power of two. */
const SCALE_BITS = 8;

/**
 * A half-precision scale near 2^exponent.
 * @param {number} exponent @param {number} random below 2^32
 */
const scale = (exponent, random) => ((exponent + 15) << 10) | (random >>> (32 - SCALE_BITS));

/**
 * How a matrix is stored: the number of its type, the bytes of a block, and how to write a random one. The weights
 * spread evenly over about ±0.035.
 * @type {Record<'f32' | 'q8_0' | 'q4_0', { type: number, file_type: number, bytes: number, write: (block: DataView, next: () => number) => void }>}
 */
export const TYPES = {
  f32: {
    type: 0, file_type: 0, bytes: 4 * BLOCK,
    write: (block, next) => { for (let i = 0; i < BLOCK; i++) block.setFloat32(4 * i, (next() / 2 ** 32 - 0.5) * 0.07, true); },
  },
  q8_0: {
    type: 8, file_type: 7, bytes: 2 + BLOCK,
    write: (block, next) => {
      block.setUint16(0, scale(-12, next()), true);
      for (let i = 0; i < BLOCK; i++) block.setInt8(2 + i, Math.round((next() / 2 ** 32 - 0.5) * 254));
    },
  },
  q4_0: {
    type: 2, file_type: 2, bytes: 2 + BLOCK / 2,
    write: (block, next) => {
      block.setUint16(0, scale(-8, next()), true);
      for (let i = 0; i < BLOCK / 2; i++) block.setUint8(2 + i, next() >>> 24);
    },
  },
};

/** Names of GPT-2's parts in llama.cpp. @type {Record<string, string>} */
const NAMES = {
  wte: 'token_embd', wpe: 'position_embd', ln_f: 'output_norm',
  ln_1: 'attn_norm', 'attn.c_attn': 'attn_qkv', 'attn.c_proj': 'attn_output',
  ln_2: 'ffn_norm', 'mlp.c_fc': 'ffn_up', 'mlp.c_proj': 'ffn_down',
};

/** @typedef {{ name: string, dims: number[], type: Precision, norm: boolean, bytes: number, offset: number }} Tensor `dims` begin with the inputs. */

/** @param {Shape} shape @param {Precision} precision of the matrices @returns {Tensor[]} */
function layout(shape, precision) {
  let end = 0;
  return tensors(shape).map(([name, dims]) => {
    const [, block, part = '', kind = ''] = /** @type {RegExpExecArray} */ (/^(?:h\.(\d+)\.)?(.*)\.(weight|bias)$/.exec(name));
    const matrix = dims.length === 2 && part !== 'wpe';
    const type = matrix ? precision : 'f32';
    const offset = end;
    const bytes = dims.reduce((product, dim) => product * dim) / BLOCK * TYPES[type].bytes;
    end = Math.ceil((offset + bytes) / ALIGNMENT) * ALIGNMENT;
    return {
      name: `${block === undefined ? '' : `blk.${block}.`}${NAMES[part]}.${kind}`,
      // Hugging Face stores the matrices of a block with the inputs first, and the embeddings as GGUF lists nothing.
      dims: part === 'wte' || part === 'wpe' ? dims.toReversed() : dims,
      type, norm: part.startsWith('ln_') && kind === 'weight', bytes, offset,
    };
  });
}

/** Metadata and tensor list, in the byte order of the format's specification. */
class Writer {
  /** @type {Buffer[]} */ #parts = [];

  /** @param {number} number */
  u32(number) {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(number);
    this.#parts.push(bytes);
  }

  /** @param {number} number */
  u64(number) {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(BigInt(number));
    this.#parts.push(bytes);
  }

  /** @param {number} number */
  f32(number) {
    const bytes = Buffer.alloc(4);
    bytes.writeFloatLE(number);
    this.#parts.push(bytes);
  }

  /** @param {string} text */
  text(text) {
    const bytes = Buffer.from(text);
    this.u64(bytes.length);
    this.#parts.push(bytes);
  }

  /** A key with its value: an integer, `{ f32 }`, a text, or a list of texts or integers. @param {string} key @param {number | { f32: number } | string | string[] | number[]} value */
  entry(key, value) {
    this.text(key);
    if (typeof value === 'number') { this.u32(4); this.u32(value); }
    else if (typeof value === 'string') { this.u32(8); this.text(value); }
    else if (Array.isArray(value)) {
      this.u32(9);
      // Signed: llama.cpp accepts the types of tokens in no other form.
      this.u32(typeof value[0] === 'number' ? 5 : 8);
      this.u64(value.length);
      for (const item of value) typeof item === 'number' ? this.u32(item) : this.text(item);
    } else { this.u32(6); this.f32(value.f32); }
  }

  bytes() {
    const bytes = Buffer.concat(this.#parts);
    return Buffer.concat([bytes, Buffer.alloc(-bytes.length & (ALIGNMENT - 1))]);
  }
}

/** @param {Shape} shape @param {Precision} precision @param {Tensor[]} list */
async function header({ n_layer, n_head, n_embd }, precision, list) {
  const vocab = JSON.parse(await readFile(new URL('vocab.json', TOKENIZER), 'utf8'));
  const tokens = Object.keys(vocab).sort((a, b) => vocab[a] - vocab[b]);
  const [, ...merges] = (await readFile(new URL('merges.txt', TOKENIZER), 'utf8')).trimEnd().split('\n');
  const end = vocab[END_OF_TEXT];
  if (tokens.length !== VOCAB) throw new Error(`vocab.json has ${tokens.length} tokens, and GPT-2 ${VOCAB}`);
  /** @type {Parameters<Writer['entry']>[]} */
  const metadata = [
    ['general.architecture', 'gpt2'],
    ['general.name', 'random weights'],
    ['general.file_type', TYPES[precision].file_type],
    ['gpt2.context_length', POSITIONS],
    ['gpt2.embedding_length', n_embd],
    ['gpt2.feed_forward_length', 4 * n_embd],
    ['gpt2.block_count', n_layer],
    ['gpt2.attention.head_count', n_head],
    ['gpt2.attention.layer_norm_epsilon', { f32: EPSILON }],
    ['tokenizer.ggml.model', 'gpt2'],
    ['tokenizer.ggml.pre', 'gpt-2'],
    ['tokenizer.ggml.tokens', tokens],
    // Normal tokens, and a control token.
    ['tokenizer.ggml.token_type', tokens.map((_, id) => (id === end ? 3 : 1))],
    ['tokenizer.ggml.merges', merges],
    ['tokenizer.ggml.bos_token_id', end],
    ['tokenizer.ggml.eos_token_id', end],
  ];
  const writer = new Writer();
  writer.u32(Buffer.from('GGUF').readUInt32LE());
  writer.u32(3);
  writer.u64(list.length);
  writer.u64(metadata.length);
  for (const [key, value] of metadata) writer.entry(key, value);
  for (const { name, dims, type, offset } of list) {
    writer.text(name);
    writer.u32(dims.length);
    for (const dim of dims) writer.u64(dim);
    writer.u32(TYPES[type].type);
    writer.u64(offset);
  }
  return writer.bytes();
}

/** An endless series of random blocks of a type. @param {Precision} precision */
function blocks(precision) {
  const { bytes, write } = TYPES[precision];
  const next = randomNumbers();
  const random = Buffer.alloc(BLOCKS * bytes);
  for (let at = 0; at < random.length; at += bytes) write(new DataView(random.buffer, random.byteOffset + at, bytes), next);
  let at = 0;
  return function* take(/** @type {number} */ wanted) {
    for (let left = wanted; left > 0; ) {
      const piece = random.subarray(at, at + left);
      yield piece;
      left -= piece.length;
      at = (at + piece.length) % random.length;
    }
  };
}

/**
 * The bytes of a file, in order.
 * @param {Shape} shape @param {Precision} precision @param {Buffer} head @param {Tensor[]} list
 * @returns {Generator<Buffer>}
 */
function* contents(shape, precision, head, list) {
  yield head;
  const random = { f32: blocks('f32'), [precision]: blocks(precision) };
  let at = 0;
  for (const { name, type, norm, bytes, offset } of list) {
    if (offset > at) yield Buffer.alloc(offset - at);
    if (norm) yield Buffer.from(new Float32Array(shape.n_embd).fill(name.startsWith('output_norm') ? SHARPNESS : 1).buffer);
    else yield* /** @type {ReturnType<typeof blocks>} */ (random[type])(bytes);
    at = offset + bytes;
  }
}

/**
 * Writes a file, unless it exists.
 * @param {string} folder created if it is missing
 * @param {string} name of the shape
 * @param {Shape} shape
 * @param {Precision} precision of its matrices
 * @returns {Promise<{ path: string, bytes: number }>}
 */
export async function ggufFile(folder, name, shape, precision) {
  const list = layout(shape, precision);
  const head = await header(shape, precision, list);
  const last = /** @type {Tensor} */ (list.at(-1));
  const bytes = head.length + last.offset + last.bytes;
  const path = join(folder, `${name}-random-v${VERSION}-${precision}.gguf`);
  const there = await stat(path).catch(() => null);
  if (there?.size === bytes) return { path, bytes };
  await mkdir(folder, { recursive: true });
  // Renamed when it is complete.
  const file = await open(`${path}.part`, 'w');
  try {
    for (const piece of contents(shape, precision, head, list)) await file.appendFile(piece);
  } finally {
    await file.close();
  }
  await rename(`${path}.part`, path);
  return { path, bytes };
}
