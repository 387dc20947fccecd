//! Receives the page's requests and runs them.
//!
//! One request runs at a time; another `load`, `generate`, `experiment` or `unload` is refused as `busy`.
//! Between two steps, two prefill chunks or two reads the worker lets its message queue run, so a `cancel` takes
//! effect within one of them, and a `ping` is answered. Steps of less than some milliseconds share a turn.

use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::{DedicatedWorkerGlobalScope, MessageEvent};

use super::call::Call;
use super::load::LoadSpec;
use super::protocol::{Event, Request};
use super::source::Source;
pub use super::state::Worker;
use super::{message, panics};
use crate::error::{Error, ErrorKind, Result};
use crate::text;

impl Worker {
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
                // All of them, so that each download is owned, and closed if the load does not use it.
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
            Request::Experiment { id, name, options, cancelled } => {
                self.run(id, async move |worker, call| {
                    if cancelled {
                        call.cancel();
                    }
                    worker.experiment(call, &name, &options).await
                });
            }
            Request::Unload { id } => self.run(id, async move |worker, _| {
                worker.background_hash.take();
                worker.engine.take();
                worker.lab.take();
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

    /// Answers a message that is not run. An error with the id of the running request would end that one.
    fn refuse(&self, id: Option<u32>, error: Error) {
        self.send(Event::error(id.filter(|&id| self.running(id).is_none()), error));
    }

    /// Runs `work` as request `id`, if nothing else runs, and posts its last event.
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
    panics::report(worker.clone());
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
