use std::collections::HashMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{NormalizerWrapper, TokenizerBuilder, TokenizerImpl};

use super::*;

/// The contents of a file below tests/fixtures.
pub(crate) fn fixture(path: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// GPT-2's own tokenizer.
pub(crate) fn gpt2() -> &'static Tokenizer {
    static GPT2: LazyLock<Tokenizer> = LazyLock::new(|| {
        Tokenizer::from_vocab_merges(&fixture("gpt2-tokenizer/vocab.json"), &fixture("gpt2-tokenizer/merges.txt"))
            .unwrap()
    });
    &GPT2
}

/// The 300-token vocabulary: its tokens and merges as a GGUF file holds them.
fn tiny() -> (Vec<String>, Vec<String>) {
    let vocab: HashMap<String, u32> = serde_json::from_slice(&fixture("tiny-tokenizer/vocab.json")).unwrap();
    let mut tokens = vec![String::new(); vocab.len()];
    for (token, id) in vocab {
        tokens[id as usize] = token;
    }
    let merges = String::from_utf8(fixture("tiny-tokenizer/merges.txt")).unwrap();
    (tokens, merges.lines().skip(1).map(str::to_owned).collect())
}

fn as_files(tokens: &[String], merges: &[String]) -> (Vec<u8>, Vec<u8>) {
    let vocab: HashMap<&str, usize> = tokens.iter().enumerate().map(|(id, token)| (token.as_str(), id)).collect();
    (serde_json::to_vec(&vocab).unwrap(), format!("#version: 0.2\n{}\n", merges.join("\n")).into_bytes())
}

/// Strings and their ids by GPT-2's own tokenizer.
pub(super) fn encodings() -> Vec<(String, Vec<u32>)> {
    #[derive(Deserialize)]
    struct Encoding {
        text: String,
        ids: Vec<u32>,
    }
    let encodings: Vec<Encoding> = serde_json::from_slice(&fixture("gpt2-encodings.json")).unwrap();
    assert_eq!(encodings.len(), 64);
    encodings.into_iter().map(|Encoding { text, ids }| (text, ids)).collect()
}

#[test]
fn the_published_strings_encode_to_exactly_their_ids_and_back() {
    for (text, ids) in encodings() {
        assert_eq!(gpt2().encode(&text, false).unwrap(), ids, "{text:?}");
        assert_eq!(gpt2().decode(&ids), text);
    }
}

#[test]
fn spaces_are_part_of_the_tokens() {
    let encode = |text| gpt2().encode(text, false).unwrap();
    assert_ne!(encode("Hello"), encode(" Hello"));
    for text in ["y is ?", " don 't", "a , b", "", " ", "\n"] {
        assert_eq!(gpt2().decode(&encode(text)), text);
    }
    assert!(encode("").is_empty());
}

#[test]
fn a_typed_end_of_text_is_ordinary_tokens_unless_asked_for() {
    let tokenizer = gpt2();
    let eos = tokenizer.eos().unwrap();
    assert_eq!(eos, 50256);
    let typed = tokenizer.encode(END_OF_TEXT, false).unwrap();
    assert_eq!(typed.len(), 7);
    assert!(!typed.contains(&eos));
    assert_eq!(tokenizer.encode(END_OF_TEXT, true).unwrap(), [eos]);

    let [a, b] = ["a ", " b"].map(|part| tokenizer.encode(part, false).unwrap());
    let text = format!("a {END_OF_TEXT}{END_OF_TEXT} b");
    assert_eq!(tokenizer.encode(&text, true).unwrap(), [a, vec![eos, eos], b].concat());
    assert_eq!(tokenizer.decode(&tokenizer.encode(&text, false).unwrap()), text);
    assert_eq!(tokenizer.bytes(eos), Some(END_OF_TEXT.as_bytes()));
}

