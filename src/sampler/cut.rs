//! A place in the ranking of the tokens: higher logit first, lower id first among equals.

use super::chunked_logits::CHUNK;

/// Tokens up to it are kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cut {
    /// Lowest logit kept.
    pub(super) logit: f32,
    /// Of the tokens with exactly this logit, the last one kept.
    pub(super) last_id: u32,
}

impl Cut {
    /// Keeps every token that is possible.
    pub(super) const NONE: Self = Self { logit: f32::MIN, last_id: u32::MAX };

    /// Keeps all tokens with at least this logit.
    pub(super) fn at(logit: f32) -> Self {
        Self { logit, last_id: u32::MAX }
    }

    #[inline(always)]
    pub(super) fn keeps(self, id: u32, logit: f32) -> bool {
        logit > self.logit || (logit == self.logit && id <= self.last_id)
    }

    /// Takes the weights of those tokens of a chunk that are not kept. `first` is the id of its first token.
    pub(super) fn apply(self, first: u32, logits: &[f32; CHUNK], weights: &mut [f32; CHUNK]) {
        // Up to the last id, logits from the cut's own upwards; after it, only those above.
        let up_to_last = (u64::from(self.last_id) + 1).saturating_sub(u64::from(first)).min(CHUNK as u64) as usize;
        if up_to_last == 0 || up_to_last == CHUNK {
            let least = if up_to_last == 0 { self.logit.next_up() } else { self.logit };
            for (weight, &logit) in weights.iter_mut().zip(logits) {
                *weight = if logit >= least { *weight } else { 0.0 };
            }
        } else {
            for ((id, weight), &logit) in (first..).zip(weights).zip(logits) {
                *weight = if self.keeps(id, logit) { *weight } else { 0.0 };
            }
        }
    }

    /// Keeps what both keep.
    pub(super) fn and(self, other: Self) -> Self {
        if self.logit > other.logit {
            self
        } else if self.logit < other.logit {
            other
        } else {
            Self { logit: self.logit, last_id: self.last_id.min(other.last_id) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_weights_of_exactly_those_it_does_not_keep() {
        let logits: [f32; CHUNK] = std::array::from_fn(|lane| [2.0, 1.0, 0.0, -0.0, -1.0][lane % 5]);
        for logit in [-2.0, -1.0, 0.0, -0.0, 0.5, 1.0, 2.0, 3.0] {
            for last_id in [0, 63, 64, 70, 80, 95, 96, u32::MAX] {
                let cut = Cut { logit, last_id };
                let mut weights = [1.0; CHUNK];
                cut.apply(64, &logits, &mut weights);
                for ((id, weight), logit) in (64..).zip(weights).zip(logits) {
                    assert_eq!(weight == 1.0, cut.keeps(id, logit), "{cut:?} and {id}: {logit}");
                }
            }
        }
    }

    #[test]
    fn two_cuts_keep_what_both_keep() {
        let cuts = [Cut::NONE, Cut::at(0.0), Cut { logit: -0.0, last_id: 3 }, Cut { logit: 1.0, last_id: 5 }];
        for (a, b) in cuts.iter().flat_map(|&a| cuts.map(|b| (a, b))) {
            for (id, logit) in (0..8).flat_map(|id| [-1.0, 0.0, 1.0, 2.0].map(|logit| (id, logit))) {
                assert_eq!(a.and(b).keeps(id, logit), a.keeps(id, logit) && b.keeps(id, logit), "{a:?} {b:?}");
            }
        }
    }
}
