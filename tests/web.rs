//! The worker inside real browsers: the same requests and events as the page's, without the page.
//!
//! Run by `wasm-bindgen-test-runner`, in a window and in a dedicated worker; the fixtures are compiled in.
#![cfg(target_arch = "wasm32")]

#[path = "web/fixtures.rs"]
mod fixtures;
#[path = "web/hostile.rs"]
mod hostile;
#[path = "web/identity.rs"]
mod identity;
#[path = "web/kernels.rs"]
mod kernels;
#[path = "web/lab.rs"]
mod lab;
#[path = "web/memory.rs"]
mod memory;
#[path = "web/page.rs"]
mod page;
#[path = "web/provided_tokenizer.rs"]
mod provided_tokenizer;

use page::{ENDS, Page, blob, file, script, set};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use wasm_bindgen::JsCast;
use wasm_bindgen_test::wasm_bindgen_test;

const TINY_F32: &[u8] = include_bytes!("fixtures/gguf/f32.gguf");
const TINY_Q8_0: &[u8] = include_bytes!("fixtures/gguf/q8_0.gguf");
const SAFETENSORS: &[u8] = include_bytes!("fixtures/checkpoints/plain-f32/model.safetensors");
const SAFETENSORS_CONFIG: &[u8] = include_bytes!("fixtures/checkpoints/plain-f32/config.json");
const VOCAB: &[u8] = include_bytes!("fixtures/tiny-tokenizer/vocab.json");
const MERGES: &[u8] = include_bytes!("fixtures/tiny-tokenizer/merges.txt");

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn joined(events: &[Value]) -> String {
    events.iter().filter(|event| event["type"] == "delta").map(|event| event["text"].as_str().unwrap()).collect()
}

#[wasm_bindgen_test]
async fn a_load_reports_progress_and_then_what_was_loaded() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_F32)], None).await;
    let events = page.end_of(1).await;
    let ready = events.last().unwrap();
    assert_eq!(ready["type"], "ready");
    assert_eq!(ready["model"]["precision"], "f32");
    assert_eq!(ready["model"]["sha256"], Value::Null, "it is not needed yet");
    assert!(ready["options"].as_array().unwrap().iter().any(|option| option["name"] == "temperature"));
    let mut last = ("", 0.0);
    for event in &events[..events.len() - 1] {
        assert_eq!(event["type"], "progress");
        let (stage, done) = (event["stage"].as_str().unwrap(), event["done"].as_f64().unwrap());
        assert!(stage != last.0 || done >= last.1, "{event}");
        assert!(event["total"].is_null() || done <= event["total"].as_f64().unwrap(), "{event}");
        last = (stage, done);
    }
}

/// In hexadecimal.
fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[wasm_bindgen_test]
async fn a_checksum_that_does_not_fit_leaves_the_model_before() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    let sha256 = sha256(TINY_Q8_0);
    for (id, sha256, kind) in [(2, sha256.to_uppercase(), Value::Null), (3, "00".repeat(32), json!("damaged_model"))] {
        let last = page.load_with(id, &[("tiny.gguf", TINY_Q8_0)], json!({"sha256": sha256})).await;
        assert_eq!(last["kind"], kind);
        assert!(kind != Value::Null || last["model"]["sha256"] == sha256.to_lowercase(), "{last}");
    }
    assert_eq!(page.generate(4, "Once", json!({"max_tokens": 2})).await.last().unwrap()["type"], "done");
}

/// A download: a stream that brings the file in pieces.
#[wasm_bindgen_test]
async fn a_stream_loads_as_a_blob_does_and_is_cancelled_when_it_is_of_no_use() {
    let page = Page::new();
    let stream = |bytes: &[u8]| file("tiny.gguf", "stream", &blob(bytes).stream());
    page.send_load(1, &[stream(TINY_Q8_0)], json!({}));
    let streamed = page.last_of(1).await;
    // It cannot be read again, so its SHA-256 is known at once.
    assert_eq!(streamed["model"]["sha256"], sha256(TINY_Q8_0));
    let mut read = page.load(2, &[("tiny.gguf", TINY_Q8_0)], None).await;
    read["model"]["sha256"] = json!(sha256(TINY_Q8_0));
    assert_eq!(streamed["model"], read["model"]);
    page.send_load(3, &[stream(&TINY_Q8_0[..9000])], json!({}));
    assert_eq!(page.last_of(3).await["kind"], "damaged_model");
    // A stream that somebody reads already.
    let taken = blob(TINY_Q8_0).stream();
    let reader = web_sys::ReadableStreamDefaultReader::new(&taken).unwrap();
    page.send_load(4, &[file("tiny.gguf", "stream", &taken)], json!({}));
    assert_eq!(page.last_of(4).await["kind"], "invalid_request");
    drop(reader);
}

