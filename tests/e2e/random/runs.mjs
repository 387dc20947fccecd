// Random actions on the client and its worker, and what must hold after each of them. The actions follow from the seed;
// only the exact moment of an interruption depends on the machine.
// @ts-ignore: a path of the served page
import { Gpt2Error, Gpt2Web } from '/gpt2-web.js';
import { checkRun, hold, same } from './checks.mjs';
import { Dice } from './dice.mjs';
import { Wire } from './wire.mjs';

/** The weight of each action. */
const ACTIONS = {
  run: 30, cancel: 14, leave: 10, timeout: 6, stopString: 6, badOption: 8, tooLong: 2, twoAtOnce: 4, next: 6, returned: 3,
  load: 8, cancelledLoad: 4, badLoad: 5, unload: 3, hurt: 4, hostile: 6,
};
const MODELS = ['f32.gguf', 'q8_0.gguf', 'q4_0.gguf'];
const PROMPTS = ['', 'a', 'Once upon', 'the cat\n\n', 'é漢👋', ' <|endoftext|>'];
const MANY = 1000;

const BAD_OPTIONS = /** @type {const} */ ([
  ['unknown_option', { max_token: 3 }], ['unknown_option', { '': 1 }], ['unknown_option', { constructor: 1 }],
  ['invalid_option', { temperature: -1 }], ['invalid_option', { temperature: NaN }], ['invalid_option', { max_tokens: 0 }],
  ['invalid_option', { max_tokens: 1.5 }], ['invalid_option', { top_p: 0 }], ['invalid_option', { top_k: '3' }],
  ['invalid_option', { seed: 2 ** 53 }], ['invalid_option', { stop: '' }], ['invalid_option', { stop: [1] }],
  ['invalid_option', { stop: {} }], ['invalid_option', { timeout_ms: 0 }], ['invalid_option', { parse_special: 1 }],
  ['invalid_request', { seed: () => 7 }],
]);

/** Messages that no client sends, made with an id. @type {((id: number) => unknown)[]} */
const HOSTILE = [
  () => null, () => 42, () => 'generate', () => [], () => ({}), () => ({ type: 'generate' }), () => ({ type: 'load', id: -1 }),
  () => ({ type: 'cancel', id: 4e9 }), () => ({ type: 'cancel' }), (id) => ({ type: 'nonsense', id }), (id) => ({ id }),
  (id) => ({ type: 'generate', id, prompt: 5 }), (id) => ({ type: 'generate', id, prompt: 'a', options: [] }),
  (id) => ({ type: 'generate', id, prompt: 'a', options: { temperature: {} } }), (id) => ({ type: 'unload', id, more: 1 }),
  (id) => ({ type: 'load', id, name: 'x', files: [] }), (id) => ({ type: 'load', id, name: 'x', files: [{ name: 'a' }] }),
  (id) => ({ type: 'load', id, name: 'x', files: [{ name: 'a.gguf', blob: new Blob(['GGUF']) }], precision: 'f64' }),
];

const BAD_FILES = /** @type {const} */ ([
  ['page.gguf', '<!doctype html><title>404</title>'], ['cut.gguf', 'GGUF\x03\0\0\0'], ['noise.safetensors', 'no model at all'],
  ['empty.gguf', ''],
]);

/** @typedef {{ prompt: string, options: Record<string, unknown> }} Asked */

/** @param {AsyncIterable<any>} run @param {(events: any[]) => unknown} [after] is called after each event; true leaves the loop */
async function follow(run, after) {
  /** @type {any[]} */ const events = [];
  for await (const event of run) {
    events.push(event);
    if (after?.(events)) break;
  }
  return events;
}

/** One client, and what is known about it. */
export class Session {
  /** @type {string[]} The last actions. */ log = [];
  /** @type {Record<string, number>} How often each action, stop reason and refusal happened. */ counts = {};
  /** @type {string | null} The model in use. */ #model = null;
  /** @type {Map<string, { ids: number[], text: string, reason: string }>} The results of complete runs. */ #known = new Map();
  /** @type {Map<string, Blob>} */ #files = new Map();
  #wire = new Wire();
  #client = new Gpt2Web();
  #hostileId = 3e9;

  /** @param {number} seed */
  constructor(seed) {
    this.dice = new Dice(seed);
  }

  async begin() {
    for (const name of MODELS) this.#files.set(name, await (await fetch(`/fixtures/${name}`)).blob());
    await this.#load('f32.gguf');
  }

