use sha2::{Digest, Sha256};

use super::*;
use crate::error::ErrorKind;
use crate::generate::{CancelToken, Generation, Progress};
use crate::record::{Record, StopReason};
use crate::settings::Settings;

fn fixture(path: &str) -> Vec<u8> {
    std::fs::read(format!("tests/fixtures/{path}")).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn load(files: &[(&str, &str)]) -> Result<Engine> {
    let files: Vec<_> = files.iter().map(|(name, path)| (*name, fixture(path))).collect();
    let files: Vec<_> = files.iter().map(|(name, bytes)| ModelFile { name, bytes }).collect();
    Engine::load("tiny", &files, None, &mut |_, _| {})
}

const WEIGHTS: (&str, &str) = ("model.safetensors", "checkpoints/plain-f32/model.safetensors");
const CONFIG: (&str, &str) = ("config.json", "checkpoints/plain-f32/config.json");
const VOCAB: (&str, &str) = ("vocab.json", "tiny-tokenizer/vocab.json");
const MERGES: (&str, &str) = ("merges.txt", "tiny-tokenizer/merges.txt");
const GGUF: (&str, &str) = ("tiny.gguf", "gguf/f32.gguf");

#[test]
fn a_tokenizer_comes_from_either_kind_of_file_and_is_the_same() {
    let files = load(&[WEIGHTS, CONFIG, VOCAB, MERGES]).unwrap();
    let donated = load(&[GGUF, WEIGHTS, CONFIG]).unwrap();
    let inside = load(&[GGUF]).unwrap();
    assert_eq!(files.identity.tokenizer_sha256, inside.identity.tokenizer_sha256);
    assert_eq!(files.identity, donated.identity);
    assert_ne!(files.identity.model_sha256, inside.identity.model_sha256);
}

#[test]
fn the_lists_of_a_gguf_file_are_heeded() {
    let bytes = std::fs::read("fuzz/seeds/tokenizer/gguf").unwrap();
    let spaced = tokenizer(&[ModelFile { name: "padded.gguf", bytes: &bytes }]).unwrap();
    let plain = load(&[GGUF]).unwrap().tokenizer;
    assert_eq!(spaced.encode("the", false).unwrap(), plain.encode(" the", false).unwrap());
    assert_eq!((spaced.len(), spaced.eos()), (300, Some(299)));
    // Written for a vocabulary of 302: the last two are no tokens.
    assert!(spaced.bytes(300).is_none());

    let fixture = fixture(GGUF.1);
    let mut inside = super::inside(&ModelFile { name: "tiny.gguf", bytes: &fixture }).unwrap();
    inside.tokens.extend(["<pad>".to_owned(), "  é".to_owned()]);
    inside.control.push(300);
    inside.user_defined.push(301);
    let more = from_gguf(inside.clone(), &[]).unwrap();
    assert_eq!(more.encode("<pad>  é", true).unwrap(), [300, 301]);
    assert_eq!(more.encode("  é", false).unwrap(), [301]);
    assert!(!more.encode("<pad>", false).unwrap().contains(&300));
    assert_eq!(more.decode(&[300, 301]), "<pad>  é");

    inside.eos = Some(7);
    let both = from_gguf(inside.clone(), &[]).unwrap();
    assert_eq!(both.eos(), Some(299), "by content");
    assert!(both.ends(299) && both.ends(7) && !both.ends(8), "a text ends at either");
    assert!(both.notices().iter().any(|notice| notice.contains("7") && notice.contains("eos_token_id")));
    inside.tokens[299] = "</s>".to_owned();
    inside.eos = Some(299);
    inside.control = vec![299];
    let named = from_gguf(inside, &[]).unwrap();
    assert_eq!((named.eos(), named.encode("</s>", true).unwrap()), (Some(299), vec![299]));
}

#[test]
fn the_identity_is_the_weights_files_own() {
    let engine = load(&[CONFIG, WEIGHTS, VOCAB, MERGES]).unwrap();
    assert_eq!(engine.identity.model_sha256, Some(sha256(&fixture(WEIGHTS.1))));
    assert_eq!((engine.identity.model.as_str(), engine.identity.precision.as_str()), ("tiny", "f32"));
}

#[test]
fn what_is_missing_is_named() {
    for (files, missing) in [
        (&[WEIGHTS, CONFIG][..], "vocab.json"),
        (&[WEIGHTS, CONFIG, VOCAB], "merges.txt"),
        (&[WEIGHTS, VOCAB, MERGES], "config.json"),
        (&[VOCAB, MERGES, CONFIG], "weights"),
    ] {
        let error = load(files).unwrap_err();
        assert!(error.message.contains(missing), "{error}");
    }
}

#[test]
fn a_larger_tokenizer_than_the_model_is_refused_with_both_sizes() {
    let vocab = ("vocab.json", "gpt2-tokenizer/vocab.json");
    let merges = ("merges.txt", "gpt2-tokenizer/merges.txt");
    let error = load(&[WEIGHTS, CONFIG, vocab, merges]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadTokenizer);
    assert!(error.message.contains("50257") && error.message.contains("300"), "{error}");
}

/// Files of the one-layer model in tests/fixtures/reports/mini, or of the folder beside it that their names begin with.
fn mini(files: &[&str]) -> Result<Engine> {
    let at = |path: &str| if path.contains('/') { format!("reports/{path}") } else { format!("reports/mini/{path}") };
    let paths: Vec<_> = files.iter().map(|path| at(path)).collect();
    let files: Vec<_> = paths.iter().map(|path| (path.rsplit('/').next().unwrap(), path.as_str())).collect();
    load(&files)
}

/// A greedy run of at most eight tokens.
fn run(engine: &mut Engine, prompt: &str, parse_special: bool) -> Result<Record> {
    let settings = Settings { temperature: 0.0, max_tokens: 8, parse_special, ..Settings::default() };
    let Engine { model, tokenizer, identity, .. } = engine;
    let mut generation = Generation::new(model, tokenizer, prompt, settings, &|| 0.0, CancelToken::default())?;
    let mut text = String::new();
    while let Some(progress) = generation.advance()? {
        match progress {
            Progress::Step(step) => text += &step.text,
            Progress::End { text: rest, .. } => text += &rest,
            Progress::Prefill { .. } => {}
        }
    }
    let record = generation.into_record(identity.clone());
    assert_eq!(record.text, text);
    let shown: Vec<_> = record.token_ids.iter().copied().filter(|&id| !tokenizer.ends(id)).collect();
    assert_eq!(text, tokenizer.decode(&shown));
    Ok(record)
}

#[track_caller]
fn noticed(engine: &Engine, says: &[&str]) {
    let notices = &engine.notices;
    assert!(notices.iter().any(|notice| says.iter().all(|part| notice.contains(part))), "{says:?} in {notices:?}");
}

const SAFETENSORS: [&str; 4] = ["config.json", "model.safetensors", "vocab.json", "merges.txt"];

#[test]
fn a_chat_model_ends_at_the_token_its_metadata_names() {
    let mut engine = mini(&["gguf-chat-eos/chat.gguf"]).unwrap();
    let record = run(&mut engine, "It was the", false).unwrap();
    assert_eq!((&record.token_ids[..], record.text.as_str()), (&[301][..], ""));
    let stop = record.stop.unwrap();
    assert_eq!((stop.reason, stop.eos_token_id), (StopReason::Eos, Some(301)));
    assert_eq!(engine.tokenizer.eos(), Some(299), "an empty prompt starts as ever");
    assert!(engine.tokenizer.ends(299));
    assert_eq!(engine.notices, Vec::<String>::new());
}

#[test]
fn every_id_of_the_generation_config_ends_a_run() {
    let mut engine = mini(&[
        "config.json",
        "generation-config-eos/model.safetensors",
        "generation-config-eos/generation_config.json",
        "tokenizer.json",
    ])
    .unwrap();
    let record = run(&mut engine, "It was the", false).unwrap();
    assert_eq!(record.token_ids, [258]);
    let stop = record.stop.unwrap();
    assert_eq!((stop.reason, stop.eos_token_id), (StopReason::Eos, Some(258)));
    noticed(&engine, &["generation_config.json", "258"]);
}

#[test]
fn a_special_token_without_a_row_is_never_chosen_and_refused_in_a_prompt() {
    let beside = ["pad-without-row/added_tokens.json", "pad-without-row/special_tokens_map.json"];
    let mut engine = mini(&[&SAFETENSORS[..], &beside].concat()).unwrap();
    noticed(&engine, &["[PAD]", "300"]);
    assert_eq!((engine.tokenizer.len(), engine.model.vocab_size()), (301, 300));
    let plain = run(&mut mini(&SAFETENSORS).unwrap(), "It was the", false).unwrap();
    assert_eq!(run(&mut engine, "It was the", false).unwrap().token_ids, plain.token_ids);
    assert!(!run(&mut engine, "a[PAD]", false).unwrap().prompt_ids.contains(&300), "as text");
    let error = run(&mut engine, "a[PAD]", true).unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadTokenizer);
    assert!(error.message.contains("[PAD]") && error.message.contains("300"), "{error}");
}