/// A stream that brings the first `bytes` bytes and then nothing more, as a connection that stalls. It tells `cancelled`
/// and `locked`.
fn stalled_stream(bytes: &[u8]) -> web_sys::ReadableStream {
    let make = js_sys::Function::new_with_args(
        "bytes",
        "let stalled;
        const stream = new ReadableStream({
          start(controller) { controller.enqueue(bytes); },
          pull() { stream.asked?.(); return new Promise(() => {}); },
          cancel() { stream.cancelled = true; stream.told?.(); },
        }, { highWaterMark: 0 });
        return stream;",
    );
    make.call1(&wasm_bindgen::JsValue::NULL, &js_sys::Uint8Array::from(bytes)).unwrap().unchecked_into()
}

/// Resolves when the stream calls its own function `name`, from now on.
fn told(stream: &web_sys::ReadableStream, name: &str) -> impl Future<Output = ()> + use<> {
    let promise = js_sys::Promise::new(&mut |resolve, _| set(stream, name, &resolve));
    async { drop(wasm_bindgen_futures::JsFuture::from(promise).await.unwrap()) }
}

#[wasm_bindgen_test]
async fn a_cancel_ends_a_load_whose_download_stalls_and_closes_it() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_F32)], None).await;
    let stream = stalled_stream(&TINY_Q8_0[..9000]);
    page.send_load(2, &[file("tiny.gguf", "stream", &stream)], json!({}));
    told(&stream, "asked").await;
    let closed = told(&stream, "told");
    page.cancel(2);
    assert_eq!(page.last_of(2).await["kind"], "cancelled");
    closed.await;
    assert_eq!(page.generate(3, "Once", json!({"max_tokens": 2})).await.last().unwrap()["type"], "done");
    assert!(!stream.locked(), "its reader was given back");
}

#[wasm_bindgen_test]
async fn safetensors_and_gguf_of_one_model_write_the_same() {
    let files = [
        ("model.safetensors", SAFETENSORS),
        ("config.json", SAFETENSORS_CONFIG),
        ("vocab.json", VOCAB),
        ("merges.txt", MERGES),
    ];
    let mut ids = Vec::new();
    for files in [&[("tiny.gguf", TINY_F32)][..], &files] {
        let page = Page::new();
        assert_eq!(page.load(1, files, None).await["type"], "ready");
        let events = page.generate(2, "", json!({"temperature": 0, "max_tokens": 32})).await;
        ids.push(events.last().unwrap()["record"]["token_ids"].clone());
    }
    assert_eq!(ids[0], ids[1]);
}

#[wasm_bindgen_test]
async fn a_generation_is_start_prefill_then_deltas_and_steps_then_done() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    let events = page.generate(2, "Once upon", json!({"max_tokens": 12, "seed": 7})).await;
    let kinds = types(&events);
    assert_eq!(kinds[0], "start");
    assert_eq!(kinds[1], "prefill");
    assert_eq!(kinds.last(), Some(&"done"));
    assert_eq!(kinds.iter().filter(|kind| **kind == "done").count(), 1);
    let record = &events.last().unwrap()["record"];
    assert_eq!(events[0]["settings"]["seed"], 7);
    assert_eq!(joined(&events), record["text"].as_str().unwrap());
    let steps: Vec<_> = events.iter().filter(|event| event["type"] == "step").collect();
    assert_eq!(steps.len(), record["steps"].as_array().unwrap().len());
    for (step, recorded) in steps.iter().zip(record["steps"].as_array().unwrap()) {
        assert_eq!(step["token_id"], recorded["token_id"]);
    }
    assert_eq!(record["stop"], events.last().unwrap()["stop"]);
}

/// The model's clock and the worker's are one: otherwise the parts would not add up.
#[wasm_bindgen_test]
async fn the_first_token_is_posted_at_once_and_what_follows_in_a_frame_together() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    let events = page.generate(2, "Once", json!({"max_tokens": 200, "seed": 7})).await;
    let posts: Vec<_> = page.posts().into_iter().filter(|post| post[0]["id"] == 2).collect();
    assert_eq!(posts.concat(), events);
    let of_type = |post: &[Value], name: &str| post.iter().filter(|event| event["type"] == name).count();
    let first = posts.iter().find(|post| of_type(post, "step") > 0).unwrap();
    assert_eq!((of_type(first, "step"), &first[first.len() - 1]["step"]), (1, &json!(0)));
    // Other tests run meanwhile, but a step of this model takes a fraction of a millisecond.
    let steps = of_type(&events, "step");
    assert!(steps > 10 && posts.len() < steps, "{} posts for {steps} steps", posts.len());
    assert_eq!(posts.last().unwrap().last().unwrap()["type"], "done");
}

