// `./build.sh generate "PROMPT" [--option value]...`: the page's client and worker, in a headless Chromium, with the
// text on standard output.
import { writeFile } from 'node:fs/promises';
import { parse } from './command-line.mjs';
import { USAGE_ERRORS, checkWritable, headless } from './headless.mjs';

/** @param {string} message @param {number} [code] @returns {never} */
function fail(message, code = 1) {
  console.error(`build.sh generate: ${message}`);
  process.exit(code);
}

/** @param {import('../www/types/Record.js').Record} record */
function summary({ stop, token_ids, time_to_first_token_ms, tokens_per_second }) {
  const reason = stop?.stop_string ? `${stop.reason} ${JSON.stringify(stop.stop_string)}` : stop?.reason ?? 'failed';
  const parts = [`${token_ids.length} token${token_ids.length === 1 ? '' : 's'}`];
  if (time_to_first_token_ms !== null) parts.push(`first after ${time_to_first_token_ms.toFixed(0)} ms`);
  if (tokens_per_second !== null) parts.push(`${tokens_per_second.toFixed(1)} tokens/s`);
  return `[${reason}: ${parts.join(', ')}]`;
}

/**
 * Runs in the page.
 * @param {string} prompt
 * @param {[name: string, value: string][]} given
 */
async function run(prompt, given) {
  const page = /** @type {any} */ (globalThis);
  page.abort = new AbortController();
  try {
    // @ts-ignore: paths of the served page
    const [{ Gpt2Web }, { typed }] = await Promise.all([import('/gpt2-web.js'), import('/typed.js')]);
    const client = new Gpt2Web();
    const { options } = await client.loadEmbedded({ signal: page.abort.signal });
    let written = Promise.resolve();
    let record;
    for await (const event of client.generate(prompt, { ...typed(options, given), signal: page.abort.signal })) {
      if (event.type === 'delta') written = page.write(event.text);
      if (event.type === 'done') record = event.record;
    }
    await written;
    return { record };
  } catch (error) {
    const { kind, message } = /** @type {any} */ (error);
    return { error: { kind, message } };
  }
}

// Flags need no value.
const { words, own: { site, json }, given } = parse(process.argv.slice(2), { own: ['site', 'json'], flags: new Set(['parse_special']), fail: (message) => fail(message, 2) });
const [prompt, second] = words;
if (prompt === undefined) fail('the prompt is missing; ./build.sh generate "Once upon a time"', 2);
if (second !== undefined) fail(`give one prompt, in quotes (the second one is '${second}')`, 2);
if (!site) fail('--site is missing', 2);
/** @param {Error} error @returns {never} */
const unwritable = (error) => fail(`the record could not be written: ${error.message}`, 2);
if (json) await checkWritable(json, unwritable);

const { result, interrupted } = await headless({ site, work: run, args: [prompt, given], exposed: { write: (text) => void process.stdout.write(text) }, fail });
if (result?.record) {
  process.stdout.write('\n');
  console.error(summary(result.record));
  if (json) await writeFile(json, `${JSON.stringify(result.record, null, 2)}\n`).catch(unwritable);
} else if (result?.error && !interrupted) {
  fail(result.error.message, USAGE_ERRORS.has(result.error.kind) ? 2 : 1);
}
