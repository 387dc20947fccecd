//! What the header of a weights file says, and reading it from pieces of any size.

use candle_core::quantized::GgmlDType;

use super::kinds::Split;
use super::{Format, gguf, safetensors, sniff};
use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::Config;

/// The longest header that is read, as the safetensors format defines it. GPT-2 XL's has 60 KB, a GGUF file's with
/// GPT-2's tokenizer 2 MB.
pub(super) const MOST_HEADER_BYTES: u64 = 100_000_000;

/// Enough to tell what a file is.
const FIRST_LOOK: u64 = 512;

/// What a weights file says of itself before its numbers.
#[derive(Debug)]
pub struct Header {
    /// Of the file.
    pub format: Format,
    /// The hyperparameters a GGUF file holds.
    pub config: Option<Result<Config>>,
    /// The part of a model that a GGUF file is, where it is in several.
    pub part: Option<Split>,
    /// The tokenizer a GGUF file holds.
    pub tokenizer: Result<Option<gguf::Tokenizer>>,
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

/// Why a header could not be read from the bytes so far.
pub(super) enum Unread {
    /// At least so many bytes of the file are needed.
    Short(u64),
    /// It never will.
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
    fn checked(mut self, name: &str, size: Option<u64>) -> Result<Self> {
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

/// Collects the beginning of a file until its header is complete.
pub struct HeaderReader {
    name: String,
    size: Option<u64>,
    bytes: Vec<u8>,
    /// As many bytes as the next attempt needs.
    wanted: u64,
}

impl HeaderReader {
    /// A reader for the file `name`, of `size` bytes if that is known.
    pub fn new(name: &str, size: Option<u64>) -> Self {
        Self {
            name: name.to_owned(),
            size,
            bytes: Vec::new(),
            wanted: size.map_or(FIRST_LOOK, |size| size.min(FIRST_LOOK)),
        }
    }

    /// Takes bytes of the file from the front of `bytes`, until the header is complete; then gives it.
    ///
    /// # Errors
    /// `NotAModel`, `DamagedModel` or `UnsupportedModel`.
    pub fn push(&mut self, bytes: &mut &[u8]) -> Result<Option<Header>> {
        loop {
            let missing = self.wanted.saturating_sub(self.bytes.len() as u64);
            let (taken, rest) = bytes.split_at(usize::try_from(missing).unwrap_or(usize::MAX).min(bytes.len()));
            self.bytes.extend_from_slice(taken);
            *bytes = rest;
            if (self.bytes.len() as u64) < self.wanted {
                return Ok(None);
            }
            if let Some(header) = self.attempt(false)? {
                return Ok(Some(header));
            }
        }
    }

    /// The file has ended: gives the header, or says what is wrong.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn end(&mut self) -> Result<Header> {
        self.attempt(true)?.ok_or_else(|| damaged(format!("{} has no complete header", self.name)))
    }

    /// All bytes taken so far: the header, and perhaps the beginning of the data.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn attempt(&mut self, ended: bool) -> Result<Option<Header>> {
        let (name, have) = (self.name.as_str(), self.bytes.len() as u64);
        // What is not there yet may come, unless it is known that the file has no more.
        let size = if ended { Some(have) } else { self.size };
        let header = match sniff::format(name, &self.bytes)? {
            Format::Gguf => gguf::header(name, &self.bytes, size),
            Format::Safetensors => safetensors::header(name, &self.bytes, size),
        };
        match header {
            Ok(header) => header.checked(name, size).map(Some),
            Err(Unread::Bad(error)) => Err(error),
            Err(Unread::Short(needed)) if size.is_some_and(|size| needed > size) => Err(damaged(format!(
                "the header of {name} goes on to byte {needed}, and the file has {}; it is cut short, download it again",
                size.unwrap_or(have)
            ))),
            Err(Unread::Short(needed)) if needed > MOST_HEADER_BYTES => Err(Error::new(
                ErrorKind::UnsupportedModel,
                format!("the header of {name} has over {needed} bytes; at most {MOST_HEADER_BYTES} are supported"),
            )),
            Err(Unread::Short(needed)) => {
                // Growing by a factor keeps the work of repeated attempts in proportion to the header.
                let more = self.size.map_or(4 * have, |size| size.min(4 * have));
                self.wanted = needed.max(more);
                Ok(None)
            }
        }
    }
}

fn damaged(message: String) -> Error {
    Error::new(ErrorKind::DamagedModel, message)
}
