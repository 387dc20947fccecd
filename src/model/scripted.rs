//! A model without weights, for tests.

use super::LanguageModel;
use crate::error::{Error, ErrorKind, Result};

/// A model without weights that emits a script: it drives the tests of everything above the seam.
///
/// After a prompt of `prompt_len` positions its most likely token is `script[0]`, after one more position `script[1]`,
/// and so on; how the positions were fed makes no difference.
#[derive(Debug, Clone)]
pub struct ScriptedModel {
    vocab_size: usize,
    context_length: usize,
    prompt_len: usize,
    script: Vec<u32>,
    len: usize,
    logits: Vec<f32>,
    fails: Option<(usize, Error)>,
}

impl ScriptedModel {
    /// The logit of the scripted token; every other one is 0.
    pub const LOGIT: f32 = 30.0;

    /// A model that says `script` after a prompt of `prompt_len` positions.
    pub fn new(vocab_size: usize, context_length: usize, prompt_len: usize, script: Vec<u32>) -> Self {
        Self { vocab_size, context_length, prompt_len, script, len: 0, logits: vec![0.0; vocab_size], fails: None }
    }

    /// The same, but it fails with `error` where it should go beyond `len` positions.
    pub fn failing_after(self, len: usize, error: Error) -> Self {
        Self { fails: Some((len, error)), ..self }
    }

    /// The logits after `len` positions. Inside the prompt, and after the end of the script, no token is preferred.
    fn logits_at(&self, len: usize) -> Vec<f32> {
        let mut logits = vec![0.0; self.vocab_size];
        let scripted = len.checked_sub(self.prompt_len).and_then(|step| self.script.get(step));
        if let Some(logit) = scripted.and_then(|&id| logits.get_mut(id as usize)) {
            *logit = Self::LOGIT;
        }
        logits
    }

    fn check(&self, ids: &[u32]) -> Result<()> {
        if let Some((_, error)) = self.fails.as_ref().filter(|(len, _)| self.len + ids.len() > *len) {
            return Err(error.clone());
        }
        let fits = !ids.is_empty() && self.len + ids.len() <= self.context_length;
        if fits && ids.iter().all(|&id| (id as usize) < self.vocab_size) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Engine, format!("cannot process {ids:?} after {} positions", self.len)))
    }
}

impl LanguageModel for ScriptedModel {
    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn context_length(&self) -> usize {
        self.context_length
    }

    fn len(&self) -> usize {
        self.len
    }

    fn feed(&mut self, ids: &[u32]) -> Result<&[f32]> {
        self.check(ids)?;
        self.len += ids.len();
        self.logits = self.logits_at(self.len);
        Ok(&self.logits)
    }

    fn score(&mut self, ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        self.check(ids)?;
        let rows = (1..=ids.len()).map(|n| self.logits_at(self.len + n)).collect();
        self.len += ids.len();
        Ok(rows)
    }

    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}
