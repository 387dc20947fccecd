import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Download } from '../../www/client/download/download.js';
import { unchanged } from '../../www/client/download/version.js';
import { Gpt2Error } from '../../www/client/error.js';
import { hostile, noise } from '../support/hostile-server.mjs';

/** @typedef {import('../support/hostile-server.mjs').Behaviour} Behaviour */

const BODY = noise(20_000);
const backoff = [5, 10, 15];
/** @type {{ [path: string]: Behaviour }} */ const paths = {};
/** @type {Awaited<ReturnType<typeof hostile>>} */ let server;
before(async () => { server = await hostile(paths); });
after(() => server.close());

/** @param {string} path @param {Behaviour} behaviour @param {ConstructorParameters<typeof Download>[1]} [options] */
function download(path, behaviour, options) {
  paths[path] = behaviour;
  server.requests.length = 0;
  return new Download(server.url(path), { backoff, ...options });
}

/** @param {Download} download */
async function all(download) {
  if (!(await download.open())) throw download.notFound();
  const parts = [];
  for await (const part of download.chunks()) parts.push(part);
  return new Uint8Array(await new Blob(/** @type {BlobPart[]} */ (parts)).arrayBuffer());
}

/** @param {import('../../www/client/error.js').ErrorKind} kind @param {RegExp} said */
const refusal = (kind, said) => (/** @type {unknown} */ error) => {
  assert.ok(error instanceof Gpt2Error, String(error));
  assert.equal(error.kind, kind, error.message);
  assert.match(error.message, said);
  return true;
};

test('a file takes one request', async () => {
  assert.deepEqual(await all(download('a', { body: BODY })), BODY);
  assert.deepEqual(server.asked(), ['a']);
});

test('after a broken connection only the missing bytes are requested', async () => {
  assert.deepEqual(await all(download('a', { body: BODY, breaks: [4096, 8192] })), BODY);
  const asked = server.asked();
  assert.equal(asked.length, 3);
  const offsets = asked.slice(1).map((request) => Number(request.match(/\d+/)?.[0]));
  assert.ok(offsets.every((at, index) => at > 0 && at > (offsets[index - 1] ?? 0)), String(asked));
});

test('a server without ranges sends the whole file again, and the bytes that are here are skipped', async () => {
  assert.deepEqual(await all(download('a', { body: BODY, breaks: [9000], ranges: false })), BODY);
  assert.equal(server.asked().length, 2);
});

test('without an ETag and a date an answer does not continue a file', async () => {
  await assert.rejects(all(download('a', { body: BODY, breaks: [9000], ranges: false, etag: '' })), refusal('download_failed', /cannot be continued/));
});

test('a file that changed during the download is never mixed with the previous version', async () => {
  for (const ranges of [true, false]) {
    const changing = download('a', { body: BODY, breaks: [9000], ranges });
    await changing.open();
    const changed = BODY.map((byte) => byte ^ 255);
    /** @type {Uint8Array<ArrayBuffer>[]} */ let parts = [];
    let restarts = 0;
    changing.onRestart = async () => { restarts++; parts = []; };
    for await (const part of changing.chunks()) {
      parts.push(/** @type {Uint8Array<ArrayBuffer>} */ (part));
      if (changing.received > 4000) paths['a'] = { body: changed, etag: '"2"', ranges };
    }
    assert.deepEqual(new Uint8Array(await new Blob(parts).arrayBuffer()), changed);
    assert.equal(restarts, 1);
  }
});

test('a file that became shorter starts again', async () => {
  const shorter = BODY.slice(0, 5000);
  const changing = download('a', { body: BODY, breaks: [9000] });
  /** @type {Uint8Array<ArrayBuffer>[]} */ let parts = [];
  changing.onRestart = async () => { parts = []; };
  await changing.open();
  for await (const part of changing.chunks()) {
    parts.push(/** @type {Uint8Array<ArrayBuffer>} */ (part));
    if (changing.received > 8000) paths['a'] = { body: shorter, etag: '"2"' };
  }
  assert.deepEqual(new Uint8Array(await new Blob(parts).arrayBuffer()), shorter);
});

