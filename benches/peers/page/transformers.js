// transformers.js: onnxruntime compiled to WebAssembly.
// @ts-ignore: a path of the served page
import { AutoModelForCausalLM, BaseStreamer, Tensor, env } from '/packages/@huggingface/transformers/dist/transformers.min.js';

Object.assign(env, { allowRemoteModels: false, allowLocalModels: true, localModelPath: '/models/', useBrowserCache: false, useWasmCache: false });
// The runtime's build for the CPU only: the default one also supports GPUs and is slower.
const runtime = `${location.origin}/packages/onnxruntime-web/dist/ort-wasm-simd-threaded`;
Object.assign(env.backends.onnx.wasm, { numThreads: 1, wasmPaths: { mjs: `${runtime}.mjs`, wasm: `${runtime}.wasm` } });

/** @type {any} */ let model;

/** Records the time of each token. */
class Clock extends BaseStreamer {
  /** @type {number[]} */ times = [];
  #start = performance.now();
  #begun = false;

  put() {
    // The first call has the prompt.
    if (this.#begun) this.times.push(performance.now() - this.#start);
    this.#begun = true;
  }

  end() {}
}

/** @type {import('../browsers.mjs').Peer} */
export const peer = {
  async load(name) {
    model = await AutoModelForCausalLM.from_pretrained(name, { device: 'wasm', dtype: 'q8' });
  },
  async run(prompt_tokens, steps) {
    const { vocab_size } = model.config;
    const row = (/** @type {(i: number) => number} */ of) =>
      new Tensor('int64', BigInt64Array.from({ length: prompt_tokens }, (_, i) => BigInt(of(i))), [1, prompt_tokens]);
    const streamer = new Clock();
    await model.generate({
      input_ids: row((i) => i * 7919 % vocab_size), attention_mask: row(() => 1),
      max_new_tokens: steps + 1, min_new_tokens: steps + 1, do_sample: false, streamer,
    });
    return streamer.times;
  },
};
