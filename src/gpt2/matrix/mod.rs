//! A weight matrix and its product with activations.
//!
//! Every product here is a set of independent dot products with one order of summation, so a row of the result does
//! not depend on how many rows were computed with it: prefill in chunks of any size gives the same bits.

use std::str::FromStr;
use std::sync::Arc;

use candle_core::quantized::GgmlDType;

mod builder;
mod f32_matrix;
mod packed_matrix;
mod quantise;

#[cfg(test)]
pub use builder::tests as samples;
pub use builder::{Layout, MatrixBuilder};
use f32_matrix::F32Matrix;
use packed_matrix::PackedMatrix;

use crate::error;
use crate::kernels::{self, ActivationBlock, Q4x4, Q8x4};

/// How the numbers of a weight matrix are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Precision {
    /// 32-bit floats: the reference.
    F32,
    /// Blocks of 32 weights in 8 bits with one scale, as GGUF defines them; activations are quantised in the same way.
    Q8_0,
    /// Blocks of 32 weights in 4 bits with one scale, as GGUF defines them; activations are quantised to 8 bits.
    Q4_0,
}

impl Precision {
    /// All precisions, the most exact first.
    pub const ALL: [Self; 3] = [Self::F32, Self::Q8_0, Self::Q4_0];

    /// The name in records and messages: `f32`, `q8_0` or `q4_0`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
        }
    }

    /// The block format of GGUF that holds the same numbers.
    pub(in crate::gpt2) fn stored(self) -> GgmlDType {
        match self {
            Self::F32 => GgmlDType::F32,
            Self::Q8_0 => GgmlDType::Q8_0,
            Self::Q4_0 => GgmlDType::Q4_0,
        }
    }

    /// Bytes that a matrix `[outputs, inputs]` takes.
    pub fn bytes(self, outputs: u64, inputs: u64) -> u64 {
        match self {
            Self::F32 => F32Matrix::bytes(outputs, inputs),
            Self::Q8_0 => PackedMatrix::<Q8x4>::bytes(outputs, inputs),
            Self::Q4_0 => PackedMatrix::<Q4x4>::bytes(outputs, inputs),
        }
    }

    /// The largest number it can hold: the scale of a block is a half-precision float, and a weight is at most 127 or
    /// 8 times that.
    pub fn max(self) -> f32 {
        const MAX_F16: f32 = 65504.0;
        match self {
            Self::F32 => f32::MAX,
            Self::Q8_0 => 127.0 * MAX_F16,
            Self::Q4_0 => 8.0 * MAX_F16,
        }
    }
}

impl FromStr for Precision {
    type Err = error::Error;

    /// The precision of that [`name`](Self::name).
    fn from_str(name: &str) -> error::Result<Self> {
        Self::ALL.into_iter().find(|precision| precision.name() == name).ok_or_else(|| {
            let sentence = format!("there is no precision `{name}`; give `f32`, `q8_0` or `q4_0`");
            error::Error::new(error::ErrorKind::InvalidRequest, sentence)
        })
    }
}

/// A weight matrix of shape `[out, in]`, made by a [`MatrixBuilder`]. Clones share the numbers.
#[derive(Clone)]
pub enum Matrix {
    /// In 32-bit floats.
    F32(Arc<F32Matrix>),
    /// In blocks of 8 bits.
    Q8_0(Arc<PackedMatrix<Q8x4>>),
    /// In blocks of 4 bits.
    Q4_0(Arc<PackedMatrix<Q4x4>>),
}

impl Matrix {
    /// How the numbers are held.
    pub fn precision(&self) -> Precision {
        match self {
            Self::F32(_) => Precision::F32,
            Self::Q8_0(_) => Precision::Q8_0,
            Self::Q4_0(_) => Precision::Q4_0,
        }
    }

    /// Outputs and inputs.
    pub fn shape(&self) -> (usize, usize) {
        match self {
            Self::F32(held) => held.shape(),
            Self::Q8_0(held) => held.shape(),
            Self::Q4_0(held) => held.shape(),
        }
    }

