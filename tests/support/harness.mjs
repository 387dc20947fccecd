// For every test in a browser: the server, the browser, a page, and words for what a user does in it.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after } from 'node:test';
import { pathToFileURL } from 'node:url';
import { launch } from '../../scripts/browsers.mjs';
import { serve } from '../../scripts/server.mjs';

/** @typedef {import('../../scripts/browsers.mjs').BrowserName} BrowserName */
/** @typedef {import('puppeteer-core').Page} Page */

/** `GPT2_WEB_BROWSERS=chrome` runs the tests in Chromium only. */
export const BROWSERS = /** @type {BrowserName[]} */ ((process.env.GPT2_WEB_BROWSERS ?? 'chrome,firefox').split(','));

/** @param {string} name */
export function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; ./build.sh test sets it`);
  return value;
}

/** Milliseconds after which a test has failed, even on a busy machine. */
const TIMEOUT_MS = 120_000;

const AXE = await readFile(new URL('../../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
const D3_TICKS = new URL('../../node_modules/d3-array/src/ticks.js', import.meta.url);
const FAKE_WORKER = new URL('../page/fake-worker.js', import.meta.url);

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

/** Runs before the page: each worker runs `preamble` first. @param {string} preamble */
function prepareWorkers(preamble) {
  const Original = Worker;
  globalThis.Worker = class extends Original {
    /** @param {string | URL} url */
    constructor(url) {
      const base = JSON.stringify(new URL(url, location.href).href);
      const own = URL.createObjectURL(new Blob([`${preamble}; self.GPT2_WEB_BASE = ${base}; importScripts(${base});`], { type: 'text/javascript' }));
      super(own);
      URL.revokeObjectURL(own);
      /** @type {any} */ (globalThis).preparedWorker = this;
    }
  };
}

/** A script for `before`: each worker of the page runs `preamble` first. @param {string} preamble */
export const preparing = (preamble) => `(${prepareWorkers})(${JSON.stringify(preamble)});`;

/** A preamble: the worker can be told to panic, and to wait after it has posted this many events of a type. */
const CONTROLLED = `{
  let held = null;
  const waiting = [];
  const post = MessagePort.prototype.postMessage;
  // Between two steps the worker receives its messages through a channel. Without that message the run waits.
  MessagePort.prototype.postMessage = function (...message) {
    if (held?.left === 0) waiting.push(() => post.apply(this, message));
    else post.apply(this, message);
  };
  const report = self.postMessage;
  self.postMessage = function (event, ...more) {
    for (const { type } of [event].flat()) if (held && type === held.type && held.left > 0) held.left--;
    return report.call(self, event, ...more);
  };
  self.addEventListener('message', (event) => {
    const { panic, hold } = event.data ?? {};
    if (panic === undefined && hold === undefined) return;
    event.stopImmediatePropagation();
    if (panic) wasm_bindgen.provoke_panic(panic);
    held = hold;
    if (!held) for (const go of waiting.splice(0)) go();
  });
}`;

/** A server with the built page, and a browser, for the tests of a file. */
export class Site {
  /**
   * @param {import('puppeteer-core').Browser} browser
   * @param {Awaited<ReturnType<typeof serve>>} server
   * @param {string[]} requests paths that were requested so far
   */
  constructor(browser, server, requests) {
    this.browser = browser;
    this.server = server;
    this.requests = requests;
  }

  /** @param {BrowserName} name */
  static async open(name) {
    /** @type {string[]} */ const requests = [];
    const server = await serve(required('GPT2_WEB_SITE'), { onRequest: (path) => requests.push(path) });
    return new Site(await launch(name), server, requests);
  }

  async close() {
    await this.browser.close();
    await this.server.close();
  }

  /** A new tab with the served page, its model loaded. @param {string} [before] runs before the page's scripts */
  served(before) {
    return Visit.open(this.browser, `${this.server.url}/`, before);
  }

  /** The same, with a worker that can be held and can be made to panic. */
  controlled() {
    return this.served(preparing(CONTROLLED));
  }

  /** A new tab with the page in one file, opened from disk, its model loaded. @param {string} [before] runs before the page's scripts */
  fromDisk(before) {
    return Visit.open(this.browser, pathToFileURL(required('GPT2_WEB_ONE_FILE')).href, before);
  }
}

/** A user's visit to the page, in one tab. */
export class Visit {
  /** @type {string[]} Console errors, exceptions, and violations of the page's policy. */ problems = [];
  /** @type {string[]} Addresses the page requested, except `blob:` and `data:`. */ requests = [];

  /** @param {Page} page */
  constructor(page) {
    this.page = page;
  }

  /**
   * @param {import('puppeteer-core').Browser} browser
   * @param {string} url
   * @param {string} [before] runs before the page's scripts
   */
  static async open(browser, url, before) {
    const page = await browser.newPage();
    page.setDefaultTimeout(TIMEOUT_MS);
    await page.setViewport({ width: 1200, height: 900 });
    const visit = new Visit(page);
    page.on('console', (message) => {
      if (message.type() === 'error') visit.problems.push(`console: ${message.text()}`);
    });
    page.on('pageerror', (error) => visit.problems.push(`exception: ${/** @type {Error} */ (error).message}`));
    page.on('request', (request) => {
      if (!/^(blob|data):/.test(request.url())) visit.requests.push(request.url());
    });
    await page.evaluateOnNewDocument(() => {
      /** @type {any} */ (globalThis).violations = [];
      document.addEventListener('securitypolicyviolation', ({ effectiveDirective, blockedURI }) => {
        /** @type {any} */ (globalThis).violations.push(`${effectiveDirective} ${blockedURI}`);
      });
    });
    if (before) await page.evaluateOnNewDocument(before);
    await page.goto(url);
    await visit.reaches('ready');
    return visit;
  }

  /** Ends the visit, and asserts that there was no console error, exception, or violation of the page's policy. */
  async leave() {
    const violations = /** @type {string[]} */ (await this.page.evaluate(() => /** @type {any} */ (globalThis).violations));
    await this.page.close();
    assert.deepEqual([...this.problems, ...violations], []);
  }

  /** Waits for a state of the page. @param {...string} states */
  async reaches(...states) {
    await this.page.waitForFunction((states) => states.includes(document.documentElement.dataset.state ?? ''), {}, states)
      .catch(async (error) => {
        const state = await this.page.evaluate(() => `${document.documentElement.dataset.state}; ${document.getElementById('error')?.textContent}`);
        throw new Error(`the page did not become ${states.join(' or ')} but is ${state}; ${this.problems.join('; ')}`, { cause: error });
      });
  }

  /** Waits until the generated text has at least this length. @param {number} length */
  async hasWritten(length) {
    await this.page.waitForFunction((length) => {
      const tokens = document.querySelectorAll('#output .token');
      return [...tokens].reduce((sum, { textContent }) => sum + (textContent?.length ?? 0), 0) >= length;
    }, { polling: 'mutation' }, length);
  }

  /**
   * Fills in the form like typing does, folded settings included.
   * @param {string} prompt
   * @param {Record<string, string | number | boolean>} settings by option name
   */
  async fill(prompt, settings = {}) {
    await this.page.evaluate((prompt, settings) => {
      const form = /** @type {HTMLFormElement} */ (document.getElementById('form'));
      /** @type {HTMLTextAreaElement} */ (document.getElementById('prompt')).value = prompt;
      for (const [name, value] of Object.entries(settings)) {
        const field = /** @type {HTMLInputElement} */ (form.querySelector(`[name="${name}"]`));
        if (typeof value === 'boolean') field.checked = value;
        else field.value = String(value);
      }
      form.dispatchEvent(new Event('input'));
    }, prompt, settings);
  }

  /** A complete run. @param {string} prompt @param {Record<string, string | number | boolean>} [settings] */
  async run(prompt, settings) {
    await this.fill(prompt, settings);
    // The page leaves its previous state before the click returns.
    await this.page.click('#generate');
    await this.reaches('done', 'error');
    return this.result();
  }

  /** What the page shows. */
  result() {
    return this.page.evaluate(() => {
      const text = (/** @type {string} */ selector) => document.querySelector(selector)?.textContent ?? '';
      const shown = (/** @type {string} */ id) => !document.getElementById(id)?.hidden;
      return {
        prompt: text('#output .prompt'),
        text: [...document.querySelectorAll('#output .token')].map((token) => token.textContent).join(''),
        steps: new Set([...document.querySelectorAll('#output [data-step]')].map((token) => token.getAttribute('data-step'))).size,
        reason: shown('ending') ? text('#stop-reason') : '',
        sentence: shown('ending') ? text('#stop-sentence') : '',
        error: shown('error') ? text('#error p') : '',
      };
    });
  }

  /** Picks files in the page's file chooser and waits until they are loaded or refused. @param {...string} paths */
  async pick(...paths) {
    // The page may have loaded a small file before the next call.
    await this.page.evaluate(() => {
      /** @type {any} */ (globalThis).settled = new Promise((resolve) => {
        const root = document.documentElement;
        new MutationObserver((changes, observer) => {
          if (root.dataset.state === 'loading' || !changes.some(({ oldValue }) => oldValue === 'loading')) return;
          observer.disconnect();
          resolve(undefined);
        }).observe(root, { attributeFilter: ['data-state'], attributeOldValue: true });
      });
    });
    const input = /** @type {import('puppeteer-core').ElementHandle<HTMLInputElement>} */ (await this.page.$('#model-files'));
    await input.uploadFile(...paths);
    await this.page.evaluate(() => /** @type {any} */ (globalThis).settled);
  }

  /** The next run waits after its worker has posted this many events of a type. @param {'prefill' | 'step'} type @param {number} number */
  hold(type, number) {
    return this.#tell({ hold: { type, left: number } });
  }

  /** Lets the run continue. Earlier messages reach the worker first. */
  release() {
    return this.#tell({ hold: null });
  }

  /** Makes the engine panic. @param {string} panic */
  panic(panic) {
    return this.#tell({ panic });
  }

  /** @param {object} message to the worker */
  #tell(message) {
    return this.page.evaluate((message) => /** @type {any} */ (globalThis).preparedWorker.postMessage(message), message);
  }

  /** Records the output at each of its changes, and the state of the page. */
  async watch() {
    await this.page.evaluate(() => {
      /** @type {{ text: string, state: string | undefined }[]} */ const seen = /** @type {any} */ (globalThis).seen = [];
      const output = /** @type {HTMLElement} */ (document.getElementById('output'));
      new MutationObserver(() => seen.push({
        text: [...output.querySelectorAll('.token')].map((token) => token.textContent).join(''),
        state: document.documentElement.dataset.state,
      })).observe(output, { childList: true });
    });
  }

  /** What `watch` recorded. @returns {Promise<{ text: string, state: string }[]>} */
  seen() {
    return this.page.evaluate(() => /** @type {any} */ (globalThis).seen);
  }

  /** A fact from the list about the model. @param {string} term */
  fact(term) {
    return this.page.evaluate((term) => [...document.querySelectorAll('#model-facts dt')]
      .find(({ textContent }) => textContent === term)?.nextElementSibling?.textContent ?? '', term);
  }
}

/**
 * A browser for the tests of a block, whose pages run with the fake worker. Everything is closed after the tests.
 * @param {BrowserName} name
 * @param {import('puppeteer-core').LaunchOptions} [options]
 */
export async function withFakeWorker(name, options = {}) {
  const browser = await launch(name, options);
  /** @type {(() => unknown)[]} */ const cleanup = [() => browser.close()];
  after(async () => { for (const step of cleanup.reverse()) await step(); });

  /** @param {Pick<NonNullable<Parameters<typeof serve>[1]>, 'files' | 'headersOf' | 'policy' | 'cors'> & { hash?: string, before?: (() => void) | undefined }} [options] `before` runs before the page's scripts */
  async function open({ hash = '', before, files, ...options } = {}) {
    /** @type {string[]} */ const requests = [];
    // The page with the fake worker instead of the real one.
    const { url, close } = await serve('www', {
      files: { '/worker.js': FAKE_WORKER, '/vendor/d3-ticks.js': D3_TICKS, ...files }, folders: { '/vendor/': 'node_modules/uplot/dist' }, ...options,
      onRequest: (path) => requests.push(path),
    });
    cleanup.push(close);
    const server = { url: `${url}/`, requests };
    const page = await browser.newPage();
    page.setDefaultTimeout(TIMEOUT_MS);
    /** @type {string[]} */ const complaints = [];
    page.on('console', (message) => { if (message.type() === 'error') complaints.push(message.text()); });
    page.on('pageerror', (error) => complaints.push(String(error)));
    if (before) await page.evaluateOnNewDocument(before);
    await page.goto(server.url + hash);
    return { page, server, complaints };
  }
  return { browser, cleanup, open };
}
