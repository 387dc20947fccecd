//! Experiments through the worker, in the browser.

use serde_json::{Value, json};
use wasm_bindgen_test::wasm_bindgen_test;

use super::page::Page;
use super::{MERGES, TINY_Q8_0, VOCAB};

/// A page whose worker holds the smallest model.
async fn with_model() -> Page {
    let page = Page::new();
    let files = [("tiny.gguf", TINY_Q8_0), ("vocab.json", VOCAB), ("merges.txt", MERGES)];
    let ready = page.load(1, &files, None).await;
    assert_eq!(ready["experiments"].as_array().unwrap().len(), 16);
    page
}

/// Does an experiment to its end, and returns its events.
async fn experiment(page: &Page, id: u32, name: &str, options: Value) -> Vec<Value> {
    page.send(json!({"type": "experiment", "id": id, "name": name, "options": options}));
    page.end_of(id).await
}

fn rows(events: &[Value]) -> Vec<&Value> {
    events.iter().filter(|event| event["type"] == "row").map(|event| &event["row"]).collect()
}

#[wasm_bindgen_test]
async fn an_experiment_posts_rows_and_then_its_end() {
    let page = with_model().await;
    let options = json!({"prompt": "the quick", "lengths": [2, 6], "repeats": 1});
    let events = experiment(&page, 2, "naive", options).await;
    let done = events.last().unwrap();
    assert_eq!((&done["type"], &done["name"]), (&json!("experiment_done"), &json!("naive")), "{done}");
    assert_eq!(done["findings"]["options"]["lengths"], json!([2, 6]));
    assert_eq!(done["identity"]["precision"], "q8_0");
    assert!(done["findings"]["machine"]["timer_resolution_ms"].as_f64().unwrap() > 0.0);
    let rows = rows(&events);
    assert_eq!(rows.len(), 2);
    let prompt = rows[0]["prompt_tokens"].as_u64().unwrap();
    assert_eq!(rows[1]["naive_positions"], 6 * prompt + 15);
    // A time this short may be less than the clock's step.
    assert!(rows[1]["equal"] == true && rows[1]["textbook_ms"].is_number(), "{}", rows[1]);
    let last = events.iter().rfind(|event| event["type"] == "experiment_progress").unwrap();
    assert_eq!(last["done"], last["total"]);
}

#[wasm_bindgen_test]
async fn the_inside_of_the_model_is_that_of_the_textbook() {
    let page = with_model().await;
    let events = experiment(&page, 2, "inside", json!({"prompt": "the quick brown"})).await;
    let rows = rows(&events);
    let n = events.last().unwrap()["findings"]["summary"]["tokens"].as_array().unwrap().len();
    let attention: Vec<_> = rows.iter().filter(|row| row.get("weights").is_some()).collect();
    assert_eq!(attention.len(), 2 * 2 * n);
    for row in attention {
        let weights: Vec<f64> =
            row["weights"].as_array().unwrap().iter().map(|weight| weight.as_f64().unwrap()).collect();
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-3, "{row}");
    }
    assert_eq!(rows.iter().filter(|row| row.get("candidates").is_some()).count(), 3 * n);
}

#[wasm_bindgen_test]
async fn a_cancelled_experiment_ends_without_a_summary_and_the_next_request_works() {
    let page = with_model().await;
    page.listen(|page, event| {
        if event["type"] == "row" && event["id"] == 2 {
            page.cancel(2);
        }
    });
    let options = json!({"prompt": "the", "n": 40, "runs": 500});
    let events = experiment(&page, 2, "lengths", options.clone()).await;
    let done = events.last().unwrap();
    assert_eq!((&done["type"], &done["findings"]["summary"]), (&json!("experiment_done"), &Value::Null));
    let found = rows(&events).len();
    assert!((1..500).contains(&found), "{found} rows");

    // Cancelled before it was sent.
    page.send(json!({"type": "experiment", "id": 3, "name": "lengths", "options": options, "cancelled": true}));
    let events = page.end_of(3).await;
    assert_eq!((rows(&events).len(), &events.last().unwrap()["findings"]["summary"]), (0, &Value::Null));

    let events = page.generate(4, "the", json!({"max_tokens": 3})).await;
    assert_eq!(events.last().unwrap()["type"], "done");
}

#[wasm_bindgen_test]
async fn what_cannot_be_done_is_told() {
    let page = Page::new();
    for (id, name, options, kind) in [
        (1, "check", json!({}), "not_loaded"),
        (2, "chek", json!({}), "invalid_request"),
        (3, "check", json!({"tokens": 3}), "unknown_option"),
        (4, "naive", json!({"lengths": [1, "x"]}), "invalid_option"),
    ] {
        let events = experiment(&page, id, name, options).await;
        assert_eq!(events.last().unwrap()["kind"], kind, "{name}");
    }
    let page = with_model().await;
    let events = experiment(&page, 2, "check", json!({"prompt": "the", "n": 64})).await;
    assert_eq!(events.last().unwrap()["kind"], "invalid_option");

    // One at a time.
    page.send(json!({"type": "experiment", "id": 3, "name": "lengths", "options": {"prompt": "the", "n": 20}}));
    page.send(json!({"type": "generate", "id": 4, "prompt": "x", "options": {}}));
    let busy = page.end_of(4).await;
    assert_eq!(busy.last().unwrap()["kind"], "busy");
    page.cancel(3);
    page.end_of(3).await;
}
