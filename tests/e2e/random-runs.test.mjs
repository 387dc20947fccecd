// Random actions on the real client and worker, and what must hold after each of them (tests/e2e/random/).
// `./build.sh test --random 5000` runs longer; GPT2_WEB_SEED repeats a seed.
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { test } from 'node:test';
import { launch } from '../../scripts/browsers.mjs';
import { serve } from '../../scripts/server.mjs';
import { BROWSERS, required } from '../support/harness.mjs';

const SEED = Number(process.env.GPT2_WEB_SEED ?? randomInt(2 ** 32));
/** Actions in each browser, unless GPT2_WEB_RUNS is set. */
const RUNS = { chrome: 300, firefox: 100 };
/** Actions in one call of the page. */
const PART = 50;

for (const browser of BROWSERS) {
  const runs = Number(process.env.GPT2_WEB_RUNS ?? RUNS[browser]);
  test(`${runs} random actions from seed ${SEED} in ${browser}: every request ends once, and the next one works`, async (context) => {
    const server = await serve(required('GPT2_WEB_SITE'), {
      files: { '/random': '<!doctype html><title>random runs</title>' },
      folders: { '/random/': 'tests/e2e/random', '/fixtures/': 'tests/fixtures/gguf' },
    });
    // If a call does not end, a request does not.
    const opened = await launch(browser, { protocolTimeout: 300_000 });
    try {
      const page = await opened.newPage();
      await page.goto(`${server.url}/random`);
      await page.evaluate(async (seed) => {
        // @ts-ignore: a path of the served page
        const { Session } = await import('/random/runs.mjs');
        /** @type {any} */ (globalThis).session = new Session(seed);
        await /** @type {any} */ (globalThis).session.begin();
      }, SEED);
      for (let done = 0; done < runs; done += PART) {
        await page.evaluate((number) => /** @type {any} */ (globalThis).session.go(number), Math.min(PART, runs - done)).catch(async (cause) => {
          const log = await page.evaluate(() => /** @type {any} */ (globalThis).session.log);
          throw new Error(`after about ${done} actions from seed ${SEED} in ${browser}: ${cause.message}\n  ${log.join('\n  ')}`, { cause });
        });
        if (done === 0) await page.evaluate(() => /** @type {any} */ (globalThis).session.useEmbedded());
      }
      await page.evaluate(() => /** @type {any} */ (globalThis).session.fallSilent());
      const counts = await page.evaluate(() => /** @type {any} */ (globalThis).session.end());
      context.diagnostic(`${browser}, seed ${SEED}: ${JSON.stringify(counts)}`);
      assert.ok(counts.workers > 1 || runs < PART);
    } finally {
      await opened.close();
      await server.close();
    }
  });
}