    /// Bytes of the numbers.
    pub fn bytes(&self) -> u64 {
        let (outputs, inputs) = self.shape();
        self.precision().bytes(outputs as u64, inputs as u64)
    }

    /// The same numbers in another precision; a clone if they are in it, or if their rows make no blocks.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn in_precision(&self, precision: Precision) -> error::Result<Self> {
        let (outputs, inputs) = self.shape();
        if precision == self.precision() || precision != Precision::F32 && !inputs.is_multiple_of(kernels::BLOCK) {
            return Ok(self.clone());
        }
        let (mut builder, mut rows) = (MatrixBuilder::new(outputs, inputs, precision, Layout::RowMajor)?, Vec::new());
        for output in 0..outputs as u32 {
            self.rows(&[output], &mut rows);
            builder.push(&rows)?;
        }
        builder.finish()
    }

    /// Whether two matrices share their memory.
    pub fn shares(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::F32(a), Self::F32(b)) => Arc::ptr_eq(a, b),
            (Self::Q8_0(a), Self::Q8_0(b)) => Arc::ptr_eq(a, b),
            (Self::Q4_0(a), Self::Q4_0(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// The rows `ids` as f32, into `out`, shape `[ids.len(), in]`; nothing else is dequantised. Ids must be below the
    /// number of outputs.
    pub fn rows(&self, ids: &[u32], out: &mut Vec<f32>) {
        out.clear();
        for &id in ids {
            match self {
                Self::F32(held) => out.extend(held.row(id as usize)),
                Self::Q8_0(held) => out.extend(held.row(id as usize)),
                Self::Q4_0(held) => out.extend(held.row(id as usize)),
            }
        }
    }

    /// `x` of shape `[n, in]` times the transposed matrix, into `out`: `[n, out]`.
    pub fn matmul_t(&self, x: &[f32], quantised: &mut Vec<ActivationBlock>, out: &mut Vec<f32>) {
        let (outputs, inputs) = self.shape();
        out.resize(x.len() / inputs * outputs, 0.0);
        match self {
            Self::F32(held) => held.matmul_t(x, out),
            Self::Q8_0(held) => held.matmul_t(kernels::selected().q8, x, quantised, out),
            Self::Q4_0(held) => held.matmul_t(kernels::selected().q4, x, quantised, out),
        }
    }
}

/// A matrix and a bias: `x Wᵀ + b`.
#[derive(Clone)]
pub struct Linear {
    weight: Matrix,
    bias: Vec<f32>,
}

impl Linear {
    /// A layer with a `weight` of shape `[out, in]` and a `bias` of shape `[out]`.
    pub fn new(weight: Matrix, bias: Vec<f32>) -> Self {
        Self { weight, bias }
    }

    /// The weight and the bias.
    pub fn parts(&self) -> (&Matrix, &[f32]) {
        (&self.weight, &self.bias)
    }

    /// Numbers in a row of `x`.
    pub fn inputs(&self) -> usize {
        self.weight.shape().1
    }

    /// How the weights are held.
    pub fn precision(&self) -> Precision {
        self.weight.precision()
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> u64 {
        self.weight.bytes()
    }

    /// The same layer with its weights in another precision.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn in_precision(&self, precision: Precision) -> error::Result<Self> {
        Ok(Self { weight: self.weight.in_precision(precision)?, bias: self.bias.clone() })
    }

    /// `x` of shape `[n, in]` to `out` of shape `[n, out]`.
    pub fn forward(&self, x: &[f32], quantised: &mut Vec<ActivationBlock>, out: &mut Vec<f32>) {
        self.weight.matmul_t(x, quantised, out);
        for row in out.chunks_exact_mut(self.bias.len()) {
            for (number, bias) in row.iter_mut().zip(&self.bias) {
                *number += bias;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Tensor;
    use proptest::prelude::*;

    use super::samples::{matrix, numbers, random};
    use super::*;
    use crate::kernels::BLOCK;

    fn bits(numbers: &[f32]) -> Vec<u32> {
        numbers.iter().map(|number| number.to_bits()).collect()
    }

    fn greatest_difference(a: &[f32], b: &[f32]) -> f32 {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b).fold(0.0, |greatest, (a, b)| greatest.max((a - b).abs()))
    }

    fn product(matrix: &Matrix, x: &[f32]) -> Vec<f32> {
        let mut out = Vec::new();
        matrix.matmul_t(x, &mut Vec::new(), &mut out);
        out
    }

    fn rows(matrix: &Matrix, ids: &[u32]) -> Vec<f32> {
        let mut out = Vec::new();
        matrix.rows(ids, &mut out);
        out
    }

    /// The transposed product by candle, in f32.
    fn oracle(x: &Tensor, weights: &Tensor) -> Vec<f32> {
        numbers(&x.matmul(&weights.t().unwrap()).unwrap())
    }

    proptest! {
        #[test]
        fn the_f32_product_is_that_of_candle(n in 1..7usize, inputs in 1..80usize, outputs in 1..70usize, seed: u32) {
            let (weights, x) = (random(outputs, inputs, seed), random(n, inputs, !seed));
            let got = product(&matrix(&weights, Precision::F32), &numbers(&x));
            prop_assert!(greatest_difference(&got, &oracle(&x, &weights)) < 1e-4);
        }

        #[test]
        fn a_rounded_product_is_near_that_of_its_rows(
            n in 1..7usize, blocks in 1..5usize, outputs in 1..70usize, seed: u32,
        ) {
            let inputs = blocks * BLOCK;
            let (weights, x) = (random(outputs, inputs, seed), random(n, inputs, !seed));
            for precision in [Precision::Q8_0, Precision::Q4_0] {
                let matrix = matrix(&weights, precision);
                let ids: Vec<u32> = (0..outputs as u32).collect();
                let held = Tensor::from_vec(rows(&matrix, &ids), (outputs, inputs), &candle_core::Device::Cpu).unwrap();
                // An activation is off by at most half a step of 1 / 127, and a weight is at most 1.
                let most = inputs as f32 * 0.5 / 127.0 * 1.01;
                prop_assert!(greatest_difference(&product(&matrix, &numbers(&x)), &oracle(&x, &held)) < most);
            }
        }

        #[test]
        fn a_row_does_not_depend_on_its_neighbours(n in 2..9usize, outputs in 1..40usize, seed: u32) {
            let (weights, x) = (random(outputs, 96, seed), numbers(&random(n, 96, !seed)));
            for precision in Precision::ALL {
                let matrix = matrix(&weights, precision);
                let alone: Vec<f32> = x.chunks(96).flat_map(|row| product(&matrix, row)).collect();
                prop_assert_eq!(bits(&product(&matrix, &x)), bits(&alone));
            }
        }

        #[test]
        fn rows_are_those_of_the_matrix(ids in prop::collection::vec(0..37u32, 1..9), seed: u32) {
            let weights = random(37, 64, seed);
            let all = numbers(&weights);
            let expected: Vec<f32> = ids.iter().flat_map(|&id| all[64 * id as usize..][..64].to_vec()).collect();
            prop_assert_eq!(bits(&rows(&matrix(&weights, Precision::F32), &ids)), bits(&expected));
            // Half a step of 2 / 254, and the rounding of the scale to 16 bits; a whole step of 1 / 8 where a number
            // as great as the greatest has the other sign.
            for (precision, most) in [(Precision::Q8_0, 0.005), (Precision::Q4_0, 0.126)] {
                prop_assert!(greatest_difference(&rows(&matrix(&weights, precision), &ids), &expected) < most);
            }
        }
    }

    #[test]
    fn the_bytes_announced_are_the_bytes_held() {
        for precision in Precision::ALL {
            let held = match matrix(&random(17, 64, 1), precision) {
                Matrix::F32(held) => size_of_val(held.as_ref().data()) as u64,
                Matrix::Q8_0(held) => held.size(),
                Matrix::Q4_0(held) => held.size(),
            };
            assert_eq!(precision.bytes(17, 64), held, "{precision:?}");
        }
    }
}
