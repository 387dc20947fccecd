// The page's client in a headless Chromium, for `build.sh generate` and `build.sh lab`.
import { open } from 'node:fs/promises';
import { launch } from './browsers.mjs';
import { serve } from './server.mjs';

const CTRL_C = 130;

/** Errors that the user's arguments cause. */
export const USAGE_ERRORS = new Set(['invalid_option', 'unknown_option', 'invalid_request']);

/**
 * Runs `work` in a page of the site, which finds the functions of `exposed` as globals. The first Ctrl-C, and a reader
 * that closed its end of the pipe, abort the page's global `abort`; the second Ctrl-C ends the program.
 * @template {unknown[]} A @template R
 * @param {object} options
 * @param {string} options.site the folder of the page
 * @param {(...args: A) => Promise<R>} options.work
 * @param {A} options.args plain data
 * @param {Record<string, (value: any) => void>} options.exposed
 * @param {(message: string, code?: number) => never} options.fail
 * @returns {Promise<{ result: R, interrupted: boolean }>}
 */
export async function headless({ site, work, args, exposed, fail }) {
  const server = await serve(site, { files: { '/headless': '<!doctype html><title>headless</title>', '/typed.js': new URL('./in-page/typed.js', import.meta.url) } });
  const browser = await launch('chrome', { handleSIGINT: false, protocolTimeout: 0 }).catch((error) => fail(`Chromium did not start: ${error.message}`));
  const page = await browser.newPage();
  let interrupted = false;
  let ended = false;
  const cancel = () => page.evaluate(() => /** @type {any} */ (globalThis).abort?.abort()).catch(() => {}); // the page may be gone
  process.on('SIGINT', () => {
    if (interrupted) process.exit(CTRL_C);
    interrupted = true;
    process.exitCode = CTRL_C;
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
  await page.goto(`${server.url}/headless`);
  for (const [name, act] of Object.entries(exposed)) await page.exposeFunction(name, act);
  const result = /** @type {R} */ (await page.evaluate(work, .../** @type {any} */ (args)));
  ended = true;
  await browser.close();
  await server.close();
  return { result, interrupted };
}

/** Fails before the work, instead of after it, if a file cannot be written. @param {string} path @param {(error: Error) => never} fail */
export const checkWritable = (path, fail) => open(path, 'a').then((file) => file.close(), fail);
