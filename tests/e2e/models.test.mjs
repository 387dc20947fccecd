// Models from addresses, with the real worker.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { hostile } from '../support/hostile-server.mjs';
import { BROWSERS, Site } from '../support/harness.mjs';

const TINY = await readFile('tests/fixtures/gguf/f32.gguf');
const GREEDY = { temperature: 0, repetition_penalty: 1, max_tokens: 16 };

/** @param {import('../support/harness.mjs').Visit} visit @param {string} address */
async function load(visit, address) {
  await visit.page.click('#open-model');
  await visit.page.$eval('#model-address', (field, address) => { /** @type {HTMLInputElement} */ (field).value = address; }, address);
  await visit.page.click('#load-address');
  await visit.page.waitForFunction(() => document.documentElement.dataset.state !== 'loading'
    && document.querySelector('#model-name')?.textContent === 'tiny');
}

for (const browser of BROWSERS) {
  describe(`models from addresses in ${browser}`, () => {
    /** @type {Site} */ let site;
    /** @type {Awaited<ReturnType<typeof hostile>>} */ let host;
    before(async () => {
      site = await Site.open(browser);
      host = await hostile({ 'tiny.gguf': { body: TINY, breaks: [100_000] } });
    });
    after(async () => {
      await site.close();
      host.close();
    });

    test('a download that breaks off is continued, kept, and writes what the file from disk writes', async () => {
      const visit = await site.served();
      await visit.pick('tests/fixtures/gguf/f32.gguf');
      const { text } = await visit.run('a b c', GREEDY);
      await load(visit, host.url('tiny.gguf').href);
      assert.equal(host.asked().length, 2);
      assert.equal((await visit.run('a b c', GREEDY)).text, text);
      await visit.page.click('#open-model');
      await visit.page.waitForSelector('#stored li');
      const asked = host.requests.length;
      await visit.page.click('#stored .button');
      await visit.reaches('ready');
      assert.equal((await visit.run('a b c', GREEDY)).text, text);
      assert.equal(host.requests.length, asked);
      // The browser reports the broken connection too.
      visit.problems = visit.problems.filter((problem) => !/CONTENT_LENGTH_MISMATCH|ERR_INCOMPLETE/.test(problem));
      await visit.leave();
    });

    test('without storage it streams into the worker', async () => {
      const visit = await site.served();
      await visit.page.evaluate(() => { StorageManager.prototype.getDirectory = async () => { throw new DOMException('no', 'SecurityError'); }; });
      await load(visit, host.url('tiny.gguf').href);
      assert.match(await visit.page.$eval('#notice', ({ textContent }) => textContent ?? ''), /not saved for the next visit/);
      assert.equal((await visit.run('a b c', GREEDY)).reason, 'max_tokens');
      await visit.leave();
    });
  });
}
