//! The files a tokenizer is published in.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::foreign_tokenizer;
use crate::json as json_file;

use super::added::AddedToken;
use super::spec::{Named, TokenizerSpec, check_id, in_order};
use super::{END_OF_TEXT, Tokenizer, bad, json, quoted};

impl Tokenizer {
    /// From files as they are published with a model, each a name (with or without folders) and its contents:
    /// `tokenizer.json`, or else `vocab.json`, `merges.txt` (which OpenAI called `encoder.json` and `vocab.bpe`) and,
    /// where tokens were added later, `added_tokens.json`. `tokenizer_config.json` and `special_tokens_map.json` may stand
    /// beside them, and have the last word on `add_prefix_space` and on which tokens are special. `generation_config.json`
    /// and `config.json` may name more tokens that end a text. Other files are ignored.
    ///
    /// # Errors
    /// [`ErrorKind::BadTokenizer`](crate::error::ErrorKind::BadTokenizer) if a file is missing or not of its form, asks
    /// for something that would change the ids and is not supported (the sentence names it), or as
    /// [`from_spec`](Self::from_spec).
    pub fn from_files(files: &[(&str, &[u8])]) -> Result<Self> {
        let find = |name: &str| find(files, name);
        let mut parts = match find(json::NAME) {
            Some(bytes) => json::parts(bytes)?,
            None => {
                let vocab = find("vocab.json").or(find("encoder.json")).ok_or_else(|| missing(files, "vocab.json"))?;
                let merges = find("merges.txt").or(find("vocab.bpe")).ok_or_else(|| missing(files, "merges.txt"))?;
                let mut parts = vocab_merges(vocab, merges)?;
                if let Some(bytes) = find("added_tokens.json") {
                    let added: HashMap<String, u32> = parse("added_tokens.json", TOKENS_AND_IDS, bytes)?;
                    add(&mut parts, "added_tokens.json", by_id(added)?)?;
                }
                if let Some(bytes) = find(CONFIG) {
                    refuse_other_class(bytes)?;
                }
                parts
            }
        };
        let mut around = Around::default();
        if let Some(bytes) = find(CONFIG) {
            let config: Config = parse(CONFIG, "the options of a tokenizer", bytes)?;
            around = Around { bos: config.add_bos_token == Some(true), eos: config.add_eos_token == Some(true) };
            if let Some(add_prefix_space) = config.add_prefix_space {
                parts.add_prefix_space = add_prefix_space;
            }
            add(&mut parts, CONFIG, config.added_tokens_decoder.unwrap_or_default())?;
        }
        let mut roles = Roles::default();
        for name in ["special_tokens_map.json", CONFIG] {
            if let Some(bytes) = find(name) {
                name_special(&mut parts, &mut roles, name, &parse(name, "an object of special tokens", bytes)?)?;
            }
        }
        give_roles(&mut parts, roles, around);
        parts.read_ends(files);
        Self::from_spec(parts)
    }
}

/// The contents of the file that is called `name`, in whatever folder.
pub(super) fn find<'a>(files: &[(&str, &'a [u8])], name: &str) -> Option<&'a [u8]> {
    files.iter().find(|(path, _)| base_name(path) == name).map(|(_, bytes)| *bytes)
}

fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or_default()
}

const CONFIG: &str = "tokenizer_config.json";
const TOKENS_AND_IDS: &str = "a JSON object of tokens and ids";

/// The error if `name` is missing.
fn missing(files: &[(&str, &[u8])], name: &str) -> Error {
    let names = files.iter().map(|(path, _)| base_name(path));
    let foreign = names.filter_map(|name| Some((name, foreign_tokenizer::kind(name)?))).next();
    let foreign = foreign.map_or(String::new(), |(name, kind)| {
        format!("; {name} is {kind}, and only GPT-2's byte-level BPE is supported")
    });
    bad(format!("there is no {name}{foreign}; give the model's tokenizer.json, or its vocab.json and merges.txt"))
}

