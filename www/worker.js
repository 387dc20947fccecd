// Loads the wasm and hands over to src/web/worker.rs. A classic script: module workers do not start from a Blob on
// file://. In the page that is one file the glue stands before this text and the wasm comes as the first message;
// otherwise both lie beside this file.
{
  /** @type {MessageEvent[]} */ const early = [];
  /** @type {(wasm: ArrayBuffer) => void} */ let handOver = () => {};
  const handedOver = /** @type {Promise<ArrayBuffer>} */ (new Promise((resolve) => { handOver = resolve; }));
  self.onmessage = (event) => (event.data.wasm ? handOver(event.data.wasm) : early.push(event));

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

  start().catch((cause) => {
    const forbidden = /content security policy|blocked by csp/i.test(cause.message);
    self.postMessage({
      type: 'error',
      id: null,
      kind: forbidden ? 'blocked_by_policy' : 'worker_failed',
      message: forbidden
        ? `the Content-Security-Policy forbids WebAssembly; it needs script-src 'wasm-unsafe-eval' (${cause.message})`
        : `the worker could not be started: ${cause.message}`,
    });
  });
}
