// Safetensors files of GPT-2's published shapes with seeded random weights, for tests and benchmarks of real size.
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';

/** @typedef {{ n_layer: number, n_head: number, n_embd: number }} Shape */

/** @satisfies {Record<string, Shape>} */
export const SHAPES = {
  gpt2: { n_layer: 12, n_head: 12, n_embd: 768 },
  'gpt2-xl': { n_layer: 48, n_head: 25, n_embd: 1600 },
};

export const VOCAB = 50257;
export const POSITIONS = 1024;
/** Bytes of random numbers, which repeat: new ones for a whole file would take longer than loading it. */
const BLOCK = 1 << 22;

/** @param {Shape} shape @returns {[name: string, shape: number[]][]} in the order of Hugging Face's files */
export function tensors({ n_layer, n_embd: n }) {
  /** @type {[string, number[]][]} */ const list = [['wte.weight', [VOCAB, n]], ['wpe.weight', [POSITIONS, n]]];
  for (let i = 0; i < n_layer; i++) {
    const block = /** @type {[string, number[]][]} */ ([
      ['ln_1.weight', [n]], ['ln_1.bias', [n]], ['attn.c_attn.weight', [n, 3 * n]], ['attn.c_attn.bias', [3 * n]],
      ['attn.c_proj.weight', [n, n]], ['attn.c_proj.bias', [n]], ['ln_2.weight', [n]], ['ln_2.bias', [n]],
      ['mlp.c_fc.weight', [n, 4 * n]], ['mlp.c_fc.bias', [4 * n]], ['mlp.c_proj.weight', [4 * n, n]], ['mlp.c_proj.bias', [n]],
    ]);
    for (const [name, shape] of block) list.push([`h.${i}.${name}`, shape]);
  }
  list.push(['ln_f.weight', [n]], ['ln_f.bias', [n]]);
  return list;
}

/** A generator of the same integers below 2^32 each time. The high bits are more random than the low ones. */
export function randomNumbers() {
  let state = 1234;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state;
  };
}

/** Bytes of numbers spread evenly over ±0.035: a deviation of 0.02, as GPT-2 begins with. @param {'F32' | 'F16'} type */
function noise(type) {
  const next = randomNumbers();
  if (type === 'F32') return Buffer.from(Float32Array.from({ length: BLOCK / 4 }, () => (next() / 2 ** 32 - 0.5) * 0.07).buffer);
  // Halves: a sign, exponents for 0.008 to 0.031, and a random mantissa.
  return Buffer.from(Uint16Array.from({ length: BLOCK / 2 }, () => {
    const random = next() >>> 8;
    return ((random & 1) << 15) | ((8 + ((random >> 1) & 1)) << 10) | ((random >> 2) & 0x3ff);
  }).buffer);
}

/**
 * The header of a checkpoint's weights, and the size of the data after it.
 * @param {Shape} shape @param {'F32' | 'F16'} type
 */
export function header(shape, type) {
  let end = 0;
  const json = JSON.stringify(Object.fromEntries(tensors(shape).map(([name, dims]) => {
    const begin = end;
    end += dims.reduce((product, dim) => product * dim, type === 'F32' ? 4 : 2);
    return [name, { dtype: type, shape: dims, data_offsets: [begin, end] }];
  })));
  const padded = Buffer.from(json.padEnd(Math.ceil(json.length / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  return { bytes: Buffer.concat([length, padded]), data: end };
}

/**
 * Writes a checkpoint's weights.
 * @param {string} path @param {Shape} shape @param {'F32' | 'F16'} type
 * @returns {Promise<number>} its size in bytes
 */
export async function writeSafetensors(path, shape, type) {
  const { bytes, data } = header(shape, type);
  const file = createWriteStream(path);
  file.write(bytes);
  const block = noise(type);
  for (let left = data; left > 0; left -= block.length) {
    if (!file.write(left < block.length ? block.subarray(0, left) : block)) await once(file, 'drain');
  }
  file.end();
  await once(file, 'finish');
  return bytes.length + data;
}

/** config.json for a shape. @param {Shape} shape */
export const config = (shape) => JSON.stringify({ model_type: 'gpt2', vocab_size: VOCAB, n_positions: POSITIONS, ...shape });
