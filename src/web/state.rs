//! What the worker holds, and how it posts events.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde::Serialize;
use wasm_bindgen::prelude::*;

use super::background_hash::BackgroundHash;
use super::call::Call;
use super::event_loop::{Clock, MessageQueue};
use super::outbox::Outbox;
use super::protocol::Event;
use crate::engine::Engine;
use crate::error::Result;
use crate::lab::Memory;

/// What 32-bit WebAssembly can address.
const MEMORY_LIMIT: u64 = 1 << 32;

/// Answers requests, one at a time. Clones share the state.
#[derive(Clone)]
pub struct Worker {
    post: Rc<dyn Fn(&JsValue)>,
    pub(super) clock: Rc<Clock>,
    /// For the running request.
    pub(super) queue: Rc<MessageQueue>,
    pub(super) engine: Rc<RefCell<Option<Engine>>>,
    /// What experiments with the model in `engine` leave to the next.
    pub(super) lab: Rc<RefCell<Memory>>,
    /// Bytes that the model in `engine` takes.
    pub(super) held: Rc<Cell<u64>>,
    /// For the model in `engine`, while its SHA-256 is unknown.
    pub(super) background_hash: Rc<RefCell<Option<Rc<BackgroundHash>>>>,
    pub(super) running: Rc<RefCell<Option<Call>>>,
    outbox: Rc<Outbox>,
    /// Bytes that models may take.
    pub(super) memory_limit: u64,
}

impl Worker {
    /// A worker that hands its events to `post`.
    ///
    /// # Errors
    /// If the browser lacks a clock or message channels.
    pub fn new(post: impl Fn(&JsValue) + 'static) -> Result<Self> {
        Ok(Self {
            post: Rc::new(post),
            clock: Rc::new(Clock::new()?),
            queue: Rc::new(MessageQueue::new()?),
            engine: Rc::default(),
            lab: Rc::default(),
            held: Rc::default(),
            background_hash: Rc::default(),
            running: Rc::default(),
            outbox: Rc::default(),
            memory_limit: MEMORY_LIMIT,
        })
    }

    /// The same, for models of at most `bytes` bytes.
    pub fn limited_to(self, bytes: u64) -> Self {
        Self { memory_limit: bytes, ..self }
    }

    /// The running request, if it is `id`.
    pub(super) fn running(&self, id: u32) -> Option<Call> {
        self.running.borrow().as_ref().filter(|call| call.id == id).cloned()
    }

    /// Posts `event` together with the waiting ones.
    pub(super) fn send(&self, event: Event) {
        self.outbox.put(event);
        self.flush();
    }

    /// Posts `event` with the next one that is sent, or when it is [due](Self::flush_if_due).
    pub(super) fn send_later(&self, event: Event) {
        self.outbox.put(event);
    }

    /// Posts the waiting events if they have waited for a frame.
    pub(super) fn flush_if_due(&self) {
        if self.outbox.is_due(self.clock.now()) {
            self.flush();
        }
    }

    /// Posts the waiting events: a single one as it is, several as an array.
    pub(super) fn flush(&self) {
        let events = self.outbox.take(self.clock.now(), self.clock.since_epoch());
        match events.as_slice() {
            [] => {}
            [event] => (self.post)(&message_of(event)),
            events => (self.post)(&events.iter().map(message_of).collect::<js_sys::Array>()),
        }
    }
}

/// An event as it is posted.
fn message_of(event: &Event) -> JsValue {
    let serializer =
        serde_wasm_bindgen::Serializer::new().serialize_maps_as_objects(true).serialize_missing_as_null(true);
    match event.serialize(&serializer) {
        Ok(message) => message,
        Err(error) => unreachable!("every event is made of plain values: {error}"),
    }
}
