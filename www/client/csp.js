import { Gpt2Error } from './error.js';

/**
 * `fetch`, whose failure says so where it is the page's Content-Security-Policy that forbids the request: of itself a
 * browser only says that the request failed.
 * @param {URL} url
 * @param {RequestInit} options
 * @param {string} [label] what the sentence calls the file
 * @returns {Promise<Response>}
 * @throws {Gpt2Error} `blocked_by_policy`, and whatever `fetch` throws
 */
export async function fetchAllowed(url, options, label = url.pathname.split('/').pop() ?? url.href) {
  const policy = watchPolicy();
  try {
    return await fetch(url, options);
  } catch (cause) {
    const blocked = await policy.blocked(options.signal);
    if (blocked === undefined) throw cause;
    throw new Gpt2Error('blocked_by_policy', `${label}: the page's Content-Security-Policy forbids a request to ${url.host}; `
      + `it needs connect-src ${url.origin} (the policy is: ${blocked})`, { cause });
  } finally {
    policy.end();
  }
}

/** Listens for the browser's report that the page's policy forbids a request. */
function watchPolicy() {
  const listening = new AbortController();
  /** @type {string | undefined} */ let policy;
  globalThis.document?.addEventListener('securitypolicyviolation', ({ effectiveDirective, originalPolicy }) => {
    if (effectiveDirective === 'connect-src') policy = originalPolicy;
  }, { signal: listening.signal });
  return {
    /** @param {AbortSignal | null | undefined} signal @returns {Promise<string | undefined>} the policy, if it was the reason */
    async blocked(signal) {
      // The report is a task of its own, which may follow the failure.
      if (globalThis.document && !signal?.aborted) await new Promise((resolve) => setTimeout(resolve, 100));
      return policy;
    },
    end: () => listening.abort(),
  };
}
