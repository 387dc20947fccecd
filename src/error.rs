//! One error type for the whole crate: a kind from a closed list, for programs, and a sentence, for people.

use serde::Serialize;

/// What went wrong, from a closed list. The spelling on the wire is snake case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// A message that does not follow the protocol.
    InvalidRequest,
    /// An unknown option; the sentence names the nearest known one.
    UnknownOption,
    /// A known option with a value outside its range.
    InvalidOption,
    /// Another request is running.
    Busy,
    /// There is no model to generate with.
    NotLoaded,
    /// The request was cancelled before it had a result, for example a load.
    Cancelled,
    /// The prompt alone does not fit into the context.
    PromptTooLong,
    /// The bytes are not a model file this crate reads: HTML, a ZIP, a pickle.
    NotAModel,
    /// A model file that is cut short or contradicts itself.
    DamagedModel,
    /// A well-formed model file with something that is not supported; the sentence names it.
    UnsupportedModel,
    /// The model needs a tensor that the file does not hold.
    MissingTensor,
    /// The file holds a tensor the model does not know.
    UnexpectedTensor,
    /// A tensor has another shape than the configuration says.
    WrongShape,
    /// The tokenizer's files are missing, broken, or belong to another model; or the prompt holds what the tokenizer or
    /// the model has no token for.
    BadTokenizer,
    /// The stream of a file broke.
    DownloadFailed,
    /// Not enough memory; the sentence says how much was needed.
    OutOfMemory,
    /// The model's logits held NaN or an infinity.
    NonFinite,
    /// The engine failed in a way that is a bug.
    Engine,
    /// The engine panicked; the worker is dead.
    Panic,
}

/// A kind and a sentence that says what was wrong and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// For programs.
    pub kind: ErrorKind,
    /// For people.
    pub message: String,
    /// Of a model that is `OutOfMemory`: it would fit if the one in use were freed first.
    pub fits_alone: bool,
}

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), fits_alone: false }
    }
}

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
