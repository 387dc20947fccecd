// What the module of relaxed kernels may contain.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

/** @param {number} id @param {number[]} contents */
const section = (id, contents) => [id, contents.length, ...contents];
const TYPES = section(1, [1, 0x60, 0, 0]);
const MEMORY = section(2, [1, 1, 0x65, 1, 0x6d, 2, 0, 1]);
const FUNCTIONS = section(3, [1, 0]);
const GLOBAL = section(6, [1, 0x7f, 1, 0x41, 0, 0x0b]);
/** One function. @param {...number} body */
const code = (...body) => section(10, [1, body.length + 2, 0, ...body, 0x0b]);

// Every kind of operand, with the bytes of `global.get` among them.
const HARMLESS = [
  0x02, 0x40, 0x0b, 0x41, 0xa3, 0x01, 0x1a, 0x42, 0x23, 0x1a, 0x43, 0x23, 0x23, 0x24, 0x24, 0x1a, 0x44, ...new Array(8).fill(0x24), 0x1a,
  0x41, 0, 0x28, 2, 0x23, 0x1a, 0xfd, 12, ...new Array(16).fill(0x23), 0xfd, 21, 0x0f, 0x1a,
  0x41, 0, 0x0e, 1, 0, 0,
];

/** @param {number[]} contents */
function check(contents) {
  const folder = mkdtempSync(join(tmpdir(), 'gpt2-web-'));
  const path = join(folder, 'relaxed.wasm');
  const module = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, ...contents]);
  assert.ok(WebAssembly.validate(module), 'the test is wrong');
  writeFileSync(path, module);
  const { status, stderr } = spawnSync(process.execPath, ['scripts/check-relaxed.mjs', path], { encoding: 'utf8' });
  rmSync(folder, { recursive: true });
  return status === 0 ? 'fine' : /Error: \S+ (.*)/.exec(stderr)?.[1] ?? stderr;
}

test('kernels that need only the memory pass, even with a stack pointer that they do not use', () => {
  assert.equal(check([...TYPES, ...MEMORY, ...FUNCTIONS, ...GLOBAL, ...code(...HARMLESS)]), 'fine');
});

test('a module that would overwrite the memory of another one is refused', () => {
  assert.match(check([...TYPES, ...MEMORY, ...FUNCTIONS, ...GLOBAL, ...code(...HARMLESS.slice(0, -6), 0x23, 0, 0x1a)]), /uses the stack pointer/);
  assert.match(check([...TYPES, ...MEMORY, ...FUNCTIONS, ...GLOBAL, ...code(0x41, 16, 0x24, 0)]), /uses the stack pointer/);
  assert.match(check([...TYPES, ...MEMORY, ...section(11, [1, 0, 0x41, 0, 0x0b, 1, 7])]), /has data \(section 11\)/);
  assert.match(check([...TYPES, ...section(5, [1, 0, 1])]), /has a memory \(section 5\)/);
  assert.match(check([...TYPES, ...section(2, [2, 1, 0x65, 1, 0x66, 0, 0, 1, 0x65, 1, 0x6d, 2, 0, 1])]), /imports more/);
});
