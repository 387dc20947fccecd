//! Events that wait to be posted together.

use std::cell::{Cell, RefCell};

use super::protocol::Event;

/// How long events wait at most where they are few, in milliseconds: a page shows what came once a frame, and there are
/// sixty in a second.
const FRAME_MS: f64 = 16.0;

/// Events that are few: those of two steps.
const FEW: usize = 4;

/// How long more of them wait. A text that grows by many tokens a second is as smooth at thirty frames, and laying it out
/// takes time from the worker where there are few cores.
const MANY_MS: f64 = 33.0;

/// Receiving each token separately costs a page more than choosing it costs a small model. So what
/// happens in a frame's time is posted together.
#[derive(Default)]
pub(super) struct Outbox {
    waiting: RefCell<Vec<Event>>,
    /// When the last post was.
    posted: Cell<f64>,
}

impl Outbox {
    /// Leaves an event there.
    pub fn put(&self, event: Event) {
        self.waiting.borrow_mut().push(event);
    }

    /// Whether what waits is to be posted `now`.
    pub fn is_due(&self, now: f64) -> bool {
        let waited = now - self.posted.get();
        waited >= if self.waiting.borrow().len() > FEW { MANY_MS } else { FRAME_MS }
    }

    /// What waits, in its order, to be posted `now`, which is `since_epoch`.
    pub fn take(&self, now: f64, since_epoch: f64) -> Vec<Event> {
        self.posted.set(now);
        let mut events = self.waiting.take();
        for event in &mut events {
            if let Event::Delta { posted_at, .. } = event {
                *posted_at = since_epoch;
            }
        }
        events
    }
}
