//! The KV cache: keys and values of the processed positions.

mod f32_head;
mod head;
mod quantised_head;

use f32_head::F32HeadCache;
pub use head::{HeadCache, Scratch};
pub use quantised_head::QuantisedHeadCache;

use super::matrix::Precision;
use crate::error::Result;

/// Initial capacity in positions. The capacity then doubles up to the context length.
const FIRST_POSITIONS: usize = 64;

/// The precision of keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvPrecision {
    /// 32-bit floats.
    F32,
    /// 12-bit keys and 8-bit values, with a scale for each head and position.
    Quantised,
}

impl KvPrecision {
    /// How a model holds keys and values, most of whose weights are in `precision`: the reference stays exact, and where
    /// weights are rounded, keys and values may be.
    pub fn of_model(precision: Precision, head_dim: usize) -> Self {
        if precision == Precision::F32 || head_dim > QuantisedHeadCache::MAX_HEAD_DIM {
            Self::F32
        } else {
            Self::Quantised
        }
    }

    /// Bytes of the key and the value of one position in one head of `head_dim` numbers.
    pub fn bytes(self, head_dim: u64) -> u64 {
        match self {
            Self::F32 => 8u64.saturating_mul(head_dim),
            Self::Quantised => QuantisedHeadCache::bytes(head_dim),
        }
    }
}

/// The KV cache of one transformer block.
#[derive(Clone)]
pub struct LayerKvCache {
    heads: Heads,
    head_dim: usize,
    context: usize,
    /// Number of positions, and the capacity.
    len: usize,
    capacity: usize,
}

/// The caches of the heads.
#[derive(Clone)]
pub enum Heads {
    /// See [`KvPrecision::F32`].
    F32(Vec<F32HeadCache>),
    /// See [`KvPrecision::Quantised`].
    Quantised(Vec<QuantisedHeadCache>),
}

impl LayerKvCache {
    /// An empty cache for `heads` heads of width `head_dim` and a context of `context` positions.
    pub fn new(heads: usize, head_dim: usize, context: usize, storage: KvPrecision) -> Self {
        let heads = match storage {
            KvPrecision::F32 => Heads::F32((0..heads).map(|_| HeadCache::new(head_dim)).collect()),
            KvPrecision::Quantised => Heads::Quantised((0..heads).map(|_| HeadCache::new(head_dim)).collect()),
        };
        Self { heads, head_dim, context, len: 0, capacity: 0 }
    }

    /// Reserves space for `n` more positions, in amortised time O(`n`).
    ///
    /// # Errors
    /// `OutOfMemory`; the contents are unchanged then.
    pub fn reserve(&mut self, n: usize) -> Result<()> {
        let len = self.len + n;
        if len > self.capacity {
            let capacity = len.max(FIRST_POSITIONS).max(2 * self.capacity).min(self.context.max(len));
            match &mut self.heads {
                Heads::F32(heads) => heads.iter_mut().try_for_each(|head| head.reserve(capacity))?,
                Heads::Quantised(heads) => heads.iter_mut().try_for_each(|head| head.reserve(capacity))?,
            }
            self.capacity = capacity;
        }
        Ok(())
    }

    /// Appends the keys and values of the next positions, for which space is reserved. `qkv`, of shape `[n, 3 * n_embd]`,
    /// holds queries, keys and values side by side.
    pub fn append(&mut self, qkv: &[f32]) {
        match &mut self.heads {
            Heads::F32(heads) => write(heads, qkv, self.len, self.head_dim),
            Heads::Quantised(heads) => write(heads, qkv, self.len, self.head_dim),
        }
        self.len += qkv.len() / (3 * self.n_embd());
    }

    /// Shortens the cache to `len` positions. Does nothing if it is shorter.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Number of positions.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Width of a head.
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// Total width of the heads.
    pub fn n_embd(&self) -> usize {
        let heads = match &self.heads {
            Heads::F32(heads) => heads.len(),
            Heads::Quantised(heads) => heads.len(),
        };
        heads * self.head_dim
    }

    /// The caches of the heads. Contents beyond [`len`](Self::len) are unspecified.
    pub fn heads(&self) -> &Heads {
        &self.heads
    }
}

fn write<H: HeadCache>(heads: &mut [H], qkv: &[f32], from: usize, head_dim: usize) {
    let n_embd = heads.len() * head_dim;
    for (index, head) in heads.iter_mut().enumerate() {
        for (position, qkv) in (from..).zip(qkv.chunks_exact(3 * n_embd)) {
            let key = &qkv[n_embd + index * head_dim..][..head_dim];
            let value = &qkv[2 * n_embd + index * head_dim..][..head_dim];
            head.set(position, key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `n` positions from `from` on, in two heads of three numbers.
    fn positions(from: usize, n: usize) -> Vec<f32> {
        (from..from + n).flat_map(|p| (0..18).map(move |column| (1000 * p + column) as f32)).collect()
    }

    #[test]
    fn truncated_positions_are_overwritten_by_the_next() {
        for storage in [KvPrecision::F32, KvPrecision::Quantised] {
            let mut cache = LayerKvCache::new(2, 3, 8, storage);
            cache.reserve(4).unwrap();
            cache.append(&positions(0, 4));
            cache.truncate(5);
            assert_eq!(cache.len(), 4);
            cache.truncate(1);
            cache.append(&positions(7, 1));
            let mut fresh = LayerKvCache::new(2, 3, 8, storage);
            fresh.reserve(2).unwrap();
            fresh.append(&positions(0, 1));
            fresh.append(&positions(7, 1));
            let attend = |cache: &LayerKvCache| {
                let mut out = [0.0; 6];
                super::super::attention::attention(&positions(9, 1), cache, 1e-6, &mut Default::default(), &mut out);
                out
            };
            assert_eq!((cache.len(), attend(&cache)), (2, attend(&fresh)), "{storage:?}");
        }
    }

    #[test]
    fn capacity_doubles_and_ends_at_the_context() {
        let (mut cache, mut capacities) = (LayerKvCache::new(2, 3, 300, KvPrecision::Quantised), Vec::new());
        for p in 0..300 {
            cache.reserve(1).unwrap();
            cache.append(&positions(p, 1));
            capacities.push(cache.capacity);
        }
        capacities.dedup();
        assert_eq!(capacities, [64, 128, 256, 300]);
    }
}
