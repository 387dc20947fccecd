// The page in one file, opened from disk.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { BROWSERS, Bench } from './harness.mjs';

const KING = 'Once upon a time there was a king who';

for (const browser of BROWSERS) {
  describe(`the page in one file, in ${browser}`, () => {
    /** @type {Bench} */ let bench;
    before(async () => { bench = await Bench.open(browser); });
    after(() => bench.close());

    test('it writes what the served page writes, and asks for nothing', async () => {
      const settings = { max_tokens: 40, seed: 7 };
      const served = await bench.served();
      const expected = await served.run(KING, settings);
      await served.leave();

      const visit = await bench.fromDisk();
      const asked = bench.requests.length;
      assert.deepEqual(await visit.run(KING, settings), expected);
      assert.equal(bench.requests.length, asked);
      assert.deepEqual(visit.requests.filter((url) => url !== visit.page.url()), []);
      await visit.leave();
    });

    test('it downloads no model and says so, and opens one from disk', async () => {
      const visit = await bench.fromDisk();
      await visit.page.click('#open-model');
      assert.match(await visit.page.$eval('#no-network:not([hidden])', ({ textContent }) => textContent ?? ''), /makes no request/);
      assert.equal(await visit.page.$$eval('#catalog li', ({ length }) => length), 6);
      await visit.pick('tests/fixtures/gguf/f32.gguf');
      assert.equal(await visit.fact('layers × width'), '2 × 32, 2 heads');
      assert.equal((await visit.run('a', { temperature: 0, repetition_penalty: 1, max_tokens: 5 })).steps, 5);
      await visit.leave();
    });

    test('its own policy forbids every request', async () => {
      const visit = await bench.fromDisk();
      const refused = await visit.page.evaluate(async (url) => {
        const violated = new Promise((resolve) => document.addEventListener('securitypolicyviolation', resolve, { once: true }));
        const failed = await fetch(url).then(() => false, () => true);
        return failed && /** @type {any} */ (await violated).effectiveDirective;
      }, bench.server.url);
      assert.equal(refused, 'connect-src');
      await visit.page.close();
    });
  });
}
