/** Small files beside the weights, under the names they are published with (a test compares them with src/gpt2/checkpoint/names.rs). */

export const COMPANIONS = Object.freeze(/** @type {const} */ ([
  'config.json', 'vocab.json', 'merges.txt', 'tokenizer.json', 'encoder.json', 'vocab.bpe', 'tokenizer_config.json',
  'special_tokens_map.json', 'added_tokens.json', 'generation_config.json', 'preprocessor_config.json',
]));
/** @typedef {typeof COMPANIONS[number]} Companion */
