//! `tokenizer.json`: Hugging Face's one file for a whole tokenizer.
//!
//! It is read here rather than by the library's loader. That one takes every pipeline there is, so that afterwards
//! nobody could tell which of them this crate's own word splitting and byte decoding stand for; it gives added tokens
//! other ids than the file says where the two disagree; it panics on some broken merges, while everything here ends in
//! [`TokenizerSpec`], whose checks hold for every form of file; and it would bring the code of all its pipelines into the
//! module. In the tests it is the oracle.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::json::parse;

use super::added::AddedToken;
use super::bad;
use super::spec::{TokenizerSpec, Unknown, in_order};

pub(super) const NAME: &str = "tokenizer.json";

/// All of the file that decides ids. `truncation` and `padding` are not among it: they are left over from training,
/// and transformers resets them before it encodes a text.
#[derive(Deserialize)]
struct File {
    version: Option<String>,
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    decoder: Value,
    model: Model,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    #[serde(flatten)]
    token: AddedToken,
}

#[derive(Deserialize)]
struct Model {
    vocab: HashMap<String, u32>,
    merges: Vec<Merge>,
    dropout: Option<f64>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    ignore_merges: bool,
    unk_token: Option<String>,
    /// Whether one `unk_token` stands for several bytes without a token.
    #[serde(default)]
    fuse_unk: bool,
    /// Whether the tokens `<0x00>` to `<0xFF>` stand for bytes without a token, rather than `unk_token`.
    #[serde(default)]
    byte_fallback: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    /// `"a b"`, until 2024.
    Text(String),
    /// `["a", "b"]`, since.
    Pair(String, String),
}

/// What must be known before [`Model`] can be read: other kinds have other fields.
#[derive(Deserialize)]
struct Kind {
    model: ModelKind,
}

#[derive(Deserialize)]
struct ModelKind {
    /// Absent in the files published first, those of GPT-2 among them.
    r#type: Option<String>,
}

/// Reads the file.
///
/// # Errors
/// `BadTokenizer` if it is no such file, or holds something that would change the ids and is not supported.
pub(super) fn parts(bytes: &[u8]) -> Result<TokenizerSpec> {
    let form = "a tokenizer as Hugging Face's library writes it";
    let kind: Kind = parse(ErrorKind::BadTokenizer, NAME, form, bytes)?;
    if let Some(kind) = kind.model.r#type.filter(|kind| kind != "BPE") {
        return Err(unsupported("a model of the type", &kind));
    }
    let File { version, added_tokens, normalizer, pre_tokenizer, post_processor, decoder, model } =
        parse(ErrorKind::BadTokenizer, NAME, form, bytes)?;
    if let Some(version) = version.filter(|version| version != "1.0") {
        return Err(unsupported("the version", &version));
    }
    if let Some(first) = steps(&normalizer, "normalizers").first() {
        return Err(unsupported("the normalizer", kind_of(first)));
    }
    if model.dropout.is_some_and(|dropout| dropout != 0.0) {
        return Err(unsupported("the BPE option", "dropout"));
    }
    if model.ignore_merges {
        return Err(unsupported("the BPE option", "ignore_merges"));
    }
    for (name, value) in [
        ("continuing_subword_prefix", model.continuing_subword_prefix),
        ("end_of_word_suffix", model.end_of_word_suffix),
    ] {
        if value.is_some_and(|value| !value.is_empty()) {
            return Err(unsupported("the BPE option", name));
        }
    }
    let (before, after) = around(&post_processor)?;
    if let Some(step) = steps(&decoder, "decoders").into_iter().find(|step| kind_of(step) != "ByteLevel") {
        return Err(unsupported("the decoder", kind_of(step)));
    }
    let (add_prefix_space, pre_tokenize) = byte_level(&pre_tokenizer)?;

    let mut vocab = model.vocab;
    let mut added = Vec::with_capacity(added_tokens.len());
    for Added { id, token } in added_tokens {
        let content = &token.content;
        if let Some(other) = vocab.insert(content.clone(), id).filter(|&other| other != id) {
            return Err(bad(format!("{NAME} gives the added token {content:?} the ids {other} and {id}")));
        }
        added.push(token);
    }
    let merges = model.merges.into_iter().map(|merge| match merge {
        Merge::Text(merge) => merge,
        Merge::Pair(left, right) => format!("{left} {right}"),
    });
    Ok(TokenizerSpec {
        tokens: in_order(vocab, NAME)?,
        merges: merges.collect(),
        // The tokens of a fallback would be bytes of the spelling, which no decoder turns back: such a prompt is refused.
        unknown: model
            .unk_token
            .filter(|_| !model.byte_fallback)
            .map(|content| Unknown { content, fuse: model.fuse_unk }),
        added,
        before,
        after,
        add_prefix_space,
        pre_tokenize,
        ..TokenizerSpec::default()
    })
}

