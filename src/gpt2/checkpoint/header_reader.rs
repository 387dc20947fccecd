//! Reading a header from pieces of any size, in whichever format the file is.

use super::header::{Header, MAX_HEADER_BYTES, Unread, damaged};
use super::{Format, gguf, safetensors, sniff};
use crate::error::{Error, ErrorKind, Result};

/// Enough to tell what a file is.
const FIRST_LOOK: u64 = 512;

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
            Err(Unread::Short(needed)) if needed > MAX_HEADER_BYTES => Err(Error::new(
                ErrorKind::UnsupportedModel,
                format!("the header of {name} has over {needed} bytes; at most {MAX_HEADER_BYTES} are supported"),
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
