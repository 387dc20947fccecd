// A worker that follows the protocol without a model, to bring about every state of the page. A prompt with PANIC panics,
// FAIL fails in the engine, LONG takes 480 positions of prefill, KANJI writes a character in three tokens, and HANG stops
// answering after some tokens. The file broken.gguf does not load, guess.gguf has a notice, and hold.gguf stops in the
// middle of its load. The checksum of a model is the sum of its bytes; that of guess.gguf comes after the load.
{
  const TALE = ' had three daughters, and the youngest of them was so beautiful that the sun itself, which has seen so much, was '
    + 'astonished whenever it shone in her face. Close by the castle lay a great dark forest, and under an old lime-tree in the '
    + 'forest was a well. "Who goes there?" cried the old man. "It is only I," said the princess, and she sat down by the cool '
    + 'water and threw her golden ball up high, and caught it again.\n\nBut one day the ball rolled straight into the well.';
  const CONTEXT = 512;
  const encoder = new TextEncoder();
  const DEFAULTS = { max_tokens: '128', temperature: '0.8', top_k: '0', top_p: '0.95', min_p: '0', repetition_penalty: '1', seed: '', stop: '[]', timeout_ms: '', top_logprobs: '6', parse_special: 'false' };
  const options = /** @type {const} */ ([
    ['max_tokens', { type: 'integer', min: 1, max: 4294967295 }, 'Maximum number of tokens to generate.'],
    ['temperature', { type: 'number', min: 0, max: null, open: false }, 'Divides the logits. Below 1: safer, more repetitive. Above 1: more varied. 0: always the most likely token.'],
    ['top_k', { type: 'integer', min: 0, max: 4294967295 }, 'Samples from the k most likely tokens. 0 = off.'],
    ['top_p', { type: 'number', min: 0, max: 1, open: true }, 'Samples from the fewest top tokens whose probabilities add up to this. 1 = off.'],
    ['min_p', { type: 'number', min: 0, max: 1, open: false }, 'Drops tokens below this fraction of the top token\'s probability. 0 = off.'],
    ['repetition_penalty', { type: 'number', min: 0, max: null, open: true }, 'Makes tokens already in the prompt or output less likely. 1 = off.'],
    ['seed', { type: 'integer', min: 0, max: 9007199254740991 }, 'Same seed and settings, same text. Leave empty for a random seed; it is recorded.'],
    ['stop', { type: 'strings', most: 16 }, 'Generation stops at the first of these; the string itself is left out.'],
    ['timeout_ms', { type: 'number', min: 0, max: null, open: true }, 'Stops after this many milliseconds.'],
    ['top_logprobs', { type: 'integer', min: 0, max: 20 }, 'How many top tokens to record at each step.'],
    ['parse_special', { type: 'flag' }, 'Treats <|endoftext|> in the prompt as the single special token, not as text (seven tokens).'],
  ]).map(([name, range, help]) => ({ name, range, help, default: DEFAULTS[name] }));

  let cancelled = -1;
  let running = false;
  const post = (/** @type {unknown} */ event) => self.postMessage(event);
  const fail = (/** @type {number} */ id, /** @type {string} */ kind, /** @type {string} */ message, /** @type {unknown} */ record = null) => (
    post({ type: 'error', id, kind, message, record, fits_alone: false }));
  const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));
  /** A fixed series of numbers between 0 and 1, so that pictures of the page stay the same. */
  const noise = (/** @type {number} */ n) => Math.abs(Math.sin(n * 12.9898) * 43758.5453) % 1;

  /** @param {number} id @param {{ name: string, precision?: string, files: ({ name: string, blob: Blob } | { name: string, stream: ReadableStream<Uint8Array> })[] }} load */
  async function load(id, { name, files, precision = 'q8_0' }) {
    let sum = 0;
    for (const file of files) {
      const reader = ('blob' in file ? file.blob.stream() : file.stream).getReader();
      sum = 0;
      try {
        for (let part; !(part = await reader.read()).done; ) {
          for (let at = 0; at < part.value.length; at += 997) sum += Number(part.value[at]);
          if (cancelled === id) { await reader.cancel(); break; }
        }
      } catch {
        return fail(id, 'invalid_request', `${file.name} could not be read`);
      }
    }
    for (let done = 0; done <= 10; done++) {
      post({ type: 'progress', id, stage: 'read', done: done * 1.5e6, total: 15e6 });
      await pause(20);
      while (done === 5 && cancelled !== id && files.some((file) => file.name === 'hold.gguf')) await pause(1);
      if (cancelled === id) return fail(id, 'cancelled', 'the load was cancelled');
    }
    for (let done = 0; done <= 76; done += 19) post({ type: 'progress', id, stage: 'quantise', done, total: 76 }), await pause(20);
    if (files.some((file) => file.name === 'broken.gguf')) {
      return fail(id, 'not_a_model', 'broken.gguf is an HTML page, not a model; download the file itself');
    }
    const sha256 = sum.toString(16).padStart(64, '0');
    const later = files.some((file) => file.name === 'guess.gguf');
    post({
      type: 'ready', id, options, experiments: [], load_ms: 312.4, memory_bytes: 40e6, notices: files.some((file) => file.name === 'guess.gguf') ? ['The number of heads is a guess: 12.'] : [],
      model: { name, sha256: later ? null : sha256, precision, parameters: 12411072, n_layer: 6, n_head: 3, n_embd: 192, context_length: CONTEXT, vocab_size: 50257 },
    });
    if (later) post({ type: 'hashed', id, model_sha256: sha256, notice: null });
  }

  /** @param {string} prompt */
  function* tokens(prompt) {
    let n = 0;
    if (prompt.includes('KANJI')) yield* [[32], [0xe6], [0xbc], [0xa2], [0xf0, 0x9f], [0x91, 0x8b]];
    for (;;) for (const word of TALE.match(/ ?[\w']+|[^\w\s]|\s/gu) ?? []) yield n++ % 97 === 96 ? [...encoder.encode(' truly')] : [...encoder.encode(word)];
  }

  /** @param {number} step @param {number[]} bytes @param {string} text */
  function alternatives(step, bytes, text) {
    const rank = noise(step) < 0.62 ? 0 : 1 + Math.floor(noise(step + 0.3) * 5);
    const best = 0.25 + 0.7 * noise(step + 0.7);
    const others = [' the', ' a', ' his', ' himself', ' one', ' it', ',', ' whom', '\n', ' upon'].filter((word) => word !== text);
    return { rank, list: Array.from({ length: 6 }, (_, place) => ({
      id: place === rank ? 1000 + bytes.reduce((sum, byte) => sum + byte, 0) : 300 + place,
      text: place === rank ? text : others[(place + step) % others.length],
      logprob: Math.log(best * (1 - best) ** place * 0.97 ** place + 1e-4),
      filtered_logprob: place > Math.max(rank, 3) ? null : Math.log(Math.min(1, best * (1 - best) ** place * 1.08)),
    })) };
  }

  /** @param {number} id @param {string} prompt @param {any} given */
  async function generate(id, prompt, given, atOnce = false) {
    const settings = { max_tokens: 128, temperature: 0.8, top_k: 0, top_p: 0.95, min_p: 0, repetition_penalty: 1, seed: 4127096385, stop: [], timeout_ms: null, top_logprobs: 6, parse_special: false, ...given };
    if (settings.temperature > 50) return fail(id, 'invalid_option', 'temperature must be at most 50');
    const began = performance.now();
    const length = prompt.includes('LONG') ? 480 : (prompt.match(/ ?[\w']+|[^\w\s]|\s/gu) ?? []).length || 1;
    const prompt_ids = Array.from({ length }, (_, index) => index + 1);
    post({ type: 'start', id, settings, prompt_ids });
    if (atOnce) cancelled = id;
    let prefill_ms = 0;
    for (let done = 0; done < length && cancelled !== id; ) {
      const chunk = Math.min(32, length - done);
      await pause(length > 100 ? 50 : 2);
      const chunk_ms = chunk * (1.3 + 0.3 * noise(done));
      prefill_ms += chunk_ms;
      done += chunk;
      post({ type: 'prefill', id, done, total: length, chunk_ms });
      if (cancelled === id) break;
    }
    const first = performance.now() - began;
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    /** @type {any[]} */ const steps = [];
    let text = '';
    /** @type {string | null} */ let reason = null;
    let stop_string = null;
    const record = (/** @type {unknown} */ stop) => ({
      gpt2_web: '0.1.0',
      identity: {
        model: 'fairy-12m', model_sha256: 'db74fa2cda2e', tokenizer_sha256: '196139668be6', precision: 'q8_0', kernel: 'simd128',
        readers: 4, readers_trial: [{ readers: 2, gb_s: 13.2 }, { readers: 4, gb_s: 17.4 }, { readers: 8, gb_s: 16.2 }],
      },
      settings, prompt, prompt_ids, started_from_eos: prompt === '', text, token_ids: steps.map(({ token_id }) => token_id), steps,
      positions_processed: length + Math.max(0, steps.length - 1), prefill_ms, decode_ms: steps.reduce((sum, { forward_ms, sample_ms }) => sum + forward_ms + sample_ms, 0),
      time_to_first_token_ms: steps.length ? first : null, stop,
      profile: steps.length > 1 ? { steps: steps.length - 1, embedding_ms: 0.003, attention_ms: 1.24, mlp_ms: 2.31, lm_head_ms: 1.1, sampling_ms: 0.12, messages_ms: 0.09, other_ms: 0.037 } : null,
    });
    for (const bytes of tokens(prompt)) {
      if (cancelled === id) { reason = 'cancelled'; break; }
      const step = steps.length;
      if (step) await pause(4);
      if (prompt.includes('PANIC') && step === 12) return fail(id, 'panic', 'the engine panicked at src/gpt2/cache.rs:88: index out of bounds; this is a bug');
      if (prompt.includes('HANG') && step === 12) for (;;);
      if (prompt.includes('FAIL') && step === 12) return fail(id, 'non_finite', 'the logits hold NaN; the model file is damaged or its type is not what it says', record(null));
      let delta = decoder.decode(new Uint8Array(bytes), { stream: true });
      const found = settings.stop.find((/** @type {string} */ stop) => (text + delta).includes(stop));
      if (found) delta = (text + delta).slice(text.length, (text + delta).indexOf(found));
      const { rank, list } = alternatives(step, bytes, new TextDecoder('utf-8', { ignoreBOM: true }).decode(new Uint8Array(bytes)));
      const chosen = {
        step, token_id: list[rank]?.id, bytes, text: delta, logprob: list[rank]?.logprob, filtered_logprob: list[rank]?.filtered_logprob ?? -1,
        alternatives: list.slice(0, settings.top_logprobs), positions_processed: length + step, position: length + step,
        forward_ms: step ? 4.4 + 0.5 * noise(step + 0.1) + (noise(step + 0.9) > 0.97 ? 2 : 0) : 0, sample_ms: 0.08 + 0.05 * noise(step),
      };
      text += delta;
      steps.push(chosen);
      if (delta) post({ type: 'delta', id, text: delta, posted_at: performance.timeOrigin + performance.now() });
      post({ type: 'step', id, ...chosen });
      if (found) { reason = 'stop_string'; stop_string = found; break; }
      if (steps.length >= settings.max_tokens) { reason = 'max_tokens'; break; }
      if (length + steps.length > CONTEXT) { reason = 'context_full'; break; }
      if (settings.timeout_ms !== null && performance.now() - began > settings.timeout_ms) { reason = 'timeout'; break; }
    }
    const stop = { reason, finish_reason: 'length', stop_string, eos_token_id: null };
    post({ type: 'done', id, stop, record: record(stop) });
  }

  self.onmessage = async ({ data }) => {
    if (data.wasm) return; // the first message in the page in one file
    if (data.type === 'cancel') cancelled = data.id;
    else if (data.type === 'ping') post({ type: 'pong', id: data.id });
    else if (data.type === 'unload') post({ type: 'unloaded', id: data.id });
    else if (running) fail(data.id, 'busy', 'another request is running; stop it or wait for its end');
    else {
      running = true;
      await (data.type === 'load' ? load(data.id, data) : generate(data.id, data.prompt, data.options, data.cancelled === true));
      running = false;
    }
  };
}
