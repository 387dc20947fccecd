/** The page where it cannot start: it says why, and what to do. */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';

import { BROWSERS, reach, text, withFakeWorker } from '../support/harness.mjs';
import { POLICY } from '../../scripts/server.mjs';

const PAGE = new URL('../../www/index.html', import.meta.url);

for (const name of BROWSERS) {
  describe(name, async () => {
    const { browser, open } = await withFakeWorker(name);

    test('opened from disk the page tells what to open instead', async () => {
      const page = await browser.newPage();
      await page.goto(PAGE.href);
      await reach(page, 'error');
      assert.match(await text(page, '#error'), /Open gpt2-web\.html.*or serve this folder/);
      assert.equal(await text(page, '#model-status'), 'not loaded');
      assert.equal(await page.$eval('#load-progress', (bar) => /** @type {HTMLElement} */ (bar).hidden), true);
      await page.close();
    });

    test('the browser under test is as strict on files from disk as users have it', async () => {
      const page = await browser.newPage();
      await page.goto(PAGE.href);
      assert.equal(await page.evaluate(() => fetch('style.css').then(() => 'read', () => 'refused')), 'refused');
      await page.close();
    });

    test('a sandboxed frame whose host sends no CORS header names the header', async () => {
      const { page } = await open({
        cors: false,
        policy: `${POLICY}; frame-src 'self'`,
        files: { '/': '<!doctype html><iframe sandbox="allow-scripts" src="index.html" width="1000" height="800"></iframe>' },
      });
      const frame = await page.waitForFrame((frame) => frame.url().endsWith('index.html'));
      await frame.waitForSelector('[data-state="error"] #error:not([hidden])');
      assert.match(await frame.$eval('#error', (box) => box.textContent), /Access-Control-Allow-Origin/);
      await page.close();
    });

    test('a script that is not there, or fails at its withFakeWorker, is a sentence', async () => {
      for (const [path, content, said] of /** @type {[string, string | URL, RegExp][]} */ ([
        ['/page/app.js', new URL('missing', import.meta.url), /page\/app\.js could not be loaded/],
        ['/page/timeline-summary.js', new URL('missing', import.meta.url), /page\/app\.js could not be loaded/],
        ['/page/app.js', 'throw new Error("too old");', /could not start: .*too old.*needs a current browser/],
        ['/page/app.js', 'a syntax of tomorrow', /could not start: .*SyntaxError/],
      ])) {
        const { page } = await open({ files: { [path]: content } });
        await reach(page, 'error');
        assert.match(await text(page, '#error'), said);
        await page.close();
      }
    });
  });
}

test('without JavaScript the page says that it needs it', async () => {
  assert.match(await readFile(PAGE, 'utf8'), /<noscript>.*needs JavaScript/);
});
