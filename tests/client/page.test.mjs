import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { escapeStop, parseStops } from '../../www/page/escapes.js';
import { label, percent, quantile } from '../../www/page/format.js';
import { decodeLink, encodeLink } from '../../www/page/link.js';
import { figures, figuresTable, naivePositions } from '../../www/page/numbers.js';
import { TokenSpans } from '../../www/page/token-spans.js';
import { summarise } from '../../www/page/timeline-summary.js';

const utf8 = (/** @type {string} */ text) => [...new TextEncoder().encode(text)];

test('a delta of one token belongs to it', () => {
  const spans = new TokenSpans();
  spans.add(utf8(' had'));
  assert.deepEqual(spans.take(' had'), [{ step: 0, text: ' had' }]);
  spans.add(utf8(' three'));
  assert.deepEqual(spans.take(' three'), [{ step: 1, text: ' three' }]);
});

test('text that was held back goes to the tokens it came from', () => {
  const spans = new TokenSpans();
  for (const token of ['DEF', 'G', 'HI', 'x']) spans.add(utf8(token));
  assert.deepEqual(spans.take('DEFGHIx'), [
    { step: 0, text: 'DEF' }, { step: 1, text: 'G' }, { step: 2, text: 'HI' }, { step: 3, text: 'x' },
  ]);
});

test('a token whose text comes in two deltas gets both', () => {
  const spans = new TokenSpans();
  spans.add(utf8('say a'));
  assert.deepEqual(spans.take('say '), [{ step: 0, text: 'say ' }]);
  spans.add(utf8('bc'));
  assert.deepEqual(spans.take('abc'), [{ step: 0, text: 'a' }, { step: 1, text: 'bc' }]);
});

test('a character in three tokens belongs to the one that completes it', () => {
  const spans = new TokenSpans();
  for (const byte of utf8('漢')) spans.add([byte]);
  assert.deepEqual(spans.take('漢'), [{ step: 2, text: '漢' }]);
});

test('the U+FFFD for a tail that never completes belongs to the last token', () => {
  const spans = new TokenSpans();
  spans.add(utf8('a'));
  assert.deepEqual(spans.take('a'), [{ step: 0, text: 'a' }]);
  spans.add([0xf0, 0x9f]);
  assert.deepEqual(spans.take('\ufffd'), [{ step: 1, text: '\ufffd' }]);
});

test('every stream of bytes comes back whole, however it is cut into deltas', async () => {
  const fixture = async (/** @type {string} */ name) => JSON.parse(await readFile(new URL(`../fixtures/${name}`, import.meta.url), 'utf8'));
  const vocab = await fixture('gpt2-tokenizer/vocab.json');
  /** @type {{ ids: number[], text: string }[]} */ const cases = await fixture('byte-streams.json');
  const spelling = new Map(Object.entries(vocab).map(([piece, id]) => [Number(id), piece]));
  const byteOf = byteMap();
  assert.ok(cases.length >= 100);
  for (const { ids, text } of cases) {
    const spans = new TokenSpans();
    for (const id of ids) spans.add([...(spelling.get(id) ?? '')].map((letter) => byteOf.get(letter) ?? NaN));
    let joined = '';
    let step = 0;
    for (let at = 0; at < text.length; at += 3) {
      for (const piece of spans.take(text.slice(at, at + 3))) {
        assert.ok(piece.step >= step && piece.step < ids.length);
        step = piece.step;
        joined += piece.text;
      }
    }
    assert.equal(joined, text);
  }
});

/** GPT-2's spelling of bytes: printable Latin-1 stands for itself, the rest follows from U+0100 on. */
function byteMap() {
  const map = new Map();
  let next = 256;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    map.set(String.fromCharCode(printable ? byte : next++), byte);
  }
  return map;
}

test('stop strings: one per line, with escapes, and back', () => {
  assert.deepEqual(parseStops('\\n\\n\n end\n\nC:\\\\temp\\t'), ['\n\n', ' end', 'C:\\temp\t']);
  for (const stop of ['\n', '\\n', 'a\\', '\t"', '\r\n', '\ra\r']) assert.deepEqual(parseStops(escapeStop(stop)), [stop]);
  assert.throws(() => parseStops('\\x'), RangeError);
  assert.throws(() => parseStops('end\\'), RangeError);
});

