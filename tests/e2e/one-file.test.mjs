// The page in one file, opened from disk.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { BROWSERS, Site } from '../support/harness.mjs';

const KING = 'Once upon a time there was a king who';

/** A function that needs a vector instruction: of plain SIMD (`v128.not`), of relaxed SIMD (`i32x4.relaxed_dot_i8x16_i7x16_add_s`). */
const module = (/** @type {number[]} */ body) => new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 10, body.length + 5, 1, body.length + 3, 0, ...body, 0x1a, 0x0b]);
const ZERO = [0xfd, 12, ...new Array(16).fill(0)];
const PROBES = {
  simd128: [...module([...ZERO, 0xfd, 77])],
  'relaxed-simd': [...module([...ZERO, ...ZERO, ...ZERO, 0xfd, 0x93, 2])],
};

/** Runs before the page: keeps the record of the last run. */
const KEEP_RECORD = `{
  const Original = Worker;
  globalThis.Worker = class extends Original {
    constructor(url) {
      super(url);
      this.addEventListener('message', ({ data }) => {
        for (const event of [data].flat()) if (event.type === 'done') globalThis.record = event.record;
      });
    }
  };
}`;

for (const browser of BROWSERS) {
  describe(`the page in one file, in ${browser}`, () => {
    /** @type {Site} */ let site;
    before(async () => { site = await Site.open(browser); });
    after(() => site.close());

    test('it writes what the served page writes, and asks for nothing', async () => {
      const settings = { max_tokens: 40, seed: 7 };
      const served = await site.served();
      const expected = await served.run(KING, settings);
      await served.leave();

      const visit = await site.fromDisk();
      const asked = site.requests.length;
      assert.deepEqual(await visit.run(KING, settings), expected);
      assert.equal(site.requests.length, asked);
      assert.deepEqual(visit.requests.filter((url) => url !== visit.page.url()), []);
      await visit.leave();
    });

    test('it downloads no model and says so, and opens one from disk', async () => {
      const visit = await site.fromDisk();
      await visit.page.click('#open-model');
      assert.match(await visit.page.$eval('#no-network:not([hidden])', ({ textContent }) => textContent ?? ''), /makes no request/);
      assert.equal(await visit.page.$$eval('#catalog li', ({ length }) => length), 6);
      await visit.pick('tests/fixtures/gguf/f32.gguf');
      assert.equal(await visit.fact('layers × width'), '2 × 32, 2 heads');
      assert.equal((await visit.run('a', { temperature: 0, repetition_penalty: 1, max_tokens: 5 })).steps, 5);
      await visit.leave();
    });

    // The module carries these kernels as a module of its own: where that fails, the next best ones take over in silence.
    test('it computes with the best kernels that this browser has', async () => {
      const visit = await site.fromDisk(KEEP_RECORD);
      const has = await visit.page.evaluate((probes) => Object.entries(probes)
        .filter(([, bytes]) => WebAssembly.validate(new Uint8Array(bytes))).map(([name]) => name), PROBES);
      const best = process.env.GPT2_WEB_SIMD === '0' ? 'scalar' : has.at(-1) ?? 'scalar';
      if (browser === 'chrome' && process.env.GPT2_WEB_SIMD !== '0') assert.equal(best, 'relaxed-simd', 'the probe is wrong');
      await visit.run(KING, { max_tokens: 3 });
      assert.equal(await visit.page.evaluate(() => /** @type {any} */ (globalThis).record.identity.kernel), best);
      await visit.leave();
    });

    test('its own policy forbids every request', async () => {
      const visit = await site.fromDisk();
      const refused = await visit.page.evaluate(async (url) => {
        const violated = new Promise((resolve) => document.addEventListener('securitypolicyviolation', resolve, { once: true }));
        const failed = await fetch(url).then(() => false, () => true);
        return failed && /** @type {any} */ (await violated).effectiveDirective;
      }, site.server.url);
      assert.equal(refused, 'connect-src');
      await visit.page.close();
    });
  });
}
