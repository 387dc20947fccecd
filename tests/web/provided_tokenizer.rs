//! Weights that come without a tokenizer: the worker asks for GPT-2's, where it can be the one.

use serde_json::{Value, json};
use wasm_bindgen::JsValue;
use wasm_bindgen_test::wasm_bindgen_test;

use super::page::{Page, Watched, blob, file};
use super::{MERGES, SAFETENSORS, SAFETENSORS_CONFIG, TINY_F32, VOCAB, types};

/// A model of one block with as many ids as GPT-2 has, all of its weights 0.
fn zeros() -> Vec<u8> {
    let (mut header, mut at) = (serde_json::Map::new(), 0);
    for (name, shape) in [
        ("wte.weight", &[50257, 2][..]),
        ("wpe.weight", &[8, 2]),
        ("ln_f.weight", &[2]),
        ("ln_f.bias", &[2]),
        ("h.0.ln_1.weight", &[2]),
        ("h.0.ln_1.bias", &[2]),
        ("h.0.ln_2.weight", &[2]),
        ("h.0.ln_2.bias", &[2]),
        ("h.0.attn.c_attn.weight", &[2, 6]),
        ("h.0.attn.c_attn.bias", &[6]),
        ("h.0.attn.c_proj.weight", &[2, 2]),
        ("h.0.attn.c_proj.bias", &[2]),
        ("h.0.mlp.c_fc.weight", &[2, 8]),
        ("h.0.mlp.c_fc.bias", &[8]),
        ("h.0.mlp.c_proj.weight", &[8, 2]),
        ("h.0.mlp.c_proj.bias", &[2]),
    ] {
        let bytes = 4 * shape.iter().product::<usize>();
        header.insert(name.into(), json!({"dtype": "F32", "shape": shape, "data_offsets": [at, at + bytes]}));
        at += bytes;
    }
    let json = serde_json::to_vec(&header).unwrap();
    let mut bytes = [&(json.len() as u64).to_le_bytes()[..], &json].concat();
    bytes.resize(bytes.len() + at, 0);
    bytes
}

const CONFIG: &[u8] = br#"{"n_layer": 1, "n_embd": 2, "n_head": 1, "n_positions": 8}"#;

/// The files of that model, and `more`.
fn files(more: &[(&str, &[u8])]) -> Vec<JsValue> {
    let weights = zeros();
    let all = [("model.safetensors", weights.as_slice()), ("config.json", CONFIG)];
    all.iter().chain(more).map(|(name, bytes)| file(name, "blob", &blob(bytes))).collect()
}

/// Answers the first `needs_tokenizer` with `file`.
fn lend(page: &Page, file: JsValue) {
    page.listen(move |page, event| {
        if event["type"] == "needs_tokenizer" {
            let message =
                js_sys::JSON::parse(&json!({"type": "provide_tokenizer", "id": event["id"]}).to_string()).unwrap();
            super::set(&message, "file", &file);
            page.post(message);
        }
    });
}

#[wasm_bindgen_test]
async fn weights_without_a_tokenizer_get_the_one_that_is_lent() {
    let page = Page::new();
    lend(&page, file("lent.gguf", "blob", &blob(TINY_F32)));
    page.send_load(1, &files(&[]), json!({}));
    let events = page.end_of(1).await;
    assert_eq!(types(&events).iter().filter(|kind| **kind == "needs_tokenizer").count(), 1);
    let ready = events.last().unwrap();
    assert_eq!(ready["type"], "ready", "{ready}");
    let told = |notice: &&Value| notice.as_str().unwrap().contains("tokenizer");
    assert_eq!(ready["notices"].as_array().unwrap().iter().filter(told).count(), 1, "{ready}");
    let done = page.generate(2, "the", json!({"max_tokens": 1})).await.pop().unwrap();
    assert_eq!(done["type"], "done");
    // Those of the lent one.
    page.load(3, &[("tiny.gguf", TINY_F32)], None).await;
    let own = page.generate(4, "the", json!({"max_tokens": 1})).await.pop().unwrap();
    assert_eq!(done["record"]["prompt_ids"], own["record"]["prompt_ids"]);
    assert_eq!(done["record"]["identity"]["tokenizer_sha256"], own["record"]["identity"]["tokenizer_sha256"]);
}

#[wasm_bindgen_test]
async fn a_lent_file_may_come_as_a_download() {
    let page = Page::new();
    lend(&page, file("lent.gguf", "stream", &blob(TINY_F32).stream()));
    page.send_load(1, &files(&[]), json!({}));
    assert_eq!(page.last_of(1).await["type"], "ready");
}

