//! What an experiment stands on: the model it looks at, and the program that runs it.

use std::pin::Pin;

use crate::error::Result;
use crate::gpt2::Gpt2;
use crate::model::{LanguageModel, ScriptedModel};

/// A model that experiments can be done with.
pub trait Subject: LanguageModel {
    /// The model as GPT-2, whose inside can be looked into.
    fn gpt2(&self) -> Option<&Gpt2> {
        None
    }
}

impl Subject for ScriptedModel {}

impl Subject for Gpt2 {
    fn gpt2(&self) -> Option<&Gpt2> {
        Some(self)
    }
}

/// What one experiment leaves to the next with the same model.
#[derive(Debug, Default)]
pub struct Memory {
    /// The ids of a prefix, and the logits after it: the sampling bench looks at these again and again.
    pub(crate) logits: Option<(Vec<u32>, Vec<f32>)>,
}

/// What runs an experiment.
pub trait Host {
    /// Milliseconds from any fixed moment; never runs backwards.
    fn now(&self) -> f64;

    /// Lets waiting messages be handled.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::error::ErrorKind::Cancelled) once the experiment was cancelled.
    fn turn(&self) -> Pin<Box<dyn Future<Output = Result<()>> + '_>>;

    /// Takes how far the experiment is, in units of its own.
    fn progress(&self, done: usize, total: usize);
}
