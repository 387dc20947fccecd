//! Files as people have them: copies, caches, parts, wrapped models, and what is no model at all.

use gpt2_web::Result;
use gpt2_web::error::ErrorKind::{self, *};
use gpt2_web::gpt2::checkpoint::Loaded;
use gpt2_web::model::LanguageModel;

use crate::fixture;

const WEIGHTS: &str = "mini/model.safetensors";
const CONFIG: &str = "mini/config.json";

/// Loads files of tests/fixtures/reports, each under another name.
fn load(files: &[(&str, &str)]) -> Result<Loaded> {
    let bytes = |path: &str| fixture::bytes(&format!("tests/fixtures/reports/{path}"));
    let files: Vec<_> = files.iter().map(|(name, path)| ((*name).to_owned(), bytes(path))).collect();
    fixture::try_load(&files, None)
}

fn logits(loaded: Result<Loaded>) -> Vec<f32> {
    loaded.unwrap().model.feed(&[280, 263, 258]).unwrap().to_vec()
}

#[track_caller]
fn assert_refused(files: &[(&str, &str)], kind: ErrorKind, says: &[&str]) {
    let error = load(files).unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    for word in says {
        assert!(error.message.contains(word), "`{word}` is not in: {error}");
    }
}

#[test]
fn names_of_copies_folders_and_caches_make_no_difference() {
    let plain = logits(load(&[("model.safetensors", WEIGHTS), ("config.json", CONFIG)]));
    for files in [
        [("model (2).safetensors", WEIGHTS), ("config (1).json", CONFIG)],
        [("my/model.safetensors", WEIGHTS), ("my/config.json", CONFIG)],
        [("blobs/0b9f2a", WEIGHTS), ("blobs/607a30", CONFIG)],
        [("sha256-0b9f2a", WEIGHTS), ("sha256-607a30", CONFIG)],
        [("model.safetensors", WEIGHTS), ("config.json", "bom-config/config.json")],
        [("model.safetensors", WEIGHTS), ("config.json", "nan-config/config.json")],
    ] {
        assert_eq!(logits(load(&files)), plain, "{files:?}");
    }
    let mixed = [
        ("gpt2/onnx/config.json", "lora-folder/adapter_config.json"),
        ("gpt2/config.json", CONFIG),
        ("gpt2/model.safetensors", WEIGHTS),
        ("gpt2/checkpoint-5/model.safetensors", "v-head/model.safetensors"),
        ("gpt2/adapter_model.safetensors", "lora-folder/adapter_model.safetensors"),
        ("gpt2/pytorch_model.bin", "bin-only/pytorch_model.bin"),
    ];
    let loaded = load(&mixed).unwrap();
    let notices = loaded.notices.join("\n");
    for says in ["checkpoint-5/model.safetensors", "adapter_model.safetensors is an adapter", "onnx/config.json"] {
        assert!(notices.contains(says), "{notices}");
    }
    assert_eq!(logits(Ok(loaded)), plain);
}

#[test]
fn what_was_put_around_a_model_is_taken_off() {
    let plain = logits(load(&[("model.safetensors", WEIGHTS), ("config.json", CONFIG)]));
    let wrapped = load(&[("model.safetensors", "prefix-_orig_mod-/model.safetensors"), ("config.json", CONFIG)]);
    assert_eq!(logits(wrapped), plain);
    let of_trl = load(&[("model.safetensors", "v-head/model.safetensors"), ("config.json", CONFIG)]).unwrap();
    assert!(of_trl.notices.iter().any(|notice| notice.contains("v_head")), "{:?}", of_trl.notices);
    assert_eq!(logits(Ok(of_trl)), plain);
}

#[test]
fn a_gguf_file_in_parts_is_one_model_or_says_what_is_missing() {
    const FIRST: &str = "gguf-split/mini-00001-of-00002.gguf";
    const SECOND: &str = "gguf-split/mini-00002-of-00002.gguf";
    let whole = logits(load(&[("mini.gguf", "mini/mini.gguf")]));
    for files in [[("a", FIRST), ("b", SECOND)], [("b", SECOND), ("x.gguf", FIRST)]] {
        let loaded = load(&files).unwrap();
        assert!(loaded.tokenizer.is_some());
        assert_eq!(logits(Ok(loaded)), whole);
    }
    assert_refused(&[("a.gguf", FIRST)], MissingTensor, &["a.gguf is part 1", "part 2 is missing", "--merge"]);
    assert_refused(&[("b.gguf", SECOND)], MissingTensor, &["b.gguf is part 2", "part 1 is missing", "--merge"]);
    let twice = [("a.gguf", SECOND), ("b.gguf", SECOND), ("c.gguf", FIRST)];
    assert_refused(&twice, UnsupportedModel, &["there are 3 GGUF files"]);
}

