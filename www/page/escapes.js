/** Stop strings in a text field: one per line, with the escapes `\n`, `\r`, `\t` and `\\`. */

/** @type {{ [letter: string]: string }} */
const MEANING = { n: '\n', r: '\r', t: '\t', '\\': '\\' };

/**
 * @param {string} field
 * @returns {string[]}
 * @throws {RangeError} for any other escape: a guess would stop at the wrong text
 */
export function parseStops(field) {
  return field.split('\n').filter((line) => line !== '').map((line) =>
    line.replace(/\\(.?)/gu, (escape, letter) => {
      const meaning = MEANING[letter];
      if (meaning === undefined) throw new RangeError(`“${escape}” is not an escape; use \\n, \\r, \\t, or \\\\ for a backslash`);
      return meaning;
    }));
}

/** @param {string} text @returns {string} one line that `parseStops` reads back as `text` */
export const escapeStop = (text) => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('\r', '\\r').replaceAll('\t', '\\t');