#[test]
fn the_end_of_text_token_is_found_by_content() {
    let (mut tokens, merges) = tiny();
    let at = tokens.iter().position(|token| token == END_OF_TEXT).unwrap();
    let to = at / 2;
    tokens.swap(at, to);
    let moved = Tokenizer::from_tokens_merges(tokens.clone(), &merges).unwrap();
    assert_eq!(moved.eos(), Some(to as u32));
    assert_eq!(moved.encode(END_OF_TEXT, true).unwrap(), [to as u32]);

    tokens[to] = "<|end|>".to_owned();
    let without = Tokenizer::from_tokens_merges(tokens, &merges).unwrap();
    assert_eq!(without.eos(), None);
    assert_eq!(without.encode(END_OF_TEXT, true).unwrap(), without.encode(END_OF_TEXT, false).unwrap());
}

#[test]
fn every_token_has_its_bytes() {
    let tokenizer = gpt2();
    assert_eq!(tokenizer.len(), 50257);
    assert_eq!(tokenizer.bytes(0), Some(&b"!"[..]));
    assert_eq!(tokenizer.bytes(220), Some(&b" "[..]));
    assert_eq!(tokenizer.bytes(50257), None);
    assert_eq!(tokenizer.bytes(u32::MAX), None);
    assert_eq!(tokenizer.decode(&[0, 50257, 0]), "!\u{FFFD}!");
    // The 256 bytes are the first tokens, in the order of the alphabet: printable ones first.
    let mut single: Vec<u8> = (0..256).flat_map(|id| tokenizer.bytes(id).unwrap().to_vec()).collect();
    single.sort_unstable();
    assert!(single.into_iter().eq(0..=255));
    assert!((0..50257).all(|id| !tokenizer.bytes(id).unwrap().is_empty()));
}

#[test]
fn a_token_outside_the_alphabet_is_its_own_spelling() {
    let (mut tokens, merges) = tiny();
    let id = tokens.len() as u32;
    tokens.push("Ġ日本 ".to_owned());
    let tokenizer = Tokenizer::from_tokens_merges(tokens, &merges).unwrap();
    assert_eq!(tokenizer.bytes(id), Some("Ġ日本 ".as_bytes()));
}

#[test]
fn both_forms_of_one_tokenizer_are_the_same() {
    let (tokens, merges) = tiny();
    let (vocab, txt) = as_files(&tokens, &merges);
    let list = Tokenizer::from_tokens_merges(tokens.clone(), &merges).unwrap();
    for txt in [
        txt.clone(),
        txt["#version: 0.2\n".len()..].to_vec(),
        String::from_utf8(txt).unwrap().replace('\n', "\r\n").into(),
    ] {
        let files = Tokenizer::from_vocab_merges(&vocab, &txt).unwrap();
        assert_eq!(files.sha256(), list.sha256());
        assert_eq!(files.encode("the way we were", false).unwrap(), list.encode("the way we were", false).unwrap());
    }
    assert_eq!(list.sha256().len(), 64);

    let mut other = merges.clone();
    other.swap(0, 1);
    assert_ne!(Tokenizer::from_tokens_merges(tokens.clone(), &other).unwrap().sha256(), list.sha256());
    let mut other = tokens;
    other.swap(0, 1);
    assert_ne!(Tokenizer::from_tokens_merges(other, &merges).unwrap().sha256(), list.sha256());
}

#[test]
fn lines_that_say_nothing_are_no_merges() {
    let (tokens, merges) = tiny();
    let (vocab, _) = as_files(&tokens, &merges);
    let sha256 = Tokenizer::from_tokens_merges(tokens.clone(), &merges).unwrap().sha256().to_owned();
    let marked = [&b"\xEF\xBB\xBF"[..], &vocab].concat();
    for (first, between, last) in [
        ("#version: 0.2\n", "\n", "\n\n\n"),
        ("#version: 0.2\n#version: 0.2\n", "\n\n", ""),
        ("\u{FEFF}#version: 0.2 - Trained by `huggingface/tokenizers`\r\n", "\r\n\r\n", "\r\n \r\n"),
        ("\u{FEFF}", " \n", " \n \t\n"),
        ("\n", "\n", "\n#version: 0.2"),
    ] {
        let txt = format!("{first}{}{last}", merges.join(between));
        let tokenizer = Tokenizer::from_vocab_merges(&marked, txt.as_bytes()).unwrap();
        assert_eq!(tokenizer.sha256(), sha256, "{first:?} {between:?} {last:?}");
    }
    // In a list an empty text is no line.
    refused(Tokenizer::from_tokens_merges(tokens, &[String::new()]), "merge 0 of the list");
}