#[test]
fn a_list_of_lists_that_nobody_asks_for_is_no_hindrance() {
    let nested = load(&[("mini.gguf", "gguf-nested-array/mini.gguf")]);
    assert_eq!(logits(nested), logits(load(&[("mini.gguf", "mini/mini.gguf")])));
}

#[test]
fn what_is_no_model_is_named_for_what_it_is() {
    let adapter = [
        ("adapter_config.json", "lora-folder/adapter_config.json"),
        ("adapter_model.safetensors", "lora-folder/adapter_model.safetensors"),
    ];
    assert_refused(&adapter, NotAModel, &["adapter", "merge_and_unload"]);
    assert_refused(&[("imatrix.gguf", "imatrix-gguf/imatrix.gguf")], NotAModel, &["importance matrix"]);
    assert_refused(&[("be.gguf", "gguf-big-endian/be.gguf")], UnsupportedModel, &["big-endian"]);
    let torch = [("README.md", CONFIG), ("pytorch_model.bin", "bin-only/pytorch_model.bin"), ("config.json", CONFIG)];
    assert_refused(&torch, NotAModel, &["pytorch_model.bin", "PyTorch", "safe_serialization"]);
}

/// A safetensors file with tensors of one number, by name.
fn tensors(names: &[&str]) -> Vec<u8> {
    let entries: Vec<_> = (names.iter().enumerate())
        .map(|(at, name)| {
            format!(r#""{name}": {{"dtype": "F32", "shape": [1], "data_offsets": [{}, {}]}}"#, 4 * at, 4 * at + 4)
        })
        .collect();
    let header = format!("{{{}}}", entries.join(", "));
    let numbers = vec![0; 4 * names.len()];
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &numbers].concat()
}

#[test]
fn another_architecture_is_named_whichever_of_its_tensors_comes_first() {
    for (names, says) in [
        (["model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight"], "Llama"),
        (["bert.embeddings.word_embeddings.weight", "bert.encoder.layer.0.attention.self.query.weight"], "BERT"),
        (["model.decoder.embed_tokens.weight", "model.decoder.layers.0.fc1.weight"], "OPT"),
        (["shared.weight", "encoder.block.0.layer.0.SelfAttention.q.weight"], "T5"),
        (["backbone.embeddings.weight", "backbone.layers.0.mixer.A_log"], "Mamba"),
    ] {
        let error = fixture::try_load(&[("model.safetensors".to_owned(), tensors(&names))], None).unwrap_err();
        assert_eq!(error.kind, UnsupportedModel, "{error}");
        assert!(error.message.contains(says), "{error}");
    }
}

#[test]
fn wrappers_around_single_blocks_are_taken_off() {
    let plain = fixture::bytes("tests/fixtures/reports/mini/model.safetensors");
    let length = u64::from_le_bytes(*plain.first_chunk().unwrap()) as usize;
    let header = std::str::from_utf8(&plain[8..8 + length]).unwrap();
    let wrapped = header.replace("\"h.0.", "\"_fsdp_wrapped_module.transformer.h.0._checkpoint_wrapped_module.");
    assert_ne!(header, wrapped);
    let wrapped = ["wte", "wpe", "ln_f"].iter().fold(wrapped, |header, name| {
        header.replace(&format!("\"{name}."), &format!("\"_fsdp_wrapped_module.transformer.{name}."))
    });
    let bytes = [&(wrapped.len() as u64).to_le_bytes()[..], wrapped.as_bytes(), &plain[8 + length..]].concat();
    let config = fixture::bytes("tests/fixtures/reports/mini/config.json");
    let loaded = fixture::try_load(&[("model.safetensors".into(), bytes), ("config.json".into(), config)], None);
    assert_eq!(logits(loaded), logits(load(&[("model.safetensors", WEIGHTS), ("config.json", CONFIG)])));
}