#[wasm_bindgen_test]
async fn nothing_is_lent_where_a_tokenizer_was_given() {
    let page = Page::new();
    for (id, more) in [
        (1, &[("vocab.json", VOCAB), ("merges.txt", MERGES)][..]),
        (2, &[("lender.gguf", TINY_F32)]),
        // Half of one is refused with the name of the other half.
        (3, &[("vocab.json", VOCAB)]),
    ] {
        page.send_load(id, &files(more), json!({}));
        let events = page.end_of(id).await;
        assert_eq!(page.count(id, "needs_tokenizer"), 0);
        assert_eq!(events.last().unwrap()["type"], if id == 3 { "error" } else { "ready" }, "{events:?}");
    }
    assert!(page.last_of(3).await["message"].as_str().unwrap().contains("merges.txt"));
}

#[wasm_bindgen_test]
async fn a_model_that_cannot_be_gpt_2_s_is_refused_before_its_weights_are_read() {
    let page = Page::new();
    let weights = Watched::new(SAFETENSORS);
    let given = [file("model.safetensors", "blob", &weights.0), file("config.json", "blob", &blob(SAFETENSORS_CONFIG))];
    page.send_load(1, &given, json!({}));
    let events = page.end_of(1).await;
    assert_eq!((types(&events), &events[0]["kind"]), (vec!["error"], &json!("bad_tokenizer")));
    let sentence = events[0]["message"].as_str().unwrap();
    assert!(sentence.contains("300") && sentence.contains("tokenizer.json"), "{sentence}");
    assert_eq!(weights.reads(), 1, "its head");
    // What there is instead is named.
    let more = [given.as_slice(), &[file("vocab.txt", "blob", &blob(b"[PAD]\n[UNK]"))]].concat();
    page.send_load(2, &more, json!({}));
    let sentence = page.last_of(2).await["message"].to_string();
    assert!(sentence.contains("vocab.txt") && sentence.contains("WordPiece"), "{sentence}");
}

/// Without a config.json, and in a GGUF file, the size of the vocabulary is known when the weights are.
#[wasm_bindgen_test]
async fn a_smaller_vocabulary_that_no_config_tells_of_is_refused_too() {
    let page = Page::new();
    lend(&page, file("lent.gguf", "blob", &blob(TINY_F32)));
    let mut bare = TINY_F32.to_vec();
    for at in 0..bare.len() - 14 {
        if bare[at..].starts_with(b"tokenizer.ggml") {
            bare[at] = b'T';
        }
    }
    let asked = page.load(1, &[("bare.gguf", &bare)], None).await;
    assert_eq!((page.count(1, "needs_tokenizer"), &asked["kind"]), (0, &json!("bad_tokenizer")));
    assert!(asked["message"].as_str().unwrap().contains("300"), "{asked}");
    // With one beside it, it is as good as any.
    let files: [(&str, &[u8]); 3] = [("bare.gguf", &bare), ("vocab.json", VOCAB), ("merges.txt", MERGES)];
    assert_eq!(page.load(2, &files, None).await["type"], "ready");
}

#[wasm_bindgen_test]
async fn a_load_that_waits_for_a_file_ends_when_it_is_cancelled_or_the_file_is_no_use() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_F32)], None).await;
    page.listen(|page, event| {
        if event["type"] == "needs_tokenizer" {
            page.send(json!({"type": "ping", "id": 90}));
            page.cancel(2);
        }
    });
    page.send_load(2, &files(&[]), json!({}));
    assert_eq!(page.last_of(2).await["kind"], "cancelled");
    assert_eq!(page.count(90, "pong"), 1);

    let gone = Watched::new(TINY_F32);
    gone.remove();
    for (id, lent, kind, says) in [
        (3, file("lent.gguf", "blob", &blob(b"<!doctype html><title>404</title>")), "not_a_model", "HTML"),
        (4, gone.file(), "invalid_request", "the file is gone"),
        (5, file("lent.gguf", "blob", &blob(&TINY_F32[..1000])), "damaged_model", "lent.gguf"),
        (6, file("lent.gguf", "blob", &JsValue::NULL), "invalid_request", "lent.gguf"),
        (7, file("lent.safetensors", "blob", &blob(SAFETENSORS)), "bad_tokenizer", "lent.safetensors"),
    ] {
        lend(&page, lent);
        page.send_load(id, &files(&[]), json!({}));
        let error = page.last_of(id).await;
        assert_eq!(error["kind"], kind, "{error}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    }
    // Nobody asked, or not any more.
    page.listen(|_, _| {});
    for id in [7, 8] {
        page.forget_events();
        page.send(json!({"type": "provide_tokenizer", "id": id, "file": {"name": "x"}}));
        assert_eq!(page.last_of(id).await["kind"], "invalid_request");
    }
    // The model from before is still there.
    assert_eq!(page.generate(9, "Once", json!({"max_tokens": 2})).await.last().unwrap()["type"], "done");
}
