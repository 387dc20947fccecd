// Loads the wasm and starts src/web/worker.rs. This is a classic script, because module workers do not start from a Blob
// on file://. In the page in one file, the glue precedes this text and the wasm is the first message; otherwise both are
// files beside this one.
{
  /** @type {MessageEvent[]} */ const early = [];
  /** @type {(wasm: ArrayBuffer) => void} */ let handOver = () => {};
  const handedOver = /** @type {Promise<ArrayBuffer>} */ (new Promise((resolve) => { handOver = resolve; }));
  self.onmessage = (event) => (event.data?.wasm ? handOver(event.data.wasm) : early.push(event));

  /** @type {SecurityPolicyViolationEvent | undefined} */ let refused;
  self.addEventListener('securitypolicyviolation', (event) => {
    if (event.effectiveDirective === 'connect-src') refused = event;
  });

  /** @typedef {{ createScriptURL: (url: string) => any }} TrustedPolicy */
  const scope = /** @type {{ GPT2_WEB_BASE?: string, GPT2_WEB_TRUST?: TrustedPolicy | undefined, trustedTypes?: { createPolicy: (name: string, rules: TrustedPolicy) => TrustedPolicy } }} */ (globalThis);
  const address = (/** @type {string} */ name) => new URL(name, scope.GPT2_WEB_BASE ?? location.href);

  /** An address in the form that a policy with Trusted Types accepts. @param {URL} url @returns {string} */
  const trusted = ({ href }) => {
    try {
      // Creating a second policy of the same name is an error.
      scope.GPT2_WEB_TRUST ??= scope.trustedTypes?.createPolicy('gpt2-web', { createScriptURL: (/** @type {string} */ url) => url });
    } catch {
      return href; // enough without Trusted Types
    }
    return scope.GPT2_WEB_TRUST?.createScriptURL(href) ?? href;
  };

  /** A failure with a complete sentence. */
  class StartFailure extends Error {
    /** @param {string} kind @param {string} message */
    constructor(kind, message) {
      super(message);
      this.kind = kind;
    }
  }

  const BESIDE = 'it must be in the folder of worker.js';
  // Looser than client/html.js, which a classic script cannot import: neither a script nor a module begins with a `<`.
  const isHtml = (/** @type {Uint8Array} */ bytes) => /^\s*</.test(new TextDecoder().decode(bytes.subarray(0, 512)));

  /** What is wrong with the file on the server; null if it looks right. @param {URL} url @returns {Promise<string | null>} */
  const findFault = async (url) => {
    const response = await fetch(url).catch(() => null);
    if (!response) return null;
    if (!response.ok) return `${url.href} could not be read: the server answered ${`${response.status} ${response.statusText}`.trim()}; ${BESIDE}`;
    const bytes = new Uint8Array(await response.arrayBuffer().catch(() => new ArrayBuffer(0)));
    if (isHtml(bytes)) return `${url.href} is an HTML page and not the file; ${BESIDE}`;
    const type = response.headers.get('content-type') ?? '';
    return /\.js$/.test(url.pathname) && type !== '' && !/(java|ecma)script/i.test(type)
      ? `${url.href} is sent as ${type}, which browsers do not run; the server must send .js files as text/javascript` : null;
  };

  const glue = async () => {
    const url = address('gpt2_web.js');
    try {
      importScripts(trusted(url));
    } catch (cause) {
      if (/TrustedScriptURL|trusted ?types/i.test(String(cause))) {
        throw new StartFailure('blocked_by_policy', 'the worker\'s Content-Security-Policy asks for Trusted Types and forbids the policy that makes the address of gpt2_web.js; add gpt2-web to its trusted-types directive');
      }
      const sentence = await findFault(url);
      if (sentence) throw new StartFailure('worker_failed', `the worker could not be started: ${sentence}`);
      throw new Error(`${url.href}: ${cause instanceof Error ? cause.message : cause}`);
    }
  };

  /** @type {URL | undefined} The address of the module, once the server has answered. */ let fetched;

  const module = async () => {
    const url = address('gpt2_web_bg.wasm');
    const source = await fetch(url);
    if (!source.ok) throw new Error(`${url.href}: the server answered ${source.status} ${source.statusText}`);
    if (/^text\/html/i.test(source.headers.get('content-type') ?? '')) throw new Error(`${url.href} is an HTML page and not the WebAssembly module; ${BESIDE}`);
    fetched = url;
    return source;
  };

  // A module with a function that uses `v128`.
  const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];

  const start = async () => {
    if (typeof WebAssembly === 'undefined') {
      throw new StartFailure('unsupported', 'this browser has WebAssembly switched off, and gpt2-web cannot run without it; '
        + 'the reason may be Lockdown Mode, a high security level, or a setting: allow WebAssembly for this page, or use another browser');
    }
    let source;
    if (typeof wasm_bindgen === 'undefined') {
      await glue();
      source = await module();
    } else {
      source = await handedOver;
    }
    try {
      await wasm_bindgen({ module_or_path: source });
    } catch (cause) {
      if (WebAssembly.validate(new Uint8Array(SIMD)) || !/simd|v128/i.test(String(cause))) throw cause;
      throw new StartFailure('unsupported', 'this browser has no WebAssembly SIMD on this device, and gpt2-web cannot run without it; '
        + 'use a processor with SSE4.1 or NEON and a browser from 2023 or later');
    }
    self.onmessage = null;
    wasm_bindgen.start_worker();
    // Requests that were posted while the wasm was loading.
    for (const { data } of early) self.dispatchEvent(new MessageEvent('message', { data }));
  };

  /** @param {Error} cause @returns {Promise<{ kind: string, message: string }>} */
  const explain = async (cause) => {
    const { message } = cause;
    if (cause instanceof StartFailure) return { kind: cause.kind, message };
    if (/content security policy|blocked by csp/i.test(message)) {
      return { kind: 'blocked_by_policy', message: `the Content-Security-Policy forbids WebAssembly; it needs script-src 'wasm-unsafe-eval' (${message})` };
    }
    // The report of a violation is a task that may follow the failure.
    await new Promise((resolve) => setTimeout(resolve, 100));
    if (refused) {
      return { kind: 'blocked_by_policy', message: `the Content-Security-Policy forbids a request for ${refused.blockedURI}; it needs connect-src ${new URL(refused.blockedURI).origin} (the policy is: ${refused.originalPolicy})` };
    }
    // The server may have sent a page instead of the module, with any type.
    const sentence = fetched ? await findFault(fetched) : null;
    return { kind: 'worker_failed', message: `the worker could not be started: ${sentence ?? message}` };
  };

  start().catch(async (cause) => self.postMessage({ type: 'error', id: null, ...await explain(cause), record: null, fits_alone: false }));
}
