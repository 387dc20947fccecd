/** Stop strings in a text field: one a line, with `\n`, `\r`, `\t` and `\\` for what a line cannot hold. */

/** @type {{ [letter: string]: string }} */
const MEANING = { n: '\n', r: '\r', t: '\t', '\\': '\\' };

/**
 * @param {string} field
 * @returns {string[]}
 * @throws {RangeError} for a backslash before anything else: a guess would stop at the wrong text
 */
export function parseStops(field) {
  return field.split('\n').filter((line) => line !== '').map((line) =>
    line.replace(/\\(.?)/gu, (escape, letter) => {
      const meaning = MEANING[letter];
      if (meaning === undefined) throw new RangeError(`“${escape}” is none of \\n, \\r, \\t and \\\\; write \\\\ for a backslash`);
      return meaning;
    }));
}

/** @param {string} text @returns {string} one line that `parseStops` reads back as `text` */
export const escapeStop = (text) => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('\r', '\\r').replaceAll('\t', '\\t');
