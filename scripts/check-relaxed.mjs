// check-relaxed.mjs MODULE: whether the module of relaxed kernels can work in another module's memory. It may have no
// data of its own, which would be written over the other's, and may ask for nothing but that memory.
import { readFile } from 'node:fs/promises';

const [path = ''] = process.argv.slice(2);
const bytes = await readFile(path);

/** Number of the section that holds what is not allowed, and what that is. */
const FORBIDDEN = new Map([[5, 'a memory'], [8, 'a start function'], [9, 'a table of functions'], [11, 'data']]);

/** An unsigned LEB128 number and the place after it. @param {number} at @returns {[number, number]} */
function number(at) {
  let [value, shift] = [0, 0];
  for (;;) {
    const byte = bytes[at++];
    if (byte === undefined) throw new Error(`${path} is cut short`);
    value |= (byte & 0x7f) << shift;
    shift += 7;
    if (byte < 0x80) return [value, at];
  }
}

const IMPORTS = 2;

// After magic number and version: sections, each with its number and length.
for (let at = 8; at < bytes.length;) {
  const [section, length] = [bytes[at] ?? 0, number(at + 1)];
  const forbidden = FORBIDDEN.get(section);
  if (forbidden) {
    const [count] = number(length[1]);
    if (count > 0 || section === 8) throw new Error(`${path} has ${forbidden} of its own (section ${section}), and must not: look for panics and arrays indexed by variables`);
  }
  if (section === IMPORTS && number(length[1])[0] !== 1) throw new Error(`${path} imports more than the memory`);
  at = length[1] + length[0];
}
