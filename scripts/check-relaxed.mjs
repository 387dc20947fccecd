// check-relaxed.mjs MODULE: checks that the module of relaxed kernels can work in another module's memory. It must have no
// data, which would overwrite the other module's. It must import nothing except that memory. It must use no global: its
// only global is the stack pointer, which does not point to the other module's stack.
import { readFile } from 'node:fs/promises';

const [path = ''] = process.argv.slice(2);
const bytes = await readFile(path);

/** Sections that are not allowed: the number and the contents. */
const FORBIDDEN = new Map([[5, 'a memory'], [8, 'a start function'], [9, 'a table of functions'], [11, 'data']]);
const IMPORTS = 2, START = 8, CODE = 10;

let at = 8; // after magic number and version

/** @param {string} what @returns {never} */
function refuse(what) {
  throw new Error(`${path} ${what}, which it must not: look for panics and arrays indexed by variables`);
}

function byte() {
  const value = bytes[at++];
  if (value === undefined) throw new Error(`${path} is cut short`);
  return value;
}

/** An unsigned LEB128 number. */
function number() {
  let value = 0;
  for (let factor = 1; ; factor *= 128) {
    const next = byte();
    value += (next & 0x7f) * factor;
    if (next < 0x80) return value;
  }
}

/** Skips the operands of an instruction: `n`umbers and `b`ytes. @param {string} kinds */
function skip(kinds) {
  for (const kind of kinds) kind === 'n' ? number() : byte();
}

/** @param {number} code of an instruction of one byte @returns {string} its operands, for `skip` */
function operands(code) {
  if (code >= 0x02 && code <= 0x04) return 'n'; // block, loop, if
  if (code === 0x0c || code === 0x0d || code === 0x10 || code === 0xd2) return 'n'; // br, br_if, call, ref.func
  if (code === 0x11) return 'nn'; // call_indirect
  if (code >= 0x20 && code <= 0x26) return 'n'; // variables and tables
  if (code >= 0x28 && code <= 0x3e) return 'nn'; // loads and stores
  if (code >= 0x3f && code <= 0x42) return 'n'; // the size of the memory, and integers
  if (code === 0x43) return 'b'.repeat(4);
  if (code === 0x44) return 'b'.repeat(8);
  return code === 0xd0 ? 'b' : '';
}

/** @param {number} code of a vector instruction @returns {string} its operands */
function vectorOperands(code) {
  if (code <= 11 || code === 92 || code === 93) return 'nn'; // loads and a store
  if (code === 12 || code === 13) return 'b'.repeat(16); // a constant, a shuffle
  if (code >= 21 && code <= 34) return 'b'; // a lane
  return code >= 84 && code <= 91 ? 'nnb' : ''; // a lane of memory
}

/** Reads an instruction and refuses it if it uses a global. */
function instruction() {
  const code = byte();
  if (code === 0x23 || code === 0x24) refuse('uses the stack pointer');
  if (code === 0xfd) return skip(vectorOperands(number()));
  if (code === 0xfc) {
    const further = number();
    return skip(further < 8 ? '' : further === 9 || further === 11 || further === 13 || further > 14 ? 'n' : 'nn');
  }
  // br_table has a list of labels and another label; a typed select has a list of types.
  if (code === 0x0e || code === 0x1c) skip('n'.repeat(number() + (code === 0x0e ? 1 : 0)));
  else skip(operands(code));
}

while (at < bytes.length) {
  const section = byte();
  const end = number() + at;
  const forbidden = FORBIDDEN.get(section);
  const count = number();
  if (forbidden && (count > 0 || section === START)) refuse(`has ${forbidden} (section ${section})`);
  if (section === IMPORTS && count !== 1) throw new Error(`${path} imports more than the memory`);
  for (let left = section === CODE ? count : 0; left > 0; left--) {
    const last = number() + at;
    for (let locals = number(); locals > 0; locals--) skip('nb');
    while (at < last) instruction();
    if (at !== last) throw new Error(`${path} has an unknown instruction`);
  }
  at = end;
}
