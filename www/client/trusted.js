/** @typedef {{ createScriptURL: (url: string) => any }} Policy */
/** @typedef {{ createPolicy: (name: string, rules: Policy) => Policy }} TrustedTypes */

/** The policy that a page with Trusted Types must allow. */
export const POLICY = 'gpt2-web';

/** @type {Policy | null | undefined} */ let policy;

/**
 * The address of a worker in the form that a page with Trusted Types (`require-trusted-types-for 'script'`) accepts. Only
 * this module can use the policy. If the page forbids the policy, the address stays a string, which a page without
 * Trusted Types accepts; with them, the browser refuses the worker.
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
