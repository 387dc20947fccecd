//! What the cache of one head does, in whichever precision it holds keys and values.

use crate::error::Result;
use crate::gpt2::memory::{self, try_reserve};
use crate::kernels::exp::exp_each;

/// What a query works in.
#[derive(Debug, Default)]
pub struct Scratch {
    /// One number for each position, and room for a multiple of four.
    pub(super) weights: Vec<f32>,
    /// The query, quantised.
    pub(super) query: Vec<[i16; 2]>,
    /// The weights, quantised.
    pub(super) quantised: Vec<[i16; 2]>,
    pub(super) sums: Vec<i32>,
}

impl Scratch {
    /// Takes room for a query of `head_dim` numbers and `positions` positions.
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

/// The keys and values of one head.
pub trait HeadCache {
    /// A head of `head_dim` numbers that holds nothing.
    fn new(head_dim: usize) -> Self;

    /// Takes room for `positions` positions, if it has less.
    ///
    /// # Errors
    /// `OutOfMemory`; what is held is unchanged then.
    fn reserve(&mut self, positions: usize) -> Result<()>;

    /// Writes the key and the value of a position there is room for.
    fn set(&mut self, position: usize, key: &[f32], value: &[f32]);

    /// The attention of one query over the first `visible` positions, at least one, into `out`.
    fn attend(&self, query: &[f32], visible: usize, scale: f32, scratch: &mut Scratch, out: &mut [f32]);
}

/// Makes `exp(score - max)` of scores, so that no exponential overflows; gives their sum.
pub(super) fn softmax_numerators(scores: &mut [f32]) -> f32 {
    // By a comparison, which is an instruction for four numbers: `f32::max` is a call for each.
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

/// Makes `held` at least `len` long, in one allocation of exactly that size.
///
/// # Errors
/// `OutOfMemory`; it is unchanged then.
pub(super) fn grow<T: Clone>(held: &mut Vec<T>, len: usize, zero: T) -> Result<()> {
    if len > held.len() {
        memory::try_reserve(held, len)?;
        held.resize(len, zero);
    }
    Ok(())
}