/// The options in `tokenizer_config.json` that affect ids, except the special tokens.
#[derive(Deserialize)]
struct Config {
    add_prefix_space: Option<bool>,
    add_bos_token: Option<bool>,
    add_eos_token: Option<bool>,
    /// By their ids.
    added_tokens_decoder: Option<BTreeMap<u32, AddedToken>>,
}

/// Which special tokens are put around a prompt.
#[derive(Default)]
struct Around {
    bos: bool,
    eos: bool,
}

/// The spelling of tokens with a role, if a file gives it.
#[derive(Default)]
struct Roles {
    bos: Option<String>,
    /// By each file that names one; the last counts.
    eos: Vec<(String, String)>,
}

/// The tokens of `added_tokens.json` by id; no id may appear twice.
fn by_id(added: HashMap<String, u32>) -> Result<BTreeMap<u32, AddedToken>> {
    let mut tokens = BTreeMap::new();
    for (content, id) in added {
        let token = AddedToken { special: false, normalized: true, ..AddedToken::special(&content) };
        if let Some(other) = tokens.insert(id, token) {
            let other = other.content;
            return Err(bad(format!("added_tokens.json gives the id {id} twice, to {other:?} and to {content:?}")));
        }
    }
    Ok(tokens)
}

/// The specification in `vocab.json` and `merges.txt`.
pub(super) fn vocab_merges(vocab_json: &[u8], merges_txt: &[u8]) -> Result<TokenizerSpec> {
    let tokens = in_order(parse("vocab.json", TOKENS_AND_IDS, vocab_json)?, "vocab.json")?;
    let merges = merges_txt.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(merges_txt);
    refuse_other_text(merges)?;
    let merges = std::str::from_utf8(merges)
        .map_err(|error| bad(format!("merges.txt is not UTF-8 from byte {} on", error.valid_up_to())))?;
    // As the library does, a line of the version says nothing wherever it stands. A blank at the end of a line is no
    // part of a token: in the byte alphabet it would be another character.
    let merges = merges.lines().map(|line| match line.starts_with("#version") {
        true => String::new(),
        false => line.trim_end_matches([' ', '\t', '\r']).to_owned(),
    });
    Ok(TokenizerSpec { tokens, merges: merges.collect(), lines: true, ..TokenizerSpec::default() })
}

/// Refuses what plainly is no list of merges. A merge may begin as a web page or a JSON file does, but no line of one
/// holds a zero.
fn refuse_other_text(merges: &[u8]) -> Result<()> {
    let text = merges.trim_ascii_start();
    let begins = |with: &[u8]| text.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with));
    let what = if text.is_empty() {
        None
    } else if matches!(text, [first, second, ..] if (*first == 0) != (*second == 0)) {
        Some("text in UTF-16; save it as UTF-8")
    } else if begins(b"{\"error") {
        Some("a server's error; download it again")
    } else if text.first() != Some(&b'<') || begins(b"<!doctype") || begins(b"<html") || begins(b"<?xml") {
        json_file::something_else(merges)
    } else {
        None
    };
    what.map_or(Ok(()), |what| Err(bad(format!("merges.txt is not a list of merges but {what}"))))
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

/// Adds the tokens that file `name` gives at their ids.
fn add(parts: &mut TokenizerSpec, name: &str, added: BTreeMap<u32, AddedToken>) -> Result<()> {
    let mut known: HashSet<String> = parts.added.iter().map(|token| token.content.clone()).collect();
    for (id, token) in added {
        let (content, place) = (&token.content, id as usize);
        if place >= parts.tokens.len() {
            check_id(id, content, parts.tokens.len(), name)?;
            parts.tokens.resize(place + 1, None);
        }
        match &mut parts.tokens[place] {
            Some(there) if there == content => {}
            Some(there) => {
                return Err(bad(format!("{name} gives {content:?} the id {id}, which is {there:?} in the vocabulary")));
            }
            hole => *hole = Some(content.clone()),
        }
        if known.insert(content.clone()) {
            parts.added.push(token);
        }
    }
    Ok(())
}

