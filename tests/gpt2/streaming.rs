//! What comes of files does not depend on how they come, and nothing is taken for them that is not there.

use candle_core::quantized::gguf_file::Value;
use gpt2_web::error::ErrorKind;
use gpt2_web::gpt2::Precision;
use gpt2_web::gpt2::checkpoint::{Flow, Loaded, Loader, ModelFile, Options, WeightsFile};
use gpt2_web::model::LanguageModel;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use crate::fixture::{self, CHECKPOINTS, GGUFS, Gguf, Safetensors, load_in_pieces};

fn gguf_files(name: &str) -> Vec<(String, Vec<u8>)> {
    vec![("model.gguf".into(), fixture::bytes(&format!("tests/fixtures/gguf/{name}.gguf")))]
}

/// The logits after a few ids, bit by bit, and everything that is said beside the model.
fn result(mut loaded: Loaded) -> (Vec<u32>, String) {
    let logits = loaded.model.feed(&[5, 17, 250, 3]).unwrap().iter().map(|logit| logit.to_bits()).collect();
    let Loaded { tokenizer, format, precision, parameters, sha256, notices, .. } = loaded;
    (logits, format!("{tokenizer:?} {format:?} {precision:?} {parameters} {sha256:?} {notices:?}"))
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn pieces_make_no_difference(
        which in 0..CHECKPOINTS.len() + GGUFS.len(),
        precision in prop::option::of(prop::sample::select(&Precision::ALL)),
        sizes in prop::collection::vec(prop_oneof![1..10usize, 1..5000usize], 1..8),
        known: bool,
        turned: bool,
    ) {
        let mut files = match CHECKPOINTS.get(which) {
            Some(name) => fixture::folder(name),
            None => gguf_files(GGUFS[which - CHECKPOINTS.len()]),
        };
        let whole = result(fixture::try_load(&files, precision).unwrap());
        if turned {
            files.reverse();
        }
        let options = Options { precision, ..Options::default() };
        prop_assert_eq!(result(load_in_pieces(&files, options, &sizes, known).unwrap()), whole);
    }

    #[test]
    fn damage_never_panics(
        which in 0..CHECKPOINTS.len() + GGUFS.len(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        sizes in prop::collection::vec(1..9000usize, 1..5),
        known: bool,
    ) {
        let mut files = match CHECKPOINTS.get(which) {
            Some(name) => fixture::folder(name),
            None => gguf_files(GGUFS[which - CHECKPOINTS.len()]),
        };
        let last = files.len() - 1;
        for (at, byte, in_header) in flips {
            let file = &mut files[if in_header { last } else { at.index(last + 1) }].1;
            let end = if in_header { file.len().min(8000) } else { file.len() };
            let at = at.index(end);
            file[at] = byte;
        }
        if let Some(cut) = cut {
            let file = &mut files[last].1;
            file.truncate(cut.index(file.len()));
        }
        if let Ok(mut loaded) = load_in_pieces(&files, Options::default(), &sizes, known) {
            // Whatever was accepted is a model: it computes, or says that its vocabulary is too small for the ids.
            if let Err(error) = loaded.model.feed(&[1, 2, 3]) {
                prop_assert_eq!(error.kind, ErrorKind::InvalidRequest);
            }
        }
    }
}

#[test]
fn the_digest_is_of_the_weights() {
    let folder = fixture::folder("plain-f32");
    assert_eq!(fixture::checkpoint("plain-f32", None).sha256, Some(hex(&folder[1].1)));
    // As `sha256sum model-*.safetensors | sha256sum` prints it.
    let lines: String = fixture::folder("sharded-f32")
        .iter()
        .filter(|(name, _)| name.ends_with(".safetensors"))
        .map(|(name, bytes)| format!("{}  {name}\n", hex(bytes)))
        .collect();
    assert_eq!(fixture::checkpoint("sharded-f32", None).sha256, Some(hex(lines.as_bytes())));
}

#[test]
fn shards_load_without_their_index_and_not_without_each_other() {
    let all = fixture::folder("sharded-f32");
    let whole = result(fixture::try_load(&all, None).unwrap()).0;
    let without = |file: &str| {
        let files: Vec<_> = all.iter().filter(|(name, _)| name != file).cloned().collect();
        fixture::try_load(&files, None)
    };
    assert_eq!(result(without("model.safetensors.index.json").unwrap()).0, whole);
    for file in ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] {
        let error = without(file).unwrap_err();
        assert_eq!(error.kind, ErrorKind::MissingTensor);
        assert!(error.message.contains(file), "{error}");
    }
    let mut more = all.clone();
    more.push(("model.safetensors".into(), fixture::folder("plain-f32")[1].1.clone()));
    let loaded = fixture::try_load(&more, None).unwrap();
    assert!(loaded.notices.iter().any(|notice| notice.contains("model-00001-of")), "{:?}", loaded.notices);
    let last = more.len() - 1;
    more[last].0 = "rest.safetensors".into();
    let error = fixture::try_load(&more, None).unwrap_err();
    assert!(error.kind == ErrorKind::UnexpectedTensor && error.message.contains("rest.safetensors is not"), "{error}");
    more.retain(|(name, _)| !name.ends_with("index.json"));
    let error = fixture::try_load(&more, None).unwrap_err();
    assert!(error.kind == ErrorKind::UnexpectedTensor && error.message.contains("model-00001-of"), "{error}");
    // An index that belongs to other files.
    let index = |change: &dyn Fn(String) -> String| {
        let mut files = all.clone();
        let json = files.iter_mut().find(|(name, _)| name.ends_with("index.json")).unwrap();
        json.1 = change(String::from_utf8(json.1.clone()).unwrap()).into_bytes();
        fixture::try_load(&files, None).unwrap_err()
    };
    let error = index(&|json| json.replace("\"wte.weight\"", "\"wxe.weight\""));
    assert!(error.kind == ErrorKind::MissingTensor && error.message.contains("wxe.weight"), "{error}");
    assert_eq!(index(&|json| json[1..].into()).kind, ErrorKind::DamagedModel);
    assert_eq!(index(&|_| "<!doctype html>".into()).kind, ErrorKind::NotAModel);
}

