//! The forms in which a tokenizer is published.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::tests::{awkward_text, encodings, fixture, gpt2, refused};
use super::*;

/// tokenizer.json of the 300-token vocabulary, to be changed.
pub(super) fn tiny_json() -> Value {
    serde_json::from_slice(&fixture("tiny-tokenizer/tokenizer.json")).unwrap()
}

pub(super) fn from_json(json: &Value) -> Result<Tokenizer> {
    Tokenizer::from_files(&[("tokenizer.json", json.to_string().as_bytes())])
}

/// The 300-token vocabulary as vocab.json and merges.txt, with other files beside them.
pub(super) fn tiny_with(files: &[(&str, Value)]) -> Result<Tokenizer> {
    let (vocab, merges) = (fixture("tiny-tokenizer/vocab.json"), fixture("tiny-tokenizer/merges.txt"));
    let others: Vec<_> = files.iter().map(|(name, json)| (*name, json.to_string())).collect();
    let mut files: Vec<(&str, &[u8])> = vec![("a/vocab.json", &vocab), ("a\\merges.txt", &merges)];
    files.extend(others.iter().map(|(name, json)| (*name, json.as_bytes())));
    Tokenizer::from_files(&files)
}

/// GPT-2's vocabulary as Hugging Face's library would write it.
fn gpt2_json() -> Value {
    let vocab: Value = serde_json::from_slice(&fixture("gpt2-tokenizer/vocab.json")).unwrap();
    let merges = String::from_utf8(fixture("gpt2-tokenizer/merges.txt")).unwrap();
    let merges: Vec<&str> = merges.lines().skip(1).collect();
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [{"id": 50256, "special": true, "content": "<|endoftext|>", "single_word": false,
                          "lstrip": false, "rstrip": false, "normalized": true}],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true},
        // As published for gpt2: without a type.
        "model": {"dropout": null, "unk_token": null, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                  "fuse_unk": false, "vocab": vocab, "merges": merges},
    })
}

pub(super) fn library(json: &Value) -> tokenizers::Tokenizer {
    tokenizers::Tokenizer::from_bytes(json.to_string()).unwrap()
}

#[test]
fn gpt2_is_the_same_in_every_form() {
    let mut json = gpt2_json();
    let texts = from_json(&json).unwrap();
    let merges = json["model"]["merges"].as_array_mut().unwrap();
    for merge in merges {
        *merge = json!(merge.as_str().unwrap().split(' ').collect::<Vec<_>>());
    }
    json["model"]["type"] = json!("BPE");
    let pairs = from_json(&json).unwrap();
    for tokenizer in [texts, pairs] {
        assert_eq!(tokenizer.sha256(), gpt2().sha256());
        assert_eq!(tokenizer.eos(), Some(50256));
        for (text, ids) in encodings() {
            assert_eq!(tokenizer.encode(&text, false).unwrap(), ids, "{text:?}");
            assert_eq!(tokenizer.decode(&ids), text);
        }
    }
}

#[test]
fn the_tiny_tokenizer_is_the_same_in_both_forms() {
    let (one, two) = (from_json(&tiny_json()).unwrap(), tiny_with(&[]).unwrap());
    let mut library = library(&tiny_json());
    library.set_encode_special_tokens(true);
    assert_eq!((one.sha256(), one.eos()), (two.sha256(), two.eos()));
    assert_eq!((one.len(), one.eos()), (300, Some(299)));
    for (text, _) in encodings() {
        let ids = one.encode(&text, false).unwrap();
        assert_eq!(two.encode(&text, false).unwrap(), ids);
        assert_eq!(library.encode_fast(text.as_str(), false).unwrap().get_ids(), ids);
        assert_eq!(two.decode(&ids), text);
    }
}

#[test]
fn tokenizer_json_comes_before_the_older_form() {
    let json = tiny_json().to_string();
    let files: [(&str, &[u8]); 3] =
        [("vocab.json", b"{}"), ("m/tokenizer.json", json.as_bytes()), ("model.safetensors", b"\0")];
    assert_eq!(Tokenizer::from_files(&files).unwrap().len(), 300);
}

