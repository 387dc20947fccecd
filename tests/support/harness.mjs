// For every test in a browser: a server, a browser, a watched page, and what a user does in it.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after } from 'node:test';
import { pathToFileURL } from 'node:url';
import { launch } from '../../scripts/browsers.mjs';
import { serve } from '../../scripts/server.mjs';

/** @typedef {import('../../scripts/browsers.mjs').BrowserName} BrowserName */
/** @typedef {import('puppeteer-core').Page} Page */

/** `GPT2_WEB_BROWSERS=chrome` runs the tests in one of them only. */
export const BROWSERS = /** @type {BrowserName[]} */ ((process.env.GPT2_WEB_BROWSERS ?? 'chrome,firefox').split(','));

/** @param {string} name */
export function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; ./build.sh test sets it`);
  return value;
}

/** Milliseconds, long enough for a busy machine: a test that waits this long has failed. */
const PATIENCE_MS = 120_000;

const AXE = await readFile(new URL('../../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
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

/** A script that runs before the page and has each of its workers run `preamble` first. @param {string} preamble */
export const preparing = (preamble) => `(${prepareWorkers})(${JSON.stringify(preamble)});`;

/** What a worker can be told beside its requests: to panic, and to wait when it has posted so many events of a type. */
const OBEDIENT = `{
  let held = null;
  const waiting = [];
  const post = MessagePort.prototype.postMessage;
  // Between two steps the worker lets its messages in through a channel: whoever keeps that message holds the run.
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

/** One browser and one server for the tests of a file. */
export class Site {
  /**
   * @param {import('puppeteer-core').Browser} browser
   * @param {Awaited<ReturnType<typeof serve>>} server
   * @param {string[]} requests what the server was asked for, as it comes
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

  /** A new tab with the served page, its model loaded. @param {string} [before] the page's scripts runs this one */
  served(before) {
    return Visit.open(this.browser, `${this.server.url}/`, before);
  }

  /** The same, with a worker that can be held and made to panic. */
  obedient() {
    return this.served(preparing(OBEDIENT));
  }

  /** A new tab with the page in one file, opened from disk, its model loaded. @param {string} [before] the page's scripts runs this one */
  fromDisk(before) {
    return Visit.open(this.browser, pathToFileURL(required('GPT2_WEB_ONE_FILE')).href, before);
  }
}

/** One tab. */
export class Visit {
  /** @type {string[]} Console errors, exceptions, and violations of the page's policy. */ problems = [];
  /** @type {string[]} Addresses the page asked for, but for those that name its own memory. */ requests = [];

  /** @param {Page} page */
  constructor(page) {
    this.page = page;
  }

  /**
   * @param {import('puppeteer-core').Browser} browser
   * @param {string} url
   * @param {string} [before] the page's scripts runs this one
   */
  static async open(browser, url, before) {
    const page = await browser.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
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

  /** Ends the visit: nothing went wrong in it that only a developer would see. */
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

  /** Waits until `test` holds of the generated text's length. @param {number} length */
  async hasWritten(length) {
    await this.page.waitForFunction((length) => {
      const tokens = document.querySelectorAll('#output .token');
      return [...tokens].reduce((sum, { textContent }) => sum + (textContent?.length ?? 0), 0) >= length;
    }, { polling: 'mutation' }, length);
  }

  /**
   * Fills the form as typing does, folded settings included.
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

  /** One whole run. @param {string} prompt @param {Record<string, string | number | boolean>} [settings] */
  async run(prompt, settings) {
    await this.fill(prompt, settings);
    // The page leaves its former state before the click returns.
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

  /** Picks files in the page's file chooser and waits for what comes of it. @param {...string} paths */
  async pick(...paths) {
    // The page may be done with a small file before anyone looks.
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

  /** The run to come waits when its worker has posted so many events of a type. @param {'prefill' | 'step'} type @param {number} number */
  hold(type, number) {
    return this.#tell({ hold: { type, left: number } });
  }

  /** The run goes on. What was told the worker before reaches it before. */
  release() {
    return this.#tell({ hold: null });
  }

  /** The engine panics. @param {string} panic */
  panic(panic) {
    return this.#tell({ panic });
  }

  /** @param {object} word */
  #tell(word) {
    return this.page.evaluate((word) => /** @type {any} */ (globalThis).preparedWorker.postMessage(word), word);
  }

  /** Keeps what the output holds at each of its changes, and whether the run went on then. */
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

  /** What `watch` saw. @returns {Promise<{ text: string, state: string }[]>} */
  seen() {
    return this.page.evaluate(() => /** @type {any} */ (globalThis).seen);
  }

  /** A fact from the card of the model. @param {string} term */
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
    page.setDefaultTimeout(PATIENCE_MS);
    /** @type {string[]} */ const complaints = [];
    page.on('console', (message) => { if (message.type() === 'error') complaints.push(message.text()); });
    page.on('pageerror', (error) => complaints.push(String(error)));
    if (before) await page.evaluateOnNewDocument(before);
    await page.goto(server.url + hash);
    return { page, server, complaints };
  }
  return { browser, cleanup, open };
}
