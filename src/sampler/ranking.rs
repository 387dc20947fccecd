//! How far down the ranking a sum reaches, without sorting: the tokens are counted into bins of similar logits, and the
//! one bin that the place is in is divided again, until its logits are equal.

use super::chunked_logits::{CHUNK, ChunkedLogits};
use super::cut::Cut;

const BINS: usize = 1024;
/// The last takes all that is less than 2^-32 times as likely as the best.
const BINS_PER_DOUBLING: f32 = 32.0;
const LAST: f32 = BINS as f32 - 1.0;
const SHIFT: f32 = (1u32 << 23) as f32;
/// Where to see whether the sum is reached already: most of the vocabulary is far below.
const STOPS: [usize; 3] = [256, 512, BINS];

/// Finds places in a ranking in linear time; holds its buffers.
#[derive(Debug, Clone)]
pub(super) struct Ranking {
    /// Mass of the tokens by their distance from the best.
    bins: Box<[f64; BINS]>,
    /// The tokens of the bin that the cut goes through, in the order of their ids.
    tokens: Vec<Ranked>,
}

/// A token with what its rank and its mass are made of.
#[derive(Debug, Clone, Copy)]
struct Ranked {
    logit: f32,
    id: u32,
    mass: f32,
}

impl Default for Ranking {
    fn default() -> Self {
        Self { bins: Box::new([0.0; BINS]), tokens: Vec::new() }
    }
}

impl Ranking {
    /// The cut after the first token, in the ranking, with which the masses reach `enough`. If that is not among the
    /// tokens with a logit of at least `least`, it is some cut below them.
    ///
    /// `masses` are those of the tokens of a chunk. A unit of the logit is `rate` doublings of a weight.
    pub(super) fn cut<'a>(
        &mut self,
        chunks: &ChunkedLogits,
        least: f32,
        rate: f32,
        enough: f64,
        masses: impl Fn(usize) -> &'a [f32; CHUNK],
    ) -> Cut {
        let best = chunks.best();
        // At high temperatures the weights are much the same, and it is the logits that must be told apart.
        let bins_per_unit = (BINS_PER_DOUBLING * rate).max(LAST / (best - chunks.least())).min(f32::MAX);
        let bin = |logit: f32| {
            let distance = (best - logit) * bins_per_unit;
            // Adding 2^23 leaves the nearest whole number in the lowest bits, sooner than a conversion would.
            ((if distance < LAST { distance } else { LAST }) + SHIFT).to_bits() as usize % BINS
        };
        self.bins.fill(0.0);
        let mut place = Place { bin: 0, before: 0.0 };
        let mut from = 0;
        for stop in STOPS {
            // Every token in a bin before the stop is in a chunk whose maximum is.
            for (index, chunk) in chunks.reaching(least) {
                if (from..stop).contains(&bin(chunks.maxima()[index])) {
                    let bins_of: [usize; CHUNK] = std::array::from_fn(|lane| bin(chunk[lane]));
                    for (bin, &mass) in bins_of.into_iter().zip(masses(index)) {
                        self.bins[bin] += f64::from(mass);
                    }
                }
            }
            if place.advance(&self.bins[..stop], enough) {
                break;
            }
            from = stop;
        }
        if place.bin == BINS {
            return Cut::NONE;
        }

        self.tokens.clear();
        for (index, chunk) in chunks.reaching(least) {
            let here = |logit: f32| bin(logit) == place.bin && logit >= f32::MIN;
            if chunk.iter().fold(false, |any, &logit| any | here(logit)) {
                for ((id, &logit), &mass) in ((index * CHUNK) as u32..).zip(chunk).zip(masses(index)) {
                    if here(logit) {
                        self.tokens.push(Ranked { logit, id, mass });
                    }
                }
            }
        }
        self.narrow(enough, place.before)
    }

    /// The cut among `tokens`, before which there is the mass `before`.
    fn narrow(&mut self, enough: f64, mut before: f64) -> Cut {
        loop {
            let logits = self.tokens.iter().map(|token| f64::from(token.logit));
            let (least, most) = logits.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
            if least >= most {
                break;
            }
            // The least and the most are in the last bin and the first: each round leaves fewer.
            let bins_per_unit = BINS as f64 / (most - least);
            let bin = |token: &Ranked| (((most - f64::from(token.logit)) * bins_per_unit) as usize).min(BINS - 1);
            self.bins.fill(0.0);
            for token in &self.tokens {
                self.bins[bin(token)] += f64::from(token.mass);
            }
            let mut place = Place { bin: 0, before };
            if !place.advance(&self.bins[..], enough) {
                // Sums in another order, rounded otherwise: then it is the last token.
                place.bin = BINS - 1;
            }
            before = place.before;
            self.tokens.retain(|token| bin(token) == place.bin);
        }
        let mut sum = before;
        let reached = self.tokens.iter().find(|token| {
            sum += f64::from(token.mass);
            sum >= enough
        });
        let last = reached.or(self.tokens.last());
        last.map_or(Cut::NONE, |token| Cut { logit: token.logit, last_id: token.id })
    }
}

/// A bin, and the mass in those before it.
struct Place {
    bin: usize,
    before: f64,
}

impl Place {
    /// Goes on to the first bin with which the mass is enough; false if that is none of `bins`.
    fn advance(&mut self, bins: &[f64], enough: f64) -> bool {
        // A token is kept if those before it have less than enough.
        while let Some(mass) = bins.get(self.bin).filter(|&&mass| self.before + mass < enough) {
            self.before += mass;
            self.bin += 1;
        }
        self.bin < bins.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::UniformRng;

    /// The place by sorting.
    fn sorted(logits: &[f32], enough: f64, mass: f32) -> Cut {
        let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
        ids.sort_by(|&a, &b| logits[b as usize].partial_cmp(&logits[a as usize]).unwrap());
        let last = ids[(enough / f64::from(mass)).ceil() as usize - 1];
        Cut { logit: logits[last as usize], last_id: last }
    }

    #[test]
    fn is_where_sorting_puts_it_whatever_the_bins() {
        let mut rng = UniformRng::new(4);
        let mut logits: Vec<f32> = (0..500).map(|_| (rng.next_f64() * 40.0).round() as f32 / 4.0).collect();
        logits.extend((0..500).map(|id| -(1.5f32.powi(id % 100))));
        let mut chunks = ChunkedLogits::default();
        chunks.fill(&logits);
        let mut ranking = Ranking::default();
        for rate in [f32::MIN_POSITIVE, 1.0, 1e6, f32::MAX] {
            for enough in 1..=1000 {
                let cut = ranking.cut(&chunks, f32::MIN, rate, f64::from(enough) * 0.5, |_| &[0.5; CHUNK]);
                assert_eq!(cut, sorted(&logits, f64::from(enough) * 0.5, 0.5), "{rate}, {enough}");
                let above = ranking.cut(&chunks, 2.0, rate, f64::from(enough) * 0.5, |_| &[0.5; CHUNK]);
                assert!(above == cut || (above.logit < 2.0 && cut.logit < 2.0), "{rate}, {enough}");
            }
            assert!(ranking.cut(&chunks, 2.0, rate, 1e9, |_| &[0.5; CHUNK]).logit < 2.0);
        }
    }
}
