//! llama.cpp's GGUF: configuration, tokenizer and tensors in one file.

use std::collections::HashMap;

use super::Format;
use super::gguf_header::{RawHeader, Value};
pub use super::gguf_tokenizer::Tokenizer;
use super::header::{Header, Split, TensorInfo, Unread};
use super::kinds;
use super::tensors::{Names, TensorKind};
use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::Config;

pub(super) const NAMES: Names = Names {
    block: "blk",
    single: [
        ("token_embd", TensorKind::TokenEmbedding),
        ("position_embd", TensorKind::PositionEmbedding),
        ("output_norm", TensorKind::Norm),
        ("output", TensorKind::LmHead),
    ],
    of_block: [
        ("attn_norm", TensorKind::AttentionNorm),
        ("attn_qkv", TensorKind::Qkv),
        ("attn_output", TensorKind::AttentionOutput),
        ("ffn_norm", TensorKind::MlpNorm),
        ("ffn_up", TensorKind::MlpUp),
        ("ffn_down", TensorKind::MlpDown),
    ],
    inputs_first: false,
};

/// The name of the token embedding, whose rows are the vocabulary.
const EMBEDDING: &str = "token_embd.weight";

// Kinds of tokens, as llama.cpp numbers them.
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;
const UNUSED: u64 = 5;

/// The key of the end-of-text token.
pub(crate) const EOS: &str = "tokenizer.ggml.eos_token_id";

