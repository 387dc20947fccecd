//! Messages that no page of good will posts: each is answered once, and the worker goes on.

use serde_json::{Value, json};
use wasm_bindgen::JsValue;
use wasm_bindgen_test::wasm_bindgen_test;

use super::TINY_Q8_0;
use super::page::{Page, script, set};

/// Values that the structured clone brings and that no field of a message can hold.
const STRANGE: [&str; 19] = [
    "(() => { const circle = {}; circle.circle = circle; return circle; })()",
    "(() => { const circle = []; circle.push(circle); return circle; })()",
    "(() => { let deep = {}; for (let i = 0; i < 1e5; i++) deep = { deep }; return deep; })()",
    "(() => { let deep = []; for (let i = 0; i < 1e5; i++) deep = [deep]; return deep; })()",
    "new Array(4294967295)",
    "Object.assign([], { 4000000000: 'x' })",
    "new Array(1e6).fill('x')",
    "123n",
    "new Map([['max_tokens', 1]])",
    "new Set(['x'])",
    "new Date(0)",
    "/x/g",
    "new ImageData(1, 1)",
    "new Uint8Array(1e7)",
    "new ArrayBuffer(8)",
    "new Error('x')",
    "new Number(5)",
    "new String('x')",
    "new Blob(['x'])",
];

/// A message with `value` in its place.
fn with(message: Value, key: &str, value: &JsValue) -> JsValue {
    let message = js_sys::JSON::parse(&message.to_string()).unwrap();
    set(&message, key, value);
    message
}

/// A list of that one value.
fn list_of(value: &JsValue) -> JsValue {
    js_sys::Array::of1(value).into()
}

/// Posts `message` and returns the kinds and ids of what comes at once.
fn answers(page: &Page, message: &JsValue) -> Vec<(Value, Value)> {
    page.forget_events();
    page.post(message.clone());
    page.events().iter().map(|event| (event["kind"].clone(), event["id"].clone())).collect()
}

#[wasm_bindgen_test]
async fn a_message_outside_the_protocol_is_answered_not_ignored() {
    let page = Page::new();
    for (message, id) in [
        (json!({"type": "dance", "id": 1}), json!(1)),
        (json!({"type": "generate", "id": 2}), json!(2)),
        (json!({"type": "generate", "id": 3, "prompt": "x", "extra": 1}), json!(3)),
        (json!({"type": "generate", "id": 3, "prompt": 5}), json!(3)),
        (json!({"type": "generate", "id": 3, "prompt": "x", "cancelled": 1}), json!(3)),
        (json!({"type": "generate", "id": 3, "prompt": "x", "options": [1]}), json!(3)),
        (json!({"type": "experiment", "id": 3}), json!(3)),
        (json!({"type": "experiment", "id": 3, "name": ["naive"]}), json!(3)),
        (json!({"type": "experiment", "id": 3, "name": "naive", "options": 7}), json!(3)),
        (json!({"type": "load", "id": 4, "name": "x", "files": {"name": "a.gguf"}}), json!(4)),
        (json!({"type": "load", "id": 4, "name": "x", "files": [null]}), json!(4)),
        (json!({"type": "load", "id": 4, "name": "x", "files": [{"size": 1}]}), json!(4)),
        (json!({"type": "load", "id": 4, "name": "x", "files": [{"name": "a", "size": -1}]}), json!(4)),
        (json!({"type": "load", "id": 4, "name": "x", "files": [], "precision": 8}), json!(4)),
        (json!({"type": "provide_tokenizer", "id": 5}), json!(5)),
        (json!({"type": "provide_tokenizer", "id": 5, "file": {"name": "a"}}), json!(5)),
        (json!({"type": "ping", "id": 6, "extra": {}}), json!(6)),
        (json!({"type": "ping"}), Value::Null),
        (json!({"type": "ping", "id": -1}), Value::Null),
        (json!({"type": "ping", "id": 1.5}), Value::Null),
        (json!({"type": "ping", "id": 4294967296u64}), Value::Null),
        (json!({"type": "ping", "id": 9007199254740992u64}), Value::Null),
        (json!({"type": "ping", "id": "1"}), Value::Null),
        (json!({"id": 7}), json!(7)),
        (json!("hello"), Value::Null),
        (json!([{"type": "ping", "id": 1}]), Value::Null),
        (json!(null), Value::Null),
        (json!({}), Value::Null),
    ] {
        page.forget_events();
        page.send(message.clone());
        let events = page.events();
        assert_eq!(events.len(), 1, "{message}");
        assert_eq!((&events[0]["kind"], &events[0]["id"]), (&json!("invalid_request"), &id), "{message}");
    }
    for (file, id) in [(json!({"name": "a.gguf", "blob": "no blob"}), 8), (json!({"name": "a.gguf"}), 9)] {
        page.send(json!({"type": "load", "id": id, "name": "x", "files": [file]}));
        assert_eq!(page.last_of(id).await["kind"], "invalid_request");
    }
    page.send(json!({"type": "ping", "id": 10}));
    assert_eq!(page.last_of(10).await["type"], "pong");
}