/// `add_prefix_space` and `use_regex` of the one pre-tokenizer.
fn byte_level(pre_tokenizer: &Value) -> Result<(bool, bool)> {
    let steps = steps(pre_tokenizer, "pretokenizers");
    if let Some(other) = steps.iter().find(|step| kind_of(step) != "ByteLevel") {
        return Err(unsupported("the pre-tokenizer", kind_of(other)));
    }
    let [step] = steps[..] else {
        return Err(bad(format!("{NAME} has {} ByteLevel pre-tokenizers; GPT-2's has one", steps.len())));
    };
    let option = |name: &str, default: bool| match step.get(name) {
        None => Ok(default),
        Some(Value::Bool(value)) => Ok(*value),
        Some(other) => Err(bad(format!("`{name}` of the pre-tokenizer in {NAME} is {other}, not true or false"))),
    };
    Ok((option("add_prefix_space", true)?, option("use_regex", true)?))
}

/// The steps of a pipeline: those of nested sequences, or the one that stands alone.
fn steps<'a>(pipeline: &'a Value, list: &str) -> Vec<&'a Value> {
    match (pipeline, pipeline.get(list).and_then(Value::as_array)) {
        (Value::Null, _) => Vec::new(),
        (_, Some(several)) if kind_of(pipeline) == "Sequence" => {
            several.iter().flat_map(|step| steps(step, list)).collect()
        }
        _ => vec![pipeline],
    }
}

/// The ids that the post-processor puts before a single text, and after it.
fn around(post_processor: &Value) -> Result<(Vec<u32>, Vec<u32>)> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for step in steps(post_processor, "processors") {
        let template = match kind_of(step) {
            "ByteLevel" => continue,
            "TemplateProcessing" => template(step),
            "BertProcessing" | "RobertaProcessing" => bert(step),
            _ => None,
        };
        let (left, right) = template.ok_or_else(|| unsupported("the post-processor", kind_of(step)))?;
        before.splice(0..0, left);
        after.extend(right);
    }
    Ok((before, after))
}

/// Those of a `TemplateProcessing`, if the text stands in its template once.
fn template(step: &Value) -> Option<(Vec<u32>, Vec<u32>)> {
    let (mut ids, mut before) = (Vec::new(), None);
    for piece in step.get("single")?.as_array()? {
        if let Some(token) = piece.pointer("/SpecialToken/id").and_then(Value::as_str) {
            let of_token = step.get("special_tokens")?.get(token)?.get("ids")?.as_array()?;
            ids.extend(of_token.iter().map(id).collect::<Option<Vec<_>>>()?);
        } else if piece.pointer("/Sequence/id")? == "A" && before.is_none() {
            before = Some(std::mem::take(&mut ids));
        } else {
            return None;
        }
    }
    Some((before?, ids))
}

/// Those of a `BertProcessing`: each of the two tokens is its content and its id.
fn bert(step: &Value) -> Option<(Vec<u32>, Vec<u32>)> {
    let token = |name: &str| Some(vec![id(step.get(name)?.get(1)?)?]);
    Some((token("cls")?, token("sep")?))
}

fn id(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

fn kind_of(step: &Value) -> &str {
    step.get("type").and_then(Value::as_str).unwrap_or("without a type")
}

fn unsupported(what: &str, which: &str) -> Error {
    bad(format!("{NAME} has {what} {which:?}, which is not supported: only GPT-2's byte-level BPE is"))
}
