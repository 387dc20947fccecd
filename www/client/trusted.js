/** @typedef {{ createScriptURL: (url: string) => any }} Policy */
/** @typedef {{ createPolicy: (name: string, rules: Policy) => Policy }} TrustedTypes */

/** What a page must allow that asks for Trusted Types. */
export const POLICY = 'gpt2-web';

/** @type {Policy | null | undefined} */ let policy;

/**
 * The address of a worker as a page accepts it that asks for Trusted Types (`require-trusted-types-for 'script'`). The
 * policy is for this, and nobody else can reach it. Where the page forbids it the address stays as it is: without that
 * request it will do, and with it the browser refuses the worker.
 * @param {string} url
 * @returns {string}
 */
export function trusted(url) {
  const types = /** @type {{ trustedTypes?: TrustedTypes }} */ (globalThis).trustedTypes;
  if (policy === undefined) {
    try {
      policy = types?.createPolicy(POLICY, { createScriptURL: (url) => url }) ?? null;
    } catch {
      policy = null;
    }
  }
  return policy ? policy.createScriptURL(url) : url;
}