#[test]
fn without_a_configuration_the_shapes_decide() {
    // The narrow fixtures have heads of 16: their width says nothing of them.
    let files = [("model.safetensors".to_owned(), Safetensors::of("plain-f32").file())];
    let error = fixture::try_load(&files, None).unwrap_err();
    assert!(error.kind == ErrorKind::UnsupportedModel && error.message.contains("config.json"), "{error}");

    let mut wide = Safetensors::of("plain-f32");
    for (_, shape, data) in wide.0.values_mut() {
        for size in shape.iter_mut().filter(|size| [32, 96, 128].contains(size)) {
            *size *= 4;
        }
        let count: usize = shape.iter().product();
        *data = (0..count).flat_map(|i| ((i * 37 % 101) as f32 / 1000.0 - 0.05).to_le_bytes()).collect();
    }
    let config = br#"{"vocab_size": 300, "n_positions": 64, "n_embd": 128, "n_layer": 2, "n_head": 2}"#;
    let alone = [("model.safetensors".to_owned(), wide.file())];
    let inferred = fixture::try_load(&alone, None).unwrap();
    let told = fixture::try_load(&[&alone[..], &[("config.json".into(), config.to_vec())]].concat(), None).unwrap();
    assert_eq!(inferred.model.config(), told.model.config());
    assert!(inferred.notices[0].contains("2 attention heads are a guess"), "{:?}", inferred.notices);
    assert_eq!((told.notices.len(), result(told).0), (0, result(inferred).0));

    wide.0.get_mut("h.1.ln_2.bias").unwrap().1 = vec![2, 64];
    let error = fixture::try_load(&[("m".into(), wide.file())], None).unwrap_err();
    assert!(error.kind == ErrorKind::WrongShape && error.message.contains("[2, 64]"), "{error}");
    wide.0.remove("h.1.ln_2.bias");
    let error = fixture::try_load(&[("m".into(), wide.file())], None).unwrap_err();
    assert!(error.kind == ErrorKind::MissingTensor && error.message.contains("h.1.ln_2.bias"), "{error}");
}