/// The vocabulary without the byte of `À`'s first half and without `~`.
fn without_two_bytes() -> (Vec<Option<String>>, Vec<String>) {
    let (tokens, merges) = tiny();
    (tokens.into_iter().filter(|token| !["Ã", "~"].contains(&token.as_str())).map(Some).collect(), merges)
}

#[test]
fn a_byte_without_a_token_is_refused_by_the_character_it_is_of() {
    let (tokens, merges) = without_two_bytes();
    let tokenizer = Tokenizer::from_spec(TokenizerSpec { tokens, merges, ..TokenizerSpec::default() }).unwrap();
    assert!(tokenizer.notices()[0].contains("2 of the 256 bytes, such as 0x7E ('~')"), "{:?}", tokenizer.notices());
    assert_eq!(tokenizer.decode(&tokenizer.encode("the ñ", false).unwrap_or_default()), "");
    for (text, character, byte) in [("the À way", "'À'", "0xC3"), ("a~", "'~'", "0x7E")] {
        let error = tokenizer.encode(text, false).unwrap_err();
        assert!(error.message.contains(character) && error.message.contains(byte), "{error}");
    }
    for text in ["the way", "漢 👋", "\0"] {
        assert_eq!(tokenizer.decode(&tokenizer.encode(text, false).unwrap()), text);
    }
}

#[test]
fn what_is_no_bpe_of_bytes_is_refused() {
    let json = |tokens: &[&str]| serde_json::to_vec(&tokens.iter().zip(0..).collect::<HashMap<_, u32>>()).unwrap();
    let ends_of_words = json(&["t", "h", "e</w>", "th", "the</w>"]);
    refused(Tokenizer::from_vocab_merges(&ends_of_words, b"t h\nth e</w>\n"), "not a byte-level BPE");
    let characters = json(&["t", "h", "th", "漢", "字", "漢字"]);
    refused(Tokenizer::from_vocab_merges(&characters, "t h\n漢 字\n".as_bytes()), "not a byte-level BPE");
    let none = json(&["漢", "字", "漢字"]);
    refused(Tokenizer::from_vocab_merges(&none, "漢 字\n".as_bytes()), "not a byte-level BPE");
    // Four letters are enough for some.
    let letters = json(&["A", "C", "G", "T", "AC"]);
    let tokenizer = Tokenizer::from_vocab_merges(&letters, b"A C\n").unwrap();
    assert_eq!(tokenizer.encode("GACT", false).unwrap(), [2, 4, 3]);
    assert!(tokenizer.encode("GA CT", false).is_err());
}

#[test]
fn a_text_has_at_least_as_many_tokens_as_are_told() {
    assert_eq!(gpt2().at_least(&" ".repeat(1280)), 10);
    let (mut tokens, merges) = without_two_bytes();
    tokens.push(Some("<mask>".to_owned()));
    let mask = AddedToken { lstrip: true, special: false, ..AddedToken::special("<mask>") };
    let unknown = Some(Unknown { content: "<mask>".to_owned(), fuse: true });
    let tokenizer =
        Tokenizer::from_spec(TokenizerSpec { tokens, merges, added: vec![mask], unknown, ..TokenizerSpec::default() });
    let tokenizer = tokenizer.unwrap();
    for text in [" ".repeat(10_000) + "<mask>", "~".repeat(10_000), "\u{3000}<mask>".repeat(99), "the way".repeat(99)] {
        let ids = tokenizer.prompt(&text, false).unwrap();
        assert!(tokenizer.at_least(&text) <= ids.len(), "{} of {}", tokenizer.at_least(&text), ids.len());
    }
    assert!(tokenizer.at_least(&"the way".repeat(99)) > 40);
}

