// What runs and loads leave behind: nothing. Chromium alone tells.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BROWSERS, Site, preparing } from '../support/harness.mjs';

const TINY = 'tests/fixtures/gguf/f32.gguf';
const RUNS = 200;
const LOADS = 20;
/** A heap may grow by this much: compiled code, caches that fill once. A leak of 10 KB a run is twice as much. */
const SLACK = 1e6;

/** Keeps an eye on what a page or a worker makes of these kinds, without keeping it alive. @param {string[]} kinds */
function watch(kinds) {
  const scope = /** @type {any} */ (globalThis);
  /** @type {Record<string, WeakRef<object>[]>} */ const made = {};
  for (const kind of kinds) {
    /** @type {WeakRef<object>[]} */ const list = made[kind] = [];
    scope[kind] = class extends scope[kind] {
      /** @param {any[]} given */
      constructor(...given) {
        super(...given);
        // A channel is forgotten at once; its ports are what remains.
        list.push(new WeakRef(this.port1 ?? this));
      }
    };
  }
  const { createObjectURL, revokeObjectURL } = URL;
  const addresses = new Set();
  URL.createObjectURL = (blob) => {
    const url = createObjectURL.call(URL, blob);
    addresses.add(url);
    return url;
  };
  URL.revokeObjectURL = (url) => {
    addresses.delete(url);
    revokeObjectURL.call(URL, url);
  };
  scope.living = () => ({
    ...Object.fromEntries(Object.entries(made).map(([kind, list]) => [kind, list.filter((ref) => ref.deref()).length])),
    addresses: addresses.size,
  });
}

const WATCHED = ['MessageChannel', 'ReadableStream'];
const BEFORE = `${preparing(`(${watch})(${JSON.stringify(WATCHED)})`)} (${watch})(${JSON.stringify([...WATCHED, 'Worker'])});`;

/** What lives in a page or a worker, and the size of its heap, when its rubbish is gone. @param {import('puppeteer-core').CDPSession} client */
async function living(client) {
  await client.send('HeapProfiler.collectGarbage');
  const { result } = await client.send('Runtime.evaluate', { expression: 'living()', returnByValue: true });
  return { counts: result.value, heap: (await client.send('Runtime.getHeapUsage')).usedSize };
}

test(`${RUNS} runs and ${LOADS} loads leave no port, no worker, no address of a blob and no memory behind`, { skip: !BROWSERS.includes('chrome') }, async (context) => {
  const site = await Site.open('chrome');
  try {
    const visit = await site.served(BEFORE);
    const session = await visit.page.createCDPSession();
    const work = async (/** @type {number} */ runs, /** @type {number} */ loads) => {
      for (let load = 0; load < loads; load++) await visit.pick(TINY);
      for (let run = 0; run < runs; run++) assert.equal((await visit.run('a b', { max_tokens: 3, seed: run })).error, '');
    };
    const measure = async () => {
      const workers = visit.page.workers();
      assert.equal(workers.length, 1);
      return {
        page: await living(session),
        worker: await living(/** @type {import('puppeteer-core').WebWorker} */ (workers[0]).client),
        memory: await visit.fact('worker memory'),
      };
    };
    await work(20, 3);
    const before = await measure();
    await work(RUNS, LOADS);
    const after = await measure();
    context.diagnostic(`before ${JSON.stringify(before)}; after ${JSON.stringify(after)}`);
    for (const place of /** @type {const} */ (['page', 'worker'])) {
      // There may be fewer: what the last run before was about to give back.
      for (const [kind, count] of Object.entries(after[place].counts)) assert.ok(count <= before[place].counts[kind], `${kind} in the ${place}: ${before[place].counts[kind]}, and then ${count}`);
      const grown = after[place].heap - before[place].heap;
      assert.ok(grown < SLACK, `the heap of the ${place} grew by ${grown} bytes`);
    }
    assert.equal(after.memory, before.memory);
    await visit.leave();
  } finally {
    await site.close();
  }
});
