/** What worker.js finds in its scope beside the web's own names. */
declare function importScripts(...urls: string[]): void;
/** The glue made by `wasm-bindgen --target no-modules`. */
declare const wasm_bindgen: {
  (init: { module_or_path: Response | ArrayBuffer }): Promise<unknown>;
  start_worker(): void;
};
