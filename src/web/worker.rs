//! The worker's side: receives requests, runs them, posts events.
//!
//! One request runs at a time; a `load`, `generate` or `unload` that comes meanwhile is answered with a `busy` error.
//! Between two steps, two prefill chunks or two reads the worker lets its message queue run, so a `cancel` takes
//! effect within one of them, and a `ping` is answered. Steps of less than some milliseconds share a turn.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde::Serialize;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::{DedicatedWorkerGlobalScope, MessageEvent};

use super::background_hash::BackgroundHash;
use super::call::Call;
use super::event_loop::{Clock, MessageQueue};
use super::load::LoadSpec;
use super::message;
use super::outbox::Outbox;
use super::protocol::{Event, Request};
use super::source::Source;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::text;

/// What 32-bit WebAssembly can address.
const MEMORY_LIMIT: u64 = 1 << 32;

/// Answers requests, one at a time. Clones share the state.
#[derive(Clone)]
pub struct Worker {
    post: Rc<dyn Fn(&JsValue)>,
    pub(super) clock: Rc<Clock>,
    /// For the request that runs.
    pub(super) queue: Rc<MessageQueue>,
    pub(super) engine: Rc<RefCell<Option<Engine>>>,
    /// Bytes that the model in `engine` takes.
    pub(super) held: Rc<Cell<u64>>,
    /// Of the model in `engine`, while its SHA-256 is not known.
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

    /// Takes one message of the page. Returns at once; the answers are posted.
    pub fn handle(&self, message: JsValue) {
        match message::request(&message) {
            Ok(request) => self.dispatch(request),
            Err(error) => self.refuse(message::id_of(&message), error),
        }
    }

    fn dispatch(&self, request: Request) {
        match request {
            Request::Cancel { id } => {
                if let Some(call) = self.running(id) {
                    call.cancel();
                }
            }
            Request::Load { id, name, files, precision, sha256 } => {
                // All of them, so that each download is taken over, and closed if nothing comes of it.
                let sources: Vec<_> = files.into_iter().map(Source::new).collect();
                let sources: Result<Vec<_>> = sources.into_iter().collect();
                self.run(id, async move |worker, call| {
                    worker.load(call, sources?, LoadSpec { name, precision, sha256 }).await
                });
            }
            Request::Generate { id, prompt, options, cancelled } => {
                self.run(id, async move |worker, call| {
                    if cancelled {
                        call.cancel();
                    }
                    worker.generate(call, &prompt, &options).await
                });
            }
            Request::Unload { id } => self.run(id, async move |worker, _| {
                worker.background_hash.take();
                worker.engine.take();
                worker.held.set(0);
                Ok(Event::Unloaded { id })
            }),
            Request::Ping { id } => self.send(Event::Pong { id }),
            Request::ProvideTokenizer { id, file } => {
                if !self.running(id).is_some_and(|call| call.provide_tokenizer(file)) {
                    let sentence = "this file was not asked for; send it after `needs_tokenizer`";
                    self.refuse(Some(id), Error::new(ErrorKind::InvalidRequest, sentence));
                }
            }
        }
    }

    /// The request that runs, if it is `id`.
    fn running(&self, id: u32) -> Option<Call> {
        self.running.borrow().as_ref().filter(|call| call.id == id).cloned()
    }

    /// Answers a message that is no request to be run. An error with the id of the request that runs would end that one.
    fn refuse(&self, id: Option<u32>, error: Error) {
        self.send(Event::error(id.filter(|&id| self.running(id).is_none()), error));
    }

    /// Runs `work` as request `id`, if nothing else runs, and posts the one event it ends with.
    fn run(&self, id: u32, work: impl AsyncFnOnce(&Self, &Call) -> Result<Event> + 'static) {
        let other = self.running.borrow().as_ref().map(|call| call.id);
        if let Some(other) = other {
            let sentence = format!("request {other} is still running; wait for its end or cancel it first");
            return self.refuse(Some(id), Error::new(ErrorKind::Busy, sentence));
        }
        let call = Call::new(id);
        self.running.replace(Some(call.clone()));
        let worker = self.clone();
        spawn_local(async move {
            let last = work(&worker, &call).await.unwrap_or_else(|error| Event::error(Some(id), error));
            worker.running.take();
            worker.send(last);
            worker.hash_while_idle().await;
        });
    }

    /// Posts `event`, and with it those that wait.
    pub(super) fn send(&self, event: Event) {
        self.outbox.put(event);
        self.flush();
    }

    /// Posts `event` with the next one that is sent, or when it is [due](Self::flush_if_due).
    pub(super) fn send_later(&self, event: Event) {
        self.outbox.put(event);
    }

    /// Posts what waits, if it waited for a frame.
    pub(super) fn flush_if_due(&self) {
        if self.outbox.is_due(self.clock.now()) {
            self.flush();
        }
    }

    /// Posts what waits: one event by itself, several as an array.
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

/// Makes this worker scope answer requests.
///
/// # Errors
/// If this is no dedicated worker, or the browser lacks what a worker needs.
#[wasm_bindgen]
pub fn start_worker() -> std::result::Result<(), JsError> {
    let scope: DedicatedWorkerGlobalScope =
        js_sys::global().dyn_into().map_err(|_| JsError::new("start_worker must run in a dedicated worker"))?;
    let poster = scope.clone();
    let post = move |message: &JsValue| {
        if let Err(error) = poster.post_message(message) {
            web_sys::console::error_2(&"an event could not be posted:".into(), &error);
        }
    };
    let worker = Worker::new(post)?;
    super::panics::report(worker.clone());
    #[cfg(feature = "relaxed")]
    if let Err(error) = super::relaxed::install() {
        web_sys::console::warn_2(&"plain SIMD is used:".into(), &error);
    }
    let on_message = Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| worker.handle(event.data()));
    scope.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
    on_message.forget();
    // While the first model's file is on its way there is time for it.
    spawn_local(async { text::warm_up() });
    Ok(())
}