#[test]
fn a_gguf_file_may_have_a_padding_token_without_a_row() {
    let fixture = fixture(GGUF.1);
    let mut inside = super::inside(&ModelFile { name: "tiny.gguf", bytes: &fixture }).unwrap();
    inside.tokens.push("[PAD]".to_owned());
    inside.control.push(300);
    let mut tokenizer = from_gguf(inside.clone(), &[]).unwrap();
    tokenizer.limit(300).unwrap();
    assert!(tokenizer.prompt("[PAD]", true).is_err());
    inside.control.clear();
    let error = from_gguf(inside, &[]).unwrap().limit(300).unwrap_err();
    assert!(error.message.contains("301") && error.message.contains("300"), "{error}");
}

#[test]
fn an_end_of_text_token_the_vocabulary_lacks_gets_the_next_id() {
    let files = ["config.json", "model.safetensors", "merges.txt", "eos-not-in-vocab/vocab.json"];
    let named = [&files[..], &["eos-not-in-vocab/special_tokens_map.json"]].concat();
    let mut engine = mini(&named).unwrap();
    assert_eq!((engine.tokenizer.len(), engine.tokenizer.eos()), (300, Some(299)));
    noticed(&engine, &["<|endoftext|>", "299"]);
    // It is then the very tokenizer that has it in its vocabulary.
    assert_eq!(engine.tokenizer.sha256(), mini(&SAFETENSORS).unwrap().tokenizer.sha256());
    let empty = run(&mut engine, "", false).unwrap();
    assert_eq!((&empty.prompt_ids[..], empty.started_from_eos), (&[299][..], true));
    assert_eq!(mini(&files).unwrap().tokenizer.eos(), None, "nobody names one");
}

