//! llama.cpp's GGUF: configuration, tokenizer and tensors in one file.

use std::collections::HashMap;

use candle_core::Device;
use candle_core::quantized::GgmlDType;
use candle_nn::Activation;
use candle_transformers::quantized_var_builder::VarBuilder;

use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::{Config, Gpt2, Precision};

use super::assemble::{Assembled, Entries, Entry, Names, Numbers, assemble, check, full_name};
use super::gguf_header::{Header, Value};
use super::{Format, Loaded, Progress};

const NAMES: Names = Names {
    block: "blk",
    token_embedding: "token_embd",
    position_embedding: "position_embd",
    norm: "output_norm",
    head: "output",
    attention_norm: "attn_norm",
    qkv: "attn_qkv",
    attention_output: "attn_output",
    mlp_norm: "ffn_norm",
    mlp_up: "ffn_up",
    mlp_down: "ffn_down",
    inputs_first: false,
};

/// The tokenizer a GGUF file holds: GPT-2's byte-level BPE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokenizer {
    /// The tokens in the order of their ids, in the byte-level spelling (`Ġ` for a space).
    pub tokens: Vec<String>,
    /// The merges, best first: two tokens with a space between them.
    pub merges: Vec<String>,
    /// The id of the end-of-text token.
    pub eos: Option<u32>,
}

/// Reads just the tokenizer of a GGUF file.
///
/// # Errors
/// `BadTokenizer` if the file holds none or one of another kind; `NotAModel`, `DamagedModel` or `UnsupportedModel` if
/// the header cannot be read.
pub fn tokenizer(bytes: &[u8]) -> Result<Tokenizer> {
    read_tokenizer(&Header::read_metadata(bytes)?)?
        .ok_or_else(|| bad_tokenizer("the GGUF file holds no tokenizer; give vocab.json and merges.txt".into()))
}

/// Loads a model from one GGUF file.
pub(super) fn load(bytes: &[u8], precision: Option<Precision>, progress: &mut Progress<'_>) -> Result<Loaded> {
    let header = Header::read(bytes)?;
    let mut entries = Entries::new();
    for tensor in &header.tensors {
        let entry = Entry { shape: tensor.shape.clone(), dtype: tensor.dtype, bytes: tensor.bytes };
        if entries.insert(tensor.name.to_owned(), entry).is_some() {
            return Err(damaged(format!("the GGUF file holds the tensor {} twice", tensor.name)));
        }
    }
    let config = read_config(&header.metadata, &entries)?;
    check(&config, &NAMES, &entries)?;
    let tokenizer = read_tokenizer(&header.metadata)?;
    if let Some(tokenizer) = &tokenizer
        && tokenizer.tokens.len() > config.vocab_size
    {
        return Err(bad_tokenizer(format!(
            "the tokenizer of the GGUF file has {} tokens, and the model knows {}",
            tokenizer.tokens.len(),
            config.vocab_size
        )));
    }
    let tensors = VarBuilder::from_gguf_buffer(bytes, &Device::Cpu)?;
    let read = |scope: &str, name: &str| {
        let shape = entries[&full_name(scope, name)].shape.as_slice();
        let tensor = if scope.is_empty() { tensors.get(shape, name)? } else { tensors.pp(scope).get(shape, name)? };
        Ok(match tensor.dtype() {
            GgmlDType::Q8_0 => Numbers::Q8_0(tensor),
            _ => Numbers::F32(tensor.dequantize(&Device::Cpu)?),
        })
    };
    let Assembled { network, precision, parameters } = assemble(&config, &NAMES, &entries, &read, precision, progress)?;
    Ok(Loaded { model: Gpt2::new(config, network), tokenizer, format: Format::Gguf, precision, parameters })
}

/// The hyperparameters, under llama.cpp's names. The vocabulary is as large as the token embedding.
fn read_config(metadata: &HashMap<&str, Value<'_>>, entries: &Entries<'_>) -> Result<Config> {
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
    let embedding = format!("{}.weight", NAMES.token_embedding);
    let vocab_size = entries.get(&embedding).map(|entry| entry.shape[0]).ok_or_else(|| {
        Error::new(ErrorKind::MissingTensor, format!("the GGUF file does not hold the tensor {embedding}"))
    })?;
    Config {
        vocab_size,
        n_positions: size("gpt2.context_length")?,
        n_embd: size("gpt2.embedding_length")?,
        n_layer: size("gpt2.block_count")?,
        n_head: size("gpt2.attention.head_count")?,
        n_inner: size("gpt2.feed_forward_length")?,
        layer_norm_epsilon: epsilon,
        activation: Activation::NewGelu,
        scale_attn_weights: true,
        scale_attn_by_inverse_layer_idx: false,
        tie_word_embeddings: true,
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
    let tokens: Vec<String> = strings("tokenizer.ggml.tokens")?;
    let eos = match metadata.get("tokenizer.ggml.eos_token_id") {
        None => None,
        Some(&Value::Integer(id)) if id < tokens.len() as u64 => Some(id as u32),
        Some(other) => {
            return Err(bad_tokenizer(format!("the end-of-text token of the GGUF file is no token: {other}")));
        }
    };
    Ok(Some(Tokenizer { merges: strings("tokenizer.ggml.merges")?, tokens, eos }))
}

fn damaged(message: String) -> Error {
    Error::new(ErrorKind::DamagedModel, message)
}

fn bad_tokenizer(message: String) -> Error {
    Error::new(ErrorKind::BadTokenizer, message)
}
