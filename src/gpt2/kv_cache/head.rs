//! The interface of the KV cache of one head, for every precision.

use crate::error::Result;
use crate::gpt2::memory::{self, try_reserve};
use crate::kernels::exp::exp_each;

/// The buffers of a query.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The scores and then the weights, one for each position, rounded up to a multiple of 4.
    pub(super) weights: Vec<f32>,
    /// The quantised query.
    pub(super) query: Vec<[i16; 2]>,
    /// The quantised weights.
    pub(super) quantised: Vec<[i16; 2]>,
    pub(super) sums: Vec<i32>,
}

impl Scratch {
    /// Reserves space for a query of `head_dim` numbers over `positions` positions.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn reserve(&mut self, positions: usize, head_dim: usize) -> Result<()> {
        try_reserve(&mut self.weights, positions.next_multiple_of(4))?;
        try_reserve(&mut self.query, head_dim.div_ceil(2))?;
        try_reserve(&mut self.quantised, positions.div_ceil(2))?;
        try_reserve(&mut self.sums, head_dim.next_multiple_of(4))
    }
}

/// The KV cache of one attention head.
pub trait HeadCache {
    /// An empty cache for a head of `head_dim` numbers.
    fn new(head_dim: usize) -> Self;

    /// Reserves space for `positions` positions in total.
    ///
    /// # Errors
    /// `OutOfMemory`; the contents are unchanged then.
    fn reserve(&mut self, positions: usize) -> Result<()>;

    /// Writes the key and the value of a position, for which space is reserved.
    fn set(&mut self, position: usize, key: &[f32], value: &[f32]);

    /// Computes attention of one query over the first `visible` positions (at least 1) into `out`.
    fn attend(&self, query: &[f32], visible: usize, scale: f32, scratch: &mut Scratch, out: &mut [f32]);
}

/// Replaces each score by `exp(score - max)`, which does not overflow, and returns the sum.
pub(super) fn softmax_numerators(scores: &mut [f32]) -> f32 {
    // A comparison vectorises; `f32::max` compiles to a call.
    let greater = |max: f32, score: &f32| if *score > max { *score } else { max };
    let (fours, rest) = scores.as_chunks::<4>();
    let mut lanes = [f32::NEG_INFINITY; 4];
    for four in fours {
        for (lane, score) in lanes.iter_mut().zip(four) {
            *lane = greater(*lane, score);
        }
    }
    let max = lanes.iter().chain(rest).fold(f32::NEG_INFINITY, greater);
    exp_each(scores, max)
}

/// Grows `held` to a length of at least `len`, in one allocation of exactly that size.
///
/// # Errors
/// `OutOfMemory`; `held` is unchanged then.
pub(super) fn grow<T: Clone>(held: &mut Vec<T>, len: usize, zero: T) -> Result<()> {
    if len > held.len() {
        memory::try_reserve(held, len)?;
        held.resize(len, zero);
    }
    Ok(())
}
