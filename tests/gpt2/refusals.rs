//! Files that are not loaded: the kind of the error, and that its sentence names the reason.

use candle_core::quantized::gguf_file::Value;
use candle_core::{DType, Device, Tensor};
use gpt2_web::Result;
use gpt2_web::error::ErrorKind::{self, *};
use gpt2_web::gpt2::Precision;
use gpt2_web::gpt2::checkpoint::Loaded;
use gpt2_web::model::LanguageModel;
use proptest::prelude::*;

use crate::fixture::{self, Gguf, Safetensors};

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind, says: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind, kind, "{}", error.message);
    assert!(error.message.contains(says), "`{says}` is not in: {}", error.message);
}

fn load_named(name: &str, bytes: &[u8]) -> Result<Loaded> {
    let config = fixture::bytes("tests/fixtures/checkpoints/plain-f32/config.json");
    fixture::try_load(&[(name.into(), bytes.into()), ("config.json".into(), config)], None)
}

fn plain() -> Vec<u8> {
    fixture::bytes("tests/fixtures/checkpoints/plain-f32/model.safetensors")
}

fn q8_0() -> Vec<u8> {
    fixture::bytes("tests/fixtures/gguf/q8_0.gguf")
}

#[test]
fn other_kinds_of_files_are_named() {
    for (bytes, says) in [
        (&b"<!DOCTYPE html><html>"[..], "HTML"),
        (b"\xef\xbb\xbf\n  <HTML lang=en>", "HTML"),
        (b"<?xml version='1.0'?><Error>", "HTML"),
        (b"PK\x03\x04\x14\0\0\0\0\0", "ZIP"),
        (b"\x80\x02}q\0.......", "pickle"),
        (b"\x80\x04\x95......", "pickle"),
        (b"\x08\x07\x12\x07pytorch\x1a", "ONNX"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"\x1f\x8b\x08\0", "gzip"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
        (b"lmgg\x01\0\0\0", "old llama.cpp"),
        (b"hello", "not a model file"),
    ] {
        assert_refused(load_named("model.bin", bytes), NotAModel, says);
        assert_refused(load_named("folder/model.bin", bytes), NotAModel, "model.bin is ");
    }
    assert_refused(load_named("model.safetensors", b""), DamagedModel, "model.safetensors is empty");
    assert_refused(load_named("model.safetensors", b"\x10\0\0\0"), DamagedModel, "model.safetensors");
    let page = ("config.json".into(), b"<html>404".to_vec());
    assert_refused(
        fixture::try_load(&[("a.safetensors".into(), plain()), page], None),
        NotAModel,
        "config.json is an HTML",
    );
}

#[test]
fn files_that_do_not_make_one_model_are_named() {
    let tokenizer = ("vocab.json".into(), b"{}".to_vec());
    assert_refused(fixture::try_load(&[tokenizer], None), NotAModel, "no weights file");
    assert_refused(fixture::try_load(&[("m.safetensors".into(), plain())], None), UnsupportedModel, "config.json");
    let none = fixture::try_load(&[("config.json".into(), b"{}".to_vec())], None);
    assert_refused(none, NotAModel, "no weights file");
    let two = [("a.gguf".into(), q8_0()), ("b.gguf".into(), q8_0())];
    assert_refused(fixture::try_load(&two, None), UnsupportedModel, "a.gguf and b.gguf");
}

#[test]
fn the_content_decides_not_the_name() {
    assert!(load_named("anything", &q8_0()).is_ok());
    assert!(load_named("model.gguf", &plain()).is_ok());
}

#[test]
fn tensors_are_all_needed_and_all_known() {
    let mut file = Safetensors::of("plain-f32");
    let taken = file.0.remove("h.1.mlp.c_proj.bias").unwrap();
    assert_refused(file.load(), MissingTensor, "h.1.mlp.c_proj.bias");
    file.0.insert("h.1.mlp.c_proj.bias".into(), taken.clone());
    for name in ["h.2.mlp.c_proj.bias", "h.0.attn.rotary", "lm_head.bias", "h.x.attn.bias"] {
        file.0.insert(name.into(), taken.clone());
        assert_refused(file.load(), UnexpectedTensor, name);
        file.0.remove(name);
    }
    file.0.insert("transformer.ln_f.bias".into(), taken);
    assert_refused(file.load(), UnexpectedTensor, "ln_f.bias appears twice in model.safetensors");

    let mut file = Gguf::of("q8_0");
    let taken = file.tensors.remove("output_norm.bias").unwrap();
    assert_refused(file.load(), MissingTensor, "output_norm.bias");
    file.tensors.insert("output_norm.bias".into(), taken);
    assert!(file.load().is_ok());
    file.set_tensor("rope_freqs.weight", &Tensor::zeros(16, DType::F32, &Device::Cpu).unwrap());
    assert_refused(file.load(), UnexpectedTensor, "rope_freqs.weight");
    file.tensors.remove("rope_freqs.weight");
    file.tensors.remove("token_embd.weight");
    assert_refused(file.load(), MissingTensor, "token_embd.weight");
}

#[test]
fn an_untied_model_needs_its_head() {
    let mut files = fixture::folder("plain-f32");
    files[0].1 = fixture::bytes("tests/fixtures/checkpoints/untied-f32/config.json");
    assert_refused(fixture::try_load(&files, None), MissingTensor, "lm_head.weight");
}

#[test]
fn masks_of_old_files_change_nothing() {
    let mut plain = Safetensors::of("plain-f32");
    let logits = plain.load().unwrap().model.feed(&[1, 2, 3]).unwrap().to_vec();
    plain.0.insert("h.0.attn.bias".into(), ("BOOL".into(), vec![1, 1, 2, 2], vec![1, 0, 1, 1]));
    plain.0.insert("transformer.h.1.attn.bias".into(), ("I64".into(), vec![1], vec![7; 8]));
    plain.0.insert("h.1.attn.masked_bias".into(), ("F32".into(), vec![], f32::NAN.to_le_bytes().to_vec()));
    assert_eq!(plain.load().unwrap().model.feed(&[1, 2, 3]).unwrap(), logits);
}

#[test]
fn shapes_are_shown_side_by_side() {
    let mut file = Safetensors::of("plain-f32");
    file.0.get_mut("h.0.mlp.c_fc.weight").unwrap().1 = vec![128, 32];
    assert_refused(file.load(), WrongShape, "h.0.mlp.c_fc.weight has the shape [128, 32]");
    assert_refused(file.load(), WrongShape, "says [32, 128]");

    let mut file = Gguf::of("q8_0");
    file.set_tensor("blk.1.ffn_up.weight", &Tensor::zeros((32, 128), DType::F32, &Device::Cpu).unwrap());
    assert_refused(file.load(), WrongShape, "blk.1.ffn_up.weight has the shape [32, 128]");
    assert_refused(file.load(), WrongShape, "says [128, 32]");
}

#[test]
fn types_that_cannot_be_read_are_named_with_their_tensor() {
    let mut file = Safetensors::of("plain-f32");
    let bias = file.0.get_mut("ln_f.bias").unwrap();
    *bias = ("I64".into(), vec![32], vec![0; 256]);
    assert_refused(file.load(), UnsupportedModel, "ln_f.bias has the type I64");

    // The type of a tensor stands after its name, rank and two dimensions; all data begins at byte 0 for a while.
    let name = b"blk.1.ffn_down.weight";
    for (number, says) in [(20u32, "the type IQ4_NL"), (35, "which no TQ2_0 can have"), (99, "the type number 99")] {
        let mut file = fixture::bytes("tests/fixtures/gguf/q4_0.gguf");
        let at = file.windows(name.len()).position(|window| window == name).unwrap() + name.len() + 4 + 16;
        file[at..at + 4].copy_from_slice(&number.to_le_bytes());
        let error = fixture::try_gguf(&file, None).unwrap_err();
        assert!(error.message.contains(says) && error.message.contains("blk.1.ffn_down.weight"), "{error}");
    }
}

#[test]
fn other_models_are_named() {
    let mut file = Gguf::of("q8_0");
    file.set_text("general.architecture", "llama");
    assert_refused(file.load(), UnsupportedModel, "llama");
    file.metadata.remove("general.architecture");
    assert_refused(file.load(), DamagedModel, "general.architecture");

    for key in ["gpt2.context_length", "gpt2.block_count", "gpt2.attention.layer_norm_epsilon"] {
        let mut file = Gguf::of("q8_0");
        file.metadata.remove(key);
        assert_refused(file.load(), DamagedModel, key);
        file.set_text(key, "64");
        assert_refused(file.load(), DamagedModel, key);
    }
    let mut file = Gguf::of("q8_0");
    file.metadata.insert("gpt2.attention.head_count".into(), Value::U32(3));
    assert_refused(file.load(), DamagedModel, "n_head");
    file.metadata.insert("gpt2.attention.head_count".into(), Value::I32(-2));
    assert_refused(file.load(), DamagedModel, "gpt2.attention.head_count");
    let mut file = Gguf::of("q8_0");
    file.metadata.insert("general.alignment".into(), Value::U32(0));
    assert_refused(file.load(), DamagedModel, "general.alignment");
}

/// A model that takes its tokenizer from a GGUF file.
fn lent(gguf: Vec<u8>) -> Result<Loaded> {
    fixture::try_load(&[fixture::folder("plain-f32"), vec![("lends.gguf".into(), gguf)]].concat(), None)
}

#[test]
fn tokenizers_that_are_not_gpt2s_are_named() {
    let change = |key: &str, value: Option<Value>| {
        let mut file = Gguf::of("f32");
        file.metadata.remove(key);
        file.metadata.extend(value.map(|value| (key.to_owned(), value)));
        file
    };
    let text = |text: &str| Some(Value::String(text.into()));
    for (file, says) in [
        (change("tokenizer.ggml.model", text("llama")), "llama"),
        (change("tokenizer.ggml.pre", text("qwen2")), "qwen2"),
        (change("tokenizer.ggml.merges", None), "tokenizer.ggml.merges"),
        (change("tokenizer.ggml.tokens", text("a")), "tokenizer.ggml.tokens"),
    ] {
        assert_refused(file.load(), BadTokenizer, says);
        assert_refused(lent(file.file()), BadTokenizer, says);
    }
    let tokens = Value::Array((0..301).map(|id| Value::String(id.to_string())).collect());
    assert_refused(change("tokenizer.ggml.tokens", Some(tokens)).load(), BadTokenizer, "301 tokens");
    let none = change("tokenizer.ggml.model", None);
    assert_eq!(none.load().unwrap().tokenizer, None);
    assert_refused(lent(none.file()), BadTokenizer, "lends.gguf holds no tokenizer");
}

#[test]
fn numbers_that_are_none_are_found() {
    let mut file = Safetensors::of("plain-f16");
    let data = &mut file.0.get_mut("h.1.attn.c_attn.weight").unwrap().2;
    data[2..4].copy_from_slice(&[0, 0x7c]);
    assert_refused(file.load(), DamagedModel, "h.1.attn.c_attn.weight holds NaN or infinite");

    let mut file = Gguf::of("f32");
    let (_, columns) = file.tensors["position_embd.weight"].shape().dims2().unwrap();
    file.set_tensor("position_embd.weight", &Tensor::full(f32::NAN, (64, columns), &Device::Cpu).unwrap());
    assert_refused(file.load(), DamagedModel, "position_embd.weight holds NaN");

    // The scale of a q8_0 block: the first two bytes of the first tensor's data.
    let whole = q8_0();
    let data = gguf_data(&whole);
    let mut broken = whole.clone();
    broken[data..data + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
    assert_refused(fixture::try_gguf(&broken, None), DamagedModel, "token_embd.weight holds NaN");
}

/// Where the data of the q8_0 fixture begins: its last tensor ends with the file.
fn gguf_data(file: &[u8]) -> usize {
    let mut reader = std::io::Cursor::new(file);
    candle_core::quantized::gguf_file::Content::read(&mut reader).unwrap().tensor_data_offset as usize
}

#[test]
fn rows_that_make_no_blocks_stay_in_f32() {
    let mut file = Safetensors::of("plain-f32");
    let config = br#"{"vocab_size": 300, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_inner": 100}"#;
    for block in 0..2 {
        file.0.insert(format!("h.{block}.mlp.c_fc.weight"), ("F32".into(), vec![32, 100], vec![0; 4 * 3200]));
        file.0.insert(format!("h.{block}.mlp.c_fc.bias"), ("F32".into(), vec![100], vec![0; 400]));
        file.0.insert(format!("h.{block}.mlp.c_proj.weight"), ("F32".into(), vec![100, 32], vec![0; 4 * 3200]));
    }
    let files = [("config.json".into(), config.to_vec()), ("model.safetensors".into(), file.file())];
    assert_eq!(fixture::try_load(&files, None).unwrap().notices, Vec::<String>::new());
    for precision in [Precision::Q8_0, Precision::Q4_0] {
        let mut loaded = fixture::try_load(&files, Some(precision)).unwrap();
        assert_eq!(loaded.precision, precision);
        assert!(loaded.model.feed(&[1, 2, 3]).is_ok());
        let [notice] = loaded.notices.as_slice() else { panic!("{:?}", loaded.notices) };
        assert!(notice.contains("h.0.mlp.c_proj.weight and 1 more") && notice.contains("rows of 100"), "{notice}");
    }
}

#[test]
fn numbers_too_large_for_a_precision_are_refused_in_it() {
    let mut file = Safetensors::of("plain-f32");
    let data = &mut file.0.get_mut("h.0.attn.c_proj.weight").unwrap().2;
    data[..4].copy_from_slice(&1e6f32.to_le_bytes());
    let config = fixture::bytes("tests/fixtures/checkpoints/plain-f32/config.json");
    let files = [("config.json".into(), config), ("model.safetensors".into(), file.file())];
    for precision in [Precision::F32, Precision::Q8_0] {
        assert!(fixture::try_load(&files, Some(precision)).is_ok());
    }
    let refused = fixture::try_load(&files, Some(Precision::Q4_0));
    assert_refused(refused, UnsupportedModel, "h.0.attn.c_proj.weight holds numbers over");
}

/// A header over `data` bytes of zeros.
fn with_header(header: &str, data: usize) -> Result<Loaded> {
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat();
    load_named("model.safetensors", &file)
}

#[test]
fn tensors_that_overlap_or_leave_gaps_are_damage() {
    let entry = |name: &str, from: u64, to: u64| {
        format!(r#""{name}": {{"dtype": "F32", "shape": [32], "data_offsets": [{from}, {to}]}}"#)
    };
    for (entries, says) in [
        (vec![entry("ln_f.bias", 0, 128), entry("ln_f.weight", 64, 192)], "ln_f.weight begins at byte 64"),
        (vec![entry("ln_f.bias", 0, 128), entry("ln_f.weight", 160, 288)], "ln_f.weight begins at byte 160"),
        (vec![entry("ln_f.bias", 128, 0)], "ln_f.bias has the shape [32]"),
        (vec![entry("ln_f.bias", 0, 124)], "ln_f.bias has the shape [32]"),
        (vec![entry("ln_f.bias", 0, 128), entry("ln_f.weight", 128, 256)], "ln_f.weight ends at byte"),
        (vec![entry("ln_f.bias", u64::MAX - 128, u64::MAX)], "ln_f.bias begins at byte"),
        (vec![r#""ln_f.bias": {"dtype": "F32", "shape": [32]}"#.into()], "data_offsets"),
        (vec![r#""ln_f.bias": 1"#.into()], "cannot be read"),
        (
            vec![format!(
                r#""ln_f.bias": {{"dtype": "F32", "shape": [{0}, {0}], "data_offsets": [0, 128]}}"#,
                1u64 << 40
            )],
            "shape",
        ),
    ] {
        assert_refused(with_header(&format!("{{{}}}", entries.join(", ")), 200), DamagedModel, says);
    }
    let twice = [entry("ln_f.bias", 0, 128), entry("ln_f.bias", 128, 256)].join(", ");
    assert_refused(with_header(&format!("{{{twice}}}"), 256), UnexpectedTensor, "ln_f.bias appears twice");
}

#[test]
fn headers_that_claim_more_than_the_file_are_damage() {
    let whole = plain();
    for length in [whole.len() as u64, 8 << 30, u64::MAX] {
        let file = [&length.to_le_bytes()[..], &whole[8..]].concat();
        assert_refused(load_named("model.safetensors", &file), DamagedModel, &format!("claims {length} bytes"));
    }
    assert_refused(load_named("m.safetensors", &whole[..whole.len() - 1]), DamagedModel, "download it again");
    let mut longer = whole.clone();
    longer.push(0);
    assert_refused(load_named("m.safetensors", &longer), DamagedModel, "download it again");

    let whole = q8_0();
    let patched = |at: usize, number: u64| {
        let mut file = whole.clone();
        file[at..at + 8].copy_from_slice(&number.to_le_bytes());
        fixture::try_gguf(&file, None)
    };
    for huge in [1 << 30, 1 << 40, u64::MAX] {
        assert_refused(patched(8, huge), DamagedModel, "tensors");
        assert_refused(patched(16, huge), DamagedModel, "values");
        assert_refused(patched(24, huge), DamagedModel, "cut short");
    }
    assert_refused(fixture::try_gguf(&whole[..whole.len() - 1], None), DamagedModel, "cut short");
    assert_refused(fixture::try_gguf(&whole[..100], None), DamagedModel, "more than the file");
    // The element count of the token list stands 4 bytes after its key and type.
    let key = b"tokenizer.ggml.tokens";
    let list = whole.windows(key.len()).position(|window| window == key).unwrap() + key.len() + 8;
    assert_refused(patched(list, 1 << 20), DamagedModel, "cut short");
    assert_refused(patched(list, 1 << 40), UnsupportedModel, "tokenizer.ggml.tokens");
    // The first dimension of a tensor stands 4 bytes after its name.
    let name = b"blk.0.attn_qkv.weight";
    let shape = whole.windows(name.len()).position(|window| window == name).unwrap() + name.len() + 4;
    assert_refused(patched(shape, 1 << 40), DamagedModel, "blk.0.attn_qkv.weight");
    assert_refused(patched(shape, !31), DamagedModel, "blk.0.attn_qkv.weight");
    assert_refused(patched(shape, 1 << 58), DamagedModel, "blk.0.attn_qkv.weight");
    assert_refused(patched(shape, 33), DamagedModel, "blk.0.attn_qkv.weight");
    // Its offset, 8 + 8 + 4 bytes on: inside another tensor, and past the end.
    assert_refused(patched(shape + 20, 64), DamagedModel, "begins at byte");
    assert_refused(patched(shape + 20, !31), DamagedModel, "blk.0.attn_qkv.weight");

    let mut big_endian = whole.clone();
    big_endian[4..8].copy_from_slice(&3u32.to_be_bytes());
    assert_refused(fixture::try_gguf(&big_endian, None), UnsupportedModel, "big-endian");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_bytes_never_panic(
        is_gguf: bool, flips in prop::collection::vec((0..8000usize, any::<u8>()), 1..6), cut in prop::option::of(0..60000usize),
    ) {
        let mut file = if is_gguf { q8_0() } else { plain() };
        for (at, byte) in flips {
            file[at] = byte;
        }
        file.truncate(cut.unwrap_or(file.len()));
        if let Ok(mut loaded) = load_named("model", &file) {
            prop_assert!(loaded.model.feed(&[1, 2, 3]).is_ok());
        }
    }
}
