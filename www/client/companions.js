/** Files that may belong to a model beside its weights; src/gpt2/checkpoint/names.rs has the same list. */
const COMPANIONS = new Set([
  'config.json', 'vocab.json', 'merges.txt', 'tokenizer.json', 'encoder.json', 'vocab.bpe', 'tokenizer_config.json',
  'special_tokens_map.json', 'added_tokens.json', 'generation_config.json', 'preprocessor_config.json',
]);

/** The file that says which shard holds each tensor. @param {string} name */
export const isIndex = (name) => /\.safetensors\.index\.json$/i.test(name);

/** @param {string} name without folders */
export const isCompanion = (name) => COMPANIONS.has(name.toLowerCase()) || isIndex(name);
