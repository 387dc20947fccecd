// The time from token to token on the page, which shows each of them, and the time of a step.
import { median } from './summary.mjs';

/** @typedef {import('../../www/types/Record.js').Record} Record */

const TOKENS = 400;
/** Number of runs. The first one does not count, because the browser compiles in it. */
const RUNS = 3;

/** Runs before the page's own scripts: keeps the record of the last run. */
function keepRecord() {
  const Original = Worker;
  globalThis.Worker = class extends Original {
    /** @param {string | URL} url */
    constructor(url) {
      super(url);
      this.addEventListener('message', ({ data }) => {
        for (const event of [data].flat()) if (event.type === 'done') Object.assign(globalThis, { record: event.record });
      });
    }
  };
}

/** Generates on the page. @param {number} tokens @param {number} seed @returns {Promise<Record>} */
async function generate(tokens, seed) {
  const scope = /** @type {{ record?: Record | undefined }} */ (/** @type {any} */ (globalThis));
  scope.record = undefined;
  for (const [name, value] of [['max_tokens', tokens], ['seed', seed]]) {
    const field = /** @type {HTMLInputElement} */ (document.querySelector(`[name=${name}]`));
    field.value = String(value);
    field.dispatchEvent(new Event('input', { bubbles: true }));
  }
  /** @type {HTMLButtonElement} */ (document.querySelector('#generate')).click();
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    if (scope.record && document.documentElement.dataset.state === 'done') return scope.record;
  }
}

/**
 * For each run, the milliseconds from token to token and those of a step.
 * @param {import('./tab.mjs').Place} place
 * @returns {Promise<{ ms: number, least: number }[]>}
 */
export async function shown({ browser, url }) {
  const page = await browser.newPage();
  await page.evaluateOnNewDocument(keepRecord);
  await page.goto(`${url}/`);
  await page.waitForFunction(() => document.documentElement.dataset.state === 'ready');
  const runs = [];
  for (let run = 0; run < RUNS; run++) {
    const { steps, decode_ms } = await page.evaluate(generate, TOKENS, run + 1);
    const least = median(steps.slice(1).map(({ forward_ms, sample_ms }) => forward_ms + sample_ms));
    if (run > 0) runs.push({ ms: decode_ms / (steps.length - 1), least });
  }
  await page.close();
  return runs;
}
