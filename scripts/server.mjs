// A static server for the assembled page, as strict as a careful host: the policy is the one the page promises to
// work under.
import { createServer } from 'node:http';
import sirv from 'sirv';

const POLICY = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "worker-src 'self' blob:",
  "style-src 'self'",
  "img-src 'self' data:",
  // Models come from whichever host their address names; a page that loads none needs only 'self'.
  "connect-src 'self' https: http://127.0.0.1:* http://localhost:*",
  "base-uri 'none'",
  "form-action 'none'",
].join('; ');

/**
 * @param {string} folder
 * @param {object} [options]
 * @param {number} [options.port] 0 picks a free one
 * @param {Record<string, string>} [options.pages] further HTML pages by path
 * @param {Record<string, string>} [options.folders] further folders by the path they are served under, such as `/more/`
 * @param {Record<string, string>} [options.headers] sent with every answer
 * @param {(path: string) => void} [options.onRequest] hears of every request
 * @returns {Promise<{ url: string, close: () => Promise<void> }>} once it listens
 */
export function serve(folder, { port = 0, pages = {}, folders = {}, headers = {}, onRequest } = {}) {
  // `dev` reads every file when it is asked for; `etag` lets a reload skip the model's megabytes.
  const handler = (/** @type {string} */ folder) => sirv(folder, { dev: true, etag: true });
  const files = handler(folder);
  const further = Object.entries(folders).map(([path, folder]) => ({ path, files: handler(folder) }));
  const server = createServer((request, response) => {
    onRequest?.(request.url ?? '');
    response.setHeader('Content-Security-Policy', POLICY);
    response.setHeader('X-Content-Type-Options', 'nosniff');
    // A sandboxed frame has no origin, so to it the page's own scripts come from another one.
    response.setHeader('Access-Control-Allow-Origin', '*');
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    const page = pages[request.url ?? ''];
    if (page !== undefined) {
      response.setHeader('Content-Type', 'text/html; charset=utf-8');
      response.end(page);
      return;
    }
    const mounted = further.find(({ path }) => request.url?.startsWith(path));
    if (mounted) request.url = (request.url ?? '').slice(mounted.path.length - 1);
    (mounted?.files ?? files)(request, response, () => {
      response.statusCode = 404;
      response.setHeader('Content-Type', 'text/plain; charset=utf-8');
      response.end('There is no such file here.\n');
    });
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    // Only this machine: nothing here is meant for the network.
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