/// Pins the canonical form: a record made by one release must be recognised by the next.
#[test]
fn the_sha256_is_the_documented_one() {
    let (tokens, merges) = tiny();
    let mut form = (tokens.len() as u64).to_le_bytes().to_vec();
    for text in tokens.iter().chain(&merges) {
        form.extend((text.len() as u64).to_le_bytes());
        form.extend(text.bytes());
    }
    let expected: String = Sha256::digest(&form).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(Tokenizer::from_tokens_merges(tokens, &merges).unwrap().sha256(), expected);
}

#[track_caller]
pub(super) fn refused(result: Result<Tokenizer>, says: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadTokenizer);
    assert!(error.message.contains(says), "{error}");
}

#[test]
fn a_broken_vocabulary_is_refused_with_the_reason() {
    let (tokens, merges) = tiny();
    let (vocab, txt) = as_files(&tokens, &merges);
    for json in [&b""[..], b"<!doctype html>", b"[1]", b"{\"a\": -1}", b"{\"a\": 1.5}", b"{\"a\": \"b\"}", &vocab[..99]]
    {
        refused(Tokenizer::from_vocab_merges(json, &txt), "vocab.json is not a JSON object");
    }
    refused(Tokenizer::from_vocab_merges(b"{}", &txt), r#""Ġ" is not in the vocabulary"#);
    refused(Tokenizer::from_vocab_merges(br#"{"a": 0, "b": 1048576}"#, &txt), r#"gives "b" the id 1048576"#);
    refused(Tokenizer::from_vocab_merges(br#"{"a": 0, "b": 0}"#, &txt), "gives the id 0 twice");
    refused(Tokenizer::from_vocab_merges(br#"{"a": 4294967296}"#, &txt), "4294967296");

    let mut twice = tokens.clone();
    twice[7] = twice[3].clone();
    refused(Tokenizer::from_tokens_merges(twice, &merges), "twice in the vocabulary, as 3 and 7");
    let mut no_byte = tokens;
    let space = no_byte.iter().position(|token| token == "Ġ").unwrap();
    no_byte[space] = "something".to_owned();
    refused(Tokenizer::from_tokens_merges(no_byte, &merges), r#""Ġ" is not in the vocabulary"#);
    refused(Tokenizer::from_tokens_merges(Vec::new(), &merges), "is not in the vocabulary");
}

#[test]
fn broken_merges_are_refused_with_their_place() {
    let (tokens, merges) = tiny();
    let (vocab, txt) = as_files(&tokens, &merges);
    for none in [&b""[..], b"#version: 0.2", b"#version: 0.2\n"] {
        refused(Tokenizer::from_vocab_merges(&vocab, none), "there are no merges");
    }
    refused(Tokenizer::from_tokens_merges(tokens.clone(), &[]), "there are no merges");
    refused(Tokenizer::from_vocab_merges(&vocab, b"h e\n\xFF\xFE"), "not UTF-8 from byte 4");
    for line in ["h", "h  e", " he", "h e l", "h\te"] {
        let txt = format!("#version: 0.2\nh e\n{line}\n\u{120} t\n");
        refused(
            Tokenizer::from_vocab_merges(&vocab, txt.as_bytes()),
            &format!("line 3 of merges.txt is {line:?}, not"),
        );
    }
    refused(Tokenizer::from_vocab_merges(&vocab, b"\n\nh e\n\nh \n"), r#"line 5 of merges.txt is "h", not"#);
    refused(Tokenizer::from_vocab_merges(&vocab, b"\xFF\xFEh\0 \0e\0"), "UTF-16");
    let txt = [&txt[..], b"h e\n"].concat();
    refused(Tokenizer::from_vocab_merges(&vocab, &txt), "which is a duplicate");
    for (merge, missing) in [("h qq", "qq"), ("qq h", "qq"), ("q q", "qq")] {
        let merges = ["h e".to_owned(), merge.to_owned()];
        refused(
            Tokenizer::from_tokens_merges(tokens.clone(), &merges),
            &format!("merge 1 of the list is {merge:?}, but {missing:?} is not"),
        );
    }
    // Longer than every token: the library would panic.
    let longest = tokens.iter().max_by_key(|token| token.len()).unwrap();
    refused(
        Tokenizer::from_tokens_merges(tokens.clone(), &[format!("{longest} {longest}")]),
        "is not in the vocabulary",
    );
}

/// The library's own pipeline: GPT-2's pattern with its look-ahead.
fn library() -> &'static TokenizerImpl<BPE, NormalizerWrapper, ByteLevel, ByteLevel, ByteLevel> {
    static LIBRARY: LazyLock<TokenizerImpl<BPE, NormalizerWrapper, ByteLevel, ByteLevel, ByteLevel>> =
        LazyLock::new(|| {
            TokenizerBuilder::new()
                .with_model(gpt2().bpe.clone())
                .with_pre_tokenizer(Some(ByteLevel::new(false, false, true)))
                .build()
                .unwrap()
        });
    &LIBRARY
}

/// Text rich in what the pattern tells apart: letters, digits, white space of all kinds, apostrophes, marks, emoji.
pub(super) fn awkward_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        prop::sample::select(
            &[
                " ", "  ", "\n", "\t", "\r\n", "\u{A0}", "\u{2003}", "\u{3000}", "\u{85}", "\u{1C}", "\u{200B}", "'",
                "'s", "'ll", "'S", "a", "the", "É", "漢", "e\u{301}", "1", "٣", "½", "Ⅷ", "_", "!", "…", "👋🏽", "\0",
                "<|", "\u{FEFF}",
            ][..]
        )
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(part, 0..20).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn encodes_as_the_library_and_decodes_to_the_same(text in awkward_text()) {
        let ids = gpt2().encode(&text, false).unwrap();
        let expected = library().encode_fast(text.as_str(), false).unwrap();
        prop_assert_eq!(&ids[..], expected.get_ids());
        prop_assert_eq!(gpt2().decode(&ids), text);
    }

    #[test]
    fn outside_bytes_are_refused_without_a_panic(vocab in any::<Vec<u8>>(), merges in any::<Vec<u8>>(), at in 0..3150usize, byte: u8) {
        prop_assert!(Tokenizer::from_vocab_merges(&vocab, &merges).is_err());
        // One byte of a good file changed: any outcome but a panic.
        let (mut vocab, mut merges) = (fixture("tiny-tokenizer/vocab.json"), fixture("tiny-tokenizer/merges.txt"));
        let _ = Tokenizer::from_vocab_merges(&vocab, &{ let at = at % merges.len(); merges[at] = byte; merges });
        vocab[at] = byte;
        let _ = Tokenizer::from_vocab_merges(&vocab, &fixture("tiny-tokenizer/merges.txt"));
    }
}

/// Runs of one character at a length where the pattern with the look-ahead fails.
#[test]
fn long_runs_are_cut_as_short_ones() {
    let n = 1_200_000;
    let encode = |text: &str| gpt2().encode(text, false).unwrap();
    let id = |text| encode(text)[0];
    assert_eq!(encode(&(" ".repeat(n) + "x")), [vec![220; n - 1], encode(" x")].concat());
    let newlines = encode(&("\n".repeat(n + 1) + "x"));
    assert_eq!(newlines, [vec![id("\n\n"); n / 2], encode("\nx")].concat());
    assert_eq!(encode(&"a".repeat(n)), vec![id("aaaa"); n / 4]);
    assert_eq!(encode(&"👋".repeat(n / 4)).len(), n / 2);
}
