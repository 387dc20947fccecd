//! How much of a prompt is processed at a time.

/// How long one prefill chunk should take, in milliseconds: so long a cancel waits at most, where a position takes less.
const CHUNK_MS: f64 = 100.0;

/// How many positions to process next, so that a chunk takes about [`CHUNK_MS`] whatever the model and the machine; or
/// twice as long as a single position, if that is longer. A pass over a large model reads all its weights, for one
/// position as for several, so that a chunk which may not take longer than one alone would never grow.
#[derive(Debug, Default)]
pub(crate) struct ChunkSize {
    /// The least time that any chunk took, which no position alone takes longer than. The first one may have taken far
    /// longer than a position does: code not yet compiled, memory not yet there, a tab that slept.
    alone_ms: f64,
    /// Time and size of the last chunk.
    last: Option<(usize, f64)>,
}

impl ChunkSize {
    /// Most times a chunk may outgrow the one before: a clock with coarse ticks can read 0 for a short one.
    const GROWTH: usize = 16;

    /// Chunks of at least two times this are a multiple of it: engines process positions a few at a time, and of 2 or 3
    /// none are left over. Rounding down must not cost much of a chunk, or one would not outgrow it.
    const MULTIPLE: usize = 6;

    /// The largest chunk, whatever the clock says: a pass takes memory for each of its positions.
    const MOST: usize = 240;

    /// The first chunk is one position: nothing is known of the speed yet, and on a large model that is slow enough.
    pub fn next(&self) -> usize {
        let Some((positions, ms)) = self.last else { return 1 };
        let may_take = CHUNK_MS.max(2.0 * self.alone_ms);
        let fitting = positions as f64 * may_take / ms.max(f64::MIN_POSITIVE);
        let fitting = (fitting.min((positions * Self::GROWTH) as f64) as usize).clamp(1, Self::MOST);
        if fitting < 2 * Self::MULTIPLE { fitting } else { fitting / Self::MULTIPLE * Self::MULTIPLE }
    }

    pub fn measured(&mut self, positions: usize, ms: f64) {
        self.alone_ms = if self.last.is_none() { ms } else { self.alone_ms.min(ms) };
        self.last = Some((positions, ms));
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK_MS, ChunkSize};

    /// The sizes of chunks where a pass takes `pass` milliseconds and each position `position` more.
    fn sizes(pass: f64, position: f64) -> Vec<usize> {
        let mut chunks = ChunkSize::default();
        let mut next = || {
            let size = chunks.next();
            chunks.measured(size, pass + position * size as f64);
            size
        };
        (0..12).map(|_| next()).collect()
    }

    #[test]
    fn chunks_grow_to_what_fits() {
        for (pass, position) in [(0.0, 3.0), (10.0, 3.0), (10.0, 0.1), (0.5, 0.2)] {
            let sizes = sizes(pass, position);
            assert_eq!(sizes[0], 1);
            let last = sizes[11];
            let takes = |size: usize| pass + position * size as f64;
            let grown = last == ChunkSize::MOST || takes(last + 12) > 0.85 * CHUNK_MS;
            assert!(takes(last) <= 1.01 * CHUNK_MS && grown, "{pass} {position}: {sizes:?}");
            assert!(sizes.iter().all(|&size| takes(size) <= 2.0 * CHUNK_MS), "{sizes:?}");
        }
    }

    #[test]
    fn one_slow_chunk_is_forgotten() {
        for stall in [400.0, 5_000.0] {
            let mut chunks = ChunkSize::default();
            chunks.measured(chunks.next(), stall);
            let mut times = (0..12).map(|_| {
                let size = chunks.next();
                let ms = 8.0 + 4.0 * size as f64;
                chunks.measured(size, ms);
                ms
            });
            times.next();
            assert!(times.all(|ms| ms <= 2.0 * CHUNK_MS), "after {stall} ms");
        }
    }

    #[test]
    fn a_pass_that_takes_long_is_shared() {
        let sizes = sizes(100.0, 5.0);
        assert!(sizes[11] > 10 && 100.0 + 5.0 * sizes[11] as f64 <= 1.01 * 2.0 * 105.0, "{sizes:?}");
    }
}
