/** What a repository has instead of a model that runs here, and what to do about it. Checked before the weights are downloaded. */

import { Gpt2Error } from '../error.js';

/** @typedef {import('./source.js').Source} Source */

/** Milliseconds to wait for an answer that is optional. */
const TIMEOUT = 10_000;
/** Tokens of GPT-2's own tokenizer, which a model without one gets. */
const GPT2_TOKENS = 50_257;

const SAVE = 'open it in Python with transformers, save it with save_pretrained(folder), which writes model.safetensors, and open that folder here';
const CONVERT = `${SAVE}; https://huggingface.co/spaces/safetensors/convert adds the same to a repository`;
/** Weights in other formats: the name, what it is, what to do. @type {readonly (readonly [string, string, string])[]} */
const OTHER_WEIGHTS = [
  ['pytorch_model.bin', 'a PyTorch pickle, which can run any code', CONVERT],
  ['pytorch_model.bin.index.json', 'sharded PyTorch pickles, which can run any code', CONVERT],
  ['tf_model.h5', 'TensorFlow\'s format', SAVE],
  ['flax_model.msgpack', 'Flax\'s format', SAVE],
  ['adapter_model.safetensors', 'a LoRA adapter, which only works with the model it was trained on', 'merge the two in Python with peft, merge_and_unload(), and save_pretrained(folder); then open that folder here'],
  ['adapter_model.bin', 'a LoRA adapter, which only works with the model it was trained on', 'merge the two in Python with peft, merge_and_unload(), and save_pretrained(folder); then open that folder here'],
  ['onnx/model.onnx', 'ONNX, a model compiled for another program', 'give the repository it was made from'],
  ['model.onnx', 'ONNX, a model compiled for another program', 'give the repository it was made from'],
  ['rust_model.ot', 'the format of rust-bert', SAVE],
];
/** Files of other kinds of tokenizers, and what they are. @type {readonly (readonly [string, string])[]} */
const OTHER_TOKENIZERS = [
  ['vocab.txt', 'WordPiece, as in BERT'], ['spiece.model', 'SentencePiece'], ['tokenizer.model', 'SentencePiece'],
  ['sentencepiece.bpe.model', 'SentencePiece'],
];

/**
 * A sentence that says what a repository without model.safetensors has instead.
 * @param {Source} source @param {AbortSignal} signal
 * @returns {Promise<string>}
 */
export async function insteadOfWeights(source, signal) {
  const listed = await listing(source, signal);
  const usable = listed?.filter((name) => /\.(gguf|safetensors)$/i.test(name) && !/^adapter_|(^|\/)onnx\//i.test(name)) ?? [];
  const [first] = usable;
  if (first && source.listing) {
    const more = usable.length > 4 ? `${usable.slice(0, 4).join(', ')}, …` : usable.join(', ');
    return `it has ${more}; give the address of the one you want, as ${source.listing.page(first)}`;
  }
  const there = listed ?? await present(source, OTHER_WEIGHTS.map(([name]) => name), signal);
  const other = OTHER_WEIGHTS.find(([name]) => there.includes(name));
  return other ? `its weights are in ${other[0]} (${other[1]}); ${other[2]}` : 'if it has a GGUF file, give the address of that';
}

/**
 * Refuses a model that cannot run here, judged by its configuration and the files beside it.
 * @param {Source} source @param {string} config config.json
 * @param {boolean} tokenizer whether there is one that this program reads @param {AbortSignal} signal
 * @throws {Gpt2Error}
 */
export async function refuseUnsupported(source, config, tokenizer, signal) {
  /** @type {{ model_type?: unknown, vocab_size?: unknown } | null} */ let says;
  try {
    says = JSON.parse(config.replace(/:\s*(NaN|-?Infinity)(?=\s*[,}])/g, ': null')); // as Python writes them
  } catch {
    return; // the worker says what is wrong with it
  }
  const type = says?.model_type;
  if (typeof type === 'string' && type !== 'gpt2') {
    throw new Gpt2Error('unsupported_model', `${source.label} is a model of the type ${type}, says its config.json, and only GPT-2 runs here; give a model whose model_type is gpt2`);
  }
  const tokens = says?.vocab_size;
  if (tokenizer || typeof tokens !== 'number' || tokens === GPT2_TOKENS) return;
  const there = await present(source, OTHER_TOKENIZERS.map(([name]) => name), signal);
  // GPT-2's vocabulary, padded.
  if (there.length === 0 && tokens > GPT2_TOKENS) return;
  const found = OTHER_TOKENIZERS.filter(([name]) => there.includes(name)).map(([name, what]) => `${name} (${what})`).join(' and ');
  throw new Gpt2Error('bad_tokenizer', `${source.label} has no tokenizer that this program reads${found ? `, only ${found}` : ''}: it reads tokenizer.json, or vocab.json with merges.txt, of a byte-level BPE. `
    + `GPT-2's own has ${GPT2_TOKENS} tokens and does not fit the ${tokens} of its config.json; give a model that comes with such a tokenizer`);
}

/** The names of all files; null if they are unknown. @param {Source} source @param {AbortSignal} signal @returns {Promise<string[] | null>} */
async function listing({ listing }, signal) {
  if (!listing) return null;
  const answer = await request(listing.url, {}, signal);
  if (!answer?.ok) return null;
  try {
    const { siblings } = await answer.json();
    return siblings.map((/** @type {{ rfilename: unknown }} */ { rfilename }) => String(rfilename));
  } catch (cause) {
    signal.throwIfAborted();
    return null; // not the answer of the API
  }
}

/** Which of `names` exist. @param {Source} source @param {readonly string[]} names @param {AbortSignal} signal */
async function present(source, names, signal) {
  const found = await Promise.all(names.map(async (name) => {
    let answer = await request(source.url(name), { method: 'HEAD' }, signal);
    if (answer && [405, 501].includes(answer.status)) answer = await request(source.url(name), {}, signal);
    await answer?.body?.cancel();
    // Some servers answer every address with a page.
    return answer?.ok === true && !/^text\/html\b/i.test(answer.headers.get('content-type') ?? '');
  }));
  return names.filter((_, at) => found[at]);
}

/** @param {URL} url @param {RequestInit} options @param {AbortSignal} signal @returns {Promise<Response | null>} null if there is no answer */
async function request(url, options, signal) {
  try {
    return await fetch(url, { ...options, cache: 'no-store', signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT)]) });
  } catch {
    signal.throwIfAborted();
    return null;
  }
}
