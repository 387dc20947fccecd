//! Reference results by Hugging Face transformers (torch, f32) for the same weights.

use candle_core::quantized::gguf_file::Value;
use gpt2_web::gpt2::checkpoint::Format;
use gpt2_web::gpt2::{Gpt2, Precision};
use gpt2_web::model::LanguageModel;
use serde::Deserialize;

use crate::fixture::{self, CHECKPOINTS, GGUFS};

/// Greatest difference of a logit in f32; the reference sums in another order.
const TOLERANCE: f32 = 2e-4;

#[derive(Deserialize)]
struct Expected {
    /// Fed in one pass.
    input_ids: Vec<u32>,
    /// The best id after each of them.
    argmax: Vec<usize>,
    /// The logits after the last.
    #[serde(default)]
    last_logits: Vec<f32>,
    /// The best of them, id and logit, where there are too many for a file.
    #[serde(default)]
    last_top20: Vec<(usize, f32)>,
    /// Ids that continue the first eight.
    #[serde(default)]
    greedy: Vec<u32>,
    /// Summed over all of `input_ids` but the first, in nats.
    nll: f64,
}

fn expected(name: &str) -> Expected {
    serde_json::from_value(fixture::json(name)).unwrap()
}

fn argmax(logits: &[f32]) -> usize {
    logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0
}

fn summed_nll(ids: &[u32], scores: &[Vec<f32>]) -> f64 {
    let of = |logits: &[f32], id: u32| {
        let greatest = f64::from(logits[argmax(logits)]);
        let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - greatest).exp()).sum();
        greatest + sum.ln() - f64::from(logits[id as usize])
    };
    scores.iter().zip(&ids[1..]).map(|(logits, &id)| of(logits, id)).sum()
}

/// The reference in f32: every logit, every best id, every greedy id.
fn assert_same(name: &str, model: &mut Gpt2, expected: &Expected) {
    let scores = model.score(&expected.input_ids).unwrap();
    let best: Vec<_> = scores.iter().map(|logits| argmax(logits)).collect();
    assert_eq!(best, expected.argmax, "{name}");
    let last = scores.last().unwrap();
    let all = expected.last_logits.iter().copied().enumerate();
    assert!(expected.last_logits.len() == last.len() || expected.last_top20.len() == 20);
    for (id, wanted) in all.chain(expected.last_top20.iter().copied()) {
        let got = last[id];
        assert!((got - wanted).abs() <= TOLERANCE, "{name}: logit {id} is {got}, the reference says {wanted}");
    }
    let nll = summed_nll(&expected.input_ids, &scores);
    assert!((nll / expected.nll - 1.0).abs() < 1e-5, "{name}: {nll} and {}", expected.nll);

    model.truncate(7);
    let mut next = argmax(model.feed(&expected.input_ids[7..8]).unwrap()) as u32;
    for (step, &id) in expected.greedy.iter().enumerate() {
        assert_eq!(next, id, "{name}: greedy step {step}");
        next = argmax(model.feed(&[id]).unwrap()) as u32;
    }
}

fn assert_near(name: &str, model: &mut Gpt2, expected: &Expected) {
    let nll = summed_nll(&expected.input_ids, &model.score(&expected.input_ids).unwrap());
    assert!((nll / expected.nll - 1.0).abs() < 0.01, "{name}: {nll}, the reference says {}", expected.nll);
}

#[test]
fn every_published_layout_gives_the_reference_logits() {
    for name in CHECKPOINTS {
        let expected = expected(&format!("tests/fixtures/checkpoints/{name}/expected.json"));
        assert_eq!(expected.greedy.len(), 32);
        let mut loaded = fixture::checkpoint(name, None);
        assert_eq!((loaded.format, loaded.precision), (Format::Safetensors, Precision::F32), "{name}");
        assert_same(name, &mut loaded.model, &expected);
    }
}

#[test]
fn gguf_gives_the_reference_logits() {
    // The reference for a quantised file is computed in f32 with its dequantised weights, so in f32 all must agree.
    for name in GGUFS {
        let expected = expected(&format!("tests/fixtures/gguf/{name}.expected.json"));
        let mut loaded = fixture::gguf(name, Some(Precision::F32));
        assert_eq!((loaded.format, loaded.precision), (Format::Gguf, Precision::F32), "{name}");
        assert_same(name, &mut loaded.model, &expected);
    }
}

