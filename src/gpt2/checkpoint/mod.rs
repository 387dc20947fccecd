//! Published files -> a model: every tensor of the files is used or known to be superfluous, every tensor of the model
//! is found, and what cannot be loaded is refused by name and reason.
//!
//! Files are taken as they stream in, in pieces of any size, by a [`Loader`] that does no input or output;
//! so the same code reads from memory, a disk, a Blob or a download. Each tensor is converted a few rows at a time, and
//! of the file nothing else is ever held.
//!
//! ```
//! use gpt2_web::gpt2::checkpoint::{self, FilePrefix, Loader, ModelFile, Options};
//! use gpt2_web::model::LanguageModel;
//! # let folder = "tests/fixtures/checkpoints/sharded-f32";
//!
//! // What is what: by name and first bytes.
//! let names: Vec<_> = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
//! let files: Vec<_> =
//!     names.iter().map(|path| Ok((path.display().to_string(), std::fs::read(path)?))).collect::<std::io::Result<_>>()?;
//! let prefixes: Vec<_> = files
//!     .iter()
//!     .map(|(name, bytes)| FilePrefix {
//!         name,
//!         size: Some(bytes.len() as u64),
//!         bytes: &bytes[..bytes.len().min(checkpoint::SNIFF_BYTES)],
//!     })
//!     .collect();
//! let classified = checkpoint::classify(&prefixes)?;
//! let companions: Vec<_> =
//!     classified.companions.iter().map(|(place, name)| ModelFile { name, bytes: &files[*place].1 }).collect();
//!
//! // The weights, piece by piece.
//! let streams = classified.weights.iter().map(|(_, stream)| stream.clone()).collect();
//! let mut loader = Loader::new(&companions, streams, Options::default())?;
//! loader.note(&classified.notices);
//! for (place, file) in &classified.weights {
//!     loader.read_file(&file.name, files[*place].1.chunks(1000).map(Ok), &mut |_| {})?;
//! }
//! let mut model = loader.finish()?.model;
//! assert_eq!(model.feed(&[1, 2, 3])?.len(), 300);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod assemble;
mod budget;
mod choose;
mod classify;
mod foreign;
pub mod gguf;
mod gguf_header;
mod gguf_tokenizer;
mod given;
mod header;
mod header_reader;
mod index;
mod kinds;
mod known_model;
mod loader;
mod names;
#[cfg(test)]
mod oracle;
mod plan;
mod recognise;
mod refusal;
mod safetensors;
mod sniff;
mod tensor_reader;
mod tensors;
mod weights_hash;
mod wrapped;

pub use classify::{Classified, classify};
pub use given::{FilePrefix, SNIFF_BYTES, WeightsFile};
pub use header::Split;
pub use header::{Header, TensorInfo};
pub use header_reader::HeaderReader;
pub use known_model::Options;
pub use loader::{Flow, Loader};
pub use weights_hash::WeightsHash;

use super::{Gpt2, Precision};
use crate::error::Result;

/// Pieces in which [`load`] hands a file over.
const PIECE_BYTES: usize = 1 << 20;

/// A file that is in memory, as it was published.
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
        names::base_name(self.name)
    }
}

/// A kind of weights file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Hugging Face's: tensors only; configuration and tokenizer are in other files.
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

/// A model and what its files say about it.
#[derive(Debug)]
pub struct Loaded {
    /// Ready to process its first token.
    pub model: Gpt2,
    /// The tokenizer inside a GGUF file, if there is one.
    pub tokenizer: Option<gguf::Tokenizer>,
    /// Of the weights.
    pub format: Format,
    /// What most weights are held in.
    pub precision: Precision,
    /// Number of weights; those of a tied head count once.
    pub parameters: usize,
    /// Bytes that it takes in memory, with the keys and values of a full context.
    pub memory_bytes: u64,
    /// What [`WeightsHash`] gives for the weights, unless [`Options`] left that out.
    pub sha256: Option<String>,
    /// What the user should know: guesses, and matrices that are not held in the requested precision.
    pub notices: Vec<String>,
}

/// Called during loading with the bytes of weights files done and their total.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

/// Loads the model in `files` that are in memory already. Matrices are held in `precision`, or as in the file if that is
/// `None`: f16 and bf16 as f32, and quantised types other than q8_0 and q4_0 as q8_0.
///
/// # Errors
/// As [`classify`] and [`Loader`].
pub fn load(files: &[ModelFile<'_>], precision: Option<Precision>, progress: &mut Progress<'_>) -> Result<Loaded> {
    let prefixes: Vec<_> = files
        .iter()
        .map(|file| FilePrefix {
            name: file.name,
            size: Some(file.bytes.len() as u64),
            bytes: &file.bytes[..file.bytes.len().min(SNIFF_BYTES)],
        })
        .collect();
    let classified = classify(&prefixes)?;
    let companions = classified.companions.iter().map(|(place, name)| ModelFile { name, bytes: files[*place].bytes });
    let companions: Vec<_> = companions.collect();
    let streams: Vec<_> = classified.weights.iter().map(|(_, stream)| stream.clone()).collect();
    let mut loader = Loader::new(&companions, streams, Options { precision, ..Options::default() })?;
    loader.note(&classified.notices);
    for (place, file) in &classified.weights {
        let pieces = files[*place].bytes.chunks(PIECE_BYTES).map(Ok);
        loader.read_file(&file.name, pieces, &mut |loader| {
            let (done, total) = loader.progress();
            progress(done, total.unwrap_or(done));
        })?;
    }
    loader.finish()
}
