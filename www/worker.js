// Loads the wasm and hands over to src/web/worker.rs. A classic script: module workers do not start from a Blob on
// file://. In the page that is one file the glue stands before this text and the wasm comes as the first message;
// otherwise both lie beside this file.
{
  /** @type {MessageEvent[]} */ const early = [];
  /** @type {(wasm: ArrayBuffer) => void} */ let handOver = () => {};
  const handedOver = /** @type {Promise<ArrayBuffer>} */ (new Promise((resolve) => { handOver = resolve; }));
  self.onmessage = (event) => (event.data.wasm ? handOver(event.data.wasm) : early.push(event));

  /** @type {SecurityPolicyViolationEvent | undefined} */ let refused;
  self.addEventListener('securitypolicyviolation', (event) => {
    if (event.effectiveDirective === 'connect-src') refused = event;
  });

  const start = async () => {
    let source;
    if (typeof wasm_bindgen === 'undefined') {
      const base = /** @type {{ GPT2_WEB_BASE?: string }} */ (globalThis).GPT2_WEB_BASE ?? location.href;
      importScripts(new URL('gpt2_web.js', base).href);
      source = await fetch(new URL('gpt2_web_bg.wasm', base));
      if (!source.ok) throw new Error(`gpt2_web_bg.wasm: the server answered ${source.status} ${source.statusText}`);
    } else {
      source = await handedOver;
    }
    await wasm_bindgen({ module_or_path: source });
    self.onmessage = null;
    wasm_bindgen.start_worker();
    // Requests posted while the wasm was loading.
    for (const { data } of early) self.dispatchEvent(new MessageEvent('message', { data }));
  };

  /** @param {Error} cause @returns {Promise<{ kind: string, message: string }>} */
  const explain = async ({ message }) => {
    if (/content security policy|blocked by csp/i.test(message)) {
      return { kind: 'blocked_by_policy', message: `the Content-Security-Policy forbids WebAssembly; it needs script-src 'wasm-unsafe-eval' (${message})` };
    }
    // The report of a violation is a task of its own, which may follow the failure.
    await new Promise((resolve) => setTimeout(resolve, 100));
    if (refused) {
      return { kind: 'blocked_by_policy', message: `the Content-Security-Policy forbids a request for ${refused.blockedURI}; it needs connect-src ${new URL(refused.blockedURI).origin} (the policy is: ${refused.originalPolicy})` };
    }
    return { kind: 'worker_failed', message: `the worker could not be started: ${message}` };
  };

  start().catch(async (cause) => self.postMessage({ type: 'error', id: null, ...await explain(cause) }));
}
