//! Runs in headless browsers, as a page and as a dedicated worker: `./build.sh test` sets the mode.
#![cfg(target_arch = "wasm32")]

use gpt2_web::settings::{RawOptions, Settings};
use wasm_bindgen_test::wasm_bindgen_test;

#[wasm_bindgen_test]
fn the_defaults_are_those_of_the_table() {
    assert_eq!(Settings::from_raw(&RawOptions::new(), 7).unwrap(), Settings { seed: 7, ..Settings::default() });
}
