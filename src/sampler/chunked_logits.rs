//! Logits in chunks of equal size, each with its maximum: whatever looks for large logits skips most of them.

use std::array::from_fn;

/// Logits in a chunk: few enough to skip finely, enough for vector instructions.
pub(super) const CHUNK: usize = 32;

/// A copy of the logits, filled up to whole chunks with minus infinity, which no token can be drawn with.
#[derive(Debug, Clone, Default)]
pub(super) struct ChunkedLogits {
    chunks: Vec<[f32; CHUNK]>,
    maxima: Vec<f32>,
    best: f32,
    /// How many logits there were.
    len: usize,
}

impl ChunkedLogits {
    /// Takes new logits and returns the largest; `None` if one of them is NaN, or the largest is infinite.
    pub(super) fn fill(&mut self, logits: &[f32]) -> Option<f32> {
        let (whole, rest) = logits.as_chunks();
        self.chunks.clear();
        self.chunks.extend_from_slice(whole);
        if !rest.is_empty() {
            let mut last = [f32::NEG_INFINITY; CHUNK];
            last[..rest.len()].copy_from_slice(rest);
            self.chunks.push(last);
        }
        self.len = logits.len();
        self.find_maxima();
        // Without the sign, the bits of a float are in the order of its size, and those of NaN above infinity's.
        let mut bits = [0; CHUNK];
        for chunk in &self.chunks {
            for (bits, logit) in bits.iter_mut().zip(chunk) {
                *bits = logit.abs().to_bits().max(*bits);
            }
        }
        let no_nan = bits.iter().all(|&bits| bits <= f32::INFINITY.to_bits());
        (no_nan && self.best.is_finite()).then_some(self.best)
    }

    /// Gives the logits of `ids`, in ascending order, that are finite to `change`.
    pub(super) fn change(&mut self, ids: &[u32], change: impl Fn(f32) -> f32) {
        let logits = self.chunks.as_flattened_mut();
        for &id in ids {
            // An id past the logits has nothing to change.
            if let Some(logit) = logits.get_mut(id as usize).filter(|logit| logit.is_finite()) {
                *logit = change(*logit);
            }
        }
        self.find_maxima();
    }

    fn find_maxima(&mut self) {
        self.maxima.clear();
        self.maxima.extend(self.chunks.iter().map(max));
        let (groups, rest) = self.maxima.as_chunks();
        self.best = groups.iter().map(max).chain(rest.iter().copied()).fold(f32::NEG_INFINITY, larger);
    }

    /// The largest logit; minus infinity if there are none.
    pub(super) fn best(&self) -> f32 {
        self.best
    }

    /// The least finite logit; the largest number if there are none.
    pub(super) fn least(&self) -> f32 {
        let smaller = |a: f32, b: f32| if b < a { b } else { a };
        let finite = |logit: f32| if logit >= f32::MIN { logit } else { f32::MAX };
        let mut lanes = [f32::MAX; CHUNK];
        for chunk in &self.chunks {
            for (lane, &logit) in lanes.iter_mut().zip(chunk) {
                *lane = smaller(*lane, finite(logit));
            }
        }
        lanes.into_iter().fold(f32::MAX, smaller)
    }

    /// The largest logit of every chunk.
    pub(super) fn maxima(&self) -> &[f32] {
        &self.maxima
    }

    /// How many logits there were.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All chunks, in the order of their ids.
    pub(super) fn all(&self) -> &[[f32; CHUNK]] {
        &self.chunks
    }

    /// The chunks, with their numbers, that hold a logit of at least `least`.
    pub(super) fn reaching(&self, least: f32) -> impl Iterator<Item = (usize, &[f32; CHUNK])> {
        let reaches = self.maxima.iter().zip(&self.chunks).enumerate();
        reaches.filter(move |&(_, (&max, _))| max >= least).map(|(index, (_, chunk))| (index, chunk))
    }

    /// The `n` largest logits and their ids, best first, of equals the lowest id first; impossible tokens are left out.
    pub(super) fn top(&self, n: usize, top: &mut Vec<(u32, f32)>) {
        top.clear();
        let mut least = f32::NEG_INFINITY;
        for (index, (chunk, &max)) in self.chunks.iter().zip(&self.maxima).enumerate() {
            if max <= least || n == 0 {
                continue;
            }
            for (id, &logit) in ((index * CHUNK) as u32..).zip(chunk) {
                if logit <= least {
                    continue;
                }
                if top.len() == n {
                    top.pop();
                }
                let at = top.partition_point(|&(_, other)| other >= logit);
                top.insert(at, (id, logit));
                if top.len() == n {
                    least = top[n - 1].1;
                }
            }
        }
    }

