//! A head in rounded numbers, with a scale for each position: keys in 12 bits (held in 16), values in 8, and products
//! in integers.
//!
//! A key's error is multiplied by the query and goes into an exponent, a value's is averaged away: with 8-bit keys the
//! rounding of keys moved the likelihood of tokens nearly as much as that of all activations, and 8-bit values a tenth
//! of it. `docs/performance.md` has the figures. The query, which is rounded anew in each step, gets 11 bits, and the
//! weights, which have no sign, get 14.

use super::head::{HeadCache, Scratch, grow, softmax_numerators};
use crate::error::Result;
use crate::kernels::activations::{TINY, max_abs, round};
use crate::kernels::attention::{self, KeyGroup, ValuePair};

/// Positions whose keys lie side by side.
const GROUP: usize = 4;

/// The greatest number of a key, and of a query: [`QuantisedHeadCache::MAX_HEAD_DIM`] of their products stay below 2^31.
const KEY: f32 = 2047.0;
const QUERY: f32 = 1023.0;

/// The greatest number of a value, and of a weight.
const VALUE: f32 = 127.0;
const WEIGHT: f32 = 16383.0;

/// Positions whose weights share one scale. One weight far above all others would make nothing of them, and all of them
/// together may be much: so it only can in its own span. The sum of so many products stays below 2^31.
const SPAN: usize = 128;

/// Keys and values of a head of at most [`MAX_HEAD_DIM`](Self::MAX_HEAD_DIM) numbers.
#[derive(Clone)]
pub struct QuantisedHeadCache {
    /// `[position / 4, pair of numbers]`.
    keys: Vec<KeyGroup>,
    key_scales: Vec<f32>,
    /// `[position / 2, number]`, the numbers rounded up to a multiple of 4.
    values: Vec<ValuePair>,
    value_scales: Vec<f32>,
    head_dim: usize,
}

impl QuantisedHeadCache {
    /// The widest head.
    pub const MAX_HEAD_DIM: usize = 1024;

    /// Bytes of a position's key and value.
    pub fn bytes(head_dim: u64) -> u64 {
        2 * head_dim.next_multiple_of(2) + head_dim.next_multiple_of(4) + 8
    }

    fn pairs(&self) -> usize {
        self.head_dim.div_ceil(2)
    }

    fn width(&self) -> usize {
        self.head_dim.next_multiple_of(4)
    }
}

impl HeadCache for QuantisedHeadCache {
    fn new(head_dim: usize) -> Self {
        debug_assert!(head_dim <= Self::MAX_HEAD_DIM);
        Self { keys: Vec::new(), key_scales: Vec::new(), values: Vec::new(), value_scales: Vec::new(), head_dim }
    }

    fn reserve(&mut self, positions: usize) -> Result<()> {
        let positions = positions.next_multiple_of(GROUP);
        let (pairs, width) = (self.pairs(), self.width());
        grow(&mut self.keys, positions / GROUP * pairs, KeyGroup::default())?;
        grow(&mut self.values, positions / 2 * width, [0; 2])?;
        grow(&mut self.key_scales, positions, 0.0)?;
        grow(&mut self.value_scales, positions, 0.0)
    }

    fn set(&mut self, position: usize, key: &[f32], value: &[f32]) {
        let (pairs, width) = (self.pairs(), self.width());
        let (scale, inverse) = scales(key, KEY);
        self.key_scales[position] = scale;
        let groups = &mut self.keys[position / GROUP * pairs..][..pairs];
        for (group, numbers) in groups.iter_mut().zip(key.chunks(2)) {
            group[position % GROUP] = round_pair(numbers, inverse);
        }
        let (scale, inverse) = scales(value, VALUE);
        self.value_scales[position] = scale;
        for (pair, number) in self.values[position / 2 * width..][..width].iter_mut().zip(value) {
            pair[position % 2] = round(number * inverse) as i8;
        }
    }

    fn attend(&self, query: &[f32], visible: usize, scale: f32, scratch: &mut Scratch, out: &mut [f32]) {
        let Scratch { weights, query: quantised_query, quantised, sums } = scratch;
        let (query_scale, inverse) = scales(query, QUERY);
        round_pairs(query, inverse, quantised_query);
        weights.resize(visible.next_multiple_of(GROUP), 0.0);
        let (key_scales, scores) = (self.key_scales.as_chunks().0, weights.as_chunks_mut().0);
        attention::qk_dot(
            &self.keys[..scores.len() * self.pairs()],
            quantised_query,
            key_scales,
            query_scale * scale,
            scores,
        );
        weights.truncate(visible);
        let sum = softmax_numerators(weights);

        for (weight, scale) in weights.iter_mut().zip(&self.value_scales) {
            *weight *= scale;
        }
        let width = self.width();
        out.fill(0.0);
        for (weights, values) in weights.chunks(SPAN).zip(self.values.chunks(SPAN / 2 * width)) {
            let (scale, inverse) = scales(weights, WEIGHT);
            // An odd number of positions leaves a place in the last pair, whose weight is 0.
            round_pairs(weights, inverse, quantised);
            sums.clear();
            sums.resize(width, 0);
            attention::add_weighted_values(sums, &values[..quantised.len() * width], quantised);
            for (out, added) in out.iter_mut().zip(sums.iter()) {
                *out += *added as f32 * (scale / sum);
            }
        }
    }
}

/// What makes integers up to `most` of numbers and of those the numbers again: `(scale, inverse)`. NaN and infinity
/// among the numbers make the scale NaN or infinite.
fn scales(numbers: &[f32], most: f32) -> (f32, f32) {
    let greatest = max_abs(numbers);
    (greatest / most, if greatest < TINY { 0.0 } else { most / greatest })
}

/// Numbers, rounded, two by two; in place of a last one that is missing, 0.
fn round_pairs(numbers: &[f32], inverse: f32, pairs: &mut Vec<[i16; 2]>) {
    pairs.clear();
    pairs.resize(numbers.len().div_ceil(2), [0; 2]);
    // Number by number in a slice, of which the compiler makes vectors.
    for (rounded, number) in pairs.as_flattened_mut().iter_mut().zip(numbers) {
        *rounded = round(number * inverse) as i16;
    }
}

/// One number or two, rounded; in place of a second that is missing, 0.
#[inline(always)]
fn round_pair(pair: &[f32], inverse: f32) -> [i16; 2] {
    [round(pair[0] * inverse) as i16, pair.get(1).map_or(0, |number| round(number * inverse) as i16)]
}