test('a download from an earlier visit is resumed', async () => {
  const version = { etag: '"1"', modified: null, size: BODY.length };
  const rest = download('a', { body: BODY }, { held: { version, bytes: 15_000 } });
  assert.deepEqual(await all(rest), BODY.slice(15_000));
  assert.deepEqual(server.asked(), ['a bytes=15000-']);
  const other = download('a', { body: BODY, etag: '"3"' }, { held: { version, bytes: 15_000 } });
  other.onRestart = async () => {};
  assert.deepEqual(await all(other), BODY);
});

test('after a few retries the download fails with a sentence', async () => {
  await assert.rejects(all(download('a', { body: BODY, claims: 30_000, ranges: false })), refusal('download_failed', /a failed:.*also after 3 more tries; check the connection/));
  assert.equal(server.asked().length, 4);
});

test('every byte that arrives starts the count of retries again', async () => {
  assert.deepEqual(await all(download('a', { body: BODY, breaks: Array(15).fill(1100) })), BODY);
});

test('a request to a busy server is repeated', async () => {
  assert.deepEqual(await all(download('a', { body: BODY, busy: [503, 429] })), BODY);
  await assert.rejects(all(download('a', { body: BODY, busy: [503, 503, 503, 503, 503] })), refusal('download_failed', /answered 503/));
});

test('a compressed answer has no total', async () => {
  const text = 'the same again and again '.repeat(1000);
  const packed = download('a', { body: text, gzip: true });
  assert.equal(new TextDecoder().decode(await all(packed)), text);
  assert.equal(packed.version.size, null);
});

test('a compressed answer that breaks off starts again', async () => {
  const text = noise(3000).join(' ');
  const packed = download('a', { body: text, gzip: true, breaks: [600] });
  assert.equal(new TextDecoder().decode(await all(packed)), text);
  assert.deepEqual(server.asked(), ['a', 'a']);
});

test('an answer without a length is complete when it ends', async () => {
  const endless = download('a', { body: BODY, chunked: true });
  assert.deepEqual(await all(endless), BODY);
});

test('404, 401, 403 and other refusals are sentences, and are not retried', async () => {
  const gone = new Download(server.url('nowhere'), { backoff });
  assert.equal(await gone.open(), false);
  assert.match(gone.notFound().message, /the download of nowhere failed: 127\.0\.0\.1:\d+ answered 404: there is no such file/);
  for (const status of [401, 403]) {
    await assert.rejects(all(download('a', { status, body: '' })), refusal('download_failed', /requires a login/));
  }
  await assert.rejects(all(download('a', { status: 451, body: '' })), refusal('download_failed', /answered 451/));
  assert.equal(server.asked().length, 1);
});

test('Hugging Face gives one answer for private and for missing repositories', async () => {
  const own = globalThis.fetch;
  try {
    globalThis.fetch = async () => new Response('', { status: 401 });
    for (const [repo, said] of /** @type {const} */ ([['owner/name', /there is no such repository, or it is private or gated/], ['openai-community', /no such repository \(except for a few old ones, names are owner\/name\)/]])) {
      await assert.rejects(all(new Download(new URL(`https://huggingface.co/${repo}/resolve/main/config.json`), { backoff })), refusal('download_failed', said));
    }
  } finally {
    globalThis.fetch = own;
  }
});

test('an HTML page instead of the file is recognised by its type and by its first bytes', async () => {
  await assert.rejects(all(download('a', { body: '<p>Sign in', headers: { 'content-type': 'text/html; charset=utf-8' } })), refusal('not_a_model', /HTML page/));
  await assert.rejects(all(download('a', { body: '\n<!DOCTYPE html><p>Sign in' })), refusal('not_a_model', /HTML page/));
});

test('a server that cannot be reached', async () => {
  const unreachable = new Download(new URL('http://127.0.0.1:9/a'), { backoff });
  await assert.rejects(all(unreachable), refusal('download_failed', /127\.0\.0\.1:9 cannot be reached.*CORS/));
});

