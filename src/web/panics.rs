//! What a panic of the engine leaves behind: a sentence for the page.

use std::cell::RefCell;

#[cfg(feature = "test-hooks")]
use wasm_bindgen::prelude::*;

use super::protocol::Event;
use super::state::Worker;
use crate::error::{Error, ErrorKind};

/// A panic leaves the module in an unknown state. Its text goes to the console and, as the last event, to the page,
/// which starts a new worker.
pub(super) fn report(worker: Worker) {
    thread_local!(static REPORTER: RefCell<Option<Worker>> = const { RefCell::new(None) });
    REPORTER.set(Some(worker));
    std::panic::set_hook(Box::new(|info| {
        console_error_panic_hook::hook(info);
        REPORTER.with_borrow(|worker| {
            let Some(worker) = worker else { return };
            let id = worker.running.try_borrow().ok().and_then(|running| running.as_ref().map(|call| call.id));
            worker.send(Event::error(id, Error::new(ErrorKind::Panic, format!("the engine panicked: {info}"))));
        });
    }));
}

/// Panics with `message`: shows what a page does when its worker dies, to its author and to the tests.
#[cfg(feature = "test-hooks")]
#[wasm_bindgen]
pub fn provoke_panic(message: &str) {
    panic!("{message}");
}
