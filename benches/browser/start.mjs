// How soon after its opening the page shows a token, where nobody waits before pressing Generate.

/** The first of a round fills the HTTP cache and does not count. */
const OPENINGS = 4;

/** Runs before the page's own scripts: presses Generate as soon as there is a model, and notes the first token. */
function pressAtOnce() {
  const page = /** @type {{ pressed?: boolean, firstTokenAt?: number }} */ (globalThis);
  new MutationObserver(() => {
    if (document.documentElement.dataset.state === 'ready' && !page.pressed) {
      page.pressed = true;
      /** @type {HTMLButtonElement} */ (document.querySelector('#generate')).click();
    }
    if (!page.firstTokenAt && document.querySelector('[data-step]')) page.firstTokenAt = performance.now();
  }).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ['data-state'] });
}

/**
 * Milliseconds from opening the page to its first token, several times.
 * @param {import('./tab.mjs').Place} place
 * @returns {Promise<number[]>}
 */
export async function starts({ browser, url }) {
  const times = [];
  for (let opening = 0; opening < OPENINGS; opening++) {
    const page = await browser.newPage();
    await page.evaluateOnNewDocument(pressAtOnce);
    await page.goto(`${url}/`);
    await page.waitForFunction(() => 'firstTokenAt' in globalThis);
    const ms = await page.evaluate(() => /** @type {{ firstTokenAt: number }} */ (/** @type {any} */ (globalThis)).firstTokenAt);
    if (opening > 0) times.push(ms);
    await page.close();
  }
  return times;
}
