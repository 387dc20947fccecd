import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { decode, encode } from '../../scripts/onefile/base116.mjs';

const join = (/** @type {string} */ text, /** @type {number} */ length, /** @type {number} */ chunk) => Buffer.concat([...decode(text, length, chunk)]);

test('bytes of every length come back, in parts of any size', () => {
  for (let length = 0; length <= 40; length++) {
    for (const bytes of [randomBytes(length), Buffer.alloc(length, 0), Buffer.alloc(length, 255)]) {
      for (const chunk of [1, 6, 7, 13, 1 << 18]) assert.deepEqual(join(encode(bytes), length, chunk), bytes);
    }
  }
});

test('the text is seven sixths of the bytes and holds nothing that HTML could change', () => {
  const bytes = randomBytes(600_000);
  const text = encode(bytes);
  assert.equal(Buffer.byteLength(text), 700_000);
  assert.doesNotMatch(text, /[\0\t\n\v\f\r\x1a\x1b\x7f<>&]/);
  assert.equal(new Set(text).size, 116);
});