test('a cancel ends a download before the answer, in the middle, and in a pause; the connection closes', async () => {
  const before = new AbortController();
  before.abort();
  await assert.rejects(all(download('a', { body: BODY }, { signal: before.signal })), refusal('cancelled', /cancelled/));

  const middle = new AbortController();
  const slow = download('slow', { body: BODY, pause: 20 }, { signal: middle.signal });
  setTimeout(() => middle.abort(), 60);
  await assert.rejects(all(slow), refusal('cancelled', /cancelled/));
  await server.closing('slow');

  const pausing = new AbortController();
  const busy = download('a', { body: BODY, busy: [503, 503] }, { signal: pausing.signal, backoff: [60_000] });
  setTimeout(() => pausing.abort(), 50);
  await assert.rejects(all(busy), refusal('cancelled', /cancelled/));
});

test('a cancel ends the wait for a server that does not answer', async () => {
  const waiting = new AbortController();
  const silent = download('silent', { silent: true }, { signal: waiting.signal });
  server.onRequest = () => waiting.abort();
  await assert.rejects(silent.open(), refusal('cancelled', /cancelled/)).finally(() => { server.onRequest = undefined; });
  await server.closing('silent');
});

test('a server that does not answer counts as a broken connection', async () => {
  const silent = download('silent', { silent: true }, { idleTimeout: 10, backoff: [1] });
  await assert.rejects(silent.open(), refusal('download_failed', /cannot be reached.*nothing came/));
  assert.equal(server.asked().length, 2);
});

test('leaving the loop over the bytes closes the connection', async () => {
  const left = download('left', { body: BODY, pause: 20 });
  await left.open();
  for await (const _ of left.chunks()) break;
  await server.closing('left');
});

test('a file is unchanged, changed, or that is unknown', async () => {
  paths['a'] = { body: BODY };
  const version = { etag: '"1"', modified: null, size: BODY.length };
  assert.equal(await unchanged(server.url('a'), version), true);
  assert.equal(await unchanged(server.url('a'), { ...version, etag: '"0"' }), false);
  assert.equal(await unchanged(server.url('a'), { etag: null, modified: null, size: 7 }), false);
  assert.equal(await unchanged(server.url('nowhere'), version), null);
  assert.equal(await unchanged(new URL('http://127.0.0.1:9/a'), version), null);
});

/** @param {Download} download @param {(received: number) => void} [seen] */
async function anew(download, seen = () => {}) {
  /** @type {Uint8Array<ArrayBuffer>[]} */ let parts = [];
  let restarts = 0;
  download.onRestart = async () => { restarts++; parts = []; };
  await download.open();
  for await (const part of download.chunks()) {
    parts.push(/** @type {Uint8Array<ArrayBuffer>} */ (part));
    seen(download.received);
  }
  return { bytes: new Uint8Array(await new Blob(parts).arrayBuffer()), restarts };
}

test('a connection that is cut after the last byte costs nothing', async () => {
  assert.deepEqual(await all(download('a', { body: BODY, cut: true })), BODY);
  assert.deepEqual(server.asked(), ['a']);
});

test('if the length is unknown, a 416 says that all bytes are here', async () => {
  for (const tells of [true, false]) {
    const { bytes, restarts } = await anew(download('a', { body: BODY, chunked: true, cut: true, tells }));
    assert.deepEqual(bytes, BODY);
    assert.deepEqual([restarts, server.asked()], [0, ['a', `a bytes=${BODY.length}-`]]);
  }
});

test('a download that has to start again and again fails with a sentence', async () => {
  const endless = download('a', { body: BODY, chunked: true, cut: true, etag: '' });
  await assert.rejects(anew(endless), refusal('download_failed', /start again 3 times.*load it again later/));
  let version = 0;
  const changing = download('b', { body: BODY, breaks: Array(40).fill(9000), ranges: false });
  server.onRequest = () => { Object.assign(paths['b'] ?? {}, { etag: `"${version++}"` }); };
  await assert.rejects(anew(changing), refusal('download_failed', /start again 3 times/)).finally(() => { server.onRequest = undefined; });
});

test('of a file that is complete from an earlier visit only the last byte is requested', async () => {
  const version = { etag: '"1"', modified: null, size: BODY.length };
  const held = { version, bytes: BODY.length };
  assert.deepEqual(await all(download('a', { body: BODY }, { held })), new Uint8Array());
  assert.deepEqual(server.asked(), [`a bytes=${BODY.length - 1}-`]);
  assert.deepEqual(await all(download('a', { body: BODY, ranges: false }, { held })), new Uint8Array());
  const { bytes, restarts } = await anew(download('a', { body: BODY.slice(7), etag: '"2"' }, { held }));
  assert.deepEqual([bytes, restarts], [BODY.slice(7), 1]);
});

