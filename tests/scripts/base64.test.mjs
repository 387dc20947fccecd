// The parts of the page in one file, to text and back.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { decode, encode } from '../../scripts/onefile/base64.mjs';

const native = Object.getOwnPropertyDescriptor(Uint8Array, 'fromBase64');

for (const decoder of ['atob', 'Uint8Array.fromBase64']) {
  test(`bytes of every length come back through ${decoder}, whatever white space is around the lines`, () => {
    let asked = 0;
    const fromBase64 = (/** @type {string} */ digits) => (asked++, new Uint8Array(Buffer.from(digits, 'base64')));
    if (decoder === 'atob') Reflect.deleteProperty(Uint8Array, 'fromBase64');
    else Object.defineProperty(Uint8Array, 'fromBase64', { configurable: true, value: fromBase64 });
    try {
      for (const length of [0, 1, 2, 3, 674, 675, 676, 1350, 5000]) {
        const bytes = randomBytes(length);
        for (const text of [encode(bytes), `\n${encode(bytes).trim()}\n`, encode(bytes).replaceAll('\n', '\r\n')]) {
          for (const size of [1, 1000, 1 << 19]) assert.deepEqual(Buffer.concat([...decode(text, size)]), bytes, `${length} bytes`);
        }
      }
      assert.equal(asked > 0, decoder !== 'atob');
    } finally {
      if (native) Object.defineProperty(Uint8Array, 'fromBase64', native);
      else Reflect.deleteProperty(Uint8Array, 'fromBase64');
    }
  });
}

test('no line is too long for a mail server, and damage is an error', () => {
  assert.ok(encode(randomBytes(5000)).split('\n').every(({ length }) => length <= 998));
  assert.throws(() => [...decode('not base64!')]);
});
