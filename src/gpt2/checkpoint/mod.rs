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

impl ModelFile<'_> {
    /// The name without folders.
    pub fn base_name(&self) -> &str {
        self.name.rsplit(['/', '\\']).next().unwrap_or_default()
    }
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
    /// The tokenizer inside a GGUF file, if there is one.
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

/// Loads the model in `files`: one GGUF file, or one safetensors file and its `config.json`. A GGUF file beside
/// safetensors weights is only read for its tokenizer; other tokenizer files are left to the tokenizer. Matrices are
/// held in `precision`, or as in the file if that is `None` (f16 and bf16 as f32).
///
/// # Errors
/// `NotAModel`, `DamagedModel`, `UnsupportedModel`, `MissingTensor`, `UnexpectedTensor`, `WrongShape` or
/// `BadTokenizer`; the sentence names the file, field or tensor. Nothing is allocated on the word of a header alone.
pub fn load(files: &[ModelFile<'_>], precision: Option<Precision>, progress: &mut Progress<'_>) -> Result<Loaded> {
    let weights = weights(files)?;
    let named = |name: &str| files.iter().find(|file| file.base_name() == name).map(|file| file.bytes);
    let (name, bytes) = (weights.base_name(), weights.bytes);
    match sniff::format(name, bytes)? {
        Format::Gguf => gguf::load(bytes, precision, progress),
        Format::Safetensors => {
            let config = named("config.json").ok_or_else(|| {
                unsupported(format!(
                    "{name} does not say what model it is; give the config.json from the same page with it"
                ))
            })?;
            sniff::refuse_foreign("config.json", config)?;
            let donor = files.iter().find(|file| sniff::is_gguf(file.bytes));
            let tokenizer = donor.map(|donor| gguf::tokenizer(donor.bytes)).transpose()?;
            Ok(Loaded { tokenizer, ..safetensors::load(config, bytes, precision, progress)? })
        }
    }
}

/// The file among `files` that holds the weights.
///
/// # Errors
/// `NotAModel` if there is none, `UnsupportedModel` if there are several.
pub fn weights<'a>(files: &'a [ModelFile<'a>]) -> Result<&'a ModelFile<'a>> {
    const BESIDE: [&str; 7] = [
        "config.json",
        "vocab.json",
        "merges.txt",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "generation_config.json",
    ];
    if let Some(index) = files.iter().find(|file| file.name.ends_with(".index.json")) {
        return Err(unsupported(format!(
            "{} belongs to a model in several files (shards); choose one in a single file",
            index.base_name()
        )));
    }
    let (gguf, others): (Vec<_>, Vec<_>) =
        files.iter().filter(|file| !BESIDE.contains(&file.base_name())).partition(|file| sniff::is_gguf(file.bytes));
    let mut candidates = if others.is_empty() { gguf } else { others }.into_iter();
    let Some(weights) = candidates.next() else {
        return Err(Error::new(ErrorKind::NotAModel, "there is no weights file; give a .gguf or a .safetensors file"));
    };
    match candidates.next() {
        None => Ok(weights),
        Some(other) => Err(unsupported(format!(
            "there are two weights files, {} and {}; choose a model in a single file",
            weights.base_name(),
            other.base_name()
        ))),
    }
}

fn unsupported(message: String) -> Error {
    Error::new(ErrorKind::UnsupportedModel, message)
}