#[wasm_bindgen_test]
async fn no_value_in_any_place_ends_the_worker() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    page.hashed(1).await;
    for (id, strange) in (10..).zip(STRANGE) {
        let value = script(strange);
        // As the message, and as its type and its id.
        for message in [value.clone(), with(json!({"id": 5}), "type", &value)] {
            let got = answers(&page, &message);
            assert_eq!((got.len(), &got[0].0), (1, &json!("invalid_request")), "{strange}");
        }
        let message = with(json!({"type": "ping"}), "id", &value);
        assert_eq!(answers(&page, &message), [(json!("invalid_request"), Value::Null)], "{strange}");
        // Where there is no field, and in each that there is.
        for message in [
            with(json!({"type": "cancel", "id": id}), "more", &value),
            with(json!({"type": "generate", "id": id}), "prompt", &value),
            with(json!({"type": "generate", "id": id, "prompt": "x"}), "cancelled", &value),
            with(json!({"type": "load", "id": id, "files": []}), "name", &value),
            with(json!({"type": "load", "id": id, "name": "x", "files": []}), "sha256", &value),
            with(json!({"type": "load", "id": id, "name": "x"}), "files", &list_of(&value)),
            with(json!({"type": "provide_tokenizer", "id": id}), "file", &value),
        ] {
            assert_eq!(answers(&page, &message), [(json!("invalid_request"), json!(id))], "{strange}");
        }
        // An object is a set of options, with names nobody knows.
        page.forget_events();
        page.post(with(json!({"type": "generate", "id": id, "prompt": "x"}), "options", &value));
        let kind = page.last_of(id).await["kind"].clone();
        assert!(kind == "invalid_request" || kind == "unknown_option", "{strange}: {kind}");
    }
    assert_eq!(page.generate(7, "Once", json!({"max_tokens": 2})).await.last().unwrap()["type"], "done");
}

/// Each option with each value: refused by the option's name.
#[wasm_bindgen_test]
async fn strange_options_are_refused_by_name() {
    let page = Page::new();
    let ready = page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    let mut id = 2;
    for option in ready["options"].as_array().unwrap() {
        let name = option["name"].as_str().unwrap();
        for strange in STRANGE {
            let options = with(json!({}), name, &script(strange));
            page.post(with(json!({"type": "generate", "id": id, "prompt": "x"}), "options", &options));
            let error = page.last_of(id).await;
            assert_eq!(error["kind"], "invalid_option", "{name}: {strange}");
            assert!(error["message"].as_str().unwrap().contains(&format!("`{name}`")), "{error}");
            id += 1;
        }
    }
    for (options, kind) in [
        (script("{ temperature: NaN }"), "invalid_option"),
        (script("{ temperature: Infinity }"), "invalid_option"),
        (script("{ temperature: -0.5 }"), "invalid_option"),
        (script("{ seed: 2 ** 53 }"), "invalid_option"),
        (script("{ max_tokens: -0 }"), "invalid_option"),
        (script("{ max_tokens: 1.5 }"), "invalid_option"),
        (script("{ stop: ['a', ''] }"), "invalid_option"),
        (script("{ stop: new Array(17).fill('x') }"), "invalid_option"),
        (script("{ stop: ['x', {}] }"), "invalid_option"),
        (script("{ temprature: 1 }"), "unknown_option"),
        (script("{ ['x'.repeat(1e7)]: 1 }"), "unknown_option"),
        (script("Object.fromEntries(Array.from({ length: 1e5 }, (_, i) => [`x${i}`, i]))"), "unknown_option"),
        (script("{ stop: 'x'.repeat(5e6) }"), "invalid_option"),
    ] {
        page.post(with(json!({"type": "generate", "id": id, "prompt": "x"}), "options", &options));
        let error = page.last_of(id).await;
        assert_eq!(error["kind"], kind, "{error}");
        assert!(error["message"].as_str().unwrap().len() < 2000);
        id += 1;
    }
    // These are what they look like.
    for options in [
        "{ temperature: -0, max_tokens: 1 }",
        "{ seed: 2 ** 53 - 1, max_tokens: 1 }",
        "{ seed: null, stop: [], max_tokens: 1 }",
    ] {
        page.post(with(json!({"type": "generate", "id": id, "prompt": "x"}), "options", &script(options)));
        assert_eq!(page.last_of(id).await["type"], "done", "{options}");
        id += 1;
    }
}

#[wasm_bindgen_test]
async fn texts_without_end_are_refused_before_they_are_taken_in() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    let message = with(json!({"type": "generate", "id": 2}), "prompt", &script("'x'.repeat(3e8)"));
    page.post(message);
    assert_eq!(page.last_of(2).await["kind"], "prompt_too_long");
    page.post(with(json!({"type": "load", "id": 3, "files": []}), "name", &script("'x'.repeat(3e8)")));
    assert_eq!(page.last_of(3).await["kind"], "invalid_request");
    page.post(with(json!({"type": "load", "id": 4, "name": "x"}), "files", &script("new Array(4294967295)")));
    assert_eq!(page.last_of(4).await["kind"], "invalid_request");
    // Half of a pair is no character.
    page.post(with(json!({"type": "generate", "id": 5, "options": {"max_tokens": 1}}), "prompt", &script("'\\ud83d'")));
    assert_eq!(page.last_of(5).await["record"]["prompt"], "\u{FFFD}");
}

/// What is refused while a request runs does not end that one, whatever id it bears.
#[wasm_bindgen_test]
async fn a_refused_message_does_not_end_the_request_that_runs() {
    let page = Page::new();
    page.load(1, &[("tiny.gguf", TINY_Q8_0)], None).await;
    page.listen(|page, event| {
        if event["type"] == "step" && event["step"] == 1 {
            page.send(json!({"type": "cancel", "id": 2, "more": 1}));
            page.send(json!({"type": "provide_tokenizer", "id": 2, "file": {"name": "x"}}));
            page.send(json!({"type": "unload", "id": 2}));
            page.send(json!({"type": "dance", "id": 3}));
        }
    });
    let events = page.generate(2, "Once", json!({"max_tokens": 5, "seed": 1})).await;
    assert_eq!(events.last().unwrap()["stop"]["reason"], "max_tokens");
    let errors: Vec<_> =
        page.events().iter().filter(|event| event["type"] == "error").map(|e| e["id"].clone()).collect();
    assert_eq!(errors, [Value::Null, Value::Null, Value::Null, json!(3)]);
}