  /** @param {number} number how many actions */
  async go(number) {
    for (; number > 0; number--) {
      const thing = this.dice.weighted(ACTIONS);
      this.#note(thing);
      await /** @type {any} */ (this)[thing]();
      same(this.#wire.open(), [], 'a request has no end');
      same(this.#wire.problems, [], 'the messages are in order');
    }
  }

  /** Continues with the embedded model, whose steps and load take as long as in real use. */
  async useEmbedded() {
    await this.#client.loadEmbedded();
    this.#model = 'embedded';
    await this.run();
  }

  /** A worker that no longer answers is replaced by another one. */
  async fallSilent() {
    const client = new Gpt2Web({ stall_ms: 5000 });
    const load = () => client.load({ name: 'silent', files: [{ name: 'f32.gguf', blob: this.#files.get('f32.gguf') }] });
    await load();
    const worker = this.#wire.worker;
    const run = () => follow(client.generate('a', { max_tokens: MANY }), (events) => void (events.length === 1 && worker?.postMessage({ hurt: 'fall silent' })));
    // The first run may end before the worker gets the message.
    await this.#refused(run().then(run), 'stalled');
    checkRun(await follow(client.generate('a', { max_tokens: 3 })));
    const gone = this.#wire.gone(/** @type {Worker} */ (this.#wire.worker));
    client.close();
    await gone;
  }

  async end() {
    await this.#client.unload();
    const gone = [...this.#wire.workers.keys()].map((worker) => this.#wire.gone(worker));
    this.#client.close();
    await Promise.all(gone);
    return { ...this.counts, workers: this.#wire.started };
  }

  /** @param {string} what */
  #note(what) {
    this.log = [...this.log.slice(-30), what];
    const [kind = ''] = what.split(' ');
    this.counts[kind] = (this.counts[kind] ?? 0) + 1;
  }

  /** @returns {Asked} */
  #request() {
    const { dice } = this;
    return {
      prompt: dice.of(PROMPTS),
      options: {
        max_tokens: 1 + dice.below(20), seed: dice.below(4), temperature: dice.of([0, 0.8, 50]), top_k: dice.of([0, 5]), top_p: dice.of([1, 0.9]),
        ...(dice.chance(0.2) && { stop: dice.of([['e'], ['\n', ' th'], ['\ufffd'], ['zzz']]) }), top_logprobs: dice.of([0, 3]),
      },
    };
  }

  /**
   * A run repeats the result of an equal one. If it ended early, it repeats the beginning.
   * @param {string} prompt @param {Record<string, unknown>} options @param {any[]} events @param {boolean} [cancelled]
   */
  #check(prompt, options, events, cancelled = false) {
    checkRun(events, { cancelled });
    const { stop: { reason }, record: { token_ids: ids, text } } = events.at(-1);
    this.#note(`${reason} ${ids.length}`);
    const { timeout_ms, ...decisive } = options;
    const key = JSON.stringify([this.#model, prompt, decisive]);
    const known = this.#known.get(key);
    if (reason === 'cancelled' || reason === 'timeout') {
      if (known) same(ids, known.ids.slice(0, ids.length), 'a run that ended early begins like the complete one');
    } else if (known) same({ ids, text, reason }, known, 'one seed gives one text');
    else this.#known.set(key, { ids, text, reason });
    return { reason, ids, text };
  }

  /** A complete run. @param {Asked} [request] */
  async run({ prompt, options } = this.#request()) {
    return this.#check(prompt, options, await follow(this.#client.generate(prompt, options)));
  }

  /** @param {Promise<unknown>} promise @param {...string} kinds */
  async #refused(promise, ...kinds) {
    const error = await promise.then((value) => hold(false, 'it should be refused', kinds, value), (cause) => cause);
    hold(error instanceof Gpt2Error && kinds.includes(error.kind) && error.message.length > 10, `refused as ${kinds.join(' or ')}`, error.kind, error.message);
    this.#note(`refused ${error.kind}`);
    return error;
  }

  async cancel() {
    const { prompt, options } = this.#request();
    const [at, controller] = [this.dice.below(12), new AbortController()];
    if (at === 0) controller.abort();
    const events = await follow(this.#client.generate(prompt, { ...options, signal: controller.signal }), (events) => {
      if (events.length === at) controller.abort();
    });
    const { reason, ids } = this.#check(prompt, options, events, true);
    if (at === 0) same([reason, ids], ['cancelled', []], 'a run that was cancelled before it began has no token');
  }

  async leave() {
    const { prompt, options } = this.#request();
    const at = 1 + this.dice.below(8);
    await follow(this.#client.generate(prompt, options), (events) => events.length === at);
    await this.run();
  }

  async timeout() {
    const { prompt, options } = this.#request();
    const limited = { ...options, timeout_ms: this.dice.of([0.001, 0.5, 3]) };
    this.#check(prompt, limited, await follow(this.#client.generate(prompt, limited)));
  }

  async stopString() {
    const request = { prompt: this.dice.of(PROMPTS), options: { max_tokens: 24, temperature: 0.8, seed: this.dice.below(4) } };
    const { text } = await this.run(request);
    const letters = [...text];
    const at = this.dice.below(letters.length);
    const stop = letters.slice(at, at + 1 + this.dice.below(4)).join('');
    if (stop === '' || stop.includes('\ufffd')) return;
    const cut = await this.run({ ...request, options: { ...request.options, stop: [stop] } });
    same([cut.reason, cut.text], ['stop_string', text.slice(0, text.indexOf(stop))], 'the text is cut where the stop string begins');
  }

  async badOption() {
    const [kind, options] = this.dice.of(BAD_OPTIONS);
    await this.#refused(follow(this.#client.generate('a', /** @type {any} */ (options))), kind);
    await this.run();
  }

  async tooLong() {
    await this.#refused(follow(this.#client.generate('word '.repeat(MANY))), 'prompt_too_long');
    await this.run();
  }

  async twoAtOnce() {
    const requests = [this.#request(), this.#request()];
    const ends = await Promise.allSettled(requests.map(({ prompt, options }) => follow(this.#client.generate(prompt, options))));
    for (const [at, end] of ends.entries()) {
      const { prompt, options } = /** @type {Asked} */ (requests[at]);
      if (end.status === 'fulfilled') this.#check(prompt, options, end.value);
      else await this.#refused(Promise.reject(end.reason), 'busy');
    }
    hold(ends.some(({ status }) => status === 'fulfilled'), 'one of two runs works');
  }

  /** The next run is requested at the moment in which the previous one is left. */
  async next() {
    const [first, second] = [this.#request(), this.#request()];
    const [at, controller] = [1 + this.dice.below(5), new AbortController()];
    /** @type {Promise<unknown> | undefined} */ let next;
    const events = await follow(this.#client.generate(first.prompt, { ...first.options, signal: controller.signal }), (events) => {
      if (events.length !== at) return;
      controller.abort();
      next = this.run(second);
    });
    this.#check(first.prompt, first.options, events, true);
    await next;
  }

  /** An iterator that is returned before or while its first event is awaited. */
  async returned() {
    const { prompt, options } = this.#request();
    const run = this.#client.generate(prompt, options);
    const first = this.dice.chance(0.5) ? run.next() : null;
    await Promise.all([first, run.return()]);
    same(await run.next(), { done: true }, 'a returned iterator yields nothing');
    await this.run();
  }

  /** @param {string} model @param {AbortSignal} [signal] @param {() => void} [onProgress] */
  async #load(model, signal, onProgress) {
    const { model: loaded } = await this.#client.load({ name: model, files: [{ name: model, blob: this.#files.get(model) }], signal, onProgress });
    same(loaded.name, model, 'the requested model is loaded');
    this.#model = model;
  }

  async load() {
    await this.#load(this.dice.of(MODELS));
    await this.run();
  }

  async cancelledLoad() {
    const controller = new AbortController();
    if (this.dice.chance(0.4)) controller.abort();
    // The load may end before the cancel.
    await this.#load(this.dice.of(MODELS), controller.signal, () => controller.abort()).catch((cause) => this.#refused(Promise.reject(cause), 'cancelled'));
    await this.run();
  }

  async badLoad() {
    const [name, contents] = this.dice.of(BAD_FILES);
    const files = this.dice.chance(0.2) ? [] : [{ name, blob: new Blob([contents]) }];
    await this.#refused(this.#client.load({ name, files }), 'not_a_model', 'damaged_model', 'invalid_request', 'bad_tokenizer');
    await this.run();
  }

  async unload() {
    await this.#client.unload();
    this.#model = null;
    if (this.dice.chance(0.5)) await this.#refused(follow(this.#client.generate('a')), 'not_loaded');
    await this.load();
  }

  /** The worker fails, idle or at work. */
  async hurt() {
    const worker = this.#wire.worker;
    hold(worker, 'there is a worker');
    const hurt = this.dice.of(['panic', 'throw']);
    if (this.dice.chance(0.5)) {
      const gone = this.#wire.gone(/** @type {Worker} */ (worker));
      worker?.postMessage({ hurt });
      await gone;
    } else {
      const { prompt, options } = this.#request();
      const at = 1 + this.dice.below(6);
      const run = follow(this.#client.generate(prompt, options), (events) => void (events.length === at && worker?.postMessage({ hurt })));
      const gone = this.#wire.gone(/** @type {Worker} */ (worker));
      // The run may end before the worker fails, or before the page hears of it.
      const events = await run.catch((cause) => void this.#refused(Promise.reject(cause), 'panic'));
      if (events) this.#check(prompt, options, events);
      if (!events || events.length >= at) await gone;
    }
    await this.run();
  }

  /** The worker gets a message that no client sends: it answers, and continues or is replaced. */
  async hostile() {
    const worker = /** @type {Worker} */ (this.#wire.worker);
    const message = this.dice.of(HOSTILE)(this.#hostileId++);
    this.#note(`message ${JSON.stringify(message)}`);
    const answered = this.#wire.answer(worker, /** @type {any} */ (message)?.id);
    worker.postMessage(message);
    if (/** @type {any} */ (message)?.type !== 'cancel' || !('id' in /** @type {any} */ (message))) await answered;
    await this.run();
  }
}
