//! Top-p without sorting: the tokens are counted into bins of similar score, and only the one bin that the cut goes
//! through is looked at closely, by a selection that halves it.

use super::Cut;

/// Finds the cut of top-p in linear time; holds its buffers.
#[derive(Debug, Clone)]
pub(super) struct Nucleus {
    /// Mass of the tokens by their distance from the best.
    bins: Vec<u64>,
    /// The tokens of the bin that the cut goes through.
    tokens: Vec<Ranked>,
}

/// A token with what its rank and its mass are made of.
#[derive(Debug, Clone, Copy)]
struct Ranked {
    score: f64,
    id: u32,
    mass: u64,
}

impl Default for Nucleus {
    fn default() -> Self {
        Self { bins: vec![0; Self::BINS], tokens: Vec::new() }
    }
}

impl Nucleus {
    const BINS: usize = 1024;
    /// Bins per unit of score; the last takes all that is less than e^-32 times as likely as the best.
    const BINS_PER_UNIT: f64 = 32.0;
    /// Mass of the best token. Whole numbers add up to the same in any order, so the selection finds exactly the cut
    /// that sorting them would; those of 2^24 tokens fit into 64 bits.
    const UNIT: f64 = (1u64 << 40) as f64;

    /// The cut after the first token, in the ranking, with which the weights reach `top_p` of their sum.
    pub(super) fn cut(&mut self, top_p: f64, scores: &[f64], weights: &[f64]) -> Cut {
        let mass = |weight: f64| (weight * Self::UNIT + 0.5) as u64;
        let bin = |score: f64| ((score * -Self::BINS_PER_UNIT) as usize).min(Self::BINS - 1);
        self.bins.fill(0);
        for (&score, &weight) in scores.iter().zip(weights) {
            self.bins[bin(score)] += mass(weight);
        }
        // A token is kept if those before it have less than `enough`.
        // It is at most the sum, whatever is rounded: the largest top-p below 1 takes away more than that adds.
        let enough = (top_p * self.bins.iter().sum::<u64>() as f64).ceil() as u64;

        let mut before = 0;
        let mut through = 0;
        while before + self.bins[through] < enough {
            before += self.bins[through];
            through += 1;
        }
        self.tokens.clear();
        let (from, to) = (through as f64, if through == Self::BINS - 1 { f64::INFINITY } else { (through + 1) as f64 });
        let tokens = (0..).zip(scores).zip(weights).filter(|&((_, &score), _)| {
            let place = score * -Self::BINS_PER_UNIT;
            from <= place && place < to
        });
        self.tokens.extend(tokens.map(|((id, &score), &weight)| Ranked { score, id, mass: mass(weight) }));

        // The first of `rest` is kept, and the last one kept is among them: halve until it is alone.
        let mut rest = &mut self.tokens[..];
        while rest.len() > 1 {
            let middle = rest.len() / 2;
            rest.select_nth_unstable_by(middle, |a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
            let with_first_half = before + rest[..middle].iter().map(|token| token.mass).sum::<u64>();
            rest = if with_first_half < enough {
                before = with_first_half;
                &mut rest[middle..]
            } else {
                &mut rest[..middle]
            };
        }
        Cut { score: rest[0].score, last_id: rest[0].id }
    }
}
