//! Logits -> the weights of tokens.

use std::f64::consts::LOG2_E;

use super::chunked_logits::CHUNK;
use crate::kernels::exp::exp2;

/// Makes logits weights: `exp((logit - best) / temperature)`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weigher {
    best: f32,
    rate: f32,
}

impl Weigher {
    /// For a temperature above 0 and the largest of the logits, which has weight 1.
    pub(super) fn new(temperature: f64, best: f32) -> Self {
        // A rate of 0 would make NaN of an infinite distance, an infinite rate of a distance of 0.
        let rate = (LOG2_E / temperature).clamp(f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX));
        Self { best, rate: rate as f32 }
    }

    /// Doublings of the weight per unit of the logit.
    pub(super) fn rate(self) -> f32 {
        self.rate
    }

    /// The weight of a logit, to a relative error of 2e-7 and 1.3e-7 for each doubling between it and 1, which is the
    /// rounding of the exponent. Exactly 1 for the best; 0 for minus infinity and whatever is below 2^-127.
    #[inline(always)]
    pub(super) fn weight(self, logit: f32) -> f32 {
        exp2((logit - self.best) * self.rate)
    }

    /// The sum of the weights of all logits.
    pub(super) fn sum(self, chunks: &[[f32; CHUNK]]) -> f64 {
        let mut sums = [0.0f64; 8];
        for chunk in chunks {
            let mut lanes = [0.0f32; 8];
            for group in chunk.as_chunks::<8>().0 {
                for (lane, &logit) in lanes.iter_mut().zip(group) {
                    *lane += self.weight(logit);
                }
            }
            for (sum, lane) in sums.iter_mut().zip(lanes) {
                *sum += f64::from(lane);
            }
        }
        sums.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_standard_library_as_far_as_it_says() {
        for temperature in [1e-3, 0.8, 1.0, 100.0] {
            let weigher = Weigher::new(temperature, 7.5);
            for step in 0..1_000_000 {
                let logit = 7.5 - (f64::from(step) * 8.7e-5 * temperature) as f32;
                let exact = ((f64::from(logit) - 7.5) / temperature).exp();
                let error = (f64::from(weigher.weight(logit)) / exact - 1.0).abs();
                let bound = 2e-7 - 1.3e-7 * exact.log2();
                assert!(error < bound, "exp(({logit} - 7.5) / {temperature}) is off by {error}");
            }
        }
    }

    #[test]
    fn holds_at_the_ends() {
        for temperature in [5e-324, 1e-40, 1e-3, 1.0, 1e30, f64::MAX] {
            for best in [f32::MIN, -80.0, 0.0, f32::MAX] {
                let weigher = Weigher::new(temperature, best);
                assert_eq!(weigher.weight(best), 1.0);
                assert_eq!(weigher.weight(f32::NEG_INFINITY).to_bits(), 0);
            }
        }
        let weigher = Weigher::new(std::f64::consts::LOG2_E, 0.0);
        assert_eq!(weigher.weight(-126.0), f32::MIN_POSITIVE);
        assert_eq!((weigher.weight(-127.0), weigher.weight(f32::MIN)), (0.0, 0.0));
    }

    /// Whichever machine it was computed on.
    #[test]
    fn the_bits_are_pinned() {
        let weigher = Weigher::new(0.8, -31.25);
        let bits = [-31.3f32, -33.0, -40.5, -60.0].map(|logit| weigher.weight(logit).to_bits());
        assert_eq!(bits, [1_064_336_751, 1_038_468_987, 924_821_597, 630_085_072]);
    }

    #[test]
    fn sums_what_it_weighs() {
        let mut chunk = [f32::NEG_INFINITY; CHUNK];
        (chunk[0], chunk[31]) = (2.0, 2.0);
        let weigher = Weigher::new(1.0, 2.0);
        assert_eq!(weigher.sum(&[chunk, chunk, [f32::NEG_INFINITY; CHUNK]]), 4.0);
    }
}
