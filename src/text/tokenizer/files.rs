//! The files a tokenizer is published in.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Result;

use super::added::AddedToken;
use super::parts::{Parts, in_order};
use super::{Tokenizer, bad, json};

impl Tokenizer {
    /// From files as they are published with a model, each a name (with or without folders) and its contents:
    /// `tokenizer.json`, or else `vocab.json`, `merges.txt` and, where tokens were added later, `added_tokens.json`.
    /// `tokenizer_config.json` and `special_tokens_map.json` may stand beside them, and have the last word on
    /// `add_prefix_space` and on which tokens are special. Other files are ignored.
    ///
    /// # Errors
    /// [`ErrorKind::BadTokenizer`](crate::error::ErrorKind::BadTokenizer) if a file is missing or not of its form, asks
    /// for something that would change the ids and is not supported (the sentence names it), or as
    /// [`from_parts`](Self::from_parts).
    pub fn from_files(files: &[(&str, &[u8])]) -> Result<Self> {
        let find = |name: &str| {
            let base_name = |path: &str| path.rsplit(['/', '\\']).next() == Some(name);
            files.iter().find(|(path, _)| base_name(path)).map(|(_, bytes)| *bytes)
        };
        let mut parts = match find("tokenizer.json") {
            Some(bytes) => json::parts(bytes)?,
            None => {
                let needed = |name: &str| {
                    find(name).ok_or_else(|| {
                        bad(format!(
                            "there is no {name}; give the model's tokenizer.json, or its vocab.json and merges.txt"
                        ))
                    })
                };
                let mut parts = vocab_merges(needed("vocab.json")?, needed("merges.txt")?)?;
                if let Some(bytes) = find("added_tokens.json") {
                    let added: HashMap<String, u32> = parse("added_tokens.json", TOKENS_AND_IDS, bytes)?;
                    let added = added.into_iter().map(|(content, id)| {
                        (id, AddedToken { special: false, normalized: true, ..AddedToken::special(content) })
                    });
                    add(&mut parts, "added_tokens.json", added.collect())?;
                }
                if let Some(bytes) = find(CONFIG) {
                    refuse_other_class(bytes)?;
                }
                parts
            }
        };
        if let Some(bytes) = find(CONFIG) {
            let config: Config = parse(CONFIG, "the options of a tokenizer", bytes)?;
            for (option, on) in [("add_bos_token", config.add_bos_token), ("add_eos_token", config.add_eos_token)] {
                if on == Some(true) {
                    return Err(bad(format!("{CONFIG} has `{option}`, which is not supported: GPT-2 does without")));
                }
            }
            if let Some(add_prefix_space) = config.add_prefix_space {
                parts.add_prefix_space = add_prefix_space;
            }
            add(&mut parts, CONFIG, config.added_tokens_decoder.unwrap_or_default())?;
        }
        for name in ["special_tokens_map.json", CONFIG] {
            if let Some(bytes) = find(name) {
                name_special(&mut parts, name, &parse(name, "an object of special tokens", bytes)?)?;
            }
        }
        Self::from_parts(parts)
    }
}

const CONFIG: &str = "tokenizer_config.json";
const TOKENS_AND_IDS: &str = "a JSON object of tokens and ids";

/// What decides ids in `tokenizer_config.json`, but for the special tokens.
#[derive(Deserialize)]
struct Config {
    add_prefix_space: Option<bool>,
    add_bos_token: Option<bool>,
    add_eos_token: Option<bool>,
    /// By their ids.
    added_tokens_decoder: Option<BTreeMap<u32, AddedToken>>,
}

/// The parts that `vocab.json` and `merges.txt` hold.
pub(super) fn vocab_merges(vocab_json: &[u8], merges_txt: &[u8]) -> Result<Parts> {
    let tokens = in_order(parse("vocab.json", TOKENS_AND_IDS, vocab_json)?, "vocab.json")?;
    let merges = std::str::from_utf8(merges_txt)
        .map_err(|error| bad(format!("merges.txt is not UTF-8 from byte {} on", error.valid_up_to())))?;
    let first_line = if merges.starts_with("#version") { 2 } else { 1 };
    let merges = merges.lines().skip(first_line - 1).map(str::to_owned).collect();
    Ok(Parts { tokens, merges, first_line: Some(first_line), ..Parts::default() })
}