#[test]
fn too_large_a_model_is_refused_before_its_first_number() {
    let files = fixture::folder("plain-f32");
    let options = Options { memory_limit: 10 << 20, ..Options::default() };
    let error = load_in_pieces(&files, options, &[1000], true).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutOfMemory);
    assert!(error.message.contains("needs 49 MiB of at most 10 MiB"), "{error}");

    // GPT-2 XL in f32, of which only the header is there: no byte of its 6 GB is waited for.
    let (mut header, mut at) = (serde_json::Map::new(), 0u64);
    let mut put = |name: String, shape: &[u64]| {
        let end = at + 4 * shape.iter().product::<u64>();
        header.insert(name, serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [at, end]}));
        at = end;
    };
    put("wte.weight".into(), &[50257, 1600]);
    put("wpe.weight".into(), &[1024, 1600]);
    for block in 0..48 {
        for (part, shape) in [
            ("ln_1.weight", &[1600][..]),
            ("ln_1.bias", &[1600]),
            ("attn.c_attn.weight", &[1600, 4800]),
            ("attn.c_attn.bias", &[4800]),
            ("attn.c_proj.weight", &[1600, 1600]),
            ("attn.c_proj.bias", &[1600]),
            ("ln_2.weight", &[1600]),
            ("ln_2.bias", &[1600]),
            ("mlp.c_fc.weight", &[1600, 6400]),
            ("mlp.c_fc.bias", &[6400]),
            ("mlp.c_proj.weight", &[6400, 1600]),
            ("mlp.c_proj.bias", &[1600]),
        ] {
            put(format!("h.{block}.{part}"), shape);
        }
    }
    put("ln_f.weight".into(), &[1600]);
    put("ln_f.bias".into(), &[1600]);
    let json = serde_json::to_vec(&header).unwrap();
    let file = [&(json.len() as u64).to_le_bytes()[..], &json].concat();
    let size = file.len() as u64 + at;
    let start = |size, precision| {
        let stream = WeightsFile { name: "xl".into(), size, tokenizer_only: false };
        let mut loader = Loader::new(&[], vec![stream], Options { precision, ..Options::default() }).unwrap();
        loader.begin_file("xl").unwrap();
        loader.push(&file).map(|_| loader)
    };
    let error = start(Some(size), None).err().unwrap();
    assert_eq!(error.kind, ErrorKind::OutOfMemory);
    assert!(error.message.contains("of at most 4096 MiB"), "{error}");
    for precision in [Precision::Q8_0, Precision::Q4_0] {
        let mut loader = start(Some(size), Some(precision)).unwrap();
        assert_eq!(loader.progress(), (file.len() as u64, Some(size)));
        let error = loader.end_file().unwrap_err();
        assert!(error.kind == ErrorKind::DamagedModel && error.message.contains("wte.weight"), "{error}");
    }
    // A file that is known to be shorter is refused at once; one of unknown length when it ends.
    assert_eq!(start(Some(size - 1), Some(Precision::Q8_0)).err().unwrap().kind, ErrorKind::DamagedModel);
    assert_eq!(start(None, Some(Precision::Q8_0)).unwrap().end_file().unwrap_err().kind, ErrorKind::DamagedModel);
}

#[test]
fn calls_out_of_order_are_refused() {
    let file = fixture::bytes("tests/fixtures/gguf/q8_0.gguf");
    let stream = |name: &str| WeightsFile { name: name.into(), size: Some(file.len() as u64), tokenizer_only: false };
    let new = || Loader::new(&[], vec![stream("a")], Options::default()).unwrap();
    let kind = |result: gpt2_web::Result<()>| result.unwrap_err().kind;
    let mut loader = new();
    assert_eq!(loader.push(b"GGUF").unwrap_err().kind, ErrorKind::InvalidRequest);
    assert_eq!(kind(loader.end_file()), ErrorKind::InvalidRequest);
    assert_eq!(kind(loader.begin_file("b")), ErrorKind::InvalidRequest);
    loader.begin_file("a").unwrap();
    assert_eq!(kind(loader.begin_file("a")), ErrorKind::InvalidRequest);
    assert_eq!(loader.push(&file).unwrap(), Flow::More);
    assert_eq!(loader.push(b"x").unwrap_err().kind, ErrorKind::DamagedModel);
    let mut loader = new();
    loader.begin_file("a").unwrap();
    loader.push(&file).unwrap();
    loader.end_file().unwrap();
    assert_eq!(kind(loader.begin_file("a")), ErrorKind::InvalidRequest);
    assert!(loader.finish().is_ok());
    assert_eq!(new().finish().unwrap_err().kind, ErrorKind::InvalidRequest);
    let config = ModelFile { name: "config.json", bytes: b"{}" };
    assert!(Loader::new(&[config], Vec::new(), Options::default()).unwrap().finish().is_err());
}

#[test]
fn other_alignments_and_versions_of_gguf_load() {
    let mut file = fixture::bytes("tests/fixtures/gguf/q8_0.gguf");
    assert_eq!(file[4], 3);
    file[4] = 2;
    let two = fixture::try_gguf(&file, None).unwrap();
    assert_eq!(result(two).0, result(fixture::gguf("q8_0", None)).0);
    // The header of this file is padded to 64 bytes too, and the data of each of its tensors is a multiple of that.
    let mut file = Gguf::of("f32");
    file.metadata.insert("general.alignment".into(), Value::U32(64));
    let logits = result(file.load().unwrap()).0;
    assert_eq!(logits, result(fixture::gguf("f32", None)).0);
}

#[test]
fn a_lender_is_only_read_as_far_as_its_tokenizer() {
    let mut file = fixture::bytes("tests/fixtures/gguf/f32.gguf");
    file.truncate(file.len() / 2);
    let files = [fixture::folder("plain-f32"), vec![("lends.gguf".into(), file)]].concat();
    for known in [true, false] {
        let lent = load_in_pieces(&files, Options::default(), &[700], known);
        if known {
            assert_eq!(lent.unwrap_err().kind, ErrorKind::DamagedModel);
        } else {
            assert_eq!(lent.unwrap().tokenizer.unwrap().tokens.len(), 300);
        }
    }
}
