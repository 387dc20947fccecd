// A static server for the assembled page. It sends the Content-Security-Policy that the page is made for.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { lookup } from 'mrmime';
import sirv from 'sirv';

export const POLICY = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "worker-src 'self' blob:",
  "style-src 'self'",
  "img-src 'self' data:",
  // Models come from any host; a page that downloads none needs only 'self'.
  "connect-src 'self' https: http://127.0.0.1:* http://localhost:*",
  "base-uri 'none'",
  "form-action 'none'",
].join('; ');

/**
 * @param {string} folder
 * @param {object} [options]
 * @param {number} [options.port] 0 picks a free one
 * @param {Record<string, string | Uint8Array | URL>} [options.files] served at these paths instead of what is in the
 *   folder; a URL is that of a file, and a path without an extension is an HTML page
 * @param {Record<string, string>} [options.folders] further folders by the path they are served under, such as `/more/`
 * @param {Record<string, string>} [options.headers] sent with every answer
 * @param {Record<string, Record<string, string>>} [options.headersOf] sent with the answers at these paths, instead of the
 *   usual ones
 * @param {string} [options.policy] the Content-Security-Policy
 * @param {boolean} [options.cors] whether other origins may read the answers
 * @param {(path: string) => void} [options.onRequest] called for every request
 * @returns {Promise<{ url: string, close: () => Promise<void> }>} once it listens
 */
export function serve(folder, { port = 0, files = {}, folders = {}, headers = {}, headersOf = {}, policy = POLICY, cors = true, onRequest } = {}) {
  // `dev` reads each file when it is requested; with `etag` a reload does not send the model again.
  const handler = (/** @type {string} */ folder) => sirv(folder, { dev: true, etag: true });
  const whole = handler(folder);
  const further = Object.entries(folders).map(([path, folder]) => ({ path, files: handler(folder) }));
  const server = createServer(async (request, response) => {
    const [pathname = '/'] = (request.url ?? '/').split('?');
    onRequest?.(pathname);
    response.setHeader('Content-Security-Policy', policy);
    response.setHeader('X-Content-Type-Options', 'nosniff');
    // A sandboxed frame has no origin, so the page's own scripts count as those of another origin.
    if (cors) response.setHeader('Access-Control-Allow-Origin', '*');
    for (const [name, value] of Object.entries({ ...headers, ...headersOf[pathname] })) response.setHeader(name, value);
    const missing = () => {
      response.statusCode = 404;
      response.setHeader('Content-Type', 'text/plain; charset=utf-8');
      response.end('There is no such file here.\n');
    };
    const file = files[pathname];
    if (file !== undefined) {
      const body = file instanceof URL ? await readFile(file).catch(() => null) : file;
      if (body === null) return missing();
      if (!response.hasHeader('Content-Type')) response.setHeader('Content-Type', lookup(pathname) ?? 'text/html; charset=utf-8');
      response.end(body);
      return;
    }
    const mounted = further.find(({ path }) => pathname.startsWith(path));
    if (mounted) request.url = (request.url ?? '').slice(mounted.path.length - 1);
    (mounted?.files ?? whole)(request, response, missing);
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    // Reachable from this machine only.
    server.listen(port, '127.0.0.1', () => {
      const address = /** @type {import('node:net').AddressInfo} */ (server.address());
      resolve({
        url: `http://127.0.0.1:${address.port}`,
        close: () => new Promise((done) => {
          server.close(() => done());
          server.closeAllConnections();
        }),
      });
    });
  });
}
