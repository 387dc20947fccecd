import { integer, megabytes } from './format.js';

/** @typedef {import('../client/progress.js').Progress} Progress */
/** @typedef {import('../types/ModelInfo').ModelInfo} ModelInfo */
/** @typedef {import('../gpt2-web.js').Gpt2Web} Gpt2Web */

/** The part of the bar at which each stage begins; the next one's beginning is its end. */
const BEGINS = { download: 0, read: 0.55, weights: 0.7, tokenizer: 0.92 };

/** One bar over all stages of a load, and what it is doing in words. */
export class LoadProgress {
  #bar;
  #status;
  #reached = 0;

  /** @param {HTMLProgressElement} bar @param {HTMLElement} status */
  constructor(bar, status) {
    this.#bar = bar;
    this.#status = status;
  }

  begin() {
    this.#reached = 0;
    this.#bar.hidden = false;
    this.#bar.removeAttribute('value');
    this.#status.textContent = 'loading';
  }

  /** @param {Progress} progress */
  report({ stage, done, total }) {
    this.#status.textContent = words(stage, done, total);
    const begin = BEGINS[stage];
    const end = Math.min(...Object.values(BEGINS).filter((next) => next > begin), 1);
    this.#reached = Math.max(this.#reached, begin + (total ? done / total : 0) * (end - begin));
    if (this.#reached > 0) this.#bar.value = this.#reached;
  }

  end() {
    this.#bar.hidden = true;
  }
}

/** @param {Progress['stage']} stage @param {number} done @param {number | null} total */
function words(stage, done, total) {
  const bytes = total === null ? megabytes(done) : `${megabytes(done)} of ${megabytes(total)}`;
  switch (stage) {
    case 'download': return `downloading ${bytes}`;
    case 'read': return `reading ${bytes}`;
    case 'weights': return `preparing weights, ${integer(done)}${total === null ? '' : ` of ${integer(total)}`}`;
    case 'tokenizer': return 'building the tokenizer';
  }
}

/** @param {number} count of parameters */
export const parameters = (count) => (count >= 1e6 ? `${(count / 1e6).toFixed(count < 1e8 ? 1 : 0)} M` : integer(count));

/** @param {ModelInfo} model @param {number} loadMs @returns {[string, string][]} */
export function modelFacts(model, loadMs) {
  return [
    ['parameters', parameters(model.parameters)],
    ['precision', model.precision],
    ['layers × width', `${model.n_layer} × ${model.n_embd}, ${model.n_head} heads`],
    ['context', `${integer(model.context_length)} positions`],
    ['loaded in', `${(loadMs / 1000).toFixed(2)} s`],
    ['SHA-256', `${model.sha256.slice(0, 12)}…`],
  ];
}

/**
 * What the picked files need beside them: a safetensors without a tokenizer gets GPT-2's, from the embedded model.
 * @param {readonly File[]} picked @param {Gpt2Web} gpt2
 * @returns {Promise<{ name: string, files: import('../types/ModelFile').ModelFile[] }>}
 */
export async function modelFrom(picked, gpt2) {
  const files = picked.map((file) => ({ name: file.name, blob: /** @type {Blob} */ (file) }));
  const has = (/** @type {RegExp} */ name) => files.find((file) => name.test(file.name));
  const weights = has(/\.safetensors$/i) ?? has(/\.gguf$/i) ?? files[0];
  const name = (weights?.name ?? 'model').replace(/\.(gguf|safetensors)$/i, '');
  if (has(/\.safetensors$/i) && !has(/\.gguf$/i) && !has(/^(tokenizer\.json|vocab\.json|merges\.txt)$/i)) {
    files.push({ name: 'tokenizer.gguf', blob: await gpt2.embedded() });
  }
  return { name, files };
}
