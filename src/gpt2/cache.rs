//! Keys and values of the positions already processed.

use candle_core::{Result, Tensor};

/// Room for this many positions is taken at once at the start; then it doubles, up to the context.
const FIRST_POSITIONS: usize = 64;

/// The keys and values of one block, each head's in one piece: `[position, head_dim]`, as attention reads them.
#[derive(Clone)]
pub struct BlockCache {
    heads: Vec<Head>,
    head_dim: usize,
    context: usize,
}

#[derive(Clone, Default)]
struct Head {
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl BlockCache {
    /// An empty cache of `heads` heads, each `head_dim` wide, for at most `context` positions.
    pub fn new(heads: usize, head_dim: usize, context: usize) -> Self {
        Self { heads: vec![Head::default(); heads], head_dim, context }
    }

    /// Appends the `keys` and `values` of the next positions, each of shape `[n, heads * head_dim]`.
    /// Costs time in proportion to `n`, whatever is held already (amortised).
    pub fn append(&mut self, keys: &Tensor, values: &Tensor) -> Result<()> {
        let (keys, values) = (keys.to_vec2::<f32>()?, values.to_vec2::<f32>()?);
        for (index, head) in self.heads.iter_mut().enumerate() {
            let columns = index * self.head_dim..(index + 1) * self.head_dim;
            for (held, new) in [(&mut head.keys, &keys), (&mut head.values, &values)] {
                reserve(held, new.len() * self.head_dim, self.head_dim, self.context);
                for row in new {
                    held.extend_from_slice(&row[columns.clone()]);
                }
            }
        }
        Ok(())
    }

    /// Forgets the positions from `len` on. Does nothing if fewer are held.
    pub fn truncate(&mut self, len: usize) {
        for head in &mut self.heads {
            head.keys.truncate(len * self.head_dim);
            head.values.truncate(len * self.head_dim);
        }
    }

    /// Positions held.
    pub fn len(&self) -> usize {
        self.heads.first().map_or(0, |head| head.keys.len() / self.head_dim)
    }

    /// Width of a head.
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// Keys and values of each head, both `[position, head_dim]`.
    pub fn heads(&self) -> impl ExactSizeIterator<Item = (&[f32], &[f32])> {
        self.heads.iter().map(|head| (head.keys.as_slice(), head.values.as_slice()))
    }
}

/// Grows by doubling like `Vec` does, but never past what a full context needs.
fn reserve(held: &mut Vec<f32>, more: usize, head_dim: usize, context: usize) {
    let needed = held.len() + more;
    if needed > held.capacity() {
        let doubled = (2 * held.capacity()).max(FIRST_POSITIONS * head_dim).min(context * head_dim);
        held.reserve_exact(doubled.max(needed) - held.len());
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    /// Row `p` of `n` rows starting at position `from` holds `1000 p + column`.
    fn positions(from: usize, n: usize) -> Tensor {
        let numbers: Vec<f32> = (from..from + n).flat_map(|p| (0..6).map(move |c| (1000 * p + c) as f32)).collect();
        Tensor::from_vec(numbers, (n, 6), &Device::Cpu).unwrap()
    }

    #[test]
    fn heads_hold_their_own_columns_position_by_position() {
        let mut cache = BlockCache::new(2, 3, 8);
        cache.append(&positions(0, 2), &positions(10, 2)).unwrap();
        cache.append(&positions(2, 1), &positions(12, 1)).unwrap();
        let heads: Vec<_> = cache.heads().collect();
        assert_eq!(heads[1].0, [3.0, 4.0, 5.0, 1003.0, 1004.0, 1005.0, 2003.0, 2004.0, 2005.0]);
        assert_eq!(heads[0].1[6..], [12000.0, 12001.0, 12002.0]);
        assert_eq!(cache.len(), 3);
    }

    #[test]
    fn truncated_positions_are_overwritten_by_the_next() {
        let mut cache = BlockCache::new(2, 3, 8);
        cache.append(&positions(0, 4), &positions(0, 4)).unwrap();
        cache.truncate(5);
        assert_eq!(cache.len(), 4);
        cache.truncate(1);
        cache.append(&positions(7, 1), &positions(7, 1)).unwrap();
        assert_eq!(cache.heads().next().unwrap().0, [0.0, 1.0, 2.0, 7000.0, 7001.0, 7002.0]);
    }

    #[test]
    fn memory_doubles_and_ends_at_the_context() {
        let (mut cache, mut sizes) = (BlockCache::new(1, 6, 300), Vec::new());
        for p in 0..300 {
            cache.append(&positions(p, 1), &positions(p, 1)).unwrap();
            sizes.push(cache.heads[0].keys.capacity() / 6);
        }
        sizes.dedup();
        assert_eq!(sizes, [64, 128, 256, 300]);
    }
}
