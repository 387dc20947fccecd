// `./build.sh lab [NAME] [--option value]... [--json FILE]`: an experiment of the lab, in the page's worker in a headless
// Chromium. Without a name it lists all of them.
import { writeFile } from 'node:fs/promises';
import { parse } from './command-line.mjs';
import { USAGE_ERRORS, checkWritable, headless } from './headless.mjs';

/** @typedef {import('../www/types/ExperimentSpec.js').ExperimentSpec} ExperimentSpec */
/** @typedef {import('../www/gpt2-web.js').Findings} Findings */

/** @param {string} message @param {number} [code] @returns {never} */
function fail(message, code = 1) {
  console.error(`build.sh lab: ${message}`);
  process.exit(code);
}

/**
 * Runs in the page.
 * @param {string | undefined} name
 * @param {[name: string, value: string][]} given
 * @returns {Promise<{ experiments?: ExperimentSpec[], findings?: Findings, error?: { kind: string, message: string } }>}
 */
async function run(name, given) {
  const page = /** @type {any} */ (globalThis);
  page.abort = new AbortController();
  try {
    // @ts-ignore: paths of the served page
    const [{ Gpt2Web, findings }, { typed }] = await Promise.all([import('/gpt2-web.js'), import('/typed.js')]);
    const client = new Gpt2Web();
    // The worker hashes the model while no request runs.
    const hashed = new Promise((resolve) => { client.onhashed = resolve; });
    const { experiments } = await client.loadEmbedded({ signal: page.abort.signal });
    if (name === undefined) return { experiments };
    const specs = experiments.find((/** @type {ExperimentSpec} */ experiment) => experiment.name === name)?.options ?? [];
    const rows = [];
    for await (const event of client.experiment(name, { ...typed(specs, given), signal: page.abort.signal })) {
      if (event.type === 'row') rows.push(event.row);
      else if (event.type === 'experiment_progress') page.progress(event);
      else {
        const found = findings(event, rows);
        found.conditions.model_sha256 ??= (await hashed).model_sha256;
        return { findings: found };
      }
    }
    return {};
  } catch (error) {
    const { kind, message } = /** @type {any} */ (error);
    return { error: { kind, message } };
  }
}

/** @param {ExperimentSpec} spec */
function describe({ name, question, options }) {
  const line = (/** @type {ExperimentSpec['options'][number]} */ option) => {
    const text = option.default === '' ? 'none' : option.default.length > 60 ? `${option.default.slice(0, 57)}...` : option.default;
    const repeated = option.range.type === 'strings' ? ' May be given several times.' : '';
    return `      --${option.name.replaceAll('_', '-').padEnd(20)} ${option.help}${repeated} (${text})`;
  };
  return [`  ${name.padEnd(16)} ${question}`, ...options.map(line)].join('\n');
}

/** The columns that are no lists, aligned. @param {readonly object[]} rows */
function table(rows) {
  const all = /** @type {Record<string, unknown>[]} */ (rows);
  const names = [...new Set(all.flatMap((row) => Object.keys(row)))].filter((name) => all.every((row) => row[name] === null || typeof row[name] !== 'object'));
  const shown = (/** @type {unknown} */ value) => (typeof value === 'number' ? String(Number(value.toPrecision(5))) : value === null || value === undefined ? '-' : JSON.stringify(value).slice(0, 48));
  const cells = [names, ...all.map((row) => names.map((name) => shown(row[name])))];
  const widths = names.map((_, place) => Math.max(...cells.map((line) => (line[place] ?? '').length)));
  return cells.map((line) => line.map((cell, place) => cell.padStart(widths[place] ?? 0)).join('  ')).join('\n');
}

const { words, own: { site, json }, given } = parse(process.argv.slice(2), { own: ['site', 'json'], fail: (message) => fail(message, 2) });
const [name, second] = words;
if (second !== undefined) fail(`give one experiment (the second one is '${second}')`, 2);
if (!site) fail('--site is missing', 2);
/** @param {Error} error @returns {never} */
const unwritable = (error) => fail(`the results could not be written: ${error.message}`, 2);
if (json) await checkWritable(json, unwritable);

const progress = (/** @type {{ done: number, total: number }} */ { done, total }) => {
  if (process.stderr.isTTY) process.stderr.write(`\r${Math.floor((100 * done) / total)} %${done === total ? '\r      \r' : ''}`);
};
const { result, interrupted } = await headless({ site, work: run, args: [name, given], exposed: { progress }, fail });
const { experiments, findings, error } = result;
if (experiments) console.log(`Experiments, their options and defaults:\n\n${experiments.map(describe).join('\n\n')}\n\nWhat each finds is explained in docs/lab.md.`);
if (findings) {
  if (json) await writeFile(json, `${JSON.stringify(findings, null, 2)}\n`).catch(unwritable);
  else console.log(table(findings.rows));
  if (findings.conditions.busy) console.error('[The machine was busy: times are not to be trusted.]');
  if (findings.summary === null) console.error(`[Stopped after ${findings.rows.length} rows.]`);
} else if (error && !interrupted) {
  fail(error.message, USAGE_ERRORS.has(error.kind) ? 2 : 1);
}