    /// The logit of a token.
    pub(super) fn get(&self, id: u32) -> Option<f32> {
        self.chunks.as_flattened().get(id as usize).copied()
    }
}

/// The larger of two numbers, neither of which is NaN.
fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// The largest of a chunk, in halves, so that it is found with vector instructions.
fn max(chunk: &[f32; CHUNK]) -> f32 {
    let a: [f32; 16] = from_fn(|i| larger(chunk[i], chunk[i + 16]));
    let b: [f32; 8] = from_fn(|i| larger(a[i], a[i + 8]));
    let c: [f32; 4] = from_fn(|i| larger(b[i], b[i + 4]));
    larger(larger(c[0], c[2]), larger(c[1], c[3]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(logits: &[f32]) -> ChunkedLogits {
        let mut chunks = ChunkedLogits::default();
        chunks.fill(&[9.0; 100]);
        chunks.fill(logits);
        chunks
    }

    #[test]
    fn the_last_block_is_filled_up_with_what_cannot_be_drawn() {
        for n in [1, 31, 32, 33, 64, 100] {
            let chunks = filled(&vec![1.5; n]);
            assert_eq!((chunks.len(), chunks.all().len()), (n, n.div_ceil(CHUNK)));
            let flat = chunks.all().as_flattened();
            assert!(flat[..n].iter().all(|&logit| logit == 1.5));
            assert!(flat[n..].iter().all(|&logit| logit == f32::NEG_INFINITY));
            assert_eq!((chunks.best(), chunks.least()), (1.5, 1.5));
        }
    }

    #[test]
    fn the_largest_is_found_wherever_it_is_and_so_is_nan() {
        for place in 0..100 {
            let mut logits = [-3.0; 100];
            logits[place] = -1.0;
            let chunks = filled(&logits);
            assert_eq!((chunks.best(), chunks.maxima()[place / CHUNK], chunks.least()), (-1.0, -1.0, -3.0));
            assert!(chunks.reaching(-1.0).map(|(index, _)| index).eq([place / CHUNK]));
            for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::INFINITY] {
                logits[place] = nan;
                assert_eq!(ChunkedLogits::default().fill(&logits), None);
            }
            logits[place] = f32::NEG_INFINITY;
            assert_eq!(ChunkedLogits::default().fill(&logits), Some(-3.0));
        }
        assert_eq!(ChunkedLogits::default().fill(&[f32::NEG_INFINITY; 40]), None);
        assert_eq!(ChunkedLogits::default().fill(&[]), None);
    }

    #[test]
    fn a_change_moves_the_maxima() {
        let mut logits = [1.0; 70];
        (logits[3], logits[40], logits[69]) = (5.0, f32::NEG_INFINITY, 4.0);
        let mut chunks = filled(&logits);
        chunks.change(&[3, 40, 1000], |logit| logit - 10.0);
        assert_eq!(chunks.maxima(), [1.0, 1.0, 4.0]);
        assert_eq!((chunks.best(), chunks.least()), (4.0, -5.0));
        assert_eq!((chunks.get(3), chunks.get(40), chunks.get(1000)), (Some(-5.0), Some(f32::NEG_INFINITY), None));
    }

    #[test]
    fn the_top_is_in_the_order_of_the_ranking() {
        let logits: Vec<f32> = (0..100).map(|id| [0.0, 3.0, -0.0, 3.0, f32::NEG_INFINITY][id % 5]).collect();
        let mut top = Vec::new();
        filled(&logits).top(43, &mut top);
        let ids: Vec<u32> = top.iter().map(|&(id, _)| id).collect();
        let expected: Vec<u32> = (0..100).filter(|id| id % 5 == 1 || id % 5 == 3).chain([0, 2, 5]).collect();
        assert_eq!(ids, expected);
        filled(&logits).top(100, &mut top);
        assert_eq!(top.len(), 80, "the impossible are left out");
        filled(&logits).top(0, &mut top);
        assert!(top.is_empty());
    }
}
