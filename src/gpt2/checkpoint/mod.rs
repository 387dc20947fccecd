//! Published files -> a model: every tensor of the file is used or known to be superfluous, every tensor of the model
//! is found, and what cannot be loaded is refused by name and reason.

mod assemble;
pub mod gguf;
mod gguf_header;
mod safetensors;
mod sniff;

use crate::error::{Error, ErrorKind, Result};

use super::{Gpt2, Precision};

/// One file of a checkpoint, as it was published.
#[derive(Debug, Clone, Copy)]
pub struct ModelFile<'a> {
    /// Its name, with or without folders before it.
    pub name: &'a str,
    /// All of it.
    pub bytes: &'a [u8],
}

/// A kind of weights file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Hugging Face's: tensors only; needs `config.json` and tokenizer files beside it.
    Safetensors,
    /// llama.cpp's: tensors, configuration and tokenizer in one file.
    Gguf,
}

impl Format {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Safetensors => "safetensors",
            Self::Gguf => "GGUF",
        }
    }
}

/// A model and what its files said beside it.
#[derive(Debug)]
pub struct Loaded {
    /// Ready to process its first token.
    pub model: Gpt2,
    /// The tokenizer inside the weights file, if there is one.
    pub tokenizer: Option<gguf::Tokenizer>,
    /// Of the weights file.
    pub format: Format,
    /// What most matrices are held in.
    pub precision: Precision,
    /// Number of weights; those of a tied head count once.
    pub parameters: usize,
}

/// Called during loading with the tensors done and their total.
pub type Progress<'a> = dyn FnMut(usize, usize) + 'a;

/// Loads the model in `files`: one GGUF file, or one safetensors file and its `config.json`. Tokenizer files among
/// them are left to the tokenizer. Matrices are held in `precision`, or as in the file if that is `None` (f16 and
/// bf16 as f32).
///
/// # Errors
/// `NotAModel`, `DamagedModel`, `UnsupportedModel`, `MissingTensor`, `UnexpectedTensor`, `WrongShape` or
/// `BadTokenizer`; the sentence names the file, field or tensor. Nothing is allocated on the word of a header alone.
pub fn load(files: &[ModelFile<'_>], precision: Option<Precision>, progress: &mut Progress<'_>) -> Result<Loaded> {
    let named = |file: &ModelFile<'_>| file.name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    if let Some(index) = files.iter().map(named).find(|name| name.ends_with(".index.json")) {
        return Err(unsupported(format!(
            "{index} belongs to a model in several files (shards); choose one in a single file"
        )));
    }
    let (mut config, mut weights) = (None, None);
    for file in files {
        let name = named(file);
        match name.as_str() {
            "config.json" => config = Some(file.bytes),
            "vocab.json"
            | "merges.txt"
            | "tokenizer.json"
            | "tokenizer_config.json"
            | "special_tokens_map.json"
            | "added_tokens.json"
            | "generation_config.json" => {}
            _ => {
                if let Some((other, _)) = weights.replace((name.clone(), file.bytes)) {
                    return Err(unsupported(format!(
                        "there are two weights files, {other} and {name}; choose a model in a single file"
                    )));
                }
            }
        }
    }
    let Some((name, bytes)) = weights else {
        return Err(Error::new(ErrorKind::NotAModel, "there is no weights file; give a .gguf or a .safetensors file"));
    };
    match sniff::format(&name, bytes)? {
        Format::Gguf => gguf::load(bytes, precision, progress),
        Format::Safetensors => {
            let config = config.ok_or_else(|| {
                unsupported(format!(
                    "{name} does not say what model it is; give the config.json from the same page with it"
                ))
            })?;
            sniff::refuse_foreign("config.json", config)?;
            safetensors::load(config, bytes, precision, progress)
        }
    }
}

fn unsupported(message: String) -> Error {
    Error::new(ErrorKind::UnsupportedModel, message)
}
