// What must hold for every run.

/** @param {unknown} truth @param {string} sentence @param {...unknown} details */
export function hold(truth, sentence, ...details) {
  if (!truth) throw new Error([sentence, ...details.map((detail) => JSON.stringify(detail)?.slice(0, 400))].join('; '));
}

/** @param {unknown} a @param {unknown} b @param {string} sentence */
export function same(a, b, sentence) {
  hold(JSON.stringify(a) === JSON.stringify(b), sentence, a, b);
}

/** The text of a record's tokens, from their bytes, cut where the first stop string begins. @param {any} record */
function decoded({ steps, settings, stop }) {
  const shown = stop?.reason === 'eos' ? steps.slice(0, -1) : steps;
  const bytes = new Uint8Array(shown.flatMap((/** @type {any} */ step) => step.bytes));
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  if (stop?.reason !== 'stop_string') return text;
  const places = settings.stop.map((/** @type {string} */ string) => text.indexOf(string)).filter((/** @type {number} */ at) => at >= 0);
  hold(places.length > 0 && settings.stop.includes(stop.stop_string), 'a stop string ended the run and is not in its tokens', text, settings.stop);
  return text.slice(0, Math.min(...places));
}

/**
 * A record agrees with the events of its run.
 * @param {any} record @param {any[]} events those before the end
 */
function whole(record, events) {
  const deltas = events.filter(({ type }) => type === 'delta');
  const steps = events.filter(({ type }) => type === 'step');
  hold(deltas.every(({ text }) => text !== ''), 'a delta is empty');
  same(deltas.map(({ text }) => text).join(''), record.text, 'the deltas are not the text of the record');
  same(record.text, decoded(record), 'the text is not that of the ids');
  same(steps.map(({ token_id }) => token_id), record.token_ids, 'the steps are not the ids of the record');
  same(record.steps.map((/** @type {any} */ step) => step.token_id), record.token_ids, 'the steps of the record are not its ids');
  same(record.steps.map((/** @type {any} */ step) => step.step), [...record.token_ids.keys()], 'the steps are not numbered');
}

/**
 * Checks a run that ended without an error.
 * @param {any[]} events
 * @param {{ cancelled?: boolean }} options what the page did
 */
export function checkRun(events, { cancelled = false } = {}) {
  const kinds = events.map(({ type }) => type);
  same([kinds[0], kinds.at(-1)], ['start', 'done'], 'a run begins with start and ends with done');
  hold(kinds.filter((kind) => kind === 'start' || kind === 'done').length === 2, 'a run starts and ends once', kinds);
  const firstStep = kinds.findIndex((kind) => kind === 'step' || kind === 'delta');
  hold(firstStep < 0 || kinds.lastIndexOf('prefill') < firstStep, 'the prompt is read before the first token', kinds);
  const { stop, record } = events.at(-1);
  same(record.stop, stop, 'the record ends like the run');
  whole(record, events.slice(0, -1));
  const { settings, token_ids } = record;
  same(events[0].settings, settings, 'the settings are those of the start');
  hold(token_ids.length <= settings.max_tokens, 'there are more tokens than max_tokens', token_ids.length);
  if (stop.reason === 'max_tokens') same(token_ids.length, settings.max_tokens, 'max_tokens were asked for');
  if (stop.reason === 'cancelled') hold(cancelled, 'the run was not cancelled');
  if (stop.reason === 'timeout') hold(settings.timeout_ms !== null, 'there was no time limit');
  const { parse_special, ...given } = settings;
  hold(typeof parse_special === 'boolean' && Object.values(given).every((value) => value !== undefined), 'every setting has a value');
}
