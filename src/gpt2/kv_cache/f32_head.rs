//! Keys and values of a head in 32-bit floats: the reference.

use super::head::{HeadCache, Scratch, grow, softmax_numerators};
use crate::error::Result;

/// Keys and values, both `[position, head_dim]`.
#[derive(Clone)]
pub struct F32HeadCache {
    keys: Vec<f32>,
    values: Vec<f32>,
    head_dim: usize,
}

impl HeadCache for F32HeadCache {
    fn new(head_dim: usize) -> Self {
        Self { keys: Vec::new(), values: Vec::new(), head_dim }
    }

    fn reserve(&mut self, positions: usize) -> Result<()> {
        for held in [&mut self.keys, &mut self.values] {
            grow(held, positions * self.head_dim, 0.0)?;
        }
        Ok(())
    }

    fn set(&mut self, position: usize, key: &[f32], value: &[f32]) {
        let at = position * self.head_dim..(position + 1) * self.head_dim;
        self.keys[at.clone()].copy_from_slice(key);
        self.values[at].copy_from_slice(value);
    }

    fn attend(&self, query: &[f32], visible: usize, scale: f32, scratch: &mut Scratch, out: &mut [f32]) {
        let held = visible * self.head_dim;
        let weights = &mut scratch.weights;
        weights.clear();
        weights.extend(self.keys[..held].chunks_exact(self.head_dim).map(|key| scale * dot(query, key)));
        let sum = softmax_numerators(weights);
        for weight in weights.iter_mut() {
            *weight /= sum;
        }
        weighted_sum(weights, &self.values[..held], out);
    }
}

/// The dot product of two vectors, summed in eight lanes: two vector registers.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    let sums: [f32; 4] = std::array::from_fn(|lane| sums[lane] + sums[lane + 4]);
    (sums[0] + sums[2]) + (sums[1] + sums[3]) + rest
}

/// Writes the weighted sum of the rows of `values` (`[weights.len(), out.len()]`) to `out`.
fn weighted_sum(weights: &[f32], values: &[f32], out: &mut [f32]) {
    /// Number of columns whose sums stay in registers during one pass over the rows.
    const COLUMNS: usize = 16;
    let width = out.len();
    let (columns, rest) = out.as_chunks_mut::<COLUMNS>();
    let rest_at = width - rest.len();
    for (index, out) in columns.iter_mut().enumerate() {
        let mut sums = [0.0; COLUMNS];
        for (weight, value) in weights.iter().zip(values.chunks_exact(width)) {
            let value = &value[index * COLUMNS..][..COLUMNS];
            for lane in 0..COLUMNS {
                sums[lane] += weight * value[lane];
            }
        }
        *out = sums;
    }
    rest.fill(0.0);
    for (weight, value) in weights.iter().zip(values.chunks_exact(width)) {
        for (out, value) in rest.iter_mut().zip(&value[rest_at..]) {
            *out += weight * value;
        }
    }
}
