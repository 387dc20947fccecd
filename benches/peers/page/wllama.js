// wllama: llama.cpp compiled to WebAssembly.
// @ts-ignore: a path of the served page
import { Wllama } from '/packages/@wllama/wllama/esm/index.min.js';

/**
 * A word of one token. wllama takes a prompt as text, so a prompt of n tokens is n times this word. It is also made the
 * likeliest token, because random tokens are not valid text, and wllama fails with those.
 */
const WORD = { id: 262, text: ' the' };
const logger = { debug() {}, log() {}, warn: console.warn, error: console.error };
const wllama = new Wllama({ default: '/packages/@wllama/wllama/esm/wasm/wllama.wasm' }, { logger });

/** @type {import('../browsers.mjs').Peer} */
export const peer = {
  async load(model) {
    const file = await (await fetch(model)).blob();
    await wllama.loadModel([file], { n_threads: 1, n_gpu_layers: 0, n_ctx: 1024, n_parallel: 1, warmup: false });
  },
  async run(prompt_tokens, steps) {
    const start = performance.now();
    const times = [];
    let evaluated;
    const stream = await wllama.createCompletion({
      prompt: WORD.text.repeat(prompt_tokens), cache_prompt: false, max_tokens: steps + 1, ignore_eos: true,
      temperature: 0, top_k: 1, logit_bias: [[WORD.id, 100]], stream: true, timings_per_token: true,
    });
    for await (const { timings } of stream) {
      if (!timings) continue;
      evaluated = timings.prompt_n;
      // The end of the stream is a separate message.
      if (timings.predicted_n > times.length) times.push(performance.now() - start);
    }
    if (evaluated !== prompt_tokens) throw new Error(`wllama evaluated ${evaluated} tokens of a prompt of ${prompt_tokens}`);
    return times;
  },
};
