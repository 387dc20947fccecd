// How long the page takes from its opening to its first token if Generate is pressed at once.

/** The first start of a round fills the HTTP cache and does not count. */
const OPENINGS = 4;

/** Runs before the page's own scripts: presses Generate when the model is ready, and records the time of the first token. */
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