test('a range that starts elsewhere is never taken for the rest', async () => {
  const wrong = download('a', { body: BODY, breaks: [9000] });
  const { bytes, restarts } = await anew(wrong, (received) => {
    if (received > 8000 && server.asked().length === 1) paths['a'] = { body: BODY, headers: { 'content-range': `bytes 5-${BODY.length - 1}/${BODY.length}` } };
  });
  assert.deepEqual([bytes, restarts], [BODY, 1]);
});

test('a weak ETag continues the same file, but not another one', async () => {
  assert.deepEqual(await all(download('a', { body: BODY, breaks: [9000], etag: 'W/"1"' })), BODY);
  const { restarts } = await anew(download('a', { body: BODY, etag: 'W/"2"' }, { held: { version: { etag: 'W/"1"', modified: null, size: BODY.length }, bytes: 9000 } }));
  assert.equal(restarts, 1);
});

test('a length that is too small loses no byte', async () => {
  // For a compressed answer of another origin, a browser shows the compressed length, but not that it is compressed.
  const own = globalThis.fetch;
  try {
    globalThis.fetch = async () => new Response(BODY, { headers: { 'content-length': '700' } });
    const small = download('a', { body: BODY });
    assert.deepEqual(await all(small), BODY);
    assert.equal(small.version.size, null);
  } finally {
    globalThis.fetch = own;
  }
});

test('files of other formats are refused by their first bytes, and a redirect to a login page is named', async () => {
  for (const [body, said] of /** @type {[string, RegExp][]} */ ([
    ['version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n', /Git LFS pointer/], ['PK\x03\x04…', /ZIP archive.*pytorch_model\.bin/], ['<html><p>Sign in', /HTML page/],
  ])) {
    await assert.rejects(all(download('a', { body, headers: { 'content-type': 'application/octet-stream' } })), refusal('not_a_model', said));
  }
  await assert.rejects(all(download('a', { body: Uint8Array.from([0x89, 0x48, 0x44, 0x46, 1]) })), refusal('not_a_model', /HDF5/));
  paths['login'] = { body: '<!doctype html>', headers: { 'content-type': 'text/html' } };
  await assert.rejects(all(download('a', { status: 302, headers: { location: '/login?next=a' } })), refusal('not_a_model', /HTML page.*after a redirect to http:.*\/login\)/));
});

test('an error has the full address', async () => {
  paths['deep/er/a.gguf'] = { status: 403, body: '' };
  for (const [address, status] of /** @type {const} */ ([[server.url('deep/er/a.gguf'), 403], [server.url('deep/er/b.gguf'), 404]])) {
    await assert.rejects(all(new Download(address, { backoff })), (cause) => String(cause).includes(`${status}`) && String(cause).includes(address.href));
  }
});

test('the length of a compressed form from another origin is not a change', async () => {
  const own = globalThis.fetch;
  try {
    for (const [headers, type, expected] of /** @type {[{ [name: string]: string }, string, boolean][]} */ ([
      [{ 'last-modified': 'today', 'content-length': '70' }, 'cors', true], [{ 'last-modified': 'yesterday', 'content-length': '70' }, 'cors', false],
      [{ 'content-length': '70' }, 'cors', false], [{ 'last-modified': 'today', 'content-length': '70' }, 'basic', false],
    ])) {
      globalThis.fetch = async () => /** @type {any} */ ({ ok: true, type, headers: new Headers(headers) });
      assert.equal(await unchanged(server.url('a'), { etag: null, modified: 'today', size: 200 }), expected);
    }
  } finally {
    globalThis.fetch = own;
  }
});

test('a server that refuses HEAD, or does not answer it, says nothing about changes', async () => {
  const version = { etag: '"0"', modified: null, size: 1 };
  paths['a'] = { body: BODY, head: 405 };
  assert.equal(await unchanged(server.url('a'), version), null);
  paths['silent'] = { silent: true };
  const waiting = new AbortController();
  server.onRequest = () => waiting.abort();
  await assert.rejects(unchanged(server.url('silent'), version, waiting.signal), refusal('cancelled', /./)).finally(() => { server.onRequest = undefined; });
});
