/** Formats numbers and invisible characters for the page, always in English. */

const group = new Intl.NumberFormat('en');

/** @param {number} count */
export const integer = (count) => group.format(count);

/** Three significant digits. @param {number} value */
export function number(value) {
  return Math.abs(value) >= 100 ? group.format(Math.round(value)) : String(Number(value.toPrecision(3)));
}

/** @param {number} ms */
export const milliseconds = (ms) => (ms >= 10_000 ? `${number(ms / 1000)} s` : `${number(ms)} ms`);

/** @param {number} count of bytes */
export const bytes = (count) => (count >= 999.5e6 ? `${(count / 1e9).toFixed(2)} GB` : `${(count / 1e6).toFixed(count < 10e6 ? 1 : 0)} MB`);

/** @param {number} part from 0 to 1 */
export function share(part) {
  const percents = 100 * part;
  if (percents >= 99.95) return '100 %';
  if (percents >= 10) return `${percents.toFixed(0)} %`;
  return percents >= 0.1 ? `${percents.toFixed(1)} %` : '< 0.1 %';
}

/** A log probability (natural) in percent. @param {number} logprob */
export const percent = (logprob) => share(Math.exp(logprob));

/** A token's text with visible white space. @param {string} text */
export const label = (text) =>
  text.replaceAll(' ', '␣').replaceAll('\n', '⏎').replaceAll('\t', '⇥').replaceAll('\r', '␍').replaceAll('\u00a0', '⍽');

/** @param {number[]} bytes */
export const hex = (bytes) => bytes.map((byte) => byte.toString(16).toUpperCase().padStart(2, '0')).join(' ');

/** @param {readonly number[]} values @param {number} share from 0 to 1; 0.5 is the median */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = share * (sorted.length - 1);
  const low = sorted[Math.floor(at)] ?? NaN;
  const high = sorted[Math.ceil(at)] ?? NaN;
  return low + (high - low) * (at - Math.floor(at));
}

/** @param {readonly number[]} values */
export const median = (values) => quantile(values, 0.5);