#[test]
fn a_file_is_held_as_it_is_or_near_it() {
    for (name, precision) in [
        ("f32", Precision::F32),
        ("f16", Precision::F32),
        ("q8_0", Precision::Q8_0),
        ("q4_0", Precision::Q4_0),
        ("q5_1", Precision::Q8_0),
        ("k256-q4_k_m", Precision::Q8_0),
        ("k256-q6_k", Precision::Q8_0),
    ] {
        let expected = expected(&format!("tests/fixtures/gguf/{name}.expected.json"));
        let mut loaded = fixture::gguf(name, None);
        assert_eq!(loaded.precision, precision, "{name}");
        assert_near(name, &mut loaded.model, &expected);
    }
}

#[test]
fn quantising_stays_near_the_reference() {
    for (name, precision, most) in [("plain-f32", Precision::Q8_0, 0.01), ("plain-f32", Precision::Q4_0, 0.03)] {
        let expected = expected(&format!("tests/fixtures/checkpoints/{name}/expected.json"));
        let mut loaded = fixture::checkpoint(name, Some(precision));
        assert_eq!(loaded.precision, precision, "{name}");
        let nll = summed_nll(&expected.input_ids, &loaded.model.score(&expected.input_ids).unwrap());
        assert!((nll / expected.nll - 1.0).abs() < most, "{precision:?}: {nll} and {}", expected.nll);
    }
}

/// The embedded model may be replaced by another of the same architecture; then `expected-q8_0.json` is replaced with
/// it. Its fields are computed by Hugging Face transformers, in f32, with the dequantised weights of the GGUF file:
/// a prompt's `input_ids`, the `argmax` after each, `last_top20` (ids and logits after the last), `greedy` (64 ids
/// that continue the first eight) and `nll` (summed, in nats).
#[test]
fn the_embedded_model_says_what_it_should() {
    let expected = expected("tests/fixtures/demo-model/expected-q8_0.json");
    let file = fixture::bytes(fixture::EMBEDDED);
    assert_same("dequantised", &mut fixture::try_gguf(&file, Some(Precision::F32)).unwrap().model, &expected);

    // As it is used, activations are rounded too: the sum stays near, and so does every logit, but where two ids are
    // nearly as good the other one may be best.
    let close = 0.25;
    let mut model = fixture::try_gguf(&file, None).unwrap().model;
    assert_near("q8_0", &mut model, &expected);
    model.truncate(7);
    let mut logits = model.feed(&expected.input_ids[7..8]).unwrap();
    for (step, &id) in expected.greedy.iter().enumerate() {
        let gap = logits[argmax(logits)] - logits[id as usize];
        assert!(gap < close, "greedy step {step}: id {id} should be best and is {gap} behind");
        logits = model.feed(&[id]).unwrap();
    }
}

#[test]
fn weights_are_counted_once_and_progress_ends_at_all() {
    // 2 blocks of width 32 and 128 inside, 300 tokens, 64 positions; the untied head has 300 x 32 more.
    let blocks = 2 * (32 * 96 + 96 + 32 * 32 + 32 + 32 * 128 + 128 + 128 * 32 + 32 + 4 * 32);
    let plain = 300 * 32 + 64 * 32 + blocks + 2 * 32;
    assert_eq!(fixture::checkpoint("plain-f32", None).parameters, plain);
    assert_eq!(fixture::checkpoint("prefix-lmhead-f32", None).parameters, plain);
    assert_eq!(fixture::checkpoint("untied-f32", None).parameters, plain + 300 * 32);
    assert_eq!(fixture::gguf("q8_0", None).parameters, plain);

    for name in CHECKPOINTS {
        let files = fixture::folder(name);
        let size: usize = files.iter().filter(|(name, _)| name.ends_with(".safetensors")).map(|(_, b)| b.len()).sum();
        let files: Vec<_> =
            files.iter().map(|(name, bytes)| gpt2_web::gpt2::checkpoint::ModelFile { name, bytes }).collect();
        let mut seen = Vec::new();
        gpt2_web::gpt2::checkpoint::load(&files, None, &mut |done, total| seen.push((done, total))).unwrap();
        assert!(seen.is_sorted() && seen.iter().all(|(_, total)| *total == size as u64), "{name}: {seen:?}");
        assert_eq!(seen.last().unwrap().0, size as u64, "{name}");
    }
}