#[test]
fn a_prefix_space_is_added_where_the_file_asks_for_it() {
    let plain = tiny_with(&[]).unwrap();
    let mut json = tiny_json();
    json["pre_tokenizer"] =
        json!({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": true}]});
    let configured = |on: bool| ("tokenizer_config.json", json!({"add_prefix_space": on}));
    let spaced = from_json(&json).unwrap();
    for tokenizer in [&spaced, &tiny_with(&[configured(true)]).unwrap()] {
        assert_eq!(tokenizer.sha256(), spaced.sha256());
        assert_ne!(tokenizer.sha256(), plain.sha256());
        for (text, same) in [("the", " the"), (" the", " the"), ("\tthe", " \tthe"), ("", "")] {
            assert_eq!(tokenizer.encode(text, false).unwrap(), plain.encode(same, false).unwrap(), "{text:?}");
        }
        assert_eq!(tokenizer.decode(&tokenizer.encode("the", false).unwrap()), " the");
    }
    // The configuration has the last word, as in transformers.
    let (json, config) = (json.to_string(), configured(false).1.to_string());
    let both = [("tokenizer.json", json.as_bytes()), ("tokenizer_config.json", config.as_bytes())];
    assert_eq!(Tokenizer::from_files(&both).unwrap().sha256(), plain.sha256());
}

#[test]
fn without_the_pattern_merges_go_across_words() {
    let mut json = tiny_json();
    json["model"]["vocab"]["eĠw"] = json!(300);
    json["model"]["merges"].as_array_mut().unwrap().insert(0, json!(["e", "Ġw"]));
    assert!(!from_json(&json).unwrap().encode("the was", false).unwrap().contains(&300));
    json["pre_tokenizer"]["use_regex"] = json!(false);
    let ids = from_json(&json).unwrap().encode("the wa", false).unwrap();
    assert_eq!(ids, library(&json).encode_fast("the wa", false).unwrap().get_ids());
    assert_eq!(from_json(&json).unwrap().decode(&ids), "the wa");
}

#[test]
fn tokens_beyond_the_base_are_found_and_written_as_they_are_spelled() {
    let mut json = tiny_json();
    let added = json["added_tokens"].as_array_mut().unwrap();
    added.push(json!({"id": 300, "content": "<pad>", "special": true}));
    added.push(json!({"id": 301, "content": "  é", "normalized": true}));
    let one = from_json(&json).unwrap();
    // The same by the files of older releases.
    let map = ("special_tokens_map.json", json!({"pad_token": "<pad>", "eos_token": {"content": "<|endoftext|>"}}));
    let two = tiny_with(&[("added_tokens.json", json!({"<pad>": 300, "  é": 301})), map.clone()]).unwrap();
    let decoder = json!({"300": {"content": "<pad>", "special": true}, "301": {"content": "  é", "normalized": true},
                         "299": {"content": "<|endoftext|>", "special": true, "__type": "AddedToken"}});
    let three = tiny_with(&[("tokenizer_config.json", json!({"added_tokens_decoder": decoder})), map]).unwrap();
    let plain = tiny_with(&[]).unwrap();
    for tokenizer in [one, two, three] {
        assert_eq!((tokenizer.len(), tokenizer.eos()), (302, Some(299)));
        let text = "the<pad>  é<|endoftext|>";
        let the = plain.encode("the", false).unwrap();
        assert_eq!(tokenizer.encode(text, true).unwrap(), [the, vec![300, 301, 299]].concat());
        // A typed special token is text; a word that was added is a token everywhere.
        let ids = tokenizer.encode(text, false).unwrap();
        assert!(!ids.contains(&300) && !ids.contains(&299) && ids.contains(&301));
        assert_eq!(tokenizer.decode(&ids), text);
        assert_eq!(tokenizer.decode(&[300, 301, 299]), "<pad>  é<|endoftext|>");
        assert_eq!(tokenizer.bytes(302), None);
    }
}

#[test]
fn the_end_of_text_token_may_have_another_name() {
    let named = |eos: Value| tiny_with(&[("tokenizer_config.json", json!({"eos_token": eos, "add_bos_token": false}))]);
    let the = tiny_with(&[]).unwrap().encode("the", false).unwrap()[0];
    let spelled = String::from_utf8(tiny_with(&[]).unwrap().bytes(the).unwrap().to_vec()).unwrap();
    assert_eq!(named(json!(spelled)).unwrap().eos(), Some(the));
    assert_eq!(named(Value::Null).unwrap().eos(), Some(299));
    assert_eq!(named(json!("<|endoftext|>")).unwrap().sha256(), tiny_with(&[]).unwrap().sha256());
    refused(named(json!(7)), "`eos_token` of tokenizer_config.json names no token");
}

#[test]
fn training_settings_and_what_cannot_matter_are_accepted() {
    let mut json = tiny_json();
    json["truncation"] = json!({"max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right"});
    json["padding"] = json!({"strategy": {"Fixed": 9}});
    json["normalizer"] = json!({"type": "Sequence", "normalizers": []});
    json["model"]["unk_token"] = json!("<|endoftext|>");
    json["model"]["byte_fallback"] = json!(true);
    json["model"]["dropout"] = json!(0.0);
    json["post_processor"] = json!({"type": "Sequence", "processors": [{"type": "ByteLevel"},
        {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}]}]});
    assert_eq!(from_json(&json).unwrap().sha256(), from_json(&tiny_json()).unwrap().sha256());
}