#[wasm_bindgen_test]
async fn a_record_says_where_the_time_of_a_step_went() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    // To post a step takes until the clock ticks, however fast the machine and coarse its clock are.
    page.listen(|_, event| {
        if event["type"] == "step" {
            script("(() => { const now = performance.now(); while (performance.now() === now); })()");
        }
    });
    let events = page.generate(2, "Once", json!({"max_tokens": 60, "seed": 7})).await;
    let record = &events.last().unwrap()["record"];
    let profile = record["profile"].as_object().unwrap();
    assert_eq!(profile["steps"], record["steps"].as_array().unwrap().len() - 1);
    let parts = profile.iter().filter(|(name, _)| name.ends_with("_ms"));
    let sum: f64 = parts.map(|(_, ms)| ms.as_f64().unwrap()).sum();
    assert!((sum * record["tokens_per_second"].as_f64().unwrap() - 1000.0).abs() < 1e-6, "{profile:?}");
    assert!(profile["messages_ms"].as_f64().unwrap() > 0.0, "{profile:?}");
}

#[wasm_bindgen_test]
async fn a_record_says_by_which_kernel_and_in_how_many_places_at_a_time_weights_were_read() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    let done = page.generate(2, "Once", json!({"max_tokens": 2})).await.pop().unwrap();
    let identity = &done["record"]["identity"];
    assert_eq!(identity["kernel"], gpt2_web::kernels::selected().name);
    // A small model has no trial.
    assert_eq!(identity["readers"], gpt2_web::kernels::DEFAULT_READERS);
    assert_eq!(identity["readers_trial"], json!([]));
}

#[wasm_bindgen_test]
async fn the_same_seed_writes_the_same_text_and_a_missing_one_is_reported() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    let text = |events: &[Value]| events.last().unwrap()["record"]["text"].clone();
    let options = json!({"max_tokens": 20, "temperature": 1.5, "seed": 4294967296u64});
    let first = page.generate(2, "Once", options.clone()).await;
    let second = page.generate(3, "Once", options).await;
    assert_eq!(text(&first), text(&second));
    let drawn = page.generate(4, "Once", json!({"max_tokens": 20, "temperature": 1.5})).await;
    let seed = &drawn[0]["settings"]["seed"];
    let again = page.generate(5, "Once", json!({"max_tokens": 20, "temperature": 1.5, "seed": seed})).await;
    assert_eq!(text(&drawn), text(&again));
}

#[wasm_bindgen_test]
async fn a_second_request_meanwhile_is_answered_with_busy() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    page.send(json!({"type": "generate", "id": 2, "prompt": "Once", "options": {"max_tokens": 5}}));
    page.send(json!({"type": "generate", "id": 3, "prompt": "Twice"}));
    page.send(json!({"type": "unload", "id": 4}));
    for id in [3, 4] {
        let events = page.end_of(id).await;
        assert_eq!((events.len(), &events[0]["kind"]), (1, &json!("busy")));
    }
    assert_eq!(page.end_of(2).await.last().unwrap()["type"], "done");
    assert_eq!(page.generate(5, "Once", json!({"max_tokens": 2})).await.last().unwrap()["type"], "done");
}

#[wasm_bindgen_test]
async fn an_id_used_twice_does_not_end_the_request_that_runs() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    for _ in 0..2 {
        page.send(json!({"type": "generate", "id": 2, "prompt": "Once", "options": {"max_tokens": 5}}));
    }
    let ends = page.end_of(2).await.iter().filter(|event| ENDS.contains(&event["type"].as_str().unwrap())).count();
    assert_eq!(ends, 1);
    let events = page.events();
    let refused = events.iter().find(|event| event["kind"] == "busy").unwrap();
    assert!(refused["id"].is_null(), "{refused}");
}

#[wasm_bindgen_test]
async fn the_settings_of_a_record_write_its_text_again() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    let record = |events: Vec<Value>| events.last().unwrap()["record"].clone();
    let first = record(page.generate(2, "Once", json!({"max_tokens": 20, "temperature": 1.5})).await);
    let again = record(page.generate(3, "Once", first["settings"].clone()).await);
    assert_eq!((&first["token_ids"], &first["settings"]), (&again["token_ids"], &again["settings"]));
}

