//! Tokens that end a text, stand around it or for what is unknown, and ids that have none.

use serde_json::{Value, json};

use super::file_tests::{from_json, library, tiny_json, tiny_with};
use super::tests::fixture;
use super::*;

/// As Python and Windows write JSON: a byte order mark, numbers that JSON has not, and integers of any size.
#[test]
fn every_file_is_read_as_it_is_written() {
    let plain = tiny_with(&[("added_tokens.json", json!({"<pad>": 300}))]).unwrap();
    let file = |name: &str| fixture(&format!("tiny-tokenizer/{name}"));
    let marked = |bytes: &[u8]| [b"\xEF\xBB\xBF", bytes].concat();
    let config = r#"{"model_max_length": 1000000000000000019884624838656, "x": NaN, "y": -Infinity, "eos_token": null,
        "bos_token": "", "pad_token": "<nowhere>", "unk_token": {"content": "<|endoftext|>", "special": true}}"#;
    let files = [
        ("vocab.json", marked(&file("vocab.json"))),
        ("merges.txt", marked(&file("merges.txt"))),
        ("added_tokens.json", marked(br#"{"<pad>": 300}"#)),
        ("tokenizer_config.json", marked(config.as_bytes())),
        ("special_tokens_map.json", marked(b"{}")),
        ("generation_config.json", marked(br#"{"eos_token_id": 299, "temperature": NaN}"#)),
        ("config.json", marked(br#"{"eos_token_id": null}"#)),
    ];
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
    let tokenizer = Tokenizer::from_files(&files).unwrap();
    assert_eq!((tokenizer.sha256(), tokenizer.eos()), (plain.sha256(), Some(299)));
    assert_eq!(tokenizer.notices(), [""; 0]);
    let json = marked(tiny_json().to_string().as_bytes());
    let whole = [("tokenizer.json", &json[..]), ("tokenizer_config.json", br#"{"model_max_length": 1e30}"#)];
    assert_eq!(Tokenizer::from_files(&whole).unwrap().sha256(), tiny_with(&[]).unwrap().sha256());
}

#[test]
fn an_id_that_was_given_to_no_token_is_a_hole_in_every_form() {
    let mut json = tiny_json();
    json["added_tokens"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": 302, "content": "<sep>", "special": true, "normalized": true}));
    let one = from_json(&json).unwrap();
    let map = ("special_tokens_map.json", json!({"sep_token": "<sep>"}));
    let two = tiny_with(&[("added_tokens.json", json!({"<sep>": 302})), map.clone()]).unwrap();
    let decoder = json!({"302": {"content": "<sep>", "special": true, "normalized": true}});
    let three = tiny_with(&[("tokenizer_config.json", json!({"added_tokens_decoder": decoder}))]).unwrap();
    for tokenizer in [&one, &two, &three] {
        assert_eq!((tokenizer.len(), tokenizer.holes()), (303, &[300, 301][..]));
        assert_eq!(tokenizer.decode(&[299, 300, 302]), "<|endoftext|>\u{FFFD}<sep>");
        assert_eq!(tokenizer.encode("<sep>", true).unwrap(), [302]);
        assert_eq!(tokenizer.notices().len(), 1);
    }
    assert_eq!([one.sha256(); 2], [two.sha256(), three.sha256()]);
    // In the vocabulary itself.
    let mut vocab = tiny_json()["model"]["vocab"].clone();
    vocab["<|endoftext|>"] = json!(310);
    let merges = fixture("tiny-tokenizer/merges.txt");
    let tokenizer = Tokenizer::from_vocab_merges(vocab.to_string().as_bytes(), &merges).unwrap();
    assert_eq!((tokenizer.eos(), tokenizer.holes()), (Some(310), &(299..310).collect::<Vec<_>>()[..]));
}

#[test]
fn a_token_with_a_role_that_the_vocabulary_lacks_gets_the_next_id() {
    let map = |value: Value| tiny_with(&[("special_tokens_map.json", value)]).unwrap();
    let eos = map(json!({"eos_token": {"content": "</s>", "lstrip": false}, "pad_token": "<pad>"}));
    assert_eq!((eos.len(), eos.eos(), eos.ends(300), eos.ends(299)), (301, Some(300), true, true));
    assert_eq!(eos.encode("</s>", true).unwrap(), [300]);
    assert!(eos.notices()[0].contains("</s>"), "{:?}", eos.notices());
    // The beginning comes first, as in transformers.
    let both = map(json!({"eos_token": "</s>", "bos_token": "<s>", "unk_token": "</s>"}));
    assert_eq!((both.len(), both.eos(), both.bytes(300)), (302, Some(301), Some(&b"<s>"[..])));
    // Only training needed these.
    let none = map(json!({"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "<|endoftext|>"}));
    assert_eq!(none.sha256(), tiny_with(&[]).unwrap().sha256());
}

#[test]
fn every_id_that_is_named_as_the_end_of_a_text_ends_it() {
    let ends = |files: &[(&str, Value)]| {
        let tokenizer = tiny_with(files).unwrap();
        let ids: Vec<u32> = (0..tokenizer.len() as u32).filter(|&id| tokenizer.ends(id)).collect();
        (ids, tokenizer.notices().to_vec())
    };
    let generation = |value: Value| [("generation_config.json", json!({"eos_token_id": value}))];
    for (value, ids, notices) in [
        (json!(299), &[299][..], 0),
        (json!([299, 299]), &[299], 0),
        (json!([]), &[299], 0),
        (Value::Null, &[299], 0),
        (json!([258, null, 258]), &[258, 299], 1),
        // The default of GPT-2's configuration, which a small model seldom changes.
        (json!(50256), &[299], 1),
        (json!([50256, 258, 50257]), &[258, 299], 2),
        (json!(-1), &[299], 1),
        (json!("</s>"), &[299], 1),
        (json!({"a": [1.5]}), &[299], 1),
    ] {
        let (got, said) = ends(&generation(value.clone()));
        assert_eq!((&got[..], said.len()), (ids, notices), "{value} {said:?}");
        let config = [("config.json", json!({"eos_token_id": value}))];
        assert_eq!(ends(&config).0, ids, "{value} in config.json");
    }
    let both = [generation(json!(7))[0].clone(), ("config.json", json!({"eos_token_id": 8}))];
    assert_eq!(ends(&both).0, [7, 8, 299]);
    let maps = |map: &str, config: &str| {
        ends(&[
            ("special_tokens_map.json", json!({"eos_token": map})),
            ("tokenizer_config.json", json!({"eos_token": config})),
        ])
    };
    assert_eq!(maps("!", "\"").0, [0, 1, 299]);
    let broken = tiny_with(&[("generation_config.json", json!([1]))]).unwrap();
    assert!(broken.notices()[0].contains("generation_config.json"), "{:?}", broken.notices());
    assert_eq!((broken.eos(), broken.ends(299)), (Some(299), true));
}

#[test]
fn without_an_end_of_its_own_a_vocabulary_has_that_of_the_model() {
    let mut json = tiny_json();
    json["added_tokens"] = json!([]);
    json["model"]["vocab"].as_object_mut().unwrap().remove("<|endoftext|>");
    let json = json.to_string();
    let files = [("tokenizer.json", json.as_bytes()), ("generation_config.json", br#"{"eos_token_id": [7, 3]}"#)];
    let plain = Tokenizer::from_files(&files[..1]).unwrap();
    let named = Tokenizer::from_files(&files).unwrap();
    assert_eq!((plain.eos(), named.eos(), named.ends(3)), (None, Some(7), true));
    assert_eq!(plain.sha256(), named.sha256());
}

/// What a file asks to put around a text, by the library and by the options of the configuration.
#[test]
fn what_belongs_around_a_prompt_is_put_there_in_every_form() {
    let plain = tiny_with(&[]).unwrap();
    let the = plain.encode("the way", false).unwrap();
    let token = |name: &str| json!({"SpecialToken": {"id": name, "type_id": 0}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let template = |single: &[Value]| {
        json!({"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": {
            "<|endoftext|>": {"id": "<|endoftext|>", "ids": [299], "tokens": ["<|endoftext|>"]},
            "!": {"id": "!", "ids": [0], "tokens": ["!"]},
        }})
    };
    let eos = || token("<|endoftext|>");
    for (processor, before, after) in [
        (template(&[eos(), text.clone()]), &[299][..], &[][..]),
        (template(&[text.clone(), eos()]), &[], &[299]),
        (template(&[eos(), token("!"), text.clone(), token("!")]), &[299, 0], &[0]),
        (
            json!({"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false},
            template(&[eos(), text.clone()])]}),
            &[299],
            &[],
        ),
        (
            json!({"type": "RobertaProcessing", "sep": ["<|endoftext|>", 299], "cls": ["!", 0], "trim_offsets": true,
            "add_prefix_space": false}),
            &[0],
            &[299],
        ),
        (json!({"type": "BertProcessing", "sep": ["<|endoftext|>", 299], "cls": ["!", 0]}), &[0], &[299]),
    ] {
        let mut json = tiny_json();
        json["post_processor"] = processor;
        let tokenizer = from_json(&json).unwrap();
        let ids = tokenizer.prompt("the way", false).unwrap();
        assert_eq!(ids, library(&json).encode("the way", true).unwrap().get_ids());
        assert_eq!(ids, [before, &the, after].concat());
        assert_eq!(tokenizer.encode("the way", false).unwrap(), the);
        assert_eq!(tokenizer.prompt("", false).unwrap(), [before, after].concat());
        assert_eq!(tokenizer.sha256(), plain.sha256());
        assert!(tokenizer.notices()[0].contains("each prompt"), "{:?}", tokenizer.notices());
    }
    let config = |config: Value| tiny_with(&[("tokenizer_config.json", config)]).unwrap();
    for (value, before, after) in [
        (json!({"add_bos_token": true}), &[299][..], &[][..]),
        (json!({"add_bos_token": true, "bos_token": "!", "add_eos_token": true}), &[0], &[299]),
        (json!({"add_bos_token": true, "bos_token": {"content": "<s>"}}), &[300], &[]),
        (json!({"add_eos_token": true, "eos_token": "</s>", "bos_token": "<s>"}), &[], &[301]),
        (json!({"add_bos_token": false, "add_eos_token": null}), &[], &[]),
    ] {
        let ids = config(value.clone()).prompt("the way", false).unwrap();
        assert_eq!(ids, [before, &the, after].concat(), "{value}");
    }
    // Both forms at once ask for one.
    let mut json = tiny_json();
    json["post_processor"] = template(&[eos(), text]);
    let (json, option) = (json.to_string(), json!({"add_bos_token": true}).to_string());
    let files = [("tokenizer.json", json.as_bytes()), ("tokenizer_config.json", option.as_bytes())];
    assert_eq!(Tokenizer::from_files(&files).unwrap().prompt("the way", false).unwrap(), [&[299][..], &the].concat());
}

#[test]
fn a_token_for_the_unknown_stands_where_the_library_puts_it() {
    for fuse in [false, true] {
        let mut json = tiny_json();
        let model = &mut json["model"];
        // With holes where the two bytes were.
        model["vocab"].as_object_mut().unwrap().retain(|token, _| token != "~" && token != "Ã");
        model["vocab"]["[UNK]"] = json!(300);
        model["unk_token"] = json!("[UNK]");
        model["fuse_unk"] = json!(fuse);
        let tokenizer = from_json(&json).unwrap();
        assert!(tokenizer.notices().iter().any(|notice| notice.contains("[UNK]")), "{:?}", tokenizer.notices());
        for text in ["the ~~ way", "a~", "À la ~~~\n~", "the way"] {
            let ids = tokenizer.encode(text, false).unwrap();
            assert_eq!(ids, library(&json).encode_fast(text, false).unwrap().get_ids(), "{text}");
        }
        json["model"]["unk_token"] = json!("<nowhere>");
        assert!(from_json(&json).unwrap().encode("a~", false).is_err());
    }
}
