//! The SHA-256 of a model's files, computed when the model is ready already: hashing takes longer than all else of a
//! load, and nothing waits for it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::event_loop::MessageQueue;
use super::protocol::Event;
use super::source::Source;
use super::worker::Worker;
use crate::error::{Error, Result};
use crate::gpt2::checkpoint::WeightsHash;

/// The SHA-256 of one model, on its way.
pub struct BackgroundHash {
    /// The load that brought the model.
    pub load: u32,
    /// Absent while it is worked on.
    rest: RefCell<Option<Hashing>>,
}

impl BackgroundHash {
    /// Of the model of the request `load`, whose weights are in `files`, from their beginning.
    pub fn new(load: u32, files: Vec<(String, Source)>) -> Self {
        let hashing = Hashing { files: files.into(), fingerprint: WeightsHash::default(), read: None };
        Self { load, rest: RefCell::new(Some(hashing)) }
    }

    /// What is left to do, if nobody is at it.
    pub fn take(&self) -> Option<Hashing> {
        self.rest.take()
    }

    /// Leaves what is left to do for later.
    pub fn put_back(&self, rest: Hashing) {
        self.rest.replace(Some(rest));
    }
}

/// What is left to do.
pub struct Hashing {
    /// With the names the weights go by.
    files: VecDeque<(String, Source)>,
    fingerprint: WeightsHash,
    /// Read, and not hashed yet.
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

impl Worker {
    /// Goes on with the SHA-256 of the model until it is known or a request comes.
    pub(super) async fn hash_while_idle(&self) {
        let Some(background_hash) = self.background_hash.borrow().clone() else { return };
        // Absent if the one before is still at it: it only waits for a piece of a file.
        let Some(mut hashing) = background_hash.take() else { return };
        // That of the requests has room for one who waits, and the next request may come at any moment.
        let Ok(queue) = MessageQueue::new() else { return };
        let outcome = loop {
            hashing.read().await;
            match self.state(&background_hash) {
                State::Idle => {}
                State::Busy => return background_hash.put_back(hashing),
                State::Gone => return,
            }
            if let Some(outcome) = hashing.hash() {
                break outcome;
            }
            if queue.run().await.is_err() {
                return;
            }
            match self.state(&background_hash) {
                State::Idle => {}
                State::Busy => return background_hash.put_back(hashing),
                State::Gone => return,
            }
        };
        self.background_hash.take();
        let (model_sha256, notice) = match outcome {
            Ok(sha256) => (Some(sha256), None),
            Err(error) => (None, Some(never_known(&error))),
        };
        if let Some(engine) = self.engine.borrow_mut().as_mut() {
            engine.identity.model_sha256.clone_from(&model_sha256);
        }
        self.send(Event::Hashed { id: background_hash.load, model_sha256, notice });
    }

    /// Whether it is time to go on with `background_hash`.
    fn state(&self, background_hash: &Rc<BackgroundHash>) -> State {
        if !self.background_hash.borrow().as_ref().is_some_and(|current| Rc::ptr_eq(current, background_hash)) {
            State::Gone
        } else if self.running.borrow().is_some() {
            State::Busy
        } else {
            State::Idle
        }
    }
}

/// Of the model whose SHA-256 is on its way.
enum State {
    /// It is there, and no request runs.
    Idle,
    /// It is there, and a request runs.
    Busy,
    /// It was unloaded or replaced.
    Gone,
}

fn never_known(error: &Error) -> String {
    format!(
        "the SHA-256 of the model will not be known, and records go without it: {error}. The model itself is in memory"
    )
}
