/** What worker.js finds in its scope beside the web's own names. */
declare function importScripts(...urls: string[]): void;
/** The glue made by `wasm-bindgen --target no-modules`. */
declare const wasm_bindgen: WasmBindgen;
interface WasmBindgen {
  /** Without `init` it resolves to what was started before. */
  (init?: { module_or_path: Response | ArrayBuffer }): Promise<{ memory: WebAssembly.Memory }>;
  start_worker(): void;
}
