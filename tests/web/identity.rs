//! The SHA-256 of a model, which is computed when nothing else is to be done and holds nothing up.

use serde_json::{Value, json};
use wasm_bindgen_test::wasm_bindgen_test;

use super::page::{Page, Watched, script};
use super::{TINY_F32, TINY_Q8_0, sha256};

/// A model in a file of so many pieces that hashing can be stopped between them: what follows its last tensor is of no
/// meaning.
fn large(model: &[u8]) -> Vec<u8> {
    let mut bytes = model.to_vec();
    bytes.resize(9 << 20, 7);
    bytes
}

/// The SHA-256 in the record of a run, and its stop reason.
async fn run(page: &Page, id: u32) -> (Value, Value) {
    let done = page.generate(id, "Once", json!({"max_tokens": 2})).await.pop().unwrap();
    assert_eq!(done["type"], "done", "{done}");
    (done["record"]["identity"]["model_sha256"].clone(), done["stop"]["reason"].clone())
}

async fn load(page: &Page, id: u32, file: &Watched) {
    page.send_load(id, &[file.file()], json!({}));
    assert_eq!(page.last_of(id).await["type"], "ready");
}

/// Loads `file`, which from its `ready` on gives no piece until it is released.
async fn load_and_hold(page: &Page, id: u32, file: &Watched) {
    let blob = file.0.clone();
    page.listen(move |_, event| {
        if event["type"] == "ready" {
            Watched(blob.clone()).hold();
        }
    });
    load(page, id, file).await;
    page.listen(|_, _| {});
}

#[wasm_bindgen_test]
async fn a_run_ends_while_the_model_is_not_identified_and_the_next_record_names_it() {
    let page = Page::new();
    let bytes = large(TINY_Q8_0);
    let file = Watched::new(&bytes);
    load_and_hold(&page, 1, &file).await;
    assert_eq!(run(&page, 2).await, (Value::Null, json!("max_tokens")));
    assert_eq!(page.count(1, "hashed"), 0);
    file.release();
    let told = json!({"type": "hashed", "id": 1, "model_sha256": sha256(&bytes), "notice": null});
    assert_eq!(page.hashed(1).await, told);
    assert_eq!(run(&page, 3).await, (json!(sha256(&bytes)), json!("max_tokens")));
    assert_eq!(page.count(1, "hashed"), 1);
}

#[wasm_bindgen_test]
async fn a_cancel_and_a_timeout_do_not_wait_for_the_sha_256() {
    let page = Page::new();
    let file = Watched::new(&large(TINY_Q8_0));
    load_and_hold(&page, 1, &file).await;
    page.listen(|page, event| {
        if event["type"] == "step" && event["step"] == 1 {
            page.cancel(2);
        }
    });
    let events = page.generate(2, "Once", json!({"max_tokens": 1000, "seed": 1})).await;
    assert_eq!(events.last().unwrap()["stop"]["reason"], "cancelled");
    assert_eq!(page.count(2, "step"), 2);
    let events = page.generate(3, "Once", json!({"max_tokens": 1000, "seed": 1, "timeout_ms": 1e-9})).await;
    assert_eq!(events.last().unwrap()["stop"]["reason"], "timeout");
    page.send(json!({"type": "unload", "id": 4}));
    assert_eq!(page.last_of(4).await["type"], "unloaded");
}

/// A file that was changed, moved or deleted when its model is in memory.
#[wasm_bindgen_test]
async fn a_file_that_is_gone_is_a_notice_and_no_error_of_a_run() {
    let page = Page::new();
    for (id, already_read) in [(1, false), (5, true)] {
        let file = Watched::new(&large(TINY_Q8_0));
        load_and_hold(&page, id, &file).await;
        if already_read {
            // Some pieces are hashed before.
            let reads = file.reads();
            let blob = file.0.clone();
            page.listen(move |_, _| Watched(blob.clone()).remove());
            file.release();
            assert_eq!(run(&page, id + 1).await.1, "max_tokens");
            assert!(file.reads() >= reads);
        } else {
            file.remove();
            file.release();
        }
        let told = page.hashed(id).await;
        assert_eq!(told["model_sha256"], Value::Null);
        let notice = told["notice"].as_str().unwrap();
        assert!(notice.contains("tiny.gguf") && notice.contains("the file is gone"), "{notice}");
        page.listen(|_, _| {});
        for run_id in [id + 2, id + 3] {
            assert_eq!(run(&page, run_id).await, (Value::Null, json!("max_tokens")));
        }
        assert_eq!(page.count(id, "hashed"), 1);
    }
}

