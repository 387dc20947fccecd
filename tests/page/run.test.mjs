/** A run on the page, in its details: what is there before, during and after it. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { BROWSERS, axe, click, fill, reach, text, withFakeWorker } from '../support/harness.mjs';

for (const name of BROWSERS) {
  describe(name, async () => {
    const { open } = await withFakeWorker(name);

    /** A page whose model is loaded. @param {Parameters<typeof open>[0]} [options] */
    async function ready(options) {
      const { page } = await open(options);
      await reach(page, 'ready');
      return page;
    }

    test('a request that is refused leaves the run before it on the page; a double click is one run', async () => {
      const page = await ready();
      await fill(page, '#max-tokens', '5');
      await page.click('#generate', { count: 2 });
      await reach(page, 'done');
      const shown = () => page.evaluate(() => ['output', 'timeline-summary', 'effective', 'stop-reason']
        .map((id) => document.getElementById(id)?.textContent));
      const before = await shown();
      assert.equal(await page.$$eval('#output [data-step]', (tokens) => tokens.length), 5);
      await fill(page, '#temperature', '51');
      await click(page, '#generate');
      await reach(page, 'error');
      assert.match(await text(page, '#error'), /Temperature must be at most 50/);
      assert.deepEqual(await shown(), before);
      assert.match(await text(page, '#numbers'), /generated5/);
      assert.deepEqual(await page.$$eval('#ending, #record, #timeline', (parts) => parts.map((part) => /** @type {HTMLElement} */ (part).hidden)), [false, false, false]);
      await page.close();
    });

    test('the bar of a run is full where the context is, if that is before the limit', async () => {
      const page = await ready();
      await fill(page, '#prompt', 'LONG');
      await fill(page, '#max-tokens', '400');
      await click(page, '#generate');
      await page.waitForSelector('#run-progress:not([hidden])');
      // 480 positions of 512 are the prompt's, and the last token takes none.
      assert.equal(await page.$eval('#run-progress', (bar) => /** @type {HTMLProgressElement} */ (bar).max), 33);
      await reach(page, 'done');
      assert.equal(await page.$$eval('#output [data-step]', (tokens) => tokens.length), 33);
      await page.close();
    });

    test('where the time of a step goes is told at the end of a run, where it was measured', async () => {
      const page = await ready();
      const hidden = () => page.$eval('#profile', (fold) => /** @type {HTMLElement} */ (fold).hidden);
      assert.equal(await hidden(), true);
      await click(page, '#generate');
      await page.waitForSelector('#output [data-step="3"]');
      assert.equal(await hidden(), true);
      await reach(page, 'done');
      assert.deepEqual([await hidden(), await page.$eval('#profile', (fold) => fold.hasAttribute('open'))], [false, false]);
      await page.focus('#profile > summary');
      await page.keyboard.press('Enter');
      await page.waitForSelector('#profile[open]');
      assert.equal(await text(page, '#profile caption'), '4.9 ms per token on average (127 steps).');
      assert.equal(await text(page, '#profile p'), 'Kernel: simd128. It reads each matrix in 4 places at once.'
        + ' Tried when the model loaded: 4 places at 17.4 GB/s, 8 places at 16.2 GB/s, 2 places at 13.2 GB/s.');
      const cells = () => page.$$eval('#profile tr', (rows) => rows.map((row) => [...row.querySelectorAll('th, td:not([aria-hidden])')].map(({ textContent }) => textContent)));
      assert.deepEqual(await cells(), [
        ['stage', 'ms per step', 'share'],
        ['Embedding', '< 0.01', '< 0.1 %'], ['Attention', '1.24', '25 %'], ['MLP', '2.31', '47 %'], ['Output layer', '1.10', '22 %'],
        ['Sampling', '0.12', '2.4 %'], ['Messages', '0.09', '1.8 %'], ['Other', '0.04', '0.8 %'],
        ['Total', '4.90', '100 %'],
      ]);
      const widths = await page.$$eval('#profile .bar', (bars) => bars.map((bar) => bar.getBoundingClientRect().width));
      assert.equal(widths.length, 7);
      assert.ok(Math.abs((widths[1] ?? 0) / (widths[2] ?? 0) - 1.24 / 2.31) < 0.02, String(widths));
      await axe(page);
      // One token costs no step.
      await fill(page, '#max-tokens', '1');
      await click(page, '#generate');
      await reach(page, 'done');
      assert.equal(await hidden(), true);
      await page.close();
    });

    test('a token selected during the run is one of all at its end', async () => {
      const page = await ready();
      await click(page, '#generate');
      await page.waitForSelector('#output [data-step="3"]');
      await click(page, '#output [data-step="3"]');
      assert.doesNotMatch(await text(page, '#inspector'), /of 128/);
      await reach(page, 'done');
      assert.match(await text(page, '#inspector'), /Token 4 of 128/);
      assert.match(await text(page, '#inspector'), /Struck out: removed by top-k, top-p or min-p/);
      await page.close();
    });

    test('the focus stays where a button was pressed by keyboard, through the run and after it', async () => {
      const page = await ready();
      const focus = () => page.evaluate(() => document.activeElement?.id);
      await fill(page, '#max-tokens', '490'); // long enough to be stopped on a busy machine
      await page.focus('#examples button');
      await page.keyboard.press('Enter');
      await page.waitForSelector('#output [data-step="3"]');
      assert.equal(await focus(), 'generate');
      await page.focus('#stop');
      await page.keyboard.press('Enter');
      await reach(page, 'done');
      assert.equal(await focus(), 'stop');
      assert.equal(await text(page, '#stop-reason'), 'cancelled');
      await fill(page, '#max-tokens', '20');
      await page.focus('#generate');
      await page.keyboard.press('Enter');
      await page.waitForSelector('[data-state="running"] #output [data-step="3"]');
      await page.keyboard.press('Enter');
      assert.equal(await focus(), 'generate');
      await reach(page, 'done');
      assert.equal(await focus(), 'generate');
      assert.equal(await page.$$eval('#output [data-step]', (tokens) => tokens.length), 20);
      await page.focus('#open-model');
      const picker = await page.$('#model-files');
      await click(page, '#open-model');
      await /** @type {import('puppeteer-core').ElementHandle<HTMLInputElement>} */ (picker).uploadFile('tests/fixtures/gguf/f32.gguf');
      await reach(page, 'loading');
      assert.equal(await focus(), 'open-model');
      await page.focus('#cancel-load');
      await page.keyboard.press('Enter');
      await page.waitForSelector('#loading', { hidden: true });
      assert.equal(await focus(), 'open-model');
      await page.close();
    });

    test('a link has the seed of the run while the form asks for the same', async () => {
      const page = await ready();
      await page.evaluate(() => Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (/** @type {string} */ text) => { document.body.dataset.copied = text; } } }));
      const seed = async () => {
        await click(page, '#copy-link');
        const copied = await page.evaluate(() => document.body.dataset.copied ?? '');
        return new URLSearchParams(new URL(copied).hash.slice(1)).get('seed');
      };
      assert.equal(await seed(), null);
      await fill(page, '#max-tokens', '5');
      await click(page, '#generate');
      await reach(page, 'done');
      assert.equal(await seed(), '4127096385');
      for (const [field, other] of /** @type {const} */ ([['#temperature', '0.3'], ['#timeout-ms', '5000'], ['#stop-at', 'x'], ['#prompt', 'A fox']])) {
        const before = await page.$eval(field, (field) => /** @type {HTMLInputElement} */ (field).value);
        await fill(page, field, other);
        assert.equal(await seed(), null, field);
        await fill(page, field, before);
        assert.equal(await seed(), '4127096385', field);
      }
      await fill(page, '#seed', '3');
      assert.equal(await seed(), '3');
      await page.close();
    });

    test('untouched settings follow the model: the page\'s for the embedded one, the worker\'s for any other', async () => {
      const page = await ready();
      const settings = async () => [
        ...await page.$$eval('#temperature, #top-p, #repetition-penalty, #seed', (fields) => fields.map((field) => /** @type {HTMLInputElement} */ (field).value)),
        await page.$eval('#settings-note', (note) => /** @type {HTMLElement} */ (note).hidden),
      ];
      const load = async (/** @type {() => Promise<unknown>} */ begin) => {
        await begin();
        await reach(page, 'loading');
        await reach(page, 'ready');
      };
      const picker = /** @type {import('puppeteer-core').ElementHandle<HTMLInputElement>} */ (await page.$('#model-files'));
      assert.deepEqual(await settings(), ['0.7', '0.9', '1.1', '', false]);
      await load(() => picker.uploadFile('tests/fixtures/gguf/f32.gguf'));
      assert.deepEqual(await settings(), ['0.8', '0.95', '1', '', true]);
      assert.match(await text(page, '#settings-summary'), /temperature 0\.8/);
      await fill(page, '#temperature', '1.5');
      await click(page, '#open-model');
      await load(() => click(page, '[aria-label="Load fairy-12m"]'));
      assert.deepEqual(await settings(), ['1.5', '0.9', '1.1', '', false]);
      await page.close();
    });

    test('a hidden tab has no frames to measure', async () => {
      const page = await ready();
      const measured = await page.evaluate(async () => {
        // @ts-ignore: a path of the served page
        const { Latency } = await import('/page/latency.js');
        const latency = new Latency();
        /** @type {(() => void)[]} */ const frames = [];
        globalThis.requestAnimationFrame = (callback) => frames.push(() => callback(0));
        const frame = () => new Promise((resolve) => { frames.splice(0).forEach((paint) => paint()); setTimeout(resolve, 50); });
        const hide = (/** @type {boolean} */ hidden) => {
          Object.defineProperty(document, 'hidden', { configurable: true, value: hidden });
          document.dispatchEvent(new Event('visibilitychange'));
        };
        const arrive = () => latency.arrived(performance.timeOrigin + performance.now());
        const counts = [];
        arrive();
        await frame();
        counts.push(latency.frame.length);
        arrive(); // its frame does not come before the tab is hidden
        hide(true);
        arrive();
        hide(false);
        await frame();
        counts.push(latency.frame.length);
        arrive();
        await frame();
        return [...counts, latency.frame.length, latency.handler.length];
      });
      assert.deepEqual(measured, [1, 1, 2, 4]);
      await page.close();
    });

    test('at temperature 0 no filter is blamed', async () => {
      const page = await ready();
      await fill(page, '#temperature', '0');
      await fill(page, '#max-tokens', '5');
      await click(page, '#generate');
      await reach(page, 'done');
      await click(page, '#output [data-step="3"]');
      assert.match(await text(page, '#inspector'), /Temperature 0 always picks the top token\./);
      assert.doesNotMatch(await text(page, '#inspector'), /removed by/);
      await page.close();
    });
  });
}
