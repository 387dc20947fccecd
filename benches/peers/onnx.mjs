// An ONNX file of GPT-2 with seeded random weights, in the form that transformers.js publishes as `q8`. Products with weights
// are products of bytes (dynamically quantised activations, MatMulInteger), and everything else is f32. The same graph is
// used for the prompt, with an empty cache, and for each step.
import { mkdir, open, rename, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { POSITIONS, VOCAB, randomNumbers } from '../../tests/support/shapes.mjs';

/** @typedef {import('../../tests/support/shapes.mjs').Shape} Shape */
/** @typedef {Buffer | Encoded[]} Encoded bytes, in pieces so that those of the weights need no copy */
/** @typedef {'float' | 'int8' | 'int64' | 'bool'} Type */

/** The numbers of `TensorProto.DataType`. @type {Record<Type, number>} */
const TYPES = { float: 1, int8: 3, int64: 7, bool: 9 };
/** Version of the files' contents; a model of another version is written again. */
const VERSION = 1;
/** Versions of the operators and of the file format. */
const OPSET = 17;
const FORMAT = 8;
/** Scale of weights that are uniform in -127..127; as in the GGUF files. */
const WEIGHT_SCALE = 0.035 / 127;
/** Bytes of random weights, which repeat. A prime, so no two rows of a matrix are equal. */
const RANDOM = 4194301;

// Protocol buffers: a message is a series of fields; each one is a tag with a number, or with a length and bytes.

/** @param {number} number an integer, not negative */
function varint(number) {
  const bytes = [];
  for (; number >= 0x80; number = Math.floor(number / 0x80)) bytes.push((number % 0x80) | 0x80);
  return Buffer.from([...bytes, number]);
}

/** @param {Encoded} encoded @returns {number} */
const size = (encoded) => (Buffer.isBuffer(encoded) ? encoded.length : encoded.reduce((sum, part) => sum + size(part), 0));

/** @param {Encoded} encoded @returns {Generator<Buffer>} its bytes, in order */
function* pieces(encoded) {
  if (Buffer.isBuffer(encoded)) yield encoded;
  else for (const part of encoded) yield* pieces(part);
}

/** @param {number} field @param {number} number @returns {Encoded} */
const number = (field, number) => Buffer.concat([varint(field << 3), varint(number)]);
/** @param {number} field @param {...Encoded} parts @returns {Encoded} */
const message = (field, ...parts) => [varint((field << 3) | 2), varint(size(parts)), parts];
/** @param {number} field @param {string} text */
const string = (field, text) => message(field, Buffer.from(text));

/** An input or output of the model. @param {number} field @param {string} name @param {Type} type @param {(number | string)[]} dims sizes, or names of variable ones */
function value(field, name, type, dims) {
  const shape = dims.map((dim) => message(1, typeof dim === 'number' ? number(1, dim) : string(2, dim)));
  return message(field, string(1, name), message(2, message(1, number(1, TYPES[type]), message(2, ...shape))));
}

/** The nodes and weights of a graph. Each method adds one and returns the name of its result. */
class Graph {
  /** @type {Encoded[]} */ parts = [];
  #names = 0;

  /** @param {Type} type @param {number[]} dims @param {Uint8Array | Float32Array | Int8Array | BigInt64Array} data little-endian */
  tensor(type, dims, data) {
    const name = `tensor_${this.#names++}`;
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    this.parts.push(message(5, ...dims.map((dim) => number(1, dim)), number(2, TYPES[type]), string(8, name), message(9, bytes)));
    return name;
  }

  /** @param {...number} numbers */
  floats(...numbers) {
    return this.tensor('float', numbers.length === 1 ? [] : [numbers.length], Float32Array.from(numbers));
  }

  /** A list of integers. @param {...number} numbers */
  ints(...numbers) {
    return this.tensor('int64', [numbers.length], BigInt64Array.from(numbers, BigInt));
  }

  /** A node with several results. @param {string} op @param {string[]} inputs @param {Record<string, number | number[]>} attributes @param {string[]} outputs */
  nodes(op, inputs, attributes, outputs) {
    const encoded = Object.entries(attributes).map(([name, value]) => (Array.isArray(value)
      ? message(5, string(1, name), ...value.map((item) => number(8, item)), number(20, 7))
      : message(5, string(1, name), number(3, value), number(20, 2))));
    this.parts.push(message(1, ...inputs.map((name) => string(1, name)), ...outputs.map((name) => string(2, name)), string(4, op), ...encoded));
    return outputs;
  }

  /** @param {string} op @param {string[]} inputs @param {Record<string, number | number[]>} [attributes] integers @param {string} [output] its name, if it is fixed */
  node(op, inputs, attributes = {}, output = `${op}_${this.#names++}`) {
    this.nodes(op, inputs, attributes, [output]);
    return output;
  }

  /** @param {string} op @param {number} count of results @param {string[]} inputs @param {Record<string, number>} [attributes] */
  several(op, count, inputs, attributes = {}) {
    return this.nodes(op, inputs, attributes, Array.from({ length: count }, () => `${op}_${this.#names++}`));
  }
}

/** An endless series of random weights. */
class Weights {
  #bytes = new Int8Array(RANDOM);
  #at = 0;

  constructor() {
    const next = randomNumbers();
    for (let i = 0; i < RANDOM; i++) this.#bytes[i] = Math.round((next() / 2 ** 32 - 0.5) * 254);
  }

  /** @param {number} count */
  int8(count) {
    const bytes = new Int8Array(count);
    for (let at = 0; at < count;) {
      const piece = this.#bytes.subarray(this.#at, this.#at + count - at);
      bytes.set(piece, at);
      at += piece.length;
      this.#at = (this.#at + piece.length) % RANDOM;
    }
    return bytes;
  }

  /** @param {number} count */
  float(count) {
    return Float32Array.from(this.int8(count), (weight) => weight * WEIGHT_SCALE);
  }
}

/** @param {Shape} shape @returns {Encoded} the file */
function model({ n_layer, n_head, n_embd }) {
  const graph = new Graph();
  const weights = new Weights();
  const one = graph.ints(1);
  const zero = graph.tensor('int8', [], new Int8Array(1));
  const scale = graph.floats(WEIGHT_SCALE);

  /** @param {string} input @param {number} inputs @param {number} outputs */
  const product = (input, inputs, outputs) => {
    const [bytes, input_scale, input_zero] = /** @type {[string, string, string]} */ (graph.several('DynamicQuantizeLinear', 3, [input]));
    const weight = graph.tensor('int8', [inputs, outputs], weights.int8(inputs * outputs));
    const sums = graph.node('Cast', [graph.node('MatMulInteger', [bytes, weight, input_zero, zero])], { to: TYPES.float });
    return graph.node('Mul', [sums, graph.node('Mul', [input_scale, scale])]);
  };
  /** @param {string} input @param {number} inputs @param {number} outputs */
  const linear = (input, inputs, outputs) =>
    graph.node('Add', [product(input, inputs, outputs), graph.tensor('float', [outputs], weights.float(outputs))]);
  /** @param {string} input Its epsilon is ONNX's default, which is GPT-2's too. */
  const norm = (input) => graph.node('LayerNormalization', [
    input, graph.tensor('float', [n_embd], new Float32Array(n_embd).fill(1)), graph.tensor('float', [n_embd], weights.float(n_embd)),
  ]);

  /** The keys that a query sees: those up to its position that are not padding. */
  const mask = () => {
    const scalar = (/** @type {string} */ list) => graph.node('Squeeze', [list]);
    const past = scalar(graph.node('Shape', ['past_key_values.0.key'], { start: 2, end: 3 }));
    const total = scalar(graph.node('Shape', ['attention_mask'], { start: 1, end: 2 }));
    const step = scalar(one);
    const keys = graph.node('Range', [graph.node('Sub', [step, step]), total, step]);
    const queries = graph.node('Unsqueeze', [graph.node('Range', [past, total, step]), one]);
    const real = graph.node('Unsqueeze', [graph.node('Cast', ['attention_mask'], { to: TYPES.bool }), graph.ints(1, 2)]);
    const visible = graph.node('And', [graph.node('LessOrEqual', [keys, queries]), real]);
    return graph.node('Where', [visible, graph.floats(0), graph.floats(-3.4028234663852886e38)]);
  };

  const split = graph.ints(0, 0, n_head, n_embd / n_head);
  const joined = graph.ints(0, 0, n_embd);
  const attention_scale = graph.floats(1 / Math.sqrt(n_embd / n_head));
  /** @param {string} input @param {string} visible @param {number} layer */
  const attention = (input, visible, layer) => {
    const parts = graph.several('Split', 3, [linear(input, n_embd, 3 * n_embd)], { axis: 2 });
    const [query, key, value] = /** @type {[string, string, string]} */ (parts.map((part) =>
      graph.node('Transpose', [graph.node('Reshape', [part, split])], { perm: [0, 2, 1, 3] })));
    const keys = graph.node('Concat', [`past_key_values.${layer}.key`, key], { axis: 2 }, `present.${layer}.key`);
    const values = graph.node('Concat', [`past_key_values.${layer}.value`, value], { axis: 2 }, `present.${layer}.value`);
    const scores = graph.node('MatMul', [query, graph.node('Transpose', [keys], { perm: [0, 1, 3, 2] })]);
    const masked = graph.node('Add', [graph.node('Mul', [scores, attention_scale]), visible]);
    const mixed = graph.node('MatMul', [graph.node('Softmax', [masked], { axis: 3 }), values]);
    return linear(graph.node('Reshape', [graph.node('Transpose', [mixed], { perm: [0, 2, 1, 3] }), joined]), n_embd, n_embd);
  };

  const [half, three, cubic, root] = [0.5, 3, 0.044715, Math.sqrt(2 / Math.PI)].map((number) => graph.floats(number));
  const unit = graph.floats(1);
  /** In the operators that exporters use; onnxruntime fuses them. @param {string} x */
  const gelu = (x) => {
    const inner = graph.node('Add', [x, graph.node('Mul', [graph.node('Pow', [x, String(three)]), String(cubic)])]);
    const tanh = graph.node('Tanh', [graph.node('Mul', [inner, String(root)])]);
    return graph.node('Mul', [graph.node('Mul', [x, String(half)]), graph.node('Add', [tanh, unit])]);
  };

  const rows = graph.node('Gather', [graph.tensor('int8', [VOCAB, n_embd], weights.int8(VOCAB * n_embd)), 'input_ids']);
  const places = graph.node('Gather', [graph.tensor('float', [POSITIONS, n_embd], weights.float(POSITIONS * n_embd)), 'position_ids']);
  let x = graph.node('Add', [graph.node('DequantizeLinear', [rows, scale, zero]), places]);
  const visible = mask();
  for (let layer = 0; layer < n_layer; layer++) {
    x = graph.node('Add', [x, attention(norm(x), visible, layer)]);
    x = graph.node('Add', [x, linear(gelu(linear(norm(x), n_embd, 4 * n_embd)), 4 * n_embd, n_embd)]);
  }
  graph.node('Identity', [product(norm(x), n_embd, VOCAB)], {}, 'logits');

  const caches = Array.from({ length: n_layer }, (_, layer) => [`${layer}.key`, `${layer}.value`]).flat();
  const cache = (/** @type {string} */ length) => ['batch', n_head, length, n_embd / n_head];
  const ports = [
    value(11, 'input_ids', 'int64', ['batch', 'sequence']),
    value(11, 'attention_mask', 'int64', ['batch', 'total']),
    value(11, 'position_ids', 'int64', ['batch', 'sequence']),
    ...caches.map((name) => value(11, `past_key_values.${name}`, 'float', cache('past'))),
    value(12, 'logits', 'float', ['batch', 'sequence', VOCAB]),
    ...caches.map((name) => value(12, `present.${name}`, 'float', cache('total'))),
  ];
  return [number(1, FORMAT), message(7, ...graph.parts, string(2, 'gpt2'), ...ports), message(8, string(1, ''), number(2, OPSET))];
}

/**
 * Writes a model folder for transformers.js, unless it exists.
 * @param {string} folder to create it in
 * @param {string} name of the shape
 * @param {Shape} shape
 * @returns {Promise<string>} its name
 */
export async function onnxModel(folder, name, shape) {
  const model_name = `${name}-random-v${VERSION}-int8`;
  const path = join(folder, model_name, 'onnx', 'model_quantized.onnx');
  if (await stat(path).catch(() => null)) return model_name;
  await mkdir(dirname(path), { recursive: true });
  const config = {
    model_type: 'gpt2', architectures: ['GPT2LMHeadModel'], ...shape, n_positions: POSITIONS, vocab_size: VOCAB,
    bos_token_id: VOCAB - 1, eos_token_id: VOCAB - 1,
  };
  await writeFile(join(folder, model_name, 'config.json'), JSON.stringify(config));
  // Renamed when it is complete.
  const file = await open(`${path}.part`, 'w');
  try {
    for (const piece of pieces(model(shape))) await file.appendFile(piece);
  } finally {
    await file.close();
  }
  await rename(`${path}.part`, path);
  return model_name;
}
