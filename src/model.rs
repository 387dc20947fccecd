//! The seam between the generation loop and whatever computes logits.

mod scripted;

pub use scripted::ScriptedModel;

use crate::error::Result;

/// Milliseconds spent in each part of the passes of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PartTimes {
    /// Rows of tokens and positions.
    pub embedding: f64,
    /// Of all blocks: the first layer norm, queries, keys and values, attention and its output.
    pub attention: f64,
    /// Of all blocks: the second layer norm and the feed-forward part.
    pub mlp: f64,
    /// The last layer norm and the logits.
    pub lm_head: f64,
}

/// A causal language model with a cache of the positions it has processed.
///
/// There is one operation for prefill and decode: `feed` continues after the positions held. Chunked prefill, prefix
/// reuse, verification and speculation are all the same call with other ids.
pub trait LanguageModel {
    /// Number of logits per position.
    fn vocab_size(&self) -> usize;

    /// Number of positions the model can hold.
    fn context_length(&self) -> usize;

    /// Positions whose keys and values are held.
    fn len(&self) -> usize;

    /// Whether no position is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Processes `ids` after the positions held and returns the logits of the last one (`vocab_size` values).
    /// Prefill is `feed(prompt)`, decode is `feed(&[id])`.
    ///
    /// # Errors
    /// If `ids` is empty, holds an id outside the vocabulary, or does not fit into the context; then nothing was
    /// processed and `len` is unchanged.
    fn feed(&mut self, ids: &[u32]) -> Result<&[f32]>;

    /// As [`feed`](Self::feed), without logits: for all chunks of a prompt except the last.
    ///
    /// # Errors
    /// As [`feed`](Self::feed).
    fn extend(&mut self, ids: &[u32]) -> Result<()> {
        self.feed(ids).map(|_| ())
    }

    /// As [`feed`](Self::feed), with the logits of every position of `ids` (`ids.len()` rows of `vocab_size`).
    fn score(&mut self, ids: &[u32]) -> Result<Vec<Vec<f32>>>;

    /// As [`score`](Self::score), but hands the logits of each position to `each`, with its place in `ids`, instead of
    /// holding all of them: a vocabulary times many positions is a lot of memory.
    ///
    /// # Errors
    /// As [`feed`](Self::feed); then `each` was not called.
    fn score_each(&mut self, ids: &[u32], each: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        for (place, logits) in self.score(ids)?.iter().enumerate() {
            each(place, logits);
        }
        Ok(())
    }

    /// Forgets all positions from `len` on. Does nothing if fewer are held.
    fn truncate(&mut self, len: usize);

    /// Milliseconds spent in the parts of all passes so far. The difference of two calls is the time of the passes between
    /// them. `None` if the model does not measure.
    fn part_times(&self) -> Option<PartTimes> {
        None
    }
}