#[test]
fn a_vocabulary_with_holes_never_chooses_them() {
    let files = ["hole/config.json", "hole/model.safetensors", "hole/tokenizer.json"];
    let mut engine = mini(&files).unwrap();
    noticed(&engine, &["2 ids", "300"]);
    let tokenizer = &engine.tokenizer;
    assert_eq!((tokenizer.len(), tokenizer.holes()), (303, &[300, 301][..]));
    assert_eq!((tokenizer.bytes(300), tokenizer.bytes(301), tokenizer.bytes(302)), (None, None, Some(&b"<sep>"[..])));
    assert_eq!(tokenizer.prompt("a<sep>", true).unwrap().last(), Some(&302));
    let settings = Settings { temperature: 2.0, max_tokens: 60, top_k: 0, top_p: 1.0, ..Settings::default() };
    for seed in 0..20 {
        let settings = Settings { seed, ..settings.clone() };
        let Engine { model, tokenizer, identity, .. } = &mut engine;
        let mut generation = Generation::new(model, tokenizer, "a", settings, &|| 0.0, CancelToken::default()).unwrap();
        while generation.advance().unwrap().is_some() {}
        let record = generation.into_record(identity.clone());
        let known = |id: u32| tokenizer.bytes(id).is_some();
        assert!(record.token_ids.iter().all(|&id| known(id)), "{:?}", record.token_ids);
        assert!(record.steps.iter().flat_map(|step| &step.alternatives).all(|other| known(other.id)));
    }
}

