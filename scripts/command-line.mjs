// Arguments of `build.sh generate` and `build.sh lab`. Only the worker knows its options and what they accept, so every
// name is taken here.
import { parseArgs } from 'node:util';

/**
 * @typedef {object} Parsed
 * @property {string[]} words arguments that are no options
 * @property {Record<string, string>} own options of the command itself
 * @property {[name: string, value: string][]} given options for the worker, in their order
 */

/**
 * Every option except a flag takes the next argument as its value, even if that begins with a dash.
 * @param {string[]} args
 * @param {{ own: readonly string[], flags?: ReadonlySet<string>, fail: (message: string) => never }} options `flags` need no value
 * @returns {Parsed}
 */
export function parse(args, { own: names, flags = new Set(), fail }) {
  const { tokens } = parseArgs({ args, strict: false, allowPositionals: true, tokens: true });
  /** @type {Parsed} */ const parsed = { words: [], own: {}, given: [] };
  let taken = -1;
  for (const token of tokens) {
    if (token.index <= taken || token.kind === 'option-terminator') continue;
    if (token.kind === 'positional' || !token.rawName.startsWith('--')) {
      taken = token.index; // several letters after one dash are several tokens
      parsed.words.push(args[taken] ?? '');
      continue;
    }
    const name = token.name.replaceAll('-', '_');
    let value = token.value ?? (flags.has(name) ? 'true' : undefined);
    if (value === undefined) {
      taken = token.index + 1;
      value = args[taken];
    }
    if (value === undefined) return fail(`${token.rawName} needs a value`);
    if (names.includes(name)) parsed.own[name] = value;
    else parsed.given.push([name, value]);
  }
  return parsed;
}
