//! A request that runs, as its work sees it and as the messages that concern it do.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::protocol::ModelFile;
use crate::error::{Error, ErrorKind, Result};
use crate::generate::CancelToken;

/// A request that runs. Clones share the state.
#[derive(Clone, Default)]
pub struct Call {
    /// The request's.
    pub id: u32,
    /// Ends it at its next step.
    pub cancel: CancelToken,
    state: Rc<State>,
}

#[derive(Default)]
struct State {
    /// Of the work, while it waits.
    waker: RefCell<Option<Waker>>,
    wants_file: Cell<bool>,
    tokenizer: RefCell<Option<ModelFile>>,
}

impl Call {
    /// Of the request `id`.
    pub fn new(id: u32) -> Self {
        Self { id, ..Self::default() }
    }

    /// Asks for the end.
    pub fn cancel(&self) {
        self.cancel.cancel();
        self.wake();
    }

    /// Hands over `file`; says whether it was waited for.
    pub fn provide_tokenizer(&self, file: ModelFile) -> bool {
        let wanted = self.state.wants_file.replace(false);
        if wanted {
            self.state.tokenizer.replace(Some(file));
            self.wake();
        }
        wanted
    }

    /// Waits for `work` or for a cancel, whichever comes first.
    ///
    /// # Errors
    /// `Cancelled`.
    pub async fn unless_cancelled<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let mut work = pin!(work);
        self.wait(|context| work.as_mut().poll(context)).await
    }

    /// Waits for the file that holds a tokenizer.
    ///
    /// # Errors
    /// `Cancelled`.
    pub async fn requested_tokenizer(&self, ask: impl FnOnce()) -> Result<ModelFile> {
        self.state.wants_file.set(true);
        ask();
        let taken = self.wait(|_| self.state.tokenizer.take().map_or(Poll::Pending, Poll::Ready)).await;
        self.state.wants_file.set(false);
        taken
    }

    async fn wait<T>(&self, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Result<T> {
        std::future::poll_fn(|context| {
            if self.cancel.is_cancelled() {
                let sentence = "loading was cancelled; the model before is unchanged";
                return Poll::Ready(Err(Error::new(ErrorKind::Cancelled, sentence)));
            }
            self.state.waker.replace(Some(context.waker().clone()));
            poll(context).map(Ok)
        })
        .await
    }

    fn wake(&self) {
        if let Some(waker) = self.state.waker.take() {
            waker.wake();
        }
    }
}