#[wasm_bindgen_test]
async fn nothing_is_read_for_a_model_that_is_unloaded_or_replaced() {
    let page = Page::new();
    for id in [1, 11] {
        let file = Watched::new(&large(TINY_Q8_0));
        load_and_hold(&page, id, &file).await;
        match id {
            1 => {
                page.send(json!({"type": "unload", "id": id + 1}));
                assert_eq!(page.last_of(id + 1).await["type"], "unloaded");
            }
            _ => assert_eq!(page.load(id + 1, &[("tiny.gguf", TINY_F32)], None).await["type"], "ready"),
        }
        let reads = file.reads();
        file.release();
        // A model that comes after it is identified, in turns that the one before would have had too.
        page.load(id + 2, &[("tiny.gguf", &large(TINY_F32))], None).await;
        assert_eq!(page.hashed(id + 2).await["model_sha256"], sha256(&large(TINY_F32)));
        assert_eq!(file.reads(), reads);
        assert_eq!(page.count(id, "hashed"), 0);
    }
}

/// A port that listens is never collected: whoever opens a channel closes it.
#[wasm_bindgen_test]
async fn no_channel_stays_open() {
    script(
        "(() => {
          const original = globalThis.MessageChannel, counts = (globalThis.channels = { made: 0, closed: 0, original });
          globalThis.MessageChannel = function () {
            const channel = new original(), close = channel.port1.close.bind(channel.port1);
            counts.made += 1;
            channel.port1.close = () => { counts.closed += 1; close(); };
            return channel;
          };
        })()",
    );
    let page = Page::new();
    let file = Watched::new(&large(TINY_Q8_0));
    load_and_hold(&page, 1, &file).await;
    for id in 2..10 {
        run(&page, id).await;
    }
    file.release();
    page.hashed(1).await;
    run(&page, 10).await;
    let count = |name: &str| script(&format!("channels.{name}")).as_f64().unwrap();
    let (made, closed) = (count("made"), count("closed"));
    script("(globalThis.MessageChannel = channels.original)");
    assert!(made > 1.0);
    assert_eq!(made - closed, 1.0, "the worker's own one");
}

#[wasm_bindgen_test]
async fn hashing_rests_while_a_request_runs_and_is_done_once() {
    let page = Page::new();
    let bytes = large(TINY_Q8_0);
    let file = Watched::new(&bytes);
    load_and_hold(&page, 1, &file).await;
    let from = file.reads();
    // Requests that end at once, each of which would begin it anew.
    for id in 2..20 {
        page.send(json!({"type": "generate", "id": id, "prompt": "x", "options": {"top_k": -1}}));
        assert_eq!(page.last_of(id).await["kind"], "invalid_option");
    }
    assert_eq!(file.reads(), from, "one is on its way, and nobody asks for another");
    // From the first step on pieces come, but nobody asks for another.
    let blob = file.0.clone();
    page.listen(move |_, event| {
        if event["type"] == "step" && event["step"] == 0 {
            Watched(blob.clone()).release();
        }
    });
    let events = page.generate(20, "Once", json!({"max_tokens": 50, "seed": 1})).await;
    assert_eq!(events.last().unwrap()["type"], "done");
    assert_eq!(file.reads(), from);
    assert_eq!(page.count(1, "hashed"), 0);
    assert_eq!(page.hashed(1).await["model_sha256"], sha256(&bytes));
    let pieces = bytes.len().div_ceil(4 << 20) as u32;
    assert_eq!(file.reads(), 1 + 2 * pieces, "the head, and each piece for the load and for its SHA-256");
}
