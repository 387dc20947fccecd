//! The header of a weights file, in either format.

use candle_core::quantized::GgmlDType;

use super::Format;
use super::gguf_tokenizer::Tokenizer;
use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::Config;

/// The longest header that is read, as the safetensors format defines it. GPT-2 XL's has 60 KB, a GGUF file's with
/// GPT-2's tokenizer 2 MB.
pub(super) const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The header of a weights file.
#[derive(Debug)]
pub struct Header {
    /// Of the file.
    pub format: Format,
    /// The hyperparameters a GGUF file holds.
    pub config: Option<Result<Config>>,
    /// Which part of a split GGUF model this file is, if it is one.
    pub part: Option<Split>,
    /// The tokenizer a GGUF file holds.
    pub tokenizer: Result<Option<Tokenizer>>,
    /// The tensors, in the order of their data.
    pub tensors: Vec<TensorInfo>,
    /// Where the data begins in the file.
    pub data: u64,
    /// The data of each tensor begins at the first multiple of this after the one before it.
    pub(super) alignment: u64,
}

/// One tensor, as a header describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name in the file.
    pub name: String,
    /// What the format calls the type of its numbers.
    pub type_name: String,
    /// The type, if it can be read.
    pub(super) dtype: Option<GgmlDType>,
    /// Outermost dimension first.
    pub shape: Vec<usize>,
    /// Where its data begins, counted from where the data of all begins.
    pub begin: u64,
    /// Where its data ends.
    pub end: u64,
}

/// One of several files that llama.cpp splits a GGUF file into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Counted from 0.
    pub number: u64,
    /// How many there are.
    pub count: u64,
}

impl Split {
    /// Whether the parts of these `numbers`, one of which is this part in the file `name`, are all there are.
    ///
    /// # Errors
    /// `MissingTensor`, with the parts that are missing; `UnsupportedModel` for parts of several models.
    pub(super) fn check(self, name: &str, numbers: &[u64]) -> Result<()> {
        let Self { number, count } = self;
        let mut missing = (0..count).filter(|number| !numbers.contains(number)).map(|number| (number + 1).to_string());
        let first: Vec<_> = missing.by_ref().take(2).collect();
        let merge = "or make one file of all with `llama-gguf-split --merge`";
        if !first.is_empty() {
            let more = if missing.next().is_some() { " and others" } else { "" };
            let list = match first.as_slice() {
                [one] => format!("part {one} is"),
                several => format!("parts {}{more} are", several.join(if more.is_empty() { " and " } else { ", " })),
            };
            return Err(Error::new(
                ErrorKind::MissingTensor,
                format!(
                    "{name} is part {} of a GGUF file in {count} parts, and {list} missing; give all parts, {merge}",
                    number.saturating_add(1)
                ),
            ));
        }
        if numbers.len() as u64 != count {
            return Err(Error::new(
                ErrorKind::UnsupportedModel,
                format!(
                    "{name} is part {} of {count} of a GGUF file, and there are {} GGUF files; give the parts of one \
                     model, each once, {merge}",
                    number.saturating_add(1),
                    numbers.len()
                ),
            ));
        }
        Ok(())
    }
}

/// Why a header could not be read from the bytes so far.
pub(super) enum Unread {
    /// At least this many bytes of the file are needed.
    Short(u64),
    /// The header is invalid.
    Bad(Error),
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Self::Bad(error)
    }
}

impl Header {
    /// Where the data of the last tensor ends, counted from the beginning of the file.
    pub fn end(&self) -> u64 {
        self.tensors.last().map_or(self.data, |tensor| self.data.saturating_add(tensor.end))
    }

    /// Puts the tensors in the order of their data, which may have no gaps or overlaps and must fit into the file.
    pub(super) fn checked(mut self, name: &str, size: Option<u64>) -> Result<Self> {
        // One without data comes before the one that begins at the same place.
        self.tensors.sort_by_key(|tensor| (tensor.begin, tensor.end));
        let mut expected = 0;
        for TensorInfo { name: tensor, begin, end, .. } in &self.tensors {
            if *begin != expected {
                return Err(damaged(format!(
                    "the data of tensor {tensor} begins at byte {begin} of the data, and the one before it ends so that it \
                     must be {expected}; download {name} again"
                )));
            }
            let in_file = self.data.saturating_add(*end);
            if let Some(size) = size.filter(|size| in_file > *size) {
                return Err(damaged(format!(
                    "the data of tensor {tensor} ends at byte {in_file} of {name}, which has {size}; it is cut short, \
                     download it again"
                )));
            }
            expected = end.checked_next_multiple_of(self.alignment).unwrap_or(u64::MAX);
        }
        if self.format == Format::Safetensors && size.is_some_and(|size| self.end() < size) {
            return Err(trailing(name, self.end()));
        }
        Ok(self)
    }
}

/// The error of a safetensors file that goes on after its tensors.
pub(super) fn trailing(name: &str, end: u64) -> Error {
    damaged(format!("{name} goes on after its last tensor, which ends at byte {end}; download it again"))
}

pub(super) fn damaged(message: String) -> Error {
    Error::new(ErrorKind::DamagedModel, message)
}