#[wasm_bindgen_test]
async fn a_cancel_ends_a_run_within_one_step_and_is_harmless_at_any_time() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    // Before the first token, twice.
    page.send(json!({"type": "generate", "id": 2, "prompt": "Once"}));
    page.send(json!({"type": "cancel", "id": 2}));
    page.send(json!({"type": "cancel", "id": 2}));
    let events = page.end_of(2).await;
    assert_eq!(events.last().unwrap()["stop"]["reason"], "cancelled");
    assert_eq!(types(&events), ["start", "done"]);
    // In decode: while the third step is told.
    page.listen(|page, event| {
        if event["id"] == 3 && event["type"] == "step" && event["step"] == 2 {
            page.cancel(3);
        }
    });
    let events = page.generate(3, "Once", json!({"seed": 1, "max_tokens": 1000})).await;
    assert_eq!(events.iter().filter(|event| event["type"] == "step").count(), 3);
    assert_eq!(events.last().unwrap()["stop"]["finish_reason"], "abort");
    // After the end, and for a request that never was.
    let before = page.events().len();
    page.cancel(3);
    page.cancel(99);
    assert_eq!(page.generate(4, "Once", json!({"max_tokens": 2})).await.last().unwrap()["type"], "done");
    assert!(page.events()[before..].iter().all(|event| event["id"] != 3 && event["id"] != 99));
}

#[wasm_bindgen_test]
async fn a_run_that_was_cancelled_before_it_was_sent_has_no_token() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    page.send(json!({"type": "generate", "id": 2, "prompt": "Once", "cancelled": true}));
    let events = page.end_of(2).await;
    assert_eq!(types(&events), ["start", "done"]);
    assert_eq!(events[1]["stop"]["reason"], "cancelled");
    assert_eq!(events[1]["record"]["positions_processed"], 0);
    // What would be refused anyway is.
    page.send(json!({"type": "generate", "id": 3, "prompt": "Once", "options": {"top_k": -1}, "cancelled": true}));
    assert_eq!(page.last_of(3).await["kind"], "invalid_option");
    page.send(json!({"type": "generate", "id": 4, "prompt": "Once", "options": {"max_tokens": 2}, "cancelled": false}));
    assert_eq!(page.last_of(4).await["stop"]["reason"], "max_tokens");
}

#[wasm_bindgen_test]
async fn a_ping_is_answered_at_once_whatever_runs() {
    let page = Page::new();
    let ping = |id: u32| {
        page.send(json!({"type": "ping", "id": id}));
        assert_eq!(page.events().last().unwrap(), &json!({"type": "pong", "id": id}));
    };
    ping(1);
    let stream = stalled_stream(&TINY_Q8_0[..9000]);
    page.send_load(2, &[file("tiny.gguf", "stream", &stream)], json!({}));
    told(&stream, "asked").await;
    ping(3);
    page.cancel(2);
    assert_eq!(page.last_of(2).await["kind"], "cancelled");
    page.load(4, &[("tiny.gguf", TINY_Q8_0)], None).await;
    page.listen(|page, event| {
        if event["type"] == "step" && event["step"] == 1 {
            page.send(json!({"type": "ping", "id": 6}));
        }
    });
    let events = page.generate(5, "Once", json!({"max_tokens": 4, "seed": 1})).await;
    assert_eq!((page.count(6, "pong"), events.last().unwrap()["type"].as_str()), (1, Some("done")));
}

#[wasm_bindgen_test]
async fn what_cannot_be_done_is_said_and_the_next_request_works() {
    let page = Page::new();
    let kind = |events: Vec<Value>| events.last().unwrap()["kind"].clone();
    assert_eq!(kind(page.generate(1, "Once", json!({})).await), "not_loaded");
    page.load(2, &[("tiny.gguf", TINY_Q8_0)], None).await;
    assert_eq!(kind(page.generate(3, "Once", json!({"temperature": -1})).await), "invalid_option");
    assert_eq!(kind(page.generate(4, "Once", json!({"temprature": 1})).await), "unknown_option");
    assert_eq!(kind(page.generate(5, &"a b ".repeat(500), json!({})).await), "prompt_too_long");
    let html = b"<!doctype html><title>404</title>";
    let error = page.load(6, &[("model.gguf", html)], None).await;
    assert_eq!(error["kind"], "not_a_model");
    assert!(error["message"].as_str().unwrap().contains("HTML"), "{error}");
    let error = page.load(7, &[("tiny.gguf", &TINY_F32[..TINY_F32.len() / 2])], None).await;
    assert_eq!(error["kind"], "damaged_model");
    // The model from before is still there.
    assert_eq!(page.generate(8, "Once", json!({"max_tokens": 2})).await.last().unwrap()["type"], "done");
    page.send(json!({"type": "unload", "id": 9}));
    assert_eq!(page.end_of(9).await[0]["type"], "unloaded");
    assert_eq!(kind(page.generate(10, "Once", json!({})).await), "not_loaded");
}
