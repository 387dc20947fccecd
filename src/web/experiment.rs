//! One experiment in the worker.

use std::cell::Cell;
use std::pin::Pin;

use super::call::Call;
use super::protocol::Event;
use super::state::Worker;
use crate::error::{Error, ErrorKind, Result};
use crate::lab::{self, Host};
use crate::options::RawOptions;

/// Time between two reports of the progress, in milliseconds.
const PROGRESS_MS: f64 = 50.0;

impl Worker {
    /// Does the experiment `name` with the model there is.
    pub(super) async fn experiment(&self, call: &Call, name: &str, options: &RawOptions) -> Result<Event> {
        let prepared = lab::prepare(name, options)?;
        let Some(mut engine) = self.engine.take() else {
            return Err(Error::new(ErrorKind::NotLoaded, "there is no model yet; load one first"));
        };
        let host = PageHost { worker: self, call, reported: Cell::new(f64::NEG_INFINITY) };
        let post = |row| self.send_later(Event::Row { id: call.id, row });
        let result = lab::run(prepared, &mut engine.model, &engine.tokenizer, &self.lab, &host, &post).await;
        let identity = engine.identity.clone();
        self.engine.replace(Some(engine));
        let findings = Box::new(result?);
        let gpt2_web = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Event::ExperimentDone { id: call.id, name: name.to_owned(), gpt2_web, identity, findings })
    }
}

/// The page, as the lab sees it.
struct PageHost<'a> {
    worker: &'a Worker,
    call: &'a Call,
    /// When the progress was last posted.
    reported: Cell<f64>,
}

impl PageHost<'_> {
    fn unless_cancelled(&self) -> Result<()> {
        if self.call.cancel.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "the experiment was cancelled"));
        }
        Ok(())
    }
}

impl Host for PageHost<'_> {
    fn now(&self) -> f64 {
        self.worker.clock.now()
    }

    fn turn(&self) -> Pin<Box<dyn Future<Output = Result<()>> + '_>> {
        Box::pin(async {
            self.unless_cancelled()?;
            self.worker.flush_if_due();
            self.worker.queue.run().await?;
            self.unless_cancelled()
        })
    }

    fn progress(&self, done: usize, total: usize) {
        let now = self.now();
        if total > 0 && (done == total || now - self.reported.get() >= PROGRESS_MS) {
            self.reported.set(now);
            let id = self.call.id;
            self.worker.send_later(Event::ExperimentProgress { id, done: done as u32, total: total as u32 });
        }
    }
}
