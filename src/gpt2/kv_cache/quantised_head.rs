//! Quantised keys and values of a head, with a scale for each position: 12-bit keys (stored in 16 bits), 8-bit values, and
//! integer dot products.
//!
//! The error of a key is multiplied by the query and enters an exponent, while errors of values average out. With 8-bit
//! keys, quantising the keys changed the likelihood of tokens nearly as much as quantising all activations; 8-bit values
//! changed it a tenth as much (`docs/performance.md`). Queries are quantised to 11 bits and weights, which are not negative,
//! to 14 bits.

use super::head::{HeadCache, Scratch, grow, softmax_numerators};
use crate::error::Result;
use crate::kernels::activations::{TINY, max_abs, round};
use crate::kernels::attention::{self, KeyGroup, ValuePair};

/// Number of positions whose keys are interleaved.
const GROUP: usize = 4;

/// Limits of quantised keys and queries: the sum of [`QuantisedHeadCache::MAX_HEAD_DIM`] products stays below 2^31.
const KEY: f32 = 2047.0;
const QUERY: f32 = 1023.0;

/// Limits of quantised values and weights.
const VALUE: f32 = 127.0;
const WEIGHT: f32 = 16383.0;

/// Number of positions whose weights share one scale. A dominant weight quantises small weights to 0 although their sum
/// may matter; spans restrict this to its neighbours. The sum of `SPAN` products stays below 2^31.
const SPAN: usize = 128;

/// The cache of a head of at most [`MAX_HEAD_DIM`](Self::MAX_HEAD_DIM) numbers.
#[derive(Clone)]
pub struct QuantisedHeadCache {
    /// `[position / 4, column / 2]`.
    keys: Vec<KeyGroup>,
    key_scales: Vec<f32>,
    /// `[position / 2, column]`, with the columns padded to a multiple of 4.
    values: Vec<ValuePair>,
    value_scales: Vec<f32>,
    head_dim: usize,
}

impl QuantisedHeadCache {
    /// Maximum width of a head.
    pub const MAX_HEAD_DIM: usize = 1024;

    /// Bytes of the key and the value of one position.
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
            // With an odd number of positions, the last pair is padded with a weight of 0.
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

/// The scale for quantising numbers to -limit..=limit, and its inverse: `(scale, inverse)`. NaN or infinity among the
/// numbers makes the scale NaN or infinite.
fn scales(numbers: &[f32], limit: f32) -> (f32, f32) {
    let max_abs = max_abs(numbers);
    (max_abs / limit, if max_abs < TINY { 0.0 } else { limit / max_abs })
}

/// Quantises numbers into pairs; an odd last number is paired with 0.
fn round_pairs(numbers: &[f32], inverse: f32, pairs: &mut Vec<[i16; 2]>) {
    pairs.clear();
    pairs.resize(numbers.len().div_ceil(2), [0; 2]);
    // A flat loop, so that it vectorises.
    for (quantised, number) in pairs.as_flattened_mut().iter_mut().zip(numbers) {
        *quantised = round(number * inverse) as i16;
    }
}

/// Quantises one or two numbers; a missing second one is 0.
#[inline(always)]
fn round_pair(pair: &[f32], inverse: f32) -> [i16; 2] {
    [round(pair[0] * inverse) as i16, pair.get(1).map_or(0, |number| round(number * inverse) as i16)]
}
