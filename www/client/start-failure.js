/** Finds out why a worker did not start: the browser's own error says little more than that it did not. */

import { Gpt2Error } from './error.js';
import { isHtml } from './html.js';
import { POLICY } from './trusted.js';

/** @param {string} policy */
export function blockedWorker(policy) {
  return new Gpt2Error('blocked_by_policy',
    `the page's Content-Security-Policy forbids the worker; it needs worker-src 'self' blob: (the policy is: ${policy})`);
}

/** For an error that was thrown. @param {unknown} cause */
export function notStarted(cause) {
  if (cause instanceof Gpt2Error) return cause;
  const why = cause instanceof Error ? cause.message : String(cause);
  if (/TrustedScriptURL|trusted ?types/i.test(why)) {
    return new Gpt2Error('blocked_by_policy', `the page's Content-Security-Policy asks for Trusted Types and forbids the policy that makes the worker's address; `
      + `add ${POLICY} to its trusted-types directive`, { cause });
  }
  if (/content security policy/i.test(why)) return blockedWorker(why);
  return failed(why, cause);
}

/**
 * For an error event: requests worker.js again and examines the answer.
 * @param {URL | null} url of worker.js; null in the page in one file
 * @param {string} message of the event; empty if the browser could not load the script
 * @param {AbortSignal} signal
 */
export async function unloadable(url, message, signal) {
  const why = message || 'worker.js could not be read';
  if (url === null || typeof fetch !== 'function') return failed(why);
  /** @type {Response} */ let response;
  try {
    response = await fetch(url, { signal });
  } catch {
    return failed(`${url.href} could not be read; check that worker.js is there and that this page may read it`);
  }
  const sentence = await wrongScript(url, response);
  if (sentence) return failed(sentence);
  if (message === '' && !response.headers.has('cross-origin-embedder-policy') && (await embedderPolicy(signal))) {
    return failed(`${url.href} is there, but this page is sent with Cross-Origin-Embedder-Policy and the script is not; send it, and the files beside it, with the same header`);
  }
  return failed(message || `${url.href} is there, but the browser refused to run it`);
}

/**
 * What is wrong with the answer to a request for a script; null if it looks right.
 * @param {URL} url @param {Response} response
 */
async function wrongScript(url, response) {
  const { ok, status, statusText, headers } = response;
  if (!ok) return `${url.href} could not be read: the server answered ${`${status} ${statusText}`.trim()}; the files of gpt2-web must lie together, or \`base\` must name their folder`;
  const type = (headers.get('content-type') ?? '').split(';')[0]?.trim() ?? '';
  const text = await response.text().catch(() => '');
  if (isHtml(text)) return `${url.href} is an HTML page and not the script; the files of gpt2-web must lie together, or \`base\` must name their folder`;
  if (type !== '' && !/(java|ecma)script$/i.test(type)) return `${url.href} is sent as ${type}, which browsers do not run; the server must send .js files as text/javascript`;
  return null;
}

/** Whether the page is sent with Cross-Origin-Embedder-Policy. @param {AbortSignal} signal */
async function embedderPolicy(signal) {
  if (globalThis.crossOriginIsolated) return true;
  const page = globalThis.location?.href;
  const response = page ? await fetch(page, { method: 'HEAD', signal }).catch(() => null) : null;
  return response?.headers.has('cross-origin-embedder-policy') ?? false;
}

/** @param {string} why @param {unknown} [cause] */
function failed(why, cause) {
  return new Gpt2Error('worker_failed', `the worker could not be started: ${why}`, { cause });
}
