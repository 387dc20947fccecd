//! The worker's clock, and its way to let other messages have their turn.

use js_sys::{Function, Promise, Reflect};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{MessageChannel, Performance};

use crate::error::{Error, ErrorKind, Result};

/// The worker's high-resolution clock.
pub struct Clock(Performance);

impl Clock {
    /// The clock of this worker.
    ///
    /// # Errors
    /// `Engine` if there is none.
    pub fn new() -> Result<Self> {
        let performance = Reflect::get(&js_sys::global(), &"performance".into()).ok();
        performance.and_then(|value| value.dyn_into().ok()).map(Self).ok_or_else(|| missing("performance"))
    }

    /// Milliseconds since the worker began.
    pub fn now(&self) -> f64 {
        self.0.now()
    }

    /// Milliseconds since 1970, comparable between the worker and its page.
    pub fn since_epoch(&self) -> f64 {
        self.0.time_origin() + self.0.now()
    }
}

#[wasm_bindgen]
extern "C" {
    /// As [`Clock::now`], as a plain function: the model asks for the time dozens of times a step.
    #[wasm_bindgen(js_namespace = performance)]
    pub fn now() -> f64;
}

/// Lets the messages that wait be handled. Not a timer: timers are clamped, and slowed in hidden tabs.
pub struct MessageQueue(MessageChannel);

impl MessageQueue {
    /// One place to wait, for one at a time.
    ///
    /// # Errors
    /// `Engine` if there are no message channels.
    pub fn new() -> Result<Self> {
        MessageChannel::new().map(Self).map_err(|_| missing("MessageChannel"))
    }

    /// Resolves after the messages that are waiting now.
    ///
    /// # Errors
    /// `Engine` if the browser cannot do that.
    pub async fn run(&self) -> Result<()> {
        let turn = Promise::new(&mut |resolve: Function, reject: Function| {
            self.0.port1().set_onmessage(Some(&resolve));
            if let Err(error) = self.0.port2().post_message(&JsValue::NULL) {
                // Only the promise can report it; if rejecting fails, there is nothing else to do.
                drop(reject.call1(&JsValue::NULL, &error));
            }
        });
        JsFuture::from(turn).await.map(drop).map_err(|_| missing("a working MessageChannel"))
    }
}

impl Drop for MessageQueue {
    /// A port that listens keeps itself and its other end alive for good.
    fn drop(&mut self) {
        self.0.port1().set_onmessage(None);
        self.0.port1().close();
        self.0.port2().close();
    }
}

fn missing(what: &str) -> Error {
    Error::new(ErrorKind::Engine, format!("this browser's workers have no {what}; use a current browser"))
}
