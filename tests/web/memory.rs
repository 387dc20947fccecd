//! Memory that does not suffice: an error that says what to do, and a worker that goes on.

use std::cell::RefCell;
use std::rc::Rc;

use gpt2_web::gpt2::checkpoint::{self, ModelFile};
use serde_json::json;
use wasm_bindgen_test::wasm_bindgen_test;

use super::page::{Page, Watched, file};
use super::{TINY_F32, TINY_Q8_0};

/// What a load needs beside the model itself.
const WORKING_SPACE: u64 = 48 << 20;

#[wasm_bindgen_test]
async fn a_model_that_fits_only_without_the_one_in_use_is_refused_from_its_header() {
    let held = checkpoint::load(&[ModelFile { name: "tiny.gguf", bytes: TINY_F32 }], None, &mut |_, _| {});
    let held = held.unwrap().memory_bytes;
    let page = Page::with(|worker| worker.limited_to(WORKING_SPACE + held + held / 2));
    assert_eq!(page.load(1, &[("tiny.gguf", TINY_F32)], None).await["type"], "ready");
    let mut bytes = TINY_F32.to_vec();
    bytes.resize(40 << 20, 7);
    let second = Watched::new(&bytes);
    page.send_load(2, &[second.file()], json!({}));
    let error = page.last_of(2).await;
    assert_eq!((&error["kind"], &error["fits_alone"]), (&json!("out_of_memory"), &json!(true)));
    let sentence = error["message"].as_str().unwrap();
    assert!(sentence.contains("49 MiB") && sentence.contains("model in use"), "{sentence}");
    assert!(second.reads() < 5, "{} pieces of 11 were read", second.reads());
    // The one in use is still there; when it is gone, the other one fits.
    assert_eq!(page.generate(3, "Once", json!({"max_tokens": 2})).await.last().unwrap()["type"], "done");
    page.send(json!({"type": "unload", "id": 4}));
    page.last_of(4).await;
    assert_eq!(page.load(5, &[("tiny.gguf", TINY_F32)], None).await["type"], "ready");

    let page = Page::with(|worker| worker.limited_to(WORKING_SPACE));
    let error = page.load(1, &[("tiny.gguf", TINY_F32)], None).await;
    assert_eq!((&error["kind"], &error["fits_alone"]), (&json!("out_of_memory"), &json!(false)));
}

/// All of the memory there is, but for less than a mebibyte.
fn hoard() -> Vec<Vec<u8>> {
    let mut hoard = Vec::new();
    for bytes in [64 << 20, 1 << 20] {
        let mut piece = Vec::new();
        while piece.try_reserve_exact(bytes).is_ok() {
            hoard.push(std::mem::take(&mut piece));
        }
    }
    hoard
}

#[wasm_bindgen_test]
async fn a_run_that_finds_no_more_memory_ends_with_what_it_wrote() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    let hoarded = Rc::<RefCell<Vec<Vec<u8>>>>::default();
    let place = hoarded.clone();
    page.listen(move |_, event| {
        if event["type"] == "step" && event["step"] == 2 {
            place.replace(hoard());
        } else if event["type"] == "error" {
            place.take();
        }
    });
    let options = json!({"max_tokens": 10, "seed": 1, "temperature": 0});
    let events = page.generate(2, "Once", options.clone()).await;
    assert!(hoarded.borrow().is_empty());
    let error = events.last().unwrap();
    assert_eq!((&error["type"], &error["kind"]), (&json!("error"), &json!("out_of_memory")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("positions"), "{error}");
    let record = &error["record"];
    assert_eq!((record["steps"].as_array().unwrap().len(), &record["stop"]), (3, &json!(null)));
    assert_eq!(super::joined(&events), record["text"].as_str().unwrap());
    // The model is as good as before.
    page.listen(|_, _| {});
    let done = page.generate(3, "Once", options).await.pop().unwrap();
    assert_eq!(done["type"], "done");
    assert_eq!(done["record"]["token_ids"].as_array().unwrap()[..3], record["token_ids"].as_array().unwrap()[..]);
    assert_eq!(done["record"]["steps"].as_array().unwrap().len(), 10);
}

/// Of a file that is of no use nothing is read but its head, and nothing is kept of it.
#[wasm_bindgen_test]
async fn files_of_no_use_are_left_alone() {
    let page = Page::new();
    let others: Vec<_> = (0..20).map(|_| Watched::new(&vec![b'x'; 5 << 20])).collect();
    let mut files = vec![Watched::new(TINY_Q8_0).file()];
    files.extend((0..).zip(&others).map(|(index, other)| file(&format!("{index}.bin"), "blob", &other.0)));
    page.send_load(1, &files, json!({}));
    assert_eq!(page.last_of(1).await["type"], "ready");
    assert!(others.iter().all(|other| other.bytes_read() as usize <= checkpoint::SNIFF_BYTES));
}