/// The keys of other ids at which llama.cpp ends a text: the end of a turn, and of a message.
const ENDS: [&str; 2] = ["tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];

/// Reads the header of the GGUF file `name` in front of `bytes`.
pub(super) fn header(name: &str, bytes: &[u8], size: Option<u64>) -> Result<Header, Unread> {
    let raw = RawHeader::read(name, bytes, size)?;
    if let Some(what) = kinds::no_model(&raw.metadata) {
        return Err(Error::new(ErrorKind::NotAModel, format!("{name} is {what}")).into());
    }
    let part = kinds::split(&raw.metadata);
    // Only the first part has the configuration.
    let config = part.is_none_or(|part| part.number == 0).then(|| read_config(&raw.metadata, &raw.tensors, part));
    let tokenizer = read_tokenizer(&raw.metadata);
    let RawHeader { tensors, data, alignment, .. } = raw;
    Ok(Header { format: Format::Gguf, config, part, tokenizer, tensors, data, alignment })
}

/// The hyperparameters, under llama.cpp's names. The vocabulary is as large as the token embedding.
fn read_config(metadata: &HashMap<&str, Value<'_>>, tensors: &[TensorInfo], part: Option<Split>) -> Result<Config> {
    match metadata.get("general.architecture") {
        Some(Value::String("gpt2")) => {}
        Some(Value::String(other)) => {
            return Err(Error::new(
                ErrorKind::UnsupportedModel,
                format!("the GGUF file holds a model of the architecture {other}; only gpt2 is supported"),
            ));
        }
        _ => return Err(damaged("the GGUF file does not say its `general.architecture`".into())),
    }
    let size = |key: &str| match metadata.get(key) {
        Some(&Value::Integer(number)) => usize::try_from(number)
            .map_err(|_| damaged(format!("`{key}` of the GGUF file is {number}, more than any model has"))),
        Some(_) => Err(damaged(format!("`{key}` of the GGUF file is no whole number"))),
        None => Err(damaged(format!("the GGUF file does not say its `{key}`"))),
    };
    let epsilon = match metadata.get("gpt2.attention.layer_norm_epsilon") {
        Some(&Value::Float(epsilon)) => epsilon,
        _ => return Err(damaged("the GGUF file does not say its `gpt2.attention.layer_norm_epsilon`".into())),
    };
    let embedding = tensors.iter().find(|tensor| tensor.name == EMBEDDING);
    let vocab_size = match (embedding.and_then(|tensor| tensor.shape.first().copied()), part) {
        (Some(rows), _) => rows,
        // It is in a later part; the loader checks it then.
        (None, Some(_)) => 1,
        (None, None) if tensors.is_empty() => {
            return Err(Error::new(
                ErrorKind::MissingTensor,
                "the GGUF file holds no weights, only a tokenizer; give the model's weights with it",
            ));
        }
        (None, None) => {
            return Err(Error::new(
                ErrorKind::MissingTensor,
                format!("the GGUF file does not hold the tensor {EMBEDDING}"),
            ));
        }
    };
    Config {
        vocab_size,
        n_positions: size("gpt2.context_length")?,
        n_embd: size("gpt2.embedding_length")?,
        n_layer: size("gpt2.block_count")?,
        n_head: size("gpt2.attention.head_count")?,
        n_inner: size("gpt2.feed_forward_length")?,
        layer_norm_epsilon: epsilon,
        ..Config::default()
    }
    .checked()
}

fn read_tokenizer(metadata: &HashMap<&str, Value<'_>>) -> Result<Option<Tokenizer>> {
    let Some(model) = metadata.get("tokenizer.ggml.model") else { return Ok(None) };
    if model != &Value::String("gpt2") {
        return Err(bad_tokenizer(format!("the tokenizer of the GGUF file is not GPT-2's: {model}")));
    }
    match metadata.get("tokenizer.ggml.pre") {
        None | Some(Value::String("gpt-2" | "default")) => {}
        Some(other) => {
            return Err(bad_tokenizer(format!("the tokenizer of the GGUF file cuts text in another way: {other}")));
        }
    }
    let strings = |key: &str| match metadata.get(key) {
        Some(Value::Strings(strings)) => Ok(strings.iter().map(|&string| string.to_owned()).collect()),
        _ => Err(bad_tokenizer(format!("the GGUF file does not hold `{key}`"))),
    };
    let mut tokens: Vec<String> = strings("tokenizer.ggml.tokens")?;
    let types: &[u64] = match metadata.get("tokenizer.ggml.token_type") {
        None => &[],
        Some(Value::Integers(types)) if types.len() == tokens.len() => types,
        Some(other) => {
            let count = tokens.len();
            return Err(bad_tokenizer(format!(
                "`tokenizer.ggml.token_type` of the GGUF file is {other}, not a type for each of {count} tokens"
            )));
        }
    };
    // Names that llama.cpp's converter makes up for ids a padded vocabulary has no tokens for.
    tokens.truncate(types.iter().rposition(|&kind| kind != UNUSED).map_or(tokens.len(), |last| last + 1));
    let of_type = |which| (0..).zip(types).filter(|&(_, &kind)| kind == which).map(|(id, _)| id).collect::<Vec<u32>>();
    let made_up = |id: &u32| tokens.get(*id as usize).is_some_and(|token| *token == format!("[PAD{id}]"));
    let unused = of_type(UNUSED).into_iter().filter(made_up).collect();
    let add_space_prefix = match metadata.get("tokenizer.ggml.add_space_prefix") {
        None => false,
        Some(&Value::Bool(value)) => value,
        Some(other) => {
            return Err(bad_tokenizer(format!(
                "`tokenizer.ggml.add_space_prefix` of the GGUF file is neither true nor false: {other}"
            )));
        }
    };
    let mut notices = Vec::new();
    let mut id = |key: &'static str| match metadata.get(key)? {
        &Value::Integer(id) if id < tokens.len() as u64 => Some(id as u32),
        other => {
            notices.push(format!("`{key}` of the GGUF file is {other}, which is no token: it is ignored"));
            None
        }
    };
    let bos = id("tokenizer.ggml.bos_token_id");
    let eos = id(EOS);
    let ends: Vec<_> = ENDS.into_iter().filter_map(|key| Some((key, id(key)?))).collect();
    let mut flag = |key: &str| match metadata.get(key) {
        None => false,
        Some(&Value::Bool(value)) => value,
        Some(other) => {
            notices.push(format!("`{key}` of the GGUF file is neither true nor false but {other}: it is ignored"));
            false
        }
    };
    let (add_bos, add_eos) = (flag("tokenizer.ggml.add_bos_token"), flag("tokenizer.ggml.add_eos_token"));
    Ok(Some(Tokenizer {
        merges: strings("tokenizer.ggml.merges")?,
        bos,
        eos,
        ends,
        add_bos,
        add_eos,
        control: of_type(CONTROL),
        user_defined: of_type(USER_DEFINED),
        unused,
        tokens,
        add_space_prefix,
        notices,
    }))
}

/// Refuses a tokenizer with more tokens than the model has ids, not counting added tokens.
pub(super) fn check_vocabulary(tokenizer: Option<&Tokenizer>, config: Option<&Config>) -> Result<()> {
    let (Some(tokenizer), Some(config)) = (tokenizer, config) else { return Ok(()) };
    let added =
        |id: u32| [&tokenizer.control, &tokenizer.user_defined].iter().any(|ids| ids.binary_search(&id).is_ok());
    let base = (0..tokenizer.tokens.len()).rfind(|&id| !added(id as u32)).map_or(0, |last| last + 1);
    if base > config.vocab_size {
        return Err(bad_tokenizer(format!(
            "the tokenizer of the GGUF file has {} tokens, and the model knows {}",
            tokenizer.tokens.len(),
            config.vocab_size
        )));
    }
    Ok(())
}

/// The error for a GGUF file without the tokenizer it was needed for.
pub(crate) fn no_tokenizer(name: &str) -> Error {
    bad_tokenizer(format!("{name} holds no tokenizer; give vocab.json and merges.txt"))
}

fn damaged(message: String) -> Error {
    Error::new(ErrorKind::DamagedModel, message)
}

fn bad_tokenizer(message: String) -> Error {
    Error::new(ErrorKind::BadTokenizer, message)
}
