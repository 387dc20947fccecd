/** What the tests of the page stand on: a browser, a page that is watched, and words for what a user does. */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after } from 'node:test';

import { launch } from '../../scripts/browsers.mjs';
import { serve } from '../../scripts/server.mjs';

/** @typedef {import('puppeteer-core').Page} Page */
/** @typedef {import('../../scripts/browsers.mjs').BrowserName} BrowserName */

export const BROWSERS = /** @type {BrowserName[]} */ ((process.env['BROWSERS'] ?? 'chrome firefox').split(' '));
const AXE = await readFile(new URL('../../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

const FAKE_WORKER = new URL('fake-worker.js', import.meta.url);
/** Milliseconds, long enough for a busy machine: a test that waits this long has failed. */
const PATIENCE = 120_000;

/** @param {Page} page @param {string} state */
export const reach = (page, state) => page.waitForFunction((state) => document.documentElement.dataset['state'] === state, {}, state);
/** @param {Page} page @param {string} selector */
export const text = (page, selector) => page.$eval(selector, (element) => element.textContent ?? '');
/** @param {Page} page @param {string} selector @param {string} value */
export const fill = (page, selector, value) => page.$eval(selector, (field, value) => {
  /** @type {HTMLInputElement} */ (field).value = value;
  field.dispatchEvent(new Event('input', { bubbles: true }));
}, value);
/** @param {Page} page @param {string} selector */
export const click = (page, selector) => page.$eval(selector, (element) => /** @type {HTMLElement} */ (element).click());
/** @param {Page} page */
export async function axe(page) {
  await page.evaluate(`${AXE}; 0`);
  const found = /** @type {string[]} */ (await page.evaluate(
    "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target).join(' ')}`))"));
  assert.deepEqual(found, []);
}

/**
 * A browser for the tests of a block; closed with everything that was opened after them.
 * @param {BrowserName} name
 * @param {import('puppeteer-core').LaunchOptions} [options]
 */
export async function start(name, options = {}) {
  const browser = await launch(name, options);
  /** @type {(() => unknown)[]} */ const cleanup = [() => browser.close()];
  after(async () => { for (const step of cleanup.reverse()) await step(); });

  /** @param {Pick<NonNullable<Parameters<typeof serve>[1]>, 'files' | 'headersOf' | 'policy' | 'cors'> & { hash?: string, before?: (() => void) | undefined }} [options] `before` runs in the page, before its scripts */
  async function open({ hash = '', before, files, ...options } = {}) {
    /** @type {string[]} */ const requests = [];
    // The page as it is served, with the fake worker in the place of the real one.
    const { url, close } = await serve('www', {
      files: { '/worker.js': FAKE_WORKER, ...files }, folders: { '/vendor/': 'node_modules/uplot/dist' }, ...options,
      onRequest: (path) => requests.push(path),
    });
    cleanup.push(close);
    const server = { url: `${url}/`, requests };
    const page = await browser.newPage();
    page.setDefaultTimeout(PATIENCE);
    /** @type {string[]} */ const complaints = [];
    page.on('console', (message) => { if (message.type() === 'error') complaints.push(message.text()); });
    page.on('pageerror', (error) => complaints.push(String(error)));
    if (before) await page.evaluateOnNewDocument(before);
    await page.goto(server.url + hash);
    return { page, server, complaints };
  }
  return { browser, cleanup, open };
}