#[test]
fn a_byte_without_a_token_is_refused_in_the_prompt_alone() {
    let files = ["bytes-missing/config.json", "bytes-missing/model.safetensors", "bytes-missing/tokenizer.json"];
    let mut engine = mini(&files).unwrap();
    noticed(&engine, &["60 of the 256 bytes"]);
    let record = run(&mut engine, "It was the", false).unwrap();
    assert_eq!((record.token_ids.len(), engine.tokenizer.decode(&record.prompt_ids)), (8, "It was the".to_owned()));
    let error = run(&mut engine, "It was À", false).unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadTokenizer);
    assert!(error.message.contains("'À'") && error.message.contains("0x"), "{error}");
}

#[test]
fn a_beginning_is_put_before_the_prompt_where_a_gguf_file_asks_for_it() {
    let mut engine = mini(&["gguf-add-bos/mini.gguf"]).unwrap();
    noticed(&engine, &["<|endoftext|>", "before each prompt"]);
    let record = run(&mut engine, "It was the", false).unwrap();
    let without = run(&mut mini(&["mini.gguf"]).unwrap(), "It was the", false).unwrap();
    assert_eq!(record.prompt_ids, [&[299][..], &without.prompt_ids].concat());
    assert!(!record.started_from_eos);
    let empty = run(&mut engine, "", false).unwrap();
    assert_eq!((&empty.prompt_ids[..], empty.started_from_eos), (&[299][..], true));
    assert_eq!(engine.identity.tokenizer_sha256, mini(&["mini.gguf"]).unwrap().identity.tokenizer_sha256);
}

#[test]
fn a_byte_order_mark_and_empty_lines_are_nothing() {
    let plain = mini(&SAFETENSORS).unwrap().identity;
    let files = ["config.json", "model.safetensors"];
    let marked = [&files[..], &["bom-tokenizer/tokenizer.json"]].concat();
    assert_eq!(mini(&marked).unwrap().identity, plain);
    let blank = [&files[..], &["vocab.json", "blank-line-merges/merges.txt"]].concat();
    assert_eq!(mini(&blank).unwrap().identity, plain);
}

#[test]
fn the_vocabulary_of_another_kind_of_tokenizer_is_named() {
    let error = mini(&["config.json", "model.safetensors", "wordpiece/vocab.txt"]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadTokenizer);
    for says in ["vocab.txt", "WordPiece", "tokenizer.json"] {
        assert!(error.message.contains(says), "{error}");
    }
}

#[test]
fn of_gpt2s_own_tokenizer_there_is_nothing_to_tell() {
    let bytes = std::fs::read("www/models/fairy-12m-q8_0.gguf").unwrap();
    let config = ModelFile { name: "config.json", bytes: br#"{"eos_token_id": 50256}"# };
    let mut tokenizer = tokenizer(&[ModelFile { name: "fairy.gguf", bytes: &bytes }, config]).unwrap();
    tokenizer.limit(50257).unwrap();
    assert_eq!((tokenizer.notices(), tokenizer.eos()), (&[][..], Some(50256)));
}

#[test]
fn a_gguf_file_that_names_ids_without_a_token_loads() {
    let fixture = fixture(GGUF.1);
    let mut inside = super::inside(&ModelFile { name: "tiny.gguf", bytes: &fixture }).unwrap();
    inside.tokens[299] = "[PAD299]".to_owned();
    inside.tokens.push("</s>".to_owned());
    (inside.control, inside.unused) = (vec![300], vec![299]);
    (inside.bos, inside.eos, inside.add_bos, inside.add_eos) = (Some(299), Some(299), true, true);
    inside.ends = vec![("tokenizer.ggml.eot_token_id", 300)];
    let tokenizer = from_gguf(inside, &[]).unwrap();
    assert_eq!((tokenizer.eos(), tokenizer.ends(299), tokenizer.holes()), (Some(300), false, &[299][..]));
    assert_eq!(tokenizer.prompt("the", false).unwrap(), tokenizer.encode("the", false).unwrap());
    for says in ["eos_token_id", "add_bos_token", "add_eos_token"] {
        assert!(tokenizer.notices().iter().any(|notice| notice.contains(says)), "{:?}", tokenizer.notices());
    }
}
