/** Which state of a file a server has, told by the headers of its answers. */

import { cancelled } from '../error.js';

/** @typedef {import('../store/index.js').Version} Version */

/** Milliseconds to wait for a `HEAD` request; its answer is optional. */
const HEAD_TIMEOUT = 10_000;

/** A number in a header. @param {string | null | undefined} text */
export const wholeNumber = (text) => (text && /^\d+$/.test(text) ? Number(text) : null);

/** @param {Headers} headers @param {number | null} size @returns {Version} */
export const versionOf = (headers, size) => ({ etag: headers.get('etag'), modified: headers.get('last-modified'), size });

/** Two answers are about the same file if nothing that both of them say differs. @param {Version} a @param {Version} b */
export function sameVersion(a, b) {
  /** @param {unknown} x @param {unknown} y */
  const differ = (x, y) => x !== null && y !== null && x !== y;
  const strong = (/** @type {string | null} */ etag) => etag?.replace(/^W\//, '') ?? null;
  return !differ(strong(a.etag), strong(b.etag)) && !differ(a.modified, b.modified) && !differ(a.size, b.size);
}

/** Whether the version has anything but a length to compare. @param {Version} version */
export const isIdentified = ({ etag, modified }) => etag !== null || modified !== null;

/**
 * Whether the server still has this version. Null if that is unknown: there is no connection, or the server does not
 * answer `HEAD`.
 * @param {URL} url @param {Version} version @param {AbortSignal} [signal]
 * @returns {Promise<boolean | null>}
 */
export async function unchanged(url, version, signal) {
  try {
    const timeout = AbortSignal.timeout(HEAD_TIMEOUT);
    const { ok, headers, type } = await fetch(url, { method: 'HEAD', cache: 'no-store', signal: signal ? AbortSignal.any([signal, timeout]) : timeout });
    if (!ok) return null;
    const answered = versionOf(headers, wholeNumber(headers.get('content-length')));
    // It may be the length of a compressed form. Another origin need not show that, so an ETag or a date decides.
    const comparable = (answered.etag !== null && version.etag !== null) || (answered.modified !== null && version.modified !== null);
    if (headers.has('content-encoding') || (type === 'cors' && comparable)) answered.size = null;
    return sameVersion(version, answered);
  } catch {
    if (signal?.aborted) throw cancelled('the download', signal);
    return null;
  }
}
