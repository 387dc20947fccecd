// Sources that onefile.mjs puts into assets.js.

/** The wasm-bindgen glue followed by worker.js. */
declare const WORKER_SOURCE: string;
/** unpack-worker.js, bundled. */
declare const UNPACK_SOURCE: string;