/// Vocabulary and merges alone do not say how text is prepared for them; the class that reads them does.
fn refuse_other_class(config: &[u8]) -> Result<()> {
    #[derive(Deserialize)]
    struct Class {
        tokenizer_class: Option<String>,
    }
    let Class { tokenizer_class } = parse(CONFIG, "the options of a tokenizer", config)?;
    match tokenizer_class {
        Some(class)
            if !["GPT2Tokenizer", "PreTrainedTokenizer", "TokenizersBackend"]
                .iter()
                .any(|of| class.starts_with(of)) =>
        {
            Err(bad(format!(
                "{CONFIG} says {class:?}, which reads vocab.json and merges.txt in a way that is not supported; give \
                 the model's tokenizer.json"
            )))
        }
        _ => Ok(()),
    }
}

/// Adds the tokens that file `name` gives, those with new ids at the end of the vocabulary.
fn add(parts: &mut Parts, name: &str, added: BTreeMap<u32, AddedToken>) -> Result<()> {
    let mut known: HashSet<String> = parts.added.iter().map(|token| token.content.clone()).collect();
    for (id, token) in added {
        let next = parts.tokens.len();
        match parts.tokens.get(id as usize) {
            Some(there) if *there == token.content => {}
            Some(there) => {
                return Err(bad(format!(
                    "{name} gives {:?} the id {id}, which is {there:?} in the vocabulary",
                    token.content
                )));
            }
            None if id as usize == next => parts.tokens.push(token.content.clone()),
            None => {
                return Err(bad(format!(
                    "{name} gives {:?} the id {id}, but the vocabulary has no token {next}",
                    token.content
                )));
            }
        }
        if known.insert(token.content.clone()) {
            parts.added.push(token);
        }
    }
    Ok(())
}

/// Takes the special tokens that `fields` name (`eos_token`, `pad_token`, ...) and the vocabulary has.
fn name_special(parts: &mut Parts, file: &str, fields: &serde_json::Map<String, Value>) -> Result<()> {
    let Parts { tokens, added, eos, .. } = parts;
    let vocabulary: HashSet<&str> = tokens.iter().map(String::as_str).collect();
    let mut places: HashMap<String, usize> =
        added.iter().enumerate().map(|(index, token)| (token.content.clone(), index)).collect();
    for (name, value) in fields {
        let several = match value.as_array() {
            Some(several) if name == "additional_special_tokens" => several.as_slice(),
            _ if name.ends_with("_token") => std::slice::from_ref(value),
            _ => continue,
        };
        for value in several {
            // Either the spelling, or an object with the properties.
            let token = match value {
                Value::String(content) => AddedToken::special(content),
                // Not given; and `add_bos_token` is an option.
                Value::Null | Value::Bool(_) => continue,
                _ => AddedToken::deserialize(value)
                    .map(|token| AddedToken { special: true, ..token })
                    .map_err(|error| bad(format!("`{name}` of {file} names no token: {error}")))?,
            };
            if name == "eos_token" {
                *eos = Some(token.content.clone());
            }
            match places.get(&token.content) {
                Some(&place) => added[place].special = true,
                None if vocabulary.contains(token.content.as_str()) => {
                    places.insert(token.content.clone(), added.len());
                    added.push(token);
                }
                // A padding token that only training needed.
                None => {}
            }
        }
    }
    Ok(())
}

/// Reads the JSON file `name`, which should be `form`.
pub(super) fn parse<T: DeserializeOwned>(name: &str, form: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        let page = if bytes.trim_ascii_start().starts_with(b"<") { " but a web page" } else { "" };
        bad(format!("{name} is not {form}{page}: {error}; download it again"))
    })
}
