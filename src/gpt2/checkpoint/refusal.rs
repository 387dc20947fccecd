//! Why a file is not used.

use crate::error::Error;

/// Why a file is no weights file that can be read.
#[derive(Debug)]
pub(super) struct Refusal {
    pub error: Error,
    /// It is a model, but in a form that is not read: this says more than what a README is.
    pub is_model: bool,
}

impl Refusal {
    /// Keeps the one of two that says more.
    pub fn keep(kept: &mut Option<Self>, new: Self) {
        if kept.as_ref().is_none_or(|kept| new.is_model && !kept.is_model) {
            *kept = Some(new);
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        refusal.error
    }
}
