//! What the worker does while no request runs: it hashes the model's files.

use std::rc::Rc;

use super::background_hash::BackgroundHash;
use super::event_loop::MessageQueue;
use super::protocol::Event;
use super::state::Worker;
use crate::error::Error;

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
