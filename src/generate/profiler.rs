//! Where the time between the first token and the last goes.

use crate::model::PartTimes;
use crate::record::Profile;

/// Keeps apart what belongs to the steps after the first token. Everything is measured by one clock in spans that do not
/// overlap, so that the parts of the [`Profile`] add up.
#[derive(Debug, Default)]
pub(super) struct Profiler {
    /// Tokens that followed the first.
    steps: u32,
    /// When the first token was chosen: all that the model did until then was prefill.
    at_first: Option<PartTimes>,
    at_last: Option<PartTimes>,
    sampling: f64,
    messages: f64,
    /// For the last token. Counts when another one follows: until then it lies after the time that is looked at.
    delivery: f64,
}

impl Profiler {
    /// The first token was chosen; `so_far` are the model's times until then.
    pub fn begin(&mut self, so_far: Option<PartTimes>) {
        self.at_first = so_far;
    }

    /// Another token was chosen, in `sampling` ms.
    pub fn step(&mut self, so_far: Option<PartTimes>, sampling: f64) {
        self.steps += 1;
        self.at_last = so_far;
        self.sampling += sampling;
        self.messages += std::mem::take(&mut self.delivery);
    }

    /// It took `ms` to hand on the last token.
    pub fn note_delivery_ms(&mut self, ms: f64) {
        self.delivery += ms;
    }

    /// The profile of a run with `total` ms from its first token to its last.
    pub fn profile(&self, total: f64) -> Option<Profile> {
        let (before, after) = (self.at_first?, self.at_last?);
        if total <= 0.0 {
            return None;
        }
        let mean = |ms: f64| ms / f64::from(self.steps);
        let mut profile = Profile {
            steps: self.steps,
            embedding_ms: mean(after.embedding - before.embedding),
            attention_ms: mean(after.attention - before.attention),
            mlp_ms: mean(after.mlp - before.mlp),
            lm_head_ms: mean(after.lm_head - before.lm_head),
            sampling_ms: mean(self.sampling),
            messages_ms: mean(self.messages),
            other_ms: 0.0,
        };
        let named = profile.embedding_ms
            + profile.attention_ms
            + profile.mlp_ms
            + profile.lm_head_ms
            + profile.sampling_ms
            + profile.messages_ms;
        // Where nothing else takes any time, the rounding of the sums may leave less than nothing.
        profile.other_ms = (mean(total) - named).max(0.0);
        Some(profile)
    }
}
