/** A worker that cannot start, or stops answering, in real browsers: what is told, and what goes on. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { BROWSERS, click, fill, reach, text, withFakeWorker } from '../support/harness.mjs';
import { POLICY } from '../../scripts/server.mjs';

const WORKER = new URL('../../www/worker.js', import.meta.url);
const GLUE = `let wasm_bindgen = Object.assign(async ({ module_or_path }) => WebAssembly.instantiateStreaming(module_or_path), {
  start_worker() { self.onmessage = ({ data }) => self.postMessage({ type: 'error', id: data.id, kind: 'not_a_model', message: 'the glue ran', record: null, fits_alone: false }); },
});`;
const MODULE = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
const SIMD = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11]);
const HTML = '<!doctype html><title>Not found</title>';
const files = { '/worker.js': WORKER, '/gpt2_web.js': GLUE, '/gpt2_web_bg.wasm': MODULE };
const COEP = { 'cross-origin-embedder-policy': 'require-corp', 'cross-origin-opener-policy': 'same-origin' };

for (const name of BROWSERS) {
  describe(name, async () => {
    const { open } = await withFakeWorker(name);

    for (const [what, options, said] of /** @type {[string, Parameters<typeof open>[0], RegExp][]} */ ([
      ['a page in the place of worker.js', { files: { ...files, '/worker.js': HTML } }, /http:\S+worker\.js is an HTML page/],
      ['a page in the place of the glue', { files: { ...files, '/gpt2_web.js': HTML } }, /http:\S+gpt2_web\.js is an HTML page/],
      ['a page in the place of the wasm', { files: { ...files, '/gpt2_web_bg.wasm': HTML }, headersOf: { '/gpt2_web_bg.wasm': { 'content-type': 'text/html' } } }, /http:\S+gpt2_web_bg\.wasm is an HTML page/],
      ['a worker that is sent as text', { headersOf: { '/worker.js': { 'content-type': 'text/plain', 'x-content-type-options': 'nosniff' } } }, /worker\.js is sent as text\/plain.*text\/javascript/],
      ['a worker without the header of its page', { headersOf: { '/': COEP } }, /worker\.js is there.*Cross-Origin-Embedder-Policy/],
    ])) {
      test(`${what} is named by its address`, async () => {
        const { page } = await open(options);
        await reach(page, 'error');
        assert.match(await text(page, '#error'), said);
        await page.close();
      });
    }

    test('where not even the guard runs, the page says so of itself', async () => {
      const plain = { 'content-type': 'text/plain', 'x-content-type-options': 'nosniff' };
      const { page } = await open({ headersOf: { '/page/guard.js': plain, '/page/app.js': plain } });
      await page.waitForFunction(() => {
        const sentence = document.querySelector('.unstarted');
        return sentence && getComputedStyle(sentence).visibility === 'visible' && /text\/javascript/.test(sentence.textContent ?? '');
      });
      await page.close();
    });

    test('a worker that hangs is ended, and a new one goes on', async () => {
      const { page } = await open();
      await reach(page, 'ready');
      const seen = await page.evaluate(async () => {
        // @ts-ignore: a path of the served page
        const { Gpt2Web } = await import('/gpt2-web.js');
        const gpt2 = new Gpt2Web({ stall_ms: 1000 });
        await gpt2.loadEmbedded();
        const steps = async (/** @type {string} */ prompt) => {
          let count = 0;
          try {
            for await (const { type } of gpt2.generate(prompt, { max_tokens: 20 })) if (type === 'step') count++;
          } catch (/** @type {any} */ error) {
            return [count, error.kind];
          }
          return [count];
        };
        return [await steps('HANG'), await steps('a')];
      });
      assert.deepEqual(seen, [[12, 'stalled'], [20]]);
      await page.close();
    });

    test('a run that fails keeps its text and its record', async () => {
      const { page } = await open();
      await reach(page, 'ready');
      await fill(page, '#prompt', 'FAIL');
      await click(page, '#generate');
      await reach(page, 'error');
      assert.equal(await page.$$eval('#output [data-step]', (tokens) => tokens.length), 12);
      assert.equal(await page.$eval('#record', (part) => /** @type {HTMLElement} */ (part).hidden), false);
      assert.equal(await text(page, '#stop-reason'), 'failed');
      await page.close();
    });

    test('a run that waits for a model says so, is taken back, and is for no other model', async () => {
      const { page } = await open();
      await reach(page, 'ready');
      const queued = () => page.$eval('#queued', (part) => !(/** @type {HTMLElement} */ (part).hidden));
      const hold = () => page.evaluate(() => {
        const input = /** @type {HTMLInputElement} */ (document.querySelector('#model-files'));
        const transfer = new DataTransfer();
        transfer.items.add(new File(['GGUF'], 'hold.gguf'));
        input.files = transfer.files;
        input.dispatchEvent(new Event('change', { bubbles: true }));
      });
      await hold();
      await reach(page, 'loading');
      await click(page, '#generate');
      assert.equal(await queued(), true);
      await click(page, '#take-back');
      assert.equal(await queued(), false);
      await click(page, '#generate');
      await click(page, '#cancel-load');
      await reach(page, 'ready');
      assert.equal(await queued(), false);
      assert.equal(await page.$$eval('#output [data-step]', (tokens) => tokens.length), 0);
      await page.close();
    });
  });
}

if (BROWSERS.includes('chrome')) {
  describe('chrome, as few have it', async () => {
    test('Trusted Types: with the policy allowed the worker starts, without it the directive is named', async () => {
      const { open } = await withFakeWorker('chrome');
      const asks = `${POLICY}; require-trusted-types-for 'script'`;
      for (const [types, said] of /** @type {[string, RegExp][]} */ ([['', /The glue ran/], ['; trusted-types gpt2-web', /The glue ran/], ["; trusted-types other", /Trusted Types.*gpt2-web to its trusted-types directive/]])) {
        const { page } = await open({ policy: asks + types, files });
        await reach(page, 'error');
        assert.match(await text(page, '#error'), said);
        await page.close();
      }
    });

    for (const [what, flag, said] of /** @type {[string, string, RegExp][]} */ ([
      ['WebAssembly switched off', '--jitless', /has WebAssembly switched off.*Lockdown Mode/],
      ['no SIMD', '--no-enable-sse4-1', /no WebAssembly SIMD.*SSE4\.1/],
    ])) {
      test(`${what} is reported, without a retry button`, async () => {
        const { open } = await withFakeWorker('chrome', { args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', `--js-flags=${flag}`] });
        const { page } = await open({ files: { ...files, '/gpt2_web_bg.wasm': SIMD } });
        await reach(page, 'error');
        assert.match(await text(page, '#error'), said);
        assert.doesNotMatch(await text(page, '#error'), /Try again/);
        await page.close();
      });
    }
  });
}
