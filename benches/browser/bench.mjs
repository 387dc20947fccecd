// `./build.sh bench`: measures in a headless Chromium and compares the results with what the memory allows.
//
//     node benches/browser/bench.mjs --site DIR --probe DIR [--json FILE] [--only REGEX] [--rounds N] [--quick] [--peers]
import { writeFile } from 'node:fs/promises';
import { cpus, loadavg, release, totalmem, type } from 'node:os';
import { launch } from '../../scripts/browsers.mjs';
import { serve } from '../../scripts/server.mjs';
import { subjects as peerSubjects } from '../peers/peers.mjs';
import * as gpt2Web from './gpt2-web.mjs';
import { limitsOf } from './limit.mjs';
import { options, usage } from './options.mjs';
import { sizes } from './size.mjs';
import { limitOf, summarise, table } from './summary.mjs';
import { SERVED, Tab } from './tab.mjs';

/**
 * A system with a model in one precision. Each one is measured once per round, so that a change in the machine's speed
 * affects all of them.
 * @typedef {object} Subject
 * @property {string} system
 * @property {string} precision
 * @property {number} reads bytes of weights that a step of decode reads
 * @property {(folder: string) => Promise<void>} prepare makes the files it needs in `folder`, unless they exist
 * @property {(place: import('./tab.mjs').Place) => Promise<import('./summary.mjs').Sample[]>} round
 */

/** Where the models are kept between runs. */
const FOLDER = 'target/bench';
/** Milliseconds; a round that would probably end later is not started. */
const BUDGET_MS = 200_000;
/** The same with the peers, some of which are slow. */
const PEERS_BUDGET_MS = 900_000;

const { site, probe, json, only, rounds, quick, peers } = await options(process.argv.slice(2));
const systems = [gpt2Web.subjects, ...(peers ? [peerSubjects] : [])];
const subjects = systems.flatMap((system) => system({ quick })).filter(({ system, precision }) => only?.test(`${system} ${precision}`) ?? true);
if (!subjects.length) usage(`--only ${only?.source} leaves nothing to measure`);

const say = (/** @type {string} */ text) => console.error(text);
const load_average = loadavg()[0] ?? 0;
for (const subject of subjects) await subject.prepare(FOLDER);
const server = await serve(site, { ...SERVED, folders: { ...SERVED.folders, '/probe/': probe } });
const browser = await launch('chrome', { protocolTimeout: 0 });
const place = { browser, url: server.url };

/** Measures what the machine allows for as many bytes as the subject's weights have; called before and after the subject is measured. @param {Subject} subject */
async function measureLimits({ system, precision, reads }) {
  const tab = await Tab.open(place);
  const limits = await tab.limits(Math.ceil(reads / 2 ** 20));
  await tab.close();
  speeds.push({ system, precision, ...limitsOf(limits, precision), by_streams: limits.by_streams });
}

const budget = peers ? PEERS_BUDGET_MS : BUDGET_MS;
const began = performance.now();
/** @type {(import('./summary.mjs').Speed & ReturnType<typeof limitsOf> & { by_streams: [number, number][] })[]} */ const speeds = [];
/** @type {import('./summary.mjs').Sample[]} */ const samples = [];
let done = 0;
while (done < rounds && (done === 0 || (performance.now() - began) * (done + 1) / done < budget)) {
  done++;
  for (const subject of subjects) {
    say(`round ${done} of ${rounds}: ${subject.system}, ${subject.precision}`);
    await measureLimits(subject);
    samples.push(...await subject.round(place));
    await measureLimits(subject);
  }
}
if (done < rounds) say(`no further round: this machine takes ${Math.round((performance.now() - began) / done / 1000)} s for one`);
const version = await browser.version();
await browser.close();
await server.close();
if (!only) samples.push(...await sizes(site));

const machine = {
  processor: cpus()[0]?.model, cores: cpus().length, memory_gb: Math.round(totalmem() / 1e9),
  system: `${type()} ${release()}`, browser: version, load_average,
};
const limits = subjects.map(({ system, precision, reads }) => {
  const measured = speeds.filter((speed) => speed.system === system && speed.precision === precision);
  const [gb_s, gop_s] = [limitOf(speeds, { system, precision }), limitOf(speeds, { system, precision }, 'gop_s')];
  return { system, precision, megabytes: reads / 1e6, gb_s, gop_s: Number.isNaN(gop_s) ? null : gop_s, measured };
});
const results = summarise(samples, speeds);
console.log(`${machine.processor}, ${machine.cores} cores, load ${load_average.toFixed(1)} at the start; ${version}; rounds: ${done}`);
console.log('limits, before and after each round: reading as many bytes as the weights have, and the products in the cache');
for (const { system, precision, megabytes, gb_s, gop_s, measured } of limits) {
  const products = measured.map(({ product_gb_s }) => product_gb_s?.toFixed(1)).filter((rate) => rate !== undefined);
  console.log(`  ${system}, ${precision}: ${megabytes.toFixed(0)} MB at ${gb_s.toFixed(1)} GB/s, of reading at ${measured.map(({ stream_gb_s }) => stream_gb_s.toFixed(1)).join(', ')}`
    + (gop_s === null ? '' : ` and one row at ${products.join(', ')}; many rows at ${gop_s.toFixed(0)} GOP/s`));
}
console.log(`\n${table(results)}`);
if (json) {
  const limit_gb_s = limits[0]?.gb_s;
  await writeFile(json, `${JSON.stringify({ machine, limit_gb_s, limits, rounds: done, results }, null, 2)}\n`);
}
