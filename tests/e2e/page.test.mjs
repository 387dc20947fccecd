// The served page, as a user meets it.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import axe from 'axe-core';
import { BROWSERS, Site } from '../support/harness.mjs';

/** Two layers, 300 tokens, 64 positions: the ends of a run that take long with the embedded model. */
const TINY = 'tests/fixtures/gguf/f32.gguf';
const KING = 'Once upon a time there was a king who';
const GREEDY = { temperature: 0, repetition_penalty: 1 };
const ENDLESS = { max_tokens: 100_000 };

for (const browser of BROWSERS) {
  describe(`the page in ${browser}`, () => {
    /** @type {Site} */ let site;
    before(async () => { site = await Site.open(browser); });
    after(() => site.close());

    test('text grows while the model writes, and nothing shown is taken back', async () => {
      const visit = await site.served();
      await visit.watch();
      const { text, steps, reason } = await visit.run(KING, { max_tokens: 60, seed: 7 });
      const seen = await visit.seen();
      const growing = new Set(seen.filter(({ state }) => state === 'running').map(({ text }) => text.length));
      assert.ok(growing.size >= 10, `the output was seen at ${growing.size} lengths before the end`);
      for (const moment of seen) assert.ok(text.startsWith(moment.text), `"${moment.text}" was shown and taken back`);
      assert.deepEqual([steps, reason], [60, 'max_tokens']);
      await visit.leave();
    });

    test('max_tokens, stop_string, cancelled and timeout end a run and are named', async () => {
      const visit = await site.controlled();
      const whole = await visit.run(KING, { ...GREEDY, max_tokens: 40 });
      assert.equal(whole.reason, 'max_tokens');
      assert.match(whole.sentence, /\.$/);

      // A stop string from the midst of what is known to come, across a border between tokens.
      const stop = whole.text.trimEnd().slice(-12, -4);
      const cut = await visit.run(KING, { ...GREEDY, max_tokens: 40, stop: stop.replaceAll('\n', '\\n') });
      assert.deepEqual([cut.reason, cut.text], ['stop_string', whole.text.slice(0, whole.text.indexOf(stop))]);

      await visit.fill(KING, { ...ENDLESS, stop: '' });
      await visit.hold('step', 20);
      await visit.page.click('#generate');
      await visit.hasWritten(20);
      await visit.page.click('#stop');
      await visit.release();
      await visit.reaches('done');
      assert.equal((await visit.result()).reason, 'cancelled');

      const late = await visit.run(KING, { ...ENDLESS, timeout_ms: 1 });
      assert.equal(late.reason, 'timeout');
      await visit.leave();
    });

    test('eos and context_full end a run and are named', async () => {
      const visit = await site.served();
      await visit.pick(TINY);
      const full = await visit.run('a', { ...ENDLESS, ...GREEDY });
      assert.equal(full.reason, 'context_full', full.error);
      assert.equal(/\d+/.exec(full.sentence)?.[0], /\d+/.exec(await visit.fact('context'))?.[0], full.sentence);

      // So hot that every token is about as likely as any other: one of the first seeds meets the end-of-text token.
      const reasons = [];
      for (let seed = 0; seed < 40 && reasons.at(-1) !== 'eos'; seed++) {
        reasons.push((await visit.run('a', { ...ENDLESS, temperature: 50, top_p: 1, seed })).reason);
      }
      assert.equal(reasons.at(-1), 'eos');
      await visit.leave();
    });

    test('a run can be cancelled while the prompt is read', async () => {
      const visit = await site.controlled();
      const positions = parseInt((await visit.fact('context')).replaceAll(/\D/g, ''), 10);
      await visit.fill('word '.repeat(positions - 40), ENDLESS);
      await visit.hold('prefill', 1);
      await visit.page.click('#generate');
      await visit.page.waitForSelector('#prefill:not([hidden])');
      await visit.page.click('#stop');
      await visit.release();
      await visit.reaches('done');
      const { reason, text } = await visit.result();
      assert.deepEqual([reason, text], ['cancelled', '']);
      assert.equal((await visit.run(KING, { max_tokens: 3 })).reason, 'max_tokens');
      await visit.leave();
    });

    test('emoji and Japanese are shown whole', async () => {
      const visit = await site.served();
      const fox = 'むかしむかし、🦊と👩‍👩‍👧が';
      assert.equal((await visit.run(fox, { max_tokens: 30, seed: 1 })).prompt, fox);

      // Random bytes: characters cut by tokens, and bytes that never become one.
      await visit.pick(TINY);
      await visit.watch();
      const { text } = await visit.run(fox.slice(0, 4), { ...ENDLESS, temperature: 50, top_p: 1, seed: 3 });
      assert.match(text, /[^\0-\x7f]/);
      for (const moment of await visit.seen()) assert.ok(text.startsWith(moment.text), `"${moment.text}" is not how "${text}" begins`);
      await visit.leave();
    });

    test('after a panic the page says so, and the next run works', async () => {
      const visit = await site.controlled();
      const before = await visit.run(KING, { seed: 7, max_tokens: 20 });
      await visit.fill(KING, { ...ENDLESS, seed: 7 });
      await visit.hold('step', 20);
      await visit.page.click('#generate');
      await visit.hasWritten(20);
      await visit.panic('a panic on purpose');
      await visit.reaches('error');
      await visit.page.waitForFunction(() => document.getElementById('error')?.textContent?.includes('you can continue'));
      assert.match((await visit.result()).error, /a panic on purpose/);
      assert.equal((await visit.run(KING, { seed: 7, max_tokens: 20 })).text, before.text);
      // The panic's text is in the console too, where a developer looks first.
      visit.problems = visit.problems.filter((problem) => !/a panic on purpose|unreachable/.test(problem));
      await visit.leave();
    });

    test('one seed gives one text, another seed another', async () => {
      const visit = await site.served();
      const texts = [];
      for (const seed of [7, 7, 8]) texts.push((await visit.run(KING, { max_tokens: 40, seed, temperature: 1 })).text);
      assert.equal(texts[0], texts[1]);
      assert.notEqual(texts[0], texts[2]);
      await visit.leave();
    });

    test('it writes in a sandboxed frame, which has no origin', async () => {
      const page = await site.browser.newPage();
      await page.setContent(`<iframe sandbox="allow-scripts" src="${site.server.url}/#max_tokens=5" width="1000" height="800"></iframe>`);
      const frame = await page.waitForFrame((frame) => frame.url().startsWith(site.server.url));
      await frame.waitForSelector('[data-state="ready"]', { timeout: 120_000 });
      await frame.$eval('#generate', (button) => /** @type {HTMLElement} */ (button).click());
      await frame.waitForSelector('[data-state="done"]', { timeout: 120_000 });
      assert.equal(await frame.$eval('#stop-reason', (badge) => badge.textContent), 'max_tokens');
      await page.close();
    });

    test('nothing is requested once the model is loaded', async () => {
      const visit = await site.served();
      const before = [site.requests.length, visit.requests.length];
      await visit.run(KING, { max_tokens: 20 });
      await visit.page.click('#output [data-step]');
      assert.deepEqual([site.requests.length, visit.requests.length], before);
      assert.deepEqual(visit.requests.filter((url) => !url.startsWith(site.server.url)), []);
      await visit.leave();
    });

    test('axe finds nothing to object to', async () => {
      const visit = await site.served();
      const check = async () => {
        await visit.page.evaluate(axe.source);
        const found = await visit.page.evaluate(async () => {
          const { violations } = await /** @type {any} */ (globalThis).axe.run();
          return violations.map((/** @type {any} */ { id, help, nodes }) => `${id}: ${help}: ${nodes.map((/** @type {any} */ { html }) => html).join(' ')}`);
        });
        assert.deepEqual(found, []);
      };
      await check();
      await visit.run(KING, { max_tokens: 20 });
      await visit.page.click('#output [data-step]');
      await visit.page.$eval('#profile', (fold) => { /** @type {HTMLDetailsElement} */ (fold).open = true; });
      await check();
      if (browser === 'chrome') {
        // Emulation goes through Chromium's own protocol.
        await visit.page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'dark' }]);
        await check();
      }
      await visit.leave();
    });
  });
}
