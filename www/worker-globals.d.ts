/** What worker.js finds in its scope beside the web's own names. */
declare function importScripts(...urls: string[]): void;
/** The glue made by `wasm-bindgen --target no-modules`. */
declare const wasm_bindgen: {
  /** Without `init` it resolves to what was started before. */
  (init?: { module_or_path: Response | ArrayBuffer }): Promise<{ memory: WebAssembly.Memory }>;
  start_worker(): void;
  /** What src/web/limits.rs measures, after a read of so many MiB. */
  measure_limits(megabytes: number): {
    stream_gb_s: number;
    by_streams: [streams: number, gb_s: number][];
    products: { precision: string; rows: number; gop_s: number; gb_s: number }[];
  };
};
