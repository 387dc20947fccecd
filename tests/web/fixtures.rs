//! The models of `tests/fixtures`, in the browser: against the reference, and through the worker.

use gpt2_web::gpt2::checkpoint::{self, Loaded, ModelFile};
use gpt2_web::model::LanguageModel;
use serde_json::{Value, json};
use wasm_bindgen_test::wasm_bindgen_test;

use super::page::Page;
use super::{MERGES, VOCAB};

/// A fixture: its files, and what the reference says of the model in them.
struct Fixture {
    name: &'static str,
    files: &'static [(&'static str, &'static [u8])],
    expected: &'static str,
}

macro_rules! folder {
    ($name:literal: $($file:literal),*) => {
        Fixture {
            name: $name,
            files: &[$(($file, include_bytes!(concat!("../fixtures/checkpoints/", $name, "/", $file)))),*],
            expected: include_str!(concat!("../fixtures/checkpoints/", $name, "/expected.json")),
        }
    };
    ($name:literal) => { folder!($name: "model.safetensors", "config.json") };
}

macro_rules! gguf {
    ($name:literal) => {
        Fixture {
            name: $name,
            files: &[(concat!($name, ".gguf"), include_bytes!(concat!("../fixtures/gguf/", $name, ".gguf")))],
            expected: include_str!(concat!("../fixtures/gguf/", $name, ".expected.json")),
        }
    };
}

/// Held in f32: the reference's logits.
const EXACT: &[Fixture] = &[
    folder!("plain-f32"),
    folder!("plain-f16"),
    folder!("plain-bf16"),
    folder!("prefix-lmhead-f32"),
    folder!("untied-f32"),
    folder!("buffers-f32"),
    folder!("gelu-erf-eps"),
    folder!("inverse-layer-scale"),
    folder!("sharded-f32": "model-00002-of-00002.safetensors", "model-00001-of-00002.safetensors",
        "model.safetensors.index.json", "config.json"),
    gguf!("f32"),
    gguf!("f16"),
];

/// Quantised: near the reference.
const NEAR: &[Fixture] = &[gguf!("q8_0"), gguf!("q4_0"), gguf!("q5_1"), gguf!("k256-q4_k_m"), gguf!("k256-q6_k")];

impl Fixture {
    fn load(&self) -> Loaded {
        let files: Vec<_> = self.files.iter().map(|(name, bytes)| ModelFile { name, bytes }).collect();
        checkpoint::load(&files, None, &mut |_, _| {}).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    fn field<T: serde::de::DeserializeOwned>(&self, key: &str) -> Option<T> {
        let expected: Value = serde_json::from_str(self.expected).unwrap();
        expected.get(key).map(|value| serde_json::from_value(value.clone()).unwrap())
    }
}

fn argmax(logits: &[f32]) -> u32 {
    (0..).zip(logits).fold((0, f32::MIN), |best, (id, &logit)| if logit > best.1 { (id, logit) } else { best }).0
}

#[wasm_bindgen_test]
fn the_reference_results_hold_in_this_browser() {
    for fixture in EXACT {
        let mut model = fixture.load().model;
        let ids: Vec<u32> = fixture.field("input_ids").unwrap();
        let logits = model.feed(&ids).unwrap().to_vec();
        let reference: Vec<f32> = fixture.field("last_logits").unwrap();
        assert_eq!(logits.len(), reference.len());
        assert!(logits.iter().zip(&reference).all(|(a, b)| (a - b).abs() <= 2e-4), "{}", fixture.name);

        let Some(expected) = fixture.field::<Vec<u32>>("greedy") else { continue };
        model.truncate(7);
        let mut greedy = vec![ids[7]];
        for _ in &expected {
            greedy.push(argmax(model.feed(&greedy[greedy.len() - 1..]).unwrap()));
        }
        assert_eq!(greedy[1..], expected, "{}", fixture.name);
    }
}

#[wasm_bindgen_test]
fn quantised_files_stay_near_the_reference_in_this_browser() {
    for fixture in NEAR {
        let ids: Vec<u32> = fixture.field("input_ids").unwrap();
        let scores = fixture.load().model.score(&ids).unwrap();
        let nll: f64 = scores
            .iter()
            .zip(&ids[1..])
            .map(|(row, &next)| {
                let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
                sum.ln() - f64::from(row[next as usize])
            })
            .sum();
        let expected: f64 = fixture.field("nll").unwrap();
        assert!((nll / expected - 1.0).abs() < 0.01, "{}: {nll}, and {expected} expected", fixture.name);
    }
}

/// The fast network against the textbook over the same weights, of which only the activations are rounded.
#[wasm_bindgen_test]
fn the_network_is_the_textbook_in_this_browser() {
    for (fixtures, share) in [(EXACT, 1e-5), (NEAR, 0.06)] {
        for fixture in fixtures {
            let mut model = fixture.load().model;
            let ids: Vec<u32> = fixture.field("input_ids").unwrap();
            let wanted = model.reference().forward(&ids).unwrap().0.concat();
            let got = model.score(&ids).unwrap().concat();
            let squares = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|number| number * number).sum::<f64>();
            let off = squares(&mut got.iter().zip(&wanted).map(|(&got, &wanted)| f64::from(got) - f64::from(wanted)));
            let size = squares(&mut wanted.iter().map(|&logit| f64::from(logit)));
            assert!((off / size).sqrt() <= share, "{}: {}", fixture.name, (off / size).sqrt());
        }
    }
}

/// Every fixture through the worker, as the page loads it; and in every precision there is.
#[wasm_bindgen_test]
async fn every_fixture_loads_through_the_worker_and_writes() {
    let page = Page::new();
    for (index, fixture) in (0..).zip(EXACT.iter().chain(NEAR)) {
        let sha256 = fixture.load().sha256;
        for (variant, precision) in (0..).zip([None, Some("f32"), Some("q8_0"), Some("q4_0")]) {
            let mut files = fixture.files.to_vec();
            files.extend([("vocab.json", VOCAB), ("merges.txt", MERGES)]);
            let id = 100 + 8 * index + 2 * variant;
            let ready = page.load(id, &files, precision).await;
            assert_eq!(ready["type"], "ready", "{} {precision:?}: {ready}", fixture.name);
            assert_eq!(page.hashed(id).await["model_sha256"], json!(sha256), "{}", fixture.name);
            let events = page.generate(id + 1, "Once", json!({"max_tokens": 3, "seed": 1})).await;
            let done = events.last().unwrap();
            assert_eq!(done["type"], "done", "{} {precision:?}", fixture.name);
            assert_eq!(done["record"]["identity"]["model_sha256"], json!(sha256), "{}", fixture.name);
        }
    }
}