test('a link keeps prompt and settings, and reports a setting that appears twice', () => {
  const fields = { temperature: '0.7', stop: ['\n\n', '&='] };
  const prompt = 'Once,\n "漢" & 50 % + 1#?';
  const { fields: decoded, ...rest } = decodeLink(encodeLink(prompt, fields)) ?? assert.fail();
  assert.deepEqual([{ ...decoded }, rest], [fields, { prompt, problems: [] }]);
  assert.deepEqual(Object.entries(decodeLink('#__proto__=x&constructor=y')?.fields ?? {}), [['__proto__', 'x'], ['constructor', 'y']]);
  assert.equal(decodeLink(''), null);
  assert.equal(decodeLink('#temperature=1')?.prompt, null);
  assert.match(decodeLink('#seed=1&seed=2')?.problems[0] ?? '', /seed appears 2 times/);
});

test('numbers of a run', () => {
  assert.equal(naivePositions(9, 61), 2379);
  const run = { prompt: 9, generated: 61, positions: 69, firstTokenMs: 18.04, decodeMs: 300, seed: 7 };
  const rows = figures(run, { handler: [1, 3, 2], frame: [] });
  const row = (/** @type {string} */ name) => rows.find((figure) => figure.name === name);
  assert.equal(row('decode speed')?.value, 200);
  assert.equal(row('worker → page (median)')?.value, 2);
  assert.equal(row('worker → page (median)')?.note, 'max 3 ms');
  assert.equal(row('worker → screen (median)')?.value, null);
  assert.match(figuresTable(rows), /^number\tvalue\tunit\tnote\nprompt\t9\ttokens\t\n/);
  assert.equal(figures({ ...run, generated: 1 }, { handler: [], frame: [] })[3]?.value, null, 'one token has no rate');
});

test('a percentile is given only if the times have no trend', () => {
  const steps = (/** @type {(step: number) => number} */ ms) => Array.from({ length: 41 }, (_, step) => /** @type {any} */ ({ step, forward_ms: ms(step), sample_ms: 0 }));
  const prefill = [{ from: 0, to: 9, ms: 18 }];
  assert.match(summarise(prefill, steps(() => 5)), /9 positions in 18 ms.*40 steps, median 5 ms.*first half = 1\.00.*95th percentile/);
  const rising = summarise(prefill, steps((step) => 5 + step));
  assert.match(rising, /slowing down or speeding up/);
  assert.doesNotMatch(rising, /95th percentile/);
  assert.equal(summarise(prefill, steps(() => 5).slice(0, 1)), 'Prefill: 9 positions in 18 ms.');
});

test('no trend is given for steps shorter than a tick of the clock', () => {
  const prefill = [{ from: 0, to: 1, ms: 1 }];
  const steps = (/** @type {number[]} */ ...times) => [0, ...times].map((forward_ms, step) => /** @type {any} */ ({ step, forward_ms, sample_ms: 0 }));
  assert.match(summarise(prefill, steps(...Array(40).fill(0))), /\. Then 40 steps\.$/);
  assert.match(summarise(prefill, steps(0, 0, 1, 0)), /\. Then 4 steps\.$/);
  assert.match(summarise(prefill, steps(0, 0, 0, 0, 0, 1, 1, 1, 1, 1)), /\. Then 10 steps, median 0\.5 ms\.$/);
  assert.match(summarise(prefill, steps(1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0)), /\. Then 11 steps, median 1 ms\.$/);
});

test('small formats', () => {
  assert.deepEqual([0, Math.log(0.415), Math.log(0.08), Math.log(1e-5)].map(percent), ['100 %', '42 %', '8.0 %', '< 0.1 %']);
  assert.equal(label(' a\n\t'), '␣a⏎⇥');
  assert.equal(quantile([4, 1, 3, 2], 0.5), 2.5);
});
