/**
 * The page and the client in real browsers against the fake worker, under the strict policy: the states that a healthy
 * model never shows. `BROWSERS=chrome` or `BROWSERS=firefox` runs one of the two.
 */

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { BROWSERS, axe, click, fill, reach, text, withFakeWorker } from '../support/harness.mjs';
import { POLICY } from '../../scripts/server.mjs';

const MODULE = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
const GLUE = `let wasm_bindgen = Object.assign(async ({ module_or_path }) => WebAssembly.instantiateStreaming(module_or_path), {
  start_worker() { self.onmessage = ({ data }) => self.postMessage({ type: 'error', id: data.id, kind: 'not_a_model', message: 'the glue ran' }); },
});`;

for (const name of BROWSERS) {
  describe(name, async () => {
    const { cleanup, open } = await withFakeWorker(name);

    test('text streams under a strict policy, with no request after the load and no complaint', async () => {
      const { page, server, complaints } = await open();
      await page.waitForFunction(() => /** @type {HTMLProgressElement} */ (document.querySelector('#load-progress')).value > 0);
      assert.equal(await page.$eval('#generate', (button) => button.getAttribute('aria-disabled')), 'true');
      await reach(page, 'ready');
      await axe(page);
      const before = server.requests.length;
      await click(page, '#generate');
      await page.waitForFunction(() => document.querySelectorAll('#output [data-step]').length > 5);
      assert.equal(await page.$eval('#output', (output) => output.getAttribute('aria-busy')), 'true');
      await reach(page, 'done');
      assert.equal(await text(page, '#stop-reason'), 'max_tokens');
      assert.equal(await page.$$eval('#output [data-step]', (tokens) => new Set(tokens.map((token) => token.getAttribute('data-step'))).size), 128);
      assert.match(await text(page, '#announcement'), /Finished after 128 tokens\. Reached the limit/);
      await axe(page);
      assert.equal(server.requests.length, before);
      assert.deepEqual(complaints, []);
      await page.close();
    });

    test('a token shows its alternatives, by pointer and by keyboard; a character in three tokens is one', async () => {
      const { page } = await open();
      await reach(page, 'ready');
      await fill(page, '#prompt', 'KANJI');
      await click(page, '#generate');
      await reach(page, 'done');
      await page.click('[data-step="3"]');
      assert.equal(await text(page, '[data-step="3"]'), '漢');
      assert.match(await text(page, '#inspector'), /Token 4 of 128.*incomplete character, bytesA2/);
      assert.equal(await page.$$eval('#inspector tbody tr', (rows) => rows.length), 6);
      await click(page, '#token-previous');
      assert.match(await text(page, '#inspector'), /Token 3 of 128.*incomplete character, bytesBC/);
      await page.focus('[data-step="3"]');
      await page.keyboard.press('ArrowRight');
      assert.match(await text(page, '#inspector'), /Token 6 of 128/);
      assert.equal(await page.$eval('[data-step="5"]', (token) => document.activeElement === token), true);
      await axe(page);
      await page.keyboard.press('Escape');
      assert.match(await text(page, '#inspector'), /Click a token/);
      await page.close();
    });

    for (const [reason, prompt, fields] of /** @type {[string, string, { [selector: string]: string }][]} */ ([
      ['stop_string', 'a', { '#stop-at': 'old lime\n\\n\\n' }],
      ['timeout', 'a', { '#timeout-ms': '30', '#max-tokens': '400' }],
      ['context_full', 'LONG', { '#max-tokens': '400' }],
      ['cancelled', 'LONG', {}],
    ])) {
      test(`a run that ends by ${reason} says so`, async () => {
        const { page } = await open();
        await reach(page, 'ready');
        await fill(page, '#prompt', prompt);
        for (const [selector, value] of Object.entries(fields)) await fill(page, selector, value);
        await click(page, '#generate');
        if (reason === 'cancelled') {
          await page.waitForSelector('#prefill:not([hidden])');
          await click(page, '#stop');
        }
        await reach(page, 'done');
        assert.equal(await text(page, '#stop-reason'), reason);
        if (reason === 'stop_string') assert.doesNotMatch(await text(page, '#output'), /lime/);
        if (reason === 'context_full') assert.match(await text(page, '#stop-sentence'), /^The context window is full \(512 positions\)/);
        await click(page, '#generate');
        await reach(page, 'done');
        await page.close();
      });
    }

    test('after a panic the page says so, and the next run works', async () => {
      const { page } = await open();
      await reach(page, 'ready');
      await fill(page, '#prompt', 'PANIC');
      await click(page, '#generate');
      await reach(page, 'error');
      assert.match(await text(page, '#error'), /panicked at src\/gpt2\/cache.rs:88.*The model has been reloaded/);
      await axe(page);
      await fill(page, '#prompt', 'a');
      await click(page, '#generate');
      await reach(page, 'done');
      assert.equal(await page.$eval('#error', (box) => /** @type {HTMLElement} */ (box).hidden), true);
      await page.close();
    });

    test('a file that is no model is refused in a sentence, and the model before it still writes', async () => {
      const { page } = await open();
      await reach(page, 'ready');
      const folder = await mkdtemp(join(tmpdir(), 'gpt2-web-'));
      cleanup.push(() => rm(folder, { recursive: true }));
      await writeFile(join(folder, 'broken.gguf'), '<!doctype html>');
      const picker = await page.$('#model-files');
      await /** @type {import('puppeteer-core').ElementHandle<HTMLInputElement>} */ (picker).uploadFile(join(folder, 'broken.gguf'));
      await reach(page, 'error');
      assert.match(await text(page, '#error'), /broken\.gguf could not be opened.*HTML page.*fairy-12m is still loaded/);
      await click(page, '#generate');
      await reach(page, 'done');
      await page.close();
    });

    test('a link fills the form; what it cannot use is named', async () => {
      const hash = '#prompt=A+fox&temperature=-3&tmperature=2&seed=5&stop=%0A%0A&max_tokens=3';
      const { page } = await open({ hash });
      await reach(page, 'ready');
      const value = (/** @type {string} */ selector) => page.$eval(selector, (field) => /** @type {HTMLInputElement} */ (field).value);
      assert.deepEqual([await value('#prompt'), await value('#seed'), await value('#stop-at'), await value('#temperature')], ['A fox', '5', '\\n\\n', '0.7']);
      assert.match(await text(page, '#notice'), /temperature=-3 must be at least 0; using 0\.7.*tmperature=2 is not a setting/);
      await click(page, '#generate');
      await reach(page, 'done');
      assert.equal(await page.$$eval('#output [data-step]', (tokens) => tokens.length), 3);
      await page.close();
    });

    test('a link means the same wherever it is followed, however it spells a number', async () => {
      const { page } = await open({ hash: '#prompt=A+fox&seed=0x10&max_tokens=%2B5&temperature=5.&min_p=%201&top_k=1e3&stop=%0D%0A%0D&parse_special=true&__proto__=x' });
      await reach(page, 'ready');
      const values = () => page.$$eval('#form [name]', (fields) => Object.fromEntries(fields.map((field) => {
        const { name, type, value, checked } = /** @type {HTMLInputElement} */ (field);
        return [name, type === 'checkbox' ? checked : value];
      })));
      const { seed, max_tokens, temperature, min_p, top_k, stop, parse_special } = await values();
      assert.deepEqual([seed, max_tokens, temperature, min_p, top_k, stop, parse_special], ['16', '5', '5', '1', '1000', '\\r\\n\\r', true]);
      assert.match(await text(page, '#notice'), /__proto__=x is not a setting/);
      assert.equal(await page.$$eval('#notice li', (items) => items.length), 1);
      await click(page, '#generate');
      await reach(page, 'done');
      assert.match(await text(page, '#effective'), /“\\r\\n\\r”/);

      await page.evaluate(() => { location.hash = '#max_tokens=7'; });
      await page.waitForFunction(() => /** @type {HTMLInputElement} */ (document.querySelector('#max-tokens')).value === '7');
      const { max_tokens: second, ...others } = await values();
      const fresh = await open();
      await reach(fresh.page, 'ready');
      const { max_tokens: _, ...defaults } = await fresh.page.$$eval('#form [name]', (fields) => Object.fromEntries(fields.map((field) => {
        const { name, type, value, checked } = /** @type {HTMLInputElement} */ (field);
        return [name, type === 'checkbox' ? checked : value];
      })));
      assert.deepEqual([second, others], ['7', defaults]);
      assert.equal(await page.$eval('#notice', (box) => /** @type {HTMLElement} */ (box).hidden), true);
      await fresh.page.close();
      await page.close();
    });

    test('a reload forgets what was set by hand, hidden settings too', async () => {
      const { page } = await open();
      await reach(page, 'ready');
      await page.click('#settings summary');
      await page.focus('#max-tokens');
      await page.keyboard.type('9');
      await page.reload();
      await reach(page, 'ready');
      assert.equal(await page.$eval('#max-tokens', (field) => /** @type {HTMLInputElement} */ (field).value), '128');
      await page.close();
    });

    test('a value out of range is refused at its field', async () => {
      const { page } = await open();
      await reach(page, 'ready');
      await fill(page, '#top-p', '0');
      await click(page, '#generate');
      assert.match(await text(page, '#error'), /Top-p must be above 0\./);
      assert.equal(await page.evaluate(() => document.activeElement?.id), 'top-p');
      await page.close();
    });

    test('a policy that forbids the worker or WebAssembly is named by its directive', async () => {
      const noWorker = await open({ policy: POLICY.replace("worker-src 'self' blob:", "worker-src 'none'") });
      await reach(noWorker.page, 'error');
      assert.match(await text(noWorker.page, '#error'), /forbids the worker; it needs worker-src 'self' blob:/);
      await noWorker.page.close();
      const files = { '/worker.js': new URL('../../www/worker.js', import.meta.url), '/gpt2_web.js': GLUE, '/gpt2_web_bg.wasm': MODULE };
      const noWasm = await open({ policy: POLICY.replace(" 'wasm-unsafe-eval'", ''), files });
      await reach(noWasm.page, 'error');
      assert.match(await text(noWasm.page, '#error'), /forbids WebAssembly; it needs script-src 'wasm-unsafe-eval'/);
      await noWasm.page.close();
      const both = await open({ files });
      await reach(both.page, 'error');
      assert.match(await text(both.page, '#error'), /The glue ran/, 'a request posted before the wasm was there is answered');
      await both.page.close();
    });

    test('a policy that forbids the downloads is named by its directive: of the model, the list of models, and the wasm', async () => {
      const files = { '/worker.js': new URL('../../www/worker.js', import.meta.url), '/gpt2_web.js': GLUE, '/gpt2_web_bg.wasm': MODULE };
      const { page, server } = await open({ policy: POLICY.replace(/connect-src.*/, "connect-src 'none'"), files });
      await reach(page, 'error');
      const needed = new RegExp(`Content-Security-Policy forbids a request.*it needs connect-src ${server.url.slice(0, -1)} `);
      assert.match(await text(page, '#error'), needed);
      await page.waitForFunction(() => document.querySelector('#catalog')?.textContent !== '');
      assert.match(await text(page, '#catalog'), needed);
      const { kind, message } = /** @type {{ kind: string, message: string }} */ (await page.evaluate(async () => {
        // @ts-ignore: a path of the served page
        const { Gpt2Web } = await import('/gpt2-web.js');
        return new Gpt2Web().load({ name: 'm', files: [new File(['GGUF'], 'm.gguf')] })
          .catch((/** @type {any} */ { kind, message }) => ({ kind, message }));
      }));
      assert.equal(kind, 'blocked_by_policy', message);
      assert.match(message, needed);
      await page.close();
    });

    test('the page runs in a sandboxed frame, which has no origin, no storage and no forms', async () => {
      const { page } = await open({
        policy: `${POLICY}; frame-src 'self'`,
        files: { '/': '<!doctype html><iframe sandbox="allow-scripts" src="index.html" width="1000" height="800"></iframe>' },
      });
      const frame = await page.waitForFrame((frame) => frame.url().endsWith('index.html'));
      await frame.waitForSelector('[data-state="ready"] #generate[aria-disabled="false"]');
      await frame.$eval('#generate', (button) => /** @type {HTMLElement} */ (button).click());
      await frame.waitForSelector('[data-state="done"]');
      assert.equal(await frame.$eval('#stop-reason', (badge) => badge.textContent), 'max_tokens');
      await page.close();
    });

    test('Ctrl and Enter start a run from the prompt, Enter from a setting', async () => {
      const { page } = await open();
      await reach(page, 'ready');
      for (const [field, keys] of /** @type {const} */ ([['#prompt', ['Control', 'Enter']], ['#max-tokens', ['Enter']]])) {
        await page.$eval('#settings', (fold) => { /** @type {HTMLDetailsElement} */ (fold).open = true; });
        await page.focus(field);
        for (const key of keys) await page.keyboard.down(key);
        for (const key of keys) await page.keyboard.up(key);
        await reach(page, 'running');
        await reach(page, 'done');
      }
      await page.close();
    });

    test('a wasm or a model that is not there is a sentence', async () => {
      const noWasm = await open({ files: { '/worker.js': new URL('../../www/worker.js', import.meta.url), '/gpt2_web.js': GLUE } });
      await reach(noWasm.page, 'error');
      assert.match(await text(noWasm.page, '#error'), /gpt2_web_bg\.wasm: the server answered 404/);
      await noWasm.page.close();
      const noModel = await open({ files: { '/models/fairy-12m-q8_0.gguf': new URL('missing', import.meta.url) } });
      await reach(noModel.page, 'error');
      assert.match(await text(noModel.page, '#error'), /The download of fairy-12m-q8_0\.gguf failed: 127.* answered 404.*models\/fairy-12m.*Try again/);
      await noModel.page.close();
    });
  });
}