#[test]
fn what_would_change_the_ids_is_refused_by_name() {
    let template = json!({"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]});
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false});
    let sequence = |steps: &[Value]| json!({"type": "Sequence", "pretokenizers": steps});
    for (pointer, value, says) in [
        ("/version", json!("2.0"), "2.0"),
        ("/normalizer", json!({"type": "NFC"}), "NFC"),
        ("/normalizer", json!({"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}), "Lowercase"),
        ("/pre_tokenizer", Value::Null, "0 ByteLevel pre-tokenizers"),
        ("/pre_tokenizer", json!({"type": "Whitespace"}), "Whitespace"),
        ("/pre_tokenizer", json!("ByteLevel"), "without a type"),
        (
            "/pre_tokenizer",
            sequence(&[json!({"type": "Digits", "individual_digits": true}), byte_level.clone()]),
            "Digits",
        ),
        ("/pre_tokenizer", sequence(&[byte_level.clone(), byte_level]), "2 ByteLevel pre-tokenizers"),
        ("/pre_tokenizer/add_prefix_space", json!("yes"), "`add_prefix_space`"),
        ("/post_processor", json!({"type": "RobertaProcessing"}), "RobertaProcessing"),
        ("/post_processor", template, "TemplateProcessing"),
        ("/decoder", json!({"type": "WordPiece"}), "WordPiece"),
        ("/model/type", json!("Unigram"), "Unigram"),
        ("/model/dropout", json!(0.1), "dropout"),
        ("/model/ignore_merges", json!(true), "ignore_merges"),
        ("/model/continuing_subword_prefix", json!("##"), "continuing_subword_prefix"),
        ("/model/end_of_word_suffix", json!("</w>"), "end_of_word_suffix"),
        ("/model/merges", json!([]), "there are no merges"),
        ("/model/merges", json!([["Ġ", "t"], ["Ġ", "qq"]]), "merge 1 of the list"),
        ("/model/merges", json!([["Ġ", "t", "h"]]), "Merge"),
        ("/model/vocab", json!(["a"]), "invalid type"),
        ("/added_tokens/0/id", json!(300), r#"gives the added token "<|endoftext|>" the ids 299 and 300"#),
        ("/added_tokens/0", json!({"id": 1 << 20, "content": "<pad>"}), "the id 1048576"),
        ("/added_tokens/0", json!({"id": 300, "content": ""}), "is empty"),
        ("/added_tokens/0", json!({"id": 300}), "content"),
    ] {
        let mut json = tiny_json();
        *json.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        refused(from_json(&json), says);
    }
    let wordless = json!({"model": {"type": "WordLevel", "vocab": {}, "unk_token": "?"}});
    refused(from_json(&wordless), "WordLevel");
    refused(from_json(&json!({"model": {"vocab": {}}})), "merges");
    refused(Tokenizer::from_files(&[("tokenizer.json", b"<!doctype html>")]), "a web page");

    for (name, value, says) in [
        ("tokenizer_config.json", json!({"tokenizer_class": "CLIPTokenizer"}), "CLIPTokenizer"),
        ("tokenizer_config.json", json!({"add_prefix_space": "yes"}), "tokenizer_config.json"),
        ("tokenizer_config.json", json!({"added_tokens_decoder": {"7": {"content": "?!"}}}), "the id 7, which is"),
        ("added_tokens.json", json!({"<pad>": u32::MAX}), "the id 4294967295"),
        ("added_tokens.json", json!(["<pad>"]), "added_tokens.json is not a JSON object"),
        ("added_tokens.json", json!({"<pad>": 300, "<sep>": 300}), "gives the id 300 twice"),
        ("special_tokens_map.json", json!({"pad_token": {"lstrip": true}}), "`pad_token`"),
    ] {
        refused(tiny_with(&[(name, value)]), says);
    }
}

#[test]
fn a_missing_file_is_named() {
    let vocab = fixture("tiny-tokenizer/vocab.json");
    refused(Tokenizer::from_files(&[]), "there is no vocab.json; give");
    refused(Tokenizer::from_files(&[("vocab.json", &vocab)]), "there is no merges.txt");
    refused(Tokenizer::from_files(&[("vocab.json", &vocab), ("merges.txt", b"")]), "there are no merges");
}

#[test]
fn a_tokenizer_of_another_kind_is_named() {
    for (name, kind) in
        [("a/vocab.txt", "WordPiece"), ("spiece.model", "SentencePiece"), ("tokenizer.model", "SentencePiece")]
    {
        refused(Tokenizer::from_files(&[("config.json", b"{}"), (name, b"[PAD]")]), kind);
    }
}

#[test]
fn the_files_openai_published_are_the_same_under_other_names() {
    let (vocab, merges) = (fixture("tiny-tokenizer/vocab.json"), fixture("tiny-tokenizer/merges.txt"));
    let tokenizer = Tokenizer::from_files(&[("m/encoder.json", &vocab), ("m/vocab.bpe", &merges)]).unwrap();
    assert_eq!(tokenizer.sha256(), tiny_with(&[]).unwrap().sha256());
}

#[test]
fn a_sentence_stays_short_whatever_it_quotes() {
    let mut json = tiny_json();
    json["normalizer"] = json!({"type": "é".repeat(10_000)});
    let error = from_json(&json).unwrap_err();
    assert!(error.message.chars().count() <= 401, "{error}");
}

/// Added tokens that overlap each other and the words of [`text_with_added`], with any properties.
fn added_tokens() -> impl Strategy<Value = Vec<Value>> {
    let contents = ["<|endoftext|>", "<pad>", "the", "he <", "<pad><", "is", "a  b", "\u{301}"];
    let known = tiny_json()["model"]["vocab"].clone();
    prop::collection::vec(any::<[bool; 6]>(), contents.len()).prop_map(move |flags| {
        let mut ids = 300..;
        let used = contents.iter().zip(flags).filter(|(_, [used, ..])| *used);
        used.map(|(content, [_, single_word, lstrip, rstrip, normalized, special])| {
            let id = known[content].as_u64().unwrap_or_else(|| ids.next().unwrap());
            json!({"id": id, "content": content, "single_word": single_word, "lstrip": lstrip, "rstrip": rstrip,
                   "normalized": normalized, "special": special})
        })
        .collect()
    })
}

fn text_with_added() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        prop::sample::select(&["<|endoftext|>", "<pad>", "the", "he <", "<", "is", "a  b", " ", "  "][..])
            .prop_map(str::to_owned),
        awkward_text(),
    ];
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    /// The library reads the file independently and gives the same ids.
    #[test]
    fn every_pipeline_encodes_as_the_library(
        [add_prefix_space, use_regex, parse_special, sequence]: [bool; 4],
        added in added_tokens(),
        texts in prop::collection::vec(text_with_added(), 8),
    ) {
        let mut json = tiny_json();
        json["added_tokens"] = json!(added);
        let step = json!({"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true, "use_regex": use_regex});
        json["pre_tokenizer"] = if sequence { json!({"type": "Sequence", "pretokenizers": [step]}) } else { step };
        let mut library = library(&json);
        library.set_encode_special_tokens(!parse_special);
        // The library does not know `<|endoftext|>` as special where the file does not say so; this crate does.
        prop_assume!(!parse_special || added.iter().any(|token| token["id"] == 299));
        let tokenizer = from_json(&json).unwrap();
        for text in texts {
            let expected = library.encode_fast(text.as_str(), false).unwrap();
            let ids = tokenizer.encode(&text, parse_special).unwrap();
            prop_assert_eq!(&ids[..], expected.get_ids(), "{:?}", text);
        }
    }

    #[test]
    fn gpt2_encodes_as_the_library_does_from_tokenizer_json(texts in prop::collection::vec(awkward_text(), 100)) {
        static BOTH: LazyLock<(Tokenizer, tokenizers::Tokenizer)> =
            LazyLock::new(|| (from_json(&gpt2_json()).unwrap(), library(&gpt2_json())));
        for text in texts {
            let expected = BOTH.1.encode_fast(text.as_str(), false).unwrap();
            // The library takes a typed special token for one unless told otherwise.
            prop_assert_eq!(&BOTH.0.encode(&text, true).unwrap()[..], expected.get_ids());
        }
    }

    #[test]
    fn a_changed_byte_is_no_panic(at: prop::sample::Index, byte: u8, cut: bool) {
        let mut json = fixture("tiny-tokenizer/tokenizer.json");
        let at = at.index(json.len());
        json[at] = byte;
        if cut {
            json.truncate(at);
        }
        let _ = Tokenizer::from_files(&[("tokenizer.json", &json)]);
        for name in ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"] {
            let (vocab, merges) = (fixture("tiny-tokenizer/vocab.json"), fixture("tiny-tokenizer/merges.txt"));
            let _ = Tokenizer::from_files(&[("vocab.json", &vocab), ("merges.txt", &merges), (name, &json)]);
        }
    }
}

/// A special token list as long as a file may be costs time linear in it.
#[test]
fn many_added_tokens_are_no_burden() {
    let contents: Vec<String> = (0..50_000).map(|number| format!("<extra_{number}>")).collect();
    let added: Map<String, Value> =
        contents.iter().zip(300..).map(|(content, id)| (content.clone(), json!(id))).collect();
    let map = json!({"additional_special_tokens": contents});
    let tokenizer =
        tiny_with(&[("added_tokens.json", Value::Object(added)), ("special_tokens_map.json", map)]).unwrap();
    assert_eq!(tokenizer.encode("<extra_7><extra_49999>", true).unwrap(), [307, 50_299]);
}

#[test]
fn merges_that_are_something_else_are_named() {
    let vocab = fixture("tiny-tokenizer/vocab.json");
    let merges = String::from_utf8(fixture("tiny-tokenizer/merges.txt")).unwrap();
    let utf16: Vec<u8> = merges.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (text, says) in [
        (&utf16[..], "text in UTF-16"),
        (b"\xfe\xff\0#\0v", "text in UTF-16"),
        (b"<!DOCTYPE html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "a Git LFS pointer"),
        (b"{\"error\":\"Repository not found\"}", "a server's error"),
    ] {
        let refusal = Tokenizer::from_files(&[("vocab.json", &vocab), ("merges.txt", text)]);
        refused(refusal, &format!("merges.txt is not a list of merges but {says}"));
    }
}