#[test]
fn the_tokenizer_in_a_gguf_file_comes_with_the_model_and_alone() {
    let tokenizer = fixture::gguf("f32", None).tokenizer.unwrap();
    let vocab = fixture::json("tests/fixtures/tiny-tokenizer/vocab.json");
    assert_eq!(tokenizer.tokens.len(), 300);
    for (id, token) in tokenizer.tokens.iter().enumerate() {
        assert_eq!(vocab[token], id, "{token}");
    }
    let merges = String::from_utf8(fixture::bytes("tests/fixtures/tiny-tokenizer/merges.txt")).unwrap();
    let merges: Vec<_> = merges.lines().filter(|line| !line.starts_with("#version") && !line.is_empty()).collect();
    assert_eq!(tokenizer.merges, merges);
    assert_eq!(tokenizer.eos, Some(299));
    assert_eq!(fixture::checkpoint("plain-f32", None).tokenizer, None);
    let mut files = fixture::folder("plain-f32");
    files.push(("lends.gguf".into(), fixture::bytes("tests/fixtures/gguf/q5_1.gguf")));
    assert_eq!(fixture::try_load(&files, None).unwrap().tokenizer, Some(tokenizer));
}

#[test]
fn what_the_metadata_of_a_gguf_file_says_of_its_tokens_is_read() {
    let said = |pairs: &[(&str, Value)]| {
        let mut file = fixture::Gguf::of("f32");
        file.metadata.extend(pairs.iter().map(|(key, value)| (format!("tokenizer.ggml.{key}"), value.clone())));
        file.load().unwrap().tokenizer.unwrap()
    };
    let tokenizer = said(&[
        ("eos_token_id", Value::U32(7)),
        ("eot_token_id", Value::I64(8)),
        ("eom_token_id", Value::U8(9)),
        ("bos_token_id", Value::U32(0)),
        ("add_bos_token", Value::Bool(true)),
        ("add_eos_token", Value::Bool(false)),
    ]);
    let ends: Vec<_> = tokenizer.ends.iter().map(|&(_, id)| id).collect();
    assert_eq!((tokenizer.eos, ends), (Some(7), vec![8, 9]));
    assert_eq!((tokenizer.bos, tokenizer.add_bos, tokenizer.add_eos), (Some(0), true, false));
    assert_eq!(tokenizer.notices, [""; 0]);

    // What cannot be right is told, and does no harm.
    let tokenizer = said(&[
        ("eos_token_id", Value::U32(300)),
        ("eot_token_id", Value::I32(-1)),
        ("eom_token_id", Value::String("</s>".into())),
        ("bos_token_id", Value::F32(1.0)),
        ("add_bos_token", Value::U32(1)),
    ]);
    assert_eq!((tokenizer.eos, &tokenizer.ends[..], tokenizer.bos, tokenizer.add_bos), (None, &[][..], None, false));
    for key in ["eos_token_id", "eot_token_id", "eom_token_id", "bos_token_id", "add_bos_token"] {
        assert!(tokenizer.notices.iter().any(|notice| notice.contains(key)), "{key}: {:?}", tokenizer.notices);
    }
}

/// llama.cpp's converter makes names up for ids without a token, and marks them.
#[test]
fn names_made_up_for_ids_without_a_token_are_holes() {
    let mut file = fixture::Gguf::of("f32");
    let mut tokens = file.metadata["tokenizer.ggml.tokens"].to_vec().unwrap().clone();
    tokens[298] = Value::String("[PAD298]".into());
    // One that is marked and has a name of its own keeps it.
    let unused = [297, 298];
    let types = (0..300).map(|id| Value::I32(if unused.contains(&id) { 5 } else { 1 })).collect();
    file.metadata.insert("tokenizer.ggml.tokens".into(), Value::Array(tokens));
    file.metadata.insert("tokenizer.ggml.token_type".into(), Value::Array(types));
    // No merge may need it.
    let merges = file.metadata["tokenizer.ggml.merges"].to_vec().unwrap()[..9].to_vec();
    file.metadata.insert("tokenizer.ggml.merges".into(), Value::Array(merges));
    let bytes = file.file();
    assert_eq!(file.load().unwrap().tokenizer.unwrap().unused, [298]);
    let model = gpt2_web::gpt2::checkpoint::ModelFile { name: "model.gguf", bytes: &bytes };
    let tokenizer = gpt2_web::engine::tokenizer(&[model]).unwrap();
    assert_eq!((tokenizer.len(), tokenizer.holes()), (300, &[298][..]));
}
