//! The SHA-256 of a model's files, computed when the model is ready already: hashing takes longer than all else of a
//! load, and nothing waits for it.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::source::Source;
use crate::error::{Error, Result};
use crate::gpt2::checkpoint::WeightsHash;

/// The unfinished SHA-256 of one model.
pub struct BackgroundHash {
    /// The load that brought the model.
    pub load: u32,
    /// Empty while it is being worked on.
    rest: RefCell<Option<Hashing>>,
}

impl BackgroundHash {
    /// Of the model of the request `load`, whose weights are in `files`, from their beginning.
    pub fn new(load: u32, files: Vec<(String, Source)>) -> Self {
        let hashing = Hashing { files: files.into(), fingerprint: WeightsHash::default(), read: None };
        Self { load, rest: RefCell::new(Some(hashing)) }
    }

    /// The remaining work, if it is not being done.
    pub fn take(&self) -> Option<Hashing> {
        self.rest.take()
    }

    /// Puts the remaining work back for later.
    pub fn put_back(&self, rest: Hashing) {
        self.rest.replace(Some(rest));
    }
}

/// The remaining work.
pub struct Hashing {
    /// With the names the weights go by.
    files: VecDeque<(String, Source)>,
    fingerprint: WeightsHash,
    /// Read but not hashed.
    read: Option<Result<Option<Vec<u8>>>>,
}

impl Hashing {
    /// Reads the next piece, unless there is one still to be hashed.
    pub async fn read(&mut self) {
        if let (None, Some((_, file))) = (&self.read, self.files.front_mut()) {
            self.read = Some(file.read().await);
        }
    }

    /// Hashes what was read. Tells the SHA-256 in hexadecimal after the last piece, or why it never will be known.
    pub fn hash(&mut self) -> Option<Result<String, Error>> {
        match self.read.take() {
            Some(Ok(Some(bytes))) => self.fingerprint.push(&bytes),
            Some(Err(error)) => return Some(Err(error)),
            Some(Ok(None)) => {
                if let Some((name, _)) = self.files.pop_front() {
                    self.fingerprint.end_file(&name);
                }
            }
            None => {}
        }
        self.files.is_empty().then(|| Ok(std::mem::take(&mut self.fingerprint).finish()))
    }
}
