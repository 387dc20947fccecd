// `./build.sh generate "PROMPT" [--option value]...`: the page's client and worker, in a headless Chromium, with the
// text on standard output.
import { open, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { launch } from './browsers.mjs';
import { serve } from './server.mjs';

// Options without a value. Only the worker knows the others and what they accept: it refuses an unknown one with the
// nearest name.
const FLAGS = new Set(['parse_special']);
const USAGE_ERRORS = new Set(['invalid_option', 'unknown_option', 'invalid_request']);
const CTRL_C = 130;

/** @param {string} message @param {number} [code] @returns {never} */
function fail(message, code = 1) {
  console.error(`build.sh generate: ${message}`);
  process.exit(code);
}

/**
 * Every option except a flag takes the next argument as its value, even if that begins with a dash.
 * @param {string[]} args
 * @returns {{ prompt: string, site: string, json: string | undefined, given: [name: string, value: string][] }}
 */
function parse(args) {
  const { tokens } = parseArgs({ args, strict: false, allowPositionals: true, tokens: true });
  /** @type {string[]} */ const prompts = [];
  /** @type {[string, string][]} */ const given = [];
  /** @type {Record<string, string>} */ const own = {};
  let taken = -1;
  for (const token of tokens) {
    if (token.index <= taken || token.kind === 'option-terminator') continue;
    if (token.kind === 'positional' || !token.rawName.startsWith('--')) {
      taken = token.index; // several letters after one dash are several tokens
      prompts.push(args[taken] ?? '');
      continue;
    }
    const name = token.name.replaceAll('-', '_');
    let value = token.value ?? (FLAGS.has(name) ? 'true' : undefined);
    if (value === undefined) {
      taken = token.index + 1;
      value = args[taken];
    }
    if (value === undefined) fail(`${token.rawName} needs a value`, 2);
    if (name === 'site' || name === 'json') own[name] = value;
    else given.push([name, value]);
  }
  const [prompt, second] = prompts;
  if (prompt === undefined) fail('the prompt is missing; ./build.sh generate "Once upon a time"', 2);
  if (second !== undefined) fail(`give one prompt, in quotes (the second one is '${second}')`, 2);
  if (!own.site) fail('--site is missing', 2);
  return { prompt, site: own.site, json: own.json, given };
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
    // @ts-ignore: a path of the served page
    const { Gpt2Web } = await import('/gpt2-web.js');
    const client = new Gpt2Web();
    const { options: specs } = await client.loadEmbedded({ signal: page.abort.signal });
    // Convert each string to the type of its option. If that fails, the worker says what the option takes.
    /** @type {Record<string, unknown>} */ const options = {};
    for (const [name, text] of given) {
      const type = specs.find((/** @type {any} */ spec) => spec.name === name)?.range.type;
      if (type === 'strings') options[name] = [.../** @type {string[]} */ (options[name] ?? []), text];
      else if (type === 'flag' && /^(true|false)$/.test(text)) options[name] = text === 'true';
      else if ((type === 'integer' || type === 'number') && text.trim() !== '' && !Number.isNaN(Number(text))) options[name] = Number(text);
      else options[name] = text;
    }
    let written = Promise.resolve();
    let record;
    for await (const event of client.generate(prompt, { ...options, signal: page.abort.signal })) {
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

const { prompt, site, json, given } = parse(process.argv.slice(2));
/** @param {Error} error @returns {never} */
const unwritable = (error) => fail(`the record could not be written: ${error.message}`, 2);
// Fail before the run instead of after it.
if (json) await open(json, 'a').then((file) => file.close(), unwritable);
const server = await serve(site, { files: { '/generate': '<!doctype html><title>generate</title>' } });
const browser = await launch('chrome', { handleSIGINT: false, protocolTimeout: 0 }).catch((error) => fail(`Chromium did not start: ${error.message}`));
const page = await browser.newPage();

let interrupted = false;
let ended = false;
const cancel = () => page.evaluate(() => /** @type {any} */ (globalThis).abort?.abort()).catch(() => {}); // the page may be gone
process.on('SIGINT', () => {
  // The second Ctrl-C ends the program at once.
  if (interrupted) process.exit(CTRL_C);
  interrupted = true;
  void cancel();
});
process.stdout.on('error', (error) => {
  // The reader has closed the pipe: `generate ... | head`.
  if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EPIPE') throw error;
  void cancel();
});
browser.on('disconnected', () => {
  if (!ended) fail('Chromium ended unexpectedly');
});

await page.goto(`${server.url}/generate`);
await page.exposeFunction('write', (/** @type {string} */ text) => void process.stdout.write(text));
const result = await page.evaluate(run, prompt, given);
ended = true;
await browser.close();
await server.close();

if (result?.record) {
  process.stdout.write('\n');
  console.error(summary(result.record));
  if (json) {
    await writeFile(json, `${JSON.stringify(result.record, null, 2)}\n`).catch(unwritable);
  }
} else if (result?.error && !interrupted) {
  fail(result.error.message, USAGE_ERRORS.has(result.error.kind) ? 2 : 1);
}
process.exitCode = interrupted ? CTRL_C : 0;
