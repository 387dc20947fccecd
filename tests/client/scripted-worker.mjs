import { Gpt2Error } from '../../www/gpt2-web.js';

/**
 * A `Worker` that follows a script: the test's function gets each request and answers through `emit`.
 * @typedef {import('../../www/types/Request.js').Request} Request
 * @typedef {import('../../www/types/Event.js').Event} WorkerEvent
 * @typedef {(request: Request, worker: ScriptedWorker) => void} Script
 */

export class ScriptedWorker extends EventTarget {
  /** @type {Script} */ static script = () => {};
  /** @type {ScriptedWorker[]} */ static started = [];
  /** @type {Request[]} */ received = [];
  terminated = false;

  /** @param {URL | string} url */
  constructor(url) {
    super();
    this.url = String(url);
    ScriptedWorker.started.push(this);
  }

  /** @param {Request} message @param {Transferable[]} [transfer] */
  postMessage(message, transfer) {
    const request = structuredClone(message, { transfer: transfer ?? [] });
    setTimeout(() => {
      if (this.terminated) return;
      this.received.push(request);
      ScriptedWorker.script(request, this);
    });
  }

  terminate() {
    this.terminated = true;
  }

  /** @param {WorkerEvent | WorkerEvent[]} data one event, or several in one post */
  emit(data) {
    this.dispatchEvent(new MessageEvent('message', { data }));
  }
}

/** @param {Script} script */
export function follow(script) {
  ScriptedWorker.script = script;
  ScriptedWorker.started = [];
  Object.assign(globalThis, { Worker: ScriptedWorker });
}

/** @param {number} id @returns {WorkerEvent} */
export const ready = (id) => ({
  type: 'ready', id, options: [], experiments: [], notices: [], load_ms: 5, memory_bytes: 65536,
  model: { name: 'm', sha256: '00', precision: 'f32', parameters: 1, n_layer: 1, n_head: 1, n_embd: 1, context_length: 8, vocab_size: 4 },
});

/** @type {import('../../www/types/Settings.js').Settings} */
const settings = {
  max_tokens: 2, temperature: 0, top_k: 0, top_p: 1, min_p: 0, repetition_penalty: 1, seed: 7, stop: [], timeout_ms: null,
  top_logprobs: 1, parse_special: false,
};

/** @param {number} id @returns {WorkerEvent} */
export const start = (id) => ({ type: 'start', id, settings, prompt_ids: [1] });

/** @param {number} id @param {string} text @returns {WorkerEvent} */
export const delta = (id, text) => ({ type: 'delta', id, text, posted_at: 0 });

/** @param {number} id @param {import('../../www/types/StopReason.js').StopReason} reason @returns {WorkerEvent} */
export function done(id, reason) {
  const stop = { reason, finish_reason: 'stop', stop_string: null, eos_token_id: null };
  return {
    type: 'done', id, stop,
    record: {
      gpt2_web: '0', identity: { model: 'm', model_sha256: '', tokenizer_sha256: '', precision: 'f32', kernel: 'scalar', readers: 4, readers_trial: [] }, settings,
      prompt: 'a', prompt_ids: [1], started_from_eos: false, text: '', token_ids: [], steps: [], positions_processed: 1,
      prefill_ms: 1, decode_ms: 1, time_to_first_token_ms: 1, tokens_per_second: null, profile: null, stop,
    },
  };
}

/** @param {number | null} id @param {import('../../www/types/ErrorKind.js').ErrorKind} kind @returns {WorkerEvent} */
export const error = (id, kind) => ({ type: 'error', id, kind, message: `a sentence about ${kind}`, record: null, fits_alone: false });

/** Loads at once. Runs until cancelled, or to the end of `texts` if the request says so.
 * @param {{ endless?: boolean }} [options] @returns {Script} */
export function model({ endless = false } = {}) {
  /** @type {number | null} */ let running = null;
  return (request, worker) => {
    const { id } = request;
    if (request.type === 'load') return worker.emit(ready(id));
    if (request.type === 'unload') return worker.emit({ type: 'unloaded', id });
    if (request.type === 'ping') return worker.emit({ type: 'pong', id });
    if (request.type === 'cancel') {
      if (running !== id) return;
      running = null;
      return worker.emit(done(id, 'cancelled'));
    }
    if (request.type !== 'generate') return;
    if (running !== null) return worker.emit(error(id, 'busy'));
    running = id;
    worker.emit(start(id));
    if (request.cancelled) {
      running = null;
      return worker.emit(done(id, 'cancelled'));
    }
    let count = 0;
    const step = () => {
      if (running !== id) return;
      worker.emit(delta(id, `t${count++}`));
      if (endless || count < 3) return void setTimeout(step);
      running = null;
      worker.emit(done(id, 'max_tokens'));
      worker.emit(delta(id, 'after the end'));
      worker.emit(error(id, 'engine'));
    };
    setTimeout(step);
  };
}

/** @param {AsyncIterable<{ type: string }>} run */
export async function types(run) {
  const seen = [];
  for await (const event of run) seen.push(event.type);
  return seen;
}

/** @param {string} kind */
export const kind = (kind) => (/** @type {unknown} */ cause) => cause instanceof Gpt2Error && cause.kind === kind;
