import { make } from './dom.js';
import { integer, median, milliseconds, number } from './format.js';

/** @typedef {import('../types/Record.js').Record} RunRecord */

/**
 * One number of a run.
 * @typedef {{ name: string, value: number | null, shown: string, unit: string, note?: string | undefined }} Figure
 */

/**
 * Positions that a loop without a KV cache would process: at every step, the prompt and everything generated so far.
 * @param {number} prompt @param {number} generated
 */
export const naivePositions = (prompt, generated) => generated * prompt + (generated * (generated - 1)) / 2;

/**
 * How far a run has come. Null: not known yet.
 * @typedef {object} Progress
 * @property {number} prompt tokens
 * @property {number} generated tokens
 * @property {number} positions processed
 * @property {number | null} firstTokenMs
 * @property {number} decodeMs
 * @property {number} seed
 */

/** @param {RunRecord} record @returns {Progress} */
export const ofRecord = (record) => ({
  prompt: record.prompt_ids.length,
  generated: record.token_ids.length,
  positions: record.positions_processed,
  firstTokenMs: record.time_to_first_token_ms,
  decodeMs: record.decode_ms,
  seed: record.settings.seed,
});

/**
 * The figures of a run, in the order of the page and of the copied table.
 *
 * @param {Progress} run
 * @param {{ handler: number[], frame: number[] }} latency
 * @returns {Figure[]}
 */
export function figures({ prompt, generated, positions, firstTokenMs, decodeMs, seed }, latency) {
  // The first token comes from the prefill; every later one takes a step.
  const rate = generated > 1 && decodeMs > 0 ? (1000 * (generated - 1)) / decodeMs : null;
  return [
    figure('prompt', prompt, 'tokens'),
    figure('generated', generated, 'tokens'),
    figure('first token', firstTokenMs, 'ms'),
    figure('decode speed', rate, 'tokens/s'),
    { ...figure('positions processed', positions, ''), note: `${integer(naivePositions(prompt, generated))} without the KV cache` },
    latencyFigure('worker → page (median)', latency.handler),
    latencyFigure('worker → screen (median)', latency.frame),
    { name: 'seed', value: seed, shown: String(seed), unit: '' },
  ];
}

/** @param {string} name @param {number | null} value @param {string} unit @returns {Figure} */
function figure(name, value, unit) {
  const shown = value === null ? '–' : Number.isInteger(value) ? integer(value) : number(value);
  return { name, value, shown, unit: value === null ? '' : unit };
}

/** @param {string} name @param {number[]} delays @returns {Figure} */
function latencyFigure(name, delays) {
  if (delays.length === 0) return figure(name, null, 'ms');
  return { ...figure(name, median(delays), 'ms'), note: `max ${milliseconds(Math.max(...delays))}` };
}

/** @param {HTMLElement} list a `dl` @param {Figure[]} rows */
export function showFigures(list, rows) {
  list.replaceChildren(...rows.map(({ name, shown, unit, note }) => make('div', {},
    make('dt', {}, name),
    make('dd', {}, make('b', {}, shown), ...(unit ? [' ', make('span', { class: 'unit' }, unit)] : []),
      ...(note ? [make('small', {}, note)] : [])))));
}

/** Tab-separated, so that spreadsheets paste it as cells; to the microsecond. @param {Figure[]} rows */
export function figuresTable(rows) {
  const exact = (/** @type {number | null} */ value) => (value === null ? '' : Number(value.toFixed(3)));
  return [['number', 'value', 'unit', 'note'], ...rows.map(({ name, value, unit, note }) => [name, exact(value), unit, note ?? ''])]
    .map((row) => row.join('\t')).join('\n');
}
