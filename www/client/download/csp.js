import { Gpt2Error } from '../error.js';

/**
 * `fetch`, with an error that names the page's Content-Security-Policy if that forbids the request. The browser's own
 * error only says that the request failed.
 * @param {URL} url
 * @param {RequestInit} options
 * @param {string} [label] what the sentence calls the file
 * @returns {Promise<Response>}
 * @throws {Gpt2Error} `blocked_by_policy`, and whatever `fetch` throws
 */
export async function fetchAllowed(url, options, label = url.pathname.split('/').pop() ?? url.href) {
  const violations = watchViolations();
  try {
    return await fetch(url, options);
  } catch (cause) {
    const policy = await violations.policy(options.signal);
    if (policy === undefined) throw cause;
    throw new Gpt2Error('blocked_by_policy', `${label}: the page's Content-Security-Policy forbids a request to ${url.host}; `
      + `it needs connect-src ${url.origin} (the policy is: ${policy})`, { cause });
  } finally {
    violations.end();
  }
}

/** Listens for the browser's report that the page's policy forbids a request. */
function watchViolations() {
  const listening = new AbortController();
  /** @type {string | undefined} */ let policy;
  globalThis.document?.addEventListener('securitypolicyviolation', ({ effectiveDirective, originalPolicy }) => {
    if (effectiveDirective === 'connect-src') policy = originalPolicy;
  }, { signal: listening.signal });
  return {
    /** @param {AbortSignal | null | undefined} signal @returns {Promise<string | undefined>} the policy that forbids it */
    async policy(signal) {
      // The report is a task that may follow the failure.
      if (globalThis.document && !signal?.aborted) await new Promise((resolve) => setTimeout(resolve, 100));
      return policy;
    },
    end: () => listening.abort(),
  };
}
