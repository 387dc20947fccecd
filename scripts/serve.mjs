// `./build.sh serve`: serves the page until Ctrl-C.
import { spawn } from 'node:child_process';
import { parseArgs } from 'node:util';
import { serve } from './server.mjs';

const DEFAULT_PORT = 8080;
/** How many ports after the default one to try. */
const TRIES = 20;

/** @param {string} message @returns {never} */
function usage(message) {
  console.error(`build.sh serve: ${message}`);
  process.exit(2);
}

/** @param {string} site @param {string | undefined} wanted */
async function listen(site, wanted) {
  if (wanted !== undefined) {
    const port = Number(wanted);
    if (!Number.isInteger(port) || port < 0 || port > 65535) usage(`--port takes a number from 0 to 65535, not '${wanted}'`);
    return serve(site, { port });
  }
  for (let port = DEFAULT_PORT; ; port++) {
    try {
      return await serve(site, { port });
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EADDRINUSE' || port >= DEFAULT_PORT + TRIES) throw error;
    }
  }
}

/** Opens the page in a browser if there is a display. @param {string} url */
function openBrowser(url) {
  const { platform, env } = process;
  const command = platform === 'darwin' ? 'open' : env.DISPLAY || env.WAYLAND_DISPLAY ? 'xdg-open' : null;
  if (command) spawn(command, [url], { stdio: 'ignore', detached: true }).on('error', () => {}).unref(); // the URL is printed anyway
}

let values;
try {
  ({ values } = parseArgs({ options: { site: { type: 'string' }, port: { type: 'string' } } }));
} catch (error) {
  usage(/** @type {Error} */ (error).message);
}
if (!values.site) usage('--site is missing');
try {
  const { url } = await listen(values.site, values.port);
  console.log(`gpt2-web is at ${url}/ (Ctrl-C ends it)`);
  openBrowser(`${url}/`);
} catch (error) {
  const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
  console.error(code === 'EADDRINUSE'
    ? `build.sh serve: port ${values.port ?? DEFAULT_PORT} is taken; choose another with --port, or leave --port out`
    : `build.sh serve: ${message}`);
  process.exit(1);
}
