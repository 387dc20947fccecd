// `./build.sh bench [--json FILE]`: the embedded model in a headless Chromium. How the time of a step depends on its
// position, how fast a long prompt is processed, and how soon after opening the page the first token stands there.
import { open, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { launch } from './browsers.mjs';
import { serve } from './server.mjs';

const { values } = parseArgs({ options: { site: { type: 'string' }, json: { type: 'string' } } });
if (!values.site) throw new Error('bench.mjs needs --site');
if (values.json) await (await open(values.json, 'a')).close(); // fails now rather than after the measurements

const RUNS = 4;
/** Steps on each side of a position that count as being at it. */
const NEAR = 8;

/** @param {number[]} numbers */
function median(numbers) {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? NaN;
}

/** Runs in the page: a run to the end of the context for each seed. @param {number} runs */
async function decode(runs) {
  // @ts-ignore: a path of the served page
  const { Gpt2Web } = await import('/gpt2-web.js');
  const client = new Gpt2Web();
  const { model } = await client.loadEmbedded();
  const steps = [];
  const prefills = [];
  for (let seed = 0; seed < runs; seed++) {
    // The end of a tale ends a run: the next seed goes on where it can.
    for await (const event of client.generate('Once upon a time', { seed, temperature: 1, max_tokens: model.context_length })) {
      if (event.type === 'step' && event.step > 0) steps.push({ position: event.position, ms: event.forward_ms });
    }
    const long = 'Once upon a time there was a king. '.repeat(model.context_length / 10);
    for await (const event of client.generate(long, { seed, max_tokens: 1 })) {
      if (event.type === 'done') prefills.push(event.record.prompt_ids.length / event.record.prefill_ms * 1000);
    }
  }
  return { model, steps, prefills };
}

/** Runs before the page's own scripts: presses Generate as soon as there is a model, and notes the first token. */
function pressAtOnce() {
  const page = /** @type {any} */ (globalThis);
  new MutationObserver(() => {
    if (document.documentElement.dataset.state === 'ready' && !page.readyAt) {
      page.readyAt = performance.now();
      /** @type {HTMLButtonElement} */ (document.querySelector('#generate')).click();
    }
    if (!page.firstTokenAt && document.querySelector('[data-step]')) page.firstTokenAt = performance.now();
  }).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ['data-state'] });
}

const server = await serve(values.site, { pages: { '/bench': '<!doctype html><title>bench</title>' } });
const browser = await launch('chrome', { protocolTimeout: 0 });
const page = await browser.newPage();
await page.goto(`${server.url}/bench`);
const { model, steps, prefills } = await page.evaluate(decode, RUNS);
const version = await browser.version();

const starts = [];
await page.evaluateOnNewDocument(pressAtOnce);
// The first opening fills the HTTP cache and does not count.
for (let run = 0; run <= RUNS; run++) {
  await page.goto(`${server.url}/`);
  await page.waitForFunction(() => 'firstTokenAt' in globalThis);
  if (run > 0) starts.push(await page.evaluate(() => /** @type {any} */ (globalThis).firstTokenAt));
}
await browser.close();
await server.close();

const about = { system: 'gpt2-web', precision: model.precision };
const places = [16, 128, 256, 384, model.context_length - NEAR].filter((place) => place < model.context_length);
/** @type {{ measure: string, system: string, precision: string, position: number | null, value: number, unit: string }[]} */
const results = places.map((position) => {
  const near = steps.filter((step) => Math.abs(step.position - position) <= NEAR);
  return { measure: 'decode', ...about, position, value: median(near.map((step) => step.ms)), unit: 'ms' };
});
results.push({ measure: 'prefill', ...about, position: null, value: median(prefills), unit: 'tokens/s' });
results.push({ measure: 'start', ...about, position: null, value: median(starts), unit: 'ms' });

const first = results[0]?.value ?? NaN;
console.log(`${model.name} ${model.precision}, context ${model.context_length}; ${version}; ${cpus()[0]?.model}`);
console.log('\nmeasure   position     median            of position 16');
for (const { measure, position, value, unit } of results) {
  const ratio = measure === 'decode' ? `${(value / first).toFixed(2)} x` : '';
  console.log(`${measure.padEnd(9)} ${String(position ?? '').padStart(8)} ${value.toFixed(2).padStart(10)} ${unit.padEnd(10)} ${ratio.padStart(8)}`);
}
if (values.json) {
  const machine = { processor: cpus()[0]?.model, cores: cpus().length, browser: version };
  await writeFile(values.json, `${JSON.stringify({ machine, results }, null, 2)}\n`);
}
