//! The SHA-256 of a model's files, computed when the model is ready already: hashing takes longer than all else of a
//! load, and nothing needs it before the first record.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::source::Source;
use crate::error::Result;
use crate::gpt2::checkpoint::Fingerprint;

/// What is known of one model's SHA-256.
pub struct Identification {
    /// Absent once there is an outcome, and while a piece is waited for.
    rest: RefCell<Option<Rest>>,
    outcome: RefCell<Option<Result<String>>>,
}

struct Rest {
    /// With the names the weights go by.
    files: VecDeque<(String, Source)>,
    fingerprint: Fingerprint,
}

impl Identification {
    /// Of a model whose SHA-256 was computed while it was loaded.
    pub fn known(sha256: String) -> Self {
        Self { rest: RefCell::default(), outcome: RefCell::new(Some(Ok(sha256))) }
    }

    /// Of the model whose weights are in `files`, from their beginning.
    pub fn of(files: Vec<(String, Source)>) -> Self {
        let rest = Rest { files: files.into(), fingerprint: Fingerprint::default() };
        Self { rest: RefCell::new(Some(rest)), outcome: RefCell::default() }
    }

    /// The SHA-256 in hexadecimal, once it is known, or why it never will be.
    pub fn outcome(&self) -> Option<Result<String>> {
        self.outcome.borrow().clone()
    }

    /// Takes the next piece of the files, unless somebody else is about to.
    pub async fn go_on(&self) {
        let Some(mut rest) = self.rest.take() else { return };
        match rest.piece().await {
            Ok(true) => drop(self.rest.replace(Some(rest))),
            Ok(false) => drop(self.outcome.replace(Some(Ok(rest.fingerprint.finish())))),
            Err(error) => drop(self.outcome.replace(Some(Err(error)))),
        }
    }
}

impl Rest {
    /// Whether there was one more.
    async fn piece(&mut self) -> Result<bool> {
        let Some((name, file)) = self.files.front_mut() else { return Ok(false) };
        match file.next().await? {
            Some(bytes) => self.fingerprint.push(&bytes),
            None => {
                self.fingerprint.end_file(name);
                self.files.pop_front();
            }
        }
        Ok(true)
    }
}
