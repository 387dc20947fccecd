/** Checks the arguments of a caller before anything starts. A mistake is an `invalid_request`. */

import { Gpt2Error } from './error.js';

/** @typedef {'f32' | 'q8_0' | 'q4_0'} Precision */

/** @type {readonly Precision[]} */
const PRECISIONS = ['f32', 'q8_0', 'q4_0'];

/** @param {string} sentence */
export const wrong = (sentence) => new Gpt2Error('invalid_request', sentence);

/** Describes a value, for a sentence. @param {unknown} value */
export function kindOf(value) {
  if (value === null || value === undefined) return String(value);
  if (typeof value === 'string') return value.length > 40 ? 'a text' : `the text "${value}"`;
  if (typeof value === 'number' || typeof value === 'boolean') return `${typeof value} ${value}`;
  if (typeof value !== 'object') return `a ${typeof value}`;
  const name = Object.prototype.toString.call(value).slice(8, -1);
  return `${/^[AEIO]/.test(name) ? 'an' : 'a'} ${name}`;
}

/**
 * Options must be a plain object: the properties of a Map, a list or a signal would be ignored silently.
 * @template {object} T
 * @param {string} method @param {T | undefined} options
 * @returns {T}
 * @throws {Gpt2Error}
 */
export function optionsOf(method, options) {
  if (options === undefined) return /** @type {T} */ ({});
  const plain = Object.prototype.toString.call(options) === '[object Object]' && !(Symbol.iterator in options) && !('then' in options);
  if (!plain) throw wrong(`the options of ${method} must be an object, as in { signal }, not ${kindOf(options)}`);
  return options;
}

/**
 * @param {string} what @param {unknown} text
 * @throws {Gpt2Error}
 */
export function mustBeText(what, text) {
  if (typeof text !== 'string') throw wrong(`${what} must be a text, not ${kindOf(text)}`);
}

/**
 * @param {unknown} signal
 * @throws {Gpt2Error}
 */
export function checkSignal(signal) {
  if (signal === undefined || signal === null) return;
  if (Object.prototype.toString.call(signal) === '[object AbortSignal]') return; // also from another frame
  const hint = signal instanceof AbortController ? '; give its `.signal`' : '';
  throw wrong(`\`signal\` must be an AbortSignal, not ${kindOf(signal)}${hint}`);
}

/**
 * Checks the options of a load. Others are ignored, so an entry of the catalogue can be passed as it is.
 * @template {object} T
 * @param {string} method
 * @param {T | undefined} options
 * @returns {T}
 * @throws {Gpt2Error}
 */
export function loadOptions(method, options) {
  const given = optionsOf(method, options);
  const { signal, onProgress, onNotice, precision, sha256, revision } = /** @type {{ [name: string]: unknown }} */ (given);
  checkSignal(signal);
  for (const [name, hook] of Object.entries({ onProgress, onNotice })) {
    if (hook !== undefined && hook !== null && typeof hook !== 'function') throw wrong(`\`${name}\` must be a function, not ${kindOf(hook)}`);
  }
  if (precision !== undefined && precision !== null && !PRECISIONS.some((known) => known === precision)) {
    throw wrong(`\`precision\` must be one of ${PRECISIONS.join(', ')}, not ${kindOf(precision)}`);
  }
  for (const [name, text] of Object.entries({ sha256, revision })) {
    if (text !== undefined && text !== null) mustBeText(`\`${name}\``, text);
  }
  return given;
}

/**
 * One address or several.
 * @param {unknown} urls
 * @returns {(string | URL)[]}
 * @throws {Gpt2Error}
 */
export function addressesOf(urls) {
  const one = (/** @type {unknown} */ url) => typeof url === 'string' || url instanceof URL;
  const all = one(urls) ? [urls] : typeof urls === 'object' && urls !== null && Symbol.iterator in urls ? [.../** @type {Iterable<unknown>} */ (urls)] : null;
  const bad = all ? all.find((url) => !one(url)) : urls;
  if (!all || bad !== undefined || all.some((url) => url === undefined)) throw wrong(`an address must be a text or a URL, not ${kindOf(bad)}`);
  return /** @type {(string | URL)[]} */ (all);
}

/**
 * Names of files in a repository.
 * @param {unknown} names
 * @returns {readonly string[] | undefined}
 * @throws {Gpt2Error}
 */
export function namesOf(names) {
  if (names === undefined || names === null) return undefined;
  if (!Array.isArray(names) || names.length === 0) throw wrong(`\`files\` must be a list of file names, not ${Array.isArray(names) ? 'an empty one' : kindOf(names)}`);
  for (const name of names) mustBeText('the name of a file', name);
  return names;
}

/**
 * How many milliseconds a worker may be silent; null for ever.
 * @param {unknown} stall_ms
 * @returns {number | null}
 * @throws {Gpt2Error}
 */
export function stallOf(stall_ms) {
  if (typeof stall_ms !== 'number' || !(stall_ms >= 0)) throw wrong(`\`stall_ms\` must be a number of milliseconds, 0 or more, not ${kindOf(stall_ms)}; 0 never ends a worker`);
  return stall_ms === 0 || stall_ms === Infinity ? null : stall_ms;
}