/// Takes the special tokens that `fields` name (`eos_token`, `pad_token`, ...) and the vocabulary has.
fn name_special(
    parts: &mut TokenizerSpec,
    roles: &mut Roles,
    file: &str,
    fields: &serde_json::Map<String, Value>,
) -> Result<()> {
    let TokenizerSpec { tokens, added, .. } = parts;
    let vocabulary: HashSet<&str> = tokens.iter().flatten().map(String::as_str).collect();
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
            match name.as_str() {
                // As good as not given.
                _ if token.content.is_empty() => continue,
                "eos_token" => roles.eos.push((token.content.clone(), format!("`eos_token` of {file}"))),
                "bos_token" => roles.bos = Some(token.content.clone()),
                _ => {}
            }
            match places.get(&token.content) {
                Some(&place) => added[place].special = true,
                None if vocabulary.contains(token.content.as_str()) => {
                    places.insert(token.content.clone(), added.len());
                    added.push(token);
                }
                // A padding token that only training needed; or one with a role, which gets an id later.
                None => {}
            }
        }
    }
    Ok(())
}

/// Makes the tokens with a role what they are. One that the vocabulary lacks gets the next id, that of the beginning
/// before that of the end, as transformers gives them.
fn give_roles(parts: &mut TokenizerSpec, roles: Roles, around: Around) {
    let Roles { bos, eos: named } = roles;
    parts.eos = named.last().map(|(content, _)| content.clone());
    let lacks = |parts: &TokenizerSpec, content: &str| !parts.tokens.iter().flatten().any(|token| token == content);
    let eos_is_new = parts.eos.as_deref().is_some_and(|content| lacks(parts, content));
    let needed = [bos.clone().filter(|_| eos_is_new || around.bos), parts.eos.clone()];
    for content in needed.into_iter().flatten() {
        if lacks(parts, &content) {
            let (id, token) = (parts.tokens.len(), quoted(&content));
            parts
                .notices
                .push(format!("the special token {token} is not in the vocabulary: it gets the next id, {id}"));
            parts.tokens.push(Some(content.clone()));
            parts.added.push(AddedToken::special(content));
        }
    }
    for (content, by) in named {
        parts.ends.extend(parts.id_of(&content).map(|id| Named { ids: vec![id], by }));
    }
    let (bos, eos) = [bos, parts.eos.clone()].map(|named| parts.id_of(named.as_deref().unwrap_or(END_OF_TEXT))).into();
    if around.bos {
        parts.put_before(bos, &format!("`add_bos_token` of {CONFIG}"));
    }
    if around.eos {
        parts.put_after(eos, &format!("`add_eos_token` of {CONFIG}"));
    }
}

impl TokenizerSpec {
    fn id_of(&self, content: &str) -> Option<u32> {
        (0..).zip(&self.tokens).find(|(_, token)| token.as_deref() == Some(content)).map(|(id, _)| id)
    }

    /// Puts the token `bos` before each prompt, as `by` asks, unless it is there already.
    pub(crate) fn put_before(&mut self, bos: Option<u32>, by: &str) {
        match bos {
            Some(id) if self.before.first() == Some(&id) => {}
            Some(id) => self.before.insert(0, id),
            None => {
                self.notices.push(format!("{by} asks for a token before each prompt, but there is none to put there"))
            }
        }
    }

    /// Puts the token `eos` after each prompt, as `by` asks, unless it is there already.
    pub(crate) fn put_after(&mut self, eos: Option<u32>, by: &str) {
        match eos {
            Some(id) if self.after.last() == Some(&id) => {}
            Some(id) => self.after.push(id),
            None => {
                self.notices.push(format!("{by} asks for a token after each prompt, but there is none to put there"))
            }
        }
    }
}

/// Reads the JSON file `name`, which should be `form`.
pub(super) fn parse<T: DeserializeOwned>(name: &str, form: &str, bytes: &[u8]) -> Result<T> {
    json_file::parse(ErrorKind::BadTokenizer, name, form, bytes)
}
