/** The page as it will be served, with the fake worker in the place of the real one, under the strict policy. */

import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname } from 'node:path';

const ROOT = new URL('../../', import.meta.url);
const TYPES = /** @type {{ [extension: string]: string }} */ ({
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm', '.gguf': 'application/octet-stream', '.json': 'application/json',
});

export const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; style-src 'self'; "
  + "img-src 'self' data:; connect-src 'self' https: http://127.0.0.1:*";

/** @param {string} path */
function source(path) {
  if (path === '/worker.js') return new URL('tests/page/fake-worker.js', ROOT);
  if (path.startsWith('/vendor/')) return new URL(`node_modules/uplot/dist/${path.slice(8)}`, ROOT);
  return new URL(path === '/' ? 'www/index.html' : `www${path}`, ROOT);
}

/**
 * @param {{ policy?: string, files?: { [path: string]: string | Uint8Array | URL }, cors?: boolean }} [options] `files` are
 *   served in the place of what lies at their paths
 * @returns {Promise<{ url: string, requests: string[], close: () => void }>}
 */
export async function serve({ policy = POLICY, files = {}, cors = true } = {}) {
  /** @type {string[]} */ const requests = [];
  const server = createServer(async ({ url = '/' }, response) => {
    const { pathname } = new URL(url, 'http://localhost');
    requests.push(pathname);
    try {
      const given = files[pathname] ?? source(pathname);
      const body = given instanceof URL ? await readFile(given) : Buffer.from(given);
      response.writeHead(200, {
        'content-type': TYPES[extname(pathname) || '.html'] ?? 'application/octet-stream',
        'content-length': body.length,
        'content-security-policy': policy,
        ...(cors && { 'access-control-allow-origin': '*' }), // for a sandboxed frame, whose origin is no one's
      });
      response.end(body);
    } catch {
      response.writeHead(404, { 'content-type': 'text/plain' });
      response.end('not found');
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  return { url: `http://127.0.0.1:${address.port}/`, requests, close: () => { server.closeAllConnections(); server.close(); } };
}
