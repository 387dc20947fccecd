//! What is fuzzed: each function hands outside bytes to a public entry point, and panics if an invariant breaks.
//! The fuzzers in fuzz_targets/ and the replay in tests/fuzz_corpus.rs include this file.
#![allow(dead_code, reason = "each fuzzer calls one of the functions")]

use gpt2_web::engine;
use gpt2_web::error::ErrorKind;
use gpt2_web::gpt2::Config;
use gpt2_web::gpt2::checkpoint::{self, ModelFile};
use gpt2_web::model::LanguageModel;
use gpt2_web::options::RawOptions;
use gpt2_web::settings::Settings;
use gpt2_web::text::Tokenizer;

/// The configuration and the weights of the smallest seed.
const CONFIG: &[u8] = include_bytes!("seeds/config/plain");
const WEIGHTS: &[u8] = include_bytes!("seeds/safetensors/f32");

/// Weights beside a good config.json.
pub fn safetensors(data: &[u8]) {
    load(&[("model.safetensors", data), ("config.json", CONFIG)]);
}

/// A file that holds everything.
pub fn gguf(data: &[u8]) {
    load(&[("model.gguf", data)]);
}

/// config.json, alone and beside good weights.
pub fn config(data: &[u8]) {
    let config = Config::from_json(data);
    let loaded = load(&[("model.safetensors", WEIGHTS), ("config.json", data)]);
    assert!(config.is_ok() || !loaded, "a configuration that is refused loads");
}

/// The tokenizer in each of its forms. A GGUF file is one; anything else is the contents of these files with a zero
/// byte between them: alone it is tokenizer.json.
pub fn tokenizer(data: &[u8]) {
    const BESIDE: [&str; 4] =
        ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "generation_config.json"];
    let tokenizer = if data.starts_with(b"GGUF") {
        engine::tokenizer(&[ModelFile { name: "model.gguf", bytes: data }])
    } else {
        let contents: Vec<&[u8]> = data.split(|&byte| byte == 0).collect();
        let names: &[&str] = if contents.len() == 1 { &["tokenizer.json"] } else { &["vocab.json", "merges.txt"] };
        let files: Vec<_> = names.iter().chain(&BESIDE).copied().zip(contents).collect();
        Tokenizer::from_files(&files)
    };
    let Ok(tokenizer) = tokenizer else { return };
    assert!(tokenizer.eos().is_none_or(|eos| (eos as usize) < tokenizer.len()));
    for text in ["", " ", "It was the best of times,\n\n  it was 👋🏽 <|endoftext|>. don't", "\u{3000}<pad>\t<pad>"]
    {
        for parse_special in [false, true] {
            let ids = match tokenizer.prompt(text, parse_special) {
                Ok(ids) => ids,
                Err(error) if error.kind == ErrorKind::BadTokenizer => continue,
                Err(error) => panic!("{error}"),
            };
            assert!(tokenizer.at_least(text) <= ids.len(), "fewer ids than there must be");
            assert!(ids.iter().all(|&id| tokenizer.bytes(id).is_some()), "an id without bytes");
        }
    }
    tokenizer.decode(&[0, 1, 255, u32::MAX]);
}

/// The options of a run, as JSON. Settings that are accepted stand in the record, from which they are used again; a
/// refusal names the option.
pub fn options(data: &[u8]) {
    let Ok(options) = serde_json::from_slice::<RawOptions>(data) else { return };
    match Settings::from_raw(&options, 7) {
        Ok(settings) => {
            let record = serde_json::to_value(&settings).expect("settings are JSON");
            let again: RawOptions = serde_json::from_value(record).expect("settings are options");
            assert_eq!(Settings::from_raw(&again, 8).expect("settings are accepted"), settings);
        }
        Err(error) => {
            assert!(matches!(error.kind, ErrorKind::UnknownOption | ErrorKind::InvalidOption), "{error:?}");
            assert!(options.keys().any(|name| error.message.contains(&format!("`{name}`"))), "{error:?}");
        }
    }
}

/// Whether `files` load; a model that does must work.
fn load(files: &[(&str, &[u8])]) -> bool {
    let files: Vec<_> = files.iter().map(|&(name, bytes)| ModelFile { name, bytes }).collect();
    let Ok(loaded) = checkpoint::load(&files, None, &mut |_, _| {}) else { return false };
    let mut model = loaded.model;
    let size = model.vocab_size();
    // NaN among the weights is refused here, if not before.
    if let Ok(logits) = model.feed(&[0]) {
        assert_eq!(logits.len(), size);
    }
    true
}
