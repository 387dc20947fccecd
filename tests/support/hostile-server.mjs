/** A server for tests that breaks off, sends wrong headers, or is slow, as each path says. */

import { createServer } from 'node:http';
import { gzipSync } from 'node:zlib';

/**
 * How the server answers a path.
 * @typedef {object} Behaviour
 * @property {Uint8Array | string} [body]
 * @property {number} [status]
 * @property {{ [name: string]: string | number }} [headers]
 * @property {string} [etag] `"1"` by default; empty for none
 * @property {boolean} [ranges] whether it answers ranges; true by default
 * @property {number[]} [breaks] after how many bytes the connection is cut, for each answer in turn
 * @property {number} [claims] a wrong length
 * @property {boolean} [gzip]
 * @property {boolean} [chunked] sends no length
 * @property {number} [pause] milliseconds between parts
 * @property {number[]} [busy] the statuses of the first answers
 * @property {boolean} [closed] whether other origins may not read it
 * @property {boolean} [cut] whether the connection is cut after the last byte
 * @property {boolean} [tells] whether a 416 has the length of the file
 * @property {number} [head] the status for `HEAD`
 * @property {boolean} [silent] whether it never answers
 */

/** @param {{ [path: string]: Behaviour }} paths may be changed while it runs */
export async function hostile(paths) {
  /** @type {{ method: string, path: string, range: string | undefined }[]} */ const requests = [];
  /** @type {string[]} Answers that began or ended, in order. */ const log = [];
  /** @type {Set<string>} */ const closed = new Set();
  /** @type {Map<string, () => void>} */ const waiting = new Map();
  /** @type {{ onRequest?: ((path: string) => void) | undefined }} Called before each answer. */ const control = {};
  const server = createServer(async (request, response) => {
    const path = new URL(request.url ?? '/', 'http://localhost').pathname.slice(1);
    const { range } = request.headers;
    requests.push({ method: request.method ?? '', path, range });
    control.onRequest?.(path);
    response.setHeader('access-control-allow-origin', '*');
    log.push(`begin ${path}`);
    response.on('close', () => {
      if (response.writableFinished) return;
      closed.add(path);
      waiting.get(path)?.();
    });
    const behaviour = paths[path];
    if (!behaviour) return void response.writeHead(404, { 'content-type': 'text/html' }).end('<!doctype html>nothing here');
    if (behaviour.closed) response.removeHeader('access-control-allow-origin');
    const { status = 200, headers = {}, etag = '"1"', ranges = true, claims, gzip, chunked, pause, busy } = behaviour;
    if (behaviour.silent) return;
    if (behaviour.head && request.method === 'HEAD') return void response.writeHead(behaviour.head).end();
    const early = busy?.shift();
    if (early) return void response.writeHead(early, { 'retry-after': '0' }).end();
    const body = Buffer.from(behaviour.body ?? '');
    const from = range && ranges && status === 200 && !gzip ? Number(/^bytes=(\d+)-$/.exec(range)?.[1]) : 0;
    if (from >= body.length && from > 0) {
      return void response.writeHead(416, { ...(etag && { etag }), ...(behaviour.tells && { 'content-range': `bytes */${body.length}` }) }).end();
    }
    const sent = gzip ? gzipSync(body) : body.subarray(from);
    response.writeHead(from > 0 ? 206 : status, {
      ...(etag && { etag }), ...(from > 0 && { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` }),
      ...(!chunked && { 'content-length': claims ?? sent.length }), ...(gzip && { 'content-encoding': 'gzip' }), ...headers,
    });
    if (request.method === 'HEAD') return void response.end();
    const most = behaviour.breaks?.shift() ?? Infinity;
    const part = pause === undefined && most === Infinity ? sent.length || 1 : 512;
    for (let at = 0; at < Math.min(sent.length, most) && !response.destroyed; at += part) {
      if (at + part >= sent.length) log.push(`end ${path}`);
      response.write(sent.subarray(at, Math.min(at + part, most)));
      await new Promise((resolve) => setTimeout(resolve, pause ?? 0));
    }
    if (behaviour.cut || most < sent.length || (claims !== undefined && claims > sent.length)) return void setTimeout(() => request.socket.destroy(), 10);
    response.end();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return Object.assign(control, {
    requests,
    log,
    closed,
    /** Resolves when the other side has closed the connection before the answer to `path` was over. @param {string} path */
    closing: (path) => closed.has(path) ? Promise.resolve() : new Promise((resolve) => { waiting.set(path, () => resolve(undefined)); }),
    url: (/** @type {string} */ path) => new URL(`http://127.0.0.1:${port}/${path}`),
    /** The path of each GET, with the start of its range. */
    asked: () => requests.filter(({ method }) => method === 'GET').map(({ path, range }) => (range ? `${path} ${range}` : path)),
    close: () => { server.closeAllConnections(); server.close(); },
  });
}

/** Bytes that are the same each time and different everywhere. @param {number} length */
export const noise = (length) => Uint8Array.from({ length }, (_, at) => (at * 2654435761) >>> 13);
