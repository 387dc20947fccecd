//! A weight matrix and its product with activations.
//!
//! Every product here is a set of independent dot products with one order of summation, so a row of the result does
//! not depend on how many rows were computed with it: prefill in chunks of any size gives the same bits.

use std::str::FromStr;
use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Module, Result, Tensor};

use super::panels::Panels;
use crate::error;

/// How the numbers of a weight matrix are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Precision {
    /// 32-bit floats: the reference.
    F32,
    /// Blocks of 32 weights in 8 bits with one scale, as GGUF defines them; activations are rounded alike.
    Q8_0,
    /// Blocks of 32 weights in 4 bits with one scale, as GGUF defines them; activations are rounded to 8 bits.
    Q4_0,
}

/// Weights that share one scale in [`Precision::Q8_0`] and [`Precision::Q4_0`]; the rows of a matrix in one of the two
/// must be a multiple of this.
pub const BLOCK: usize = 32;

impl Precision {
    /// All there are, the most exact first.
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
    pub fn stored(self) -> GgmlDType {
        match self {
            Self::F32 => GgmlDType::F32,
            Self::Q8_0 => GgmlDType::Q8_0,
            Self::Q4_0 => GgmlDType::Q4_0,
        }
    }

    /// Bytes that a matrix `[outputs, inputs]` takes.
    pub fn bytes(self, outputs: u64, inputs: u64) -> u64 {
        match self {
            Self::F32 => Panels::bytes(outputs, inputs),
            Self::Q8_0 | Self::Q4_0 => {
                outputs.saturating_mul(inputs / BLOCK as u64).saturating_mul(self.stored().type_size() as u64)
            }
        }
    }

    /// The greatest number it can hold: the scale of a block is a half-precision float, and a weight is at most 127 or
    /// 8 times that.
    pub fn greatest(self) -> f32 {
        const GREATEST_HALF: f32 = 65504.0;
        match self {
            Self::F32 => f32::MAX,
            Self::Q8_0 => 127.0 * GREATEST_HALF,
            Self::Q4_0 => 8.0 * GREATEST_HALF,
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

/// A weight matrix of shape `[out, in]`, made by a [`MatrixBuilder`](super::matrix_builder::MatrixBuilder). Clones
/// share the numbers.
#[derive(Clone)]
pub enum Matrix {
    /// In 32-bit floats.
    F32(Arc<Panels>),
    /// In blocks of 8 or 4 bits.
    Blocks(Arc<QTensor>),
}

impl Matrix {
    /// How the numbers are held.
    pub fn precision(&self) -> Precision {
        match self {
            Self::F32(_) => Precision::F32,
            Self::Blocks(blocks) if blocks.dtype() == GgmlDType::Q4_0 => Precision::Q4_0,
            Self::Blocks(_) => Precision::Q8_0,
        }
    }

    /// Outputs and inputs.
    pub fn shape(&self) -> (usize, usize) {
        match self {
            Self::F32(panels) => panels.shape(),
            Self::Blocks(blocks) => (blocks.shape().dims()[0], blocks.shape().dims()[1]),
        }
    }

    /// Whether two matrices are the same numbers in memory.
    pub fn shares(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::F32(a), Self::F32(b)) => Arc::ptr_eq(a, b),
            (Self::Blocks(a), Self::Blocks(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// The rows `ids` as f32, shape `[ids.len(), in]`; nothing else is dequantised.
    pub fn rows(&self, ids: &[u32]) -> Result<Tensor> {
        match self {
            Self::F32(panels) => panels.rows(ids),
            Self::Blocks(blocks) => blocks.embedding(&Tensor::new(ids, &Device::Cpu)?),
        }
    }
}

impl Module for Matrix {
    /// `x` of shape `[n, in]` times the transposed matrix: `[n, out]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::F32(panels) => x.apply_op1_no_bwd(panels.as_ref()),
            // Candle rounds each row of `x` to q8_0 on its own.
            Self::Blocks(blocks) => x.apply_op1_no_bwd(blocks.as_ref()),
        }
    }
}

/// A matrix and a bias: `x Wᵀ + b`.
#[derive(Clone)]
pub struct Linear {
    weight: Matrix,
    bias: Tensor,
}

impl Linear {
    /// A layer with a `weight` of shape `[out, in]` and a `bias` of shape `[out]`.
    pub fn new(weight: Matrix, bias: Tensor) -> Self {
        Self { weight, bias }
    }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.weight.forward(x)?.broadcast_add(&self.bias)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::matrix_builder::tests::{matrix, random};
    use super::*;

    fn bits(tensor: &Tensor) -> Vec<u32> {
        tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap().iter().map(|x| x.to_bits()).collect()
    }

    fn greatest_difference(a: &Tensor, b: &Tensor) -> f32 {
        (a - b).unwrap().abs().unwrap().max_all().unwrap().to_scalar().unwrap()
    }

    proptest! {
        #[test]
        fn the_f32_product_is_that_of_candle(n in 1..7usize, inputs in 1..80usize, outputs in 1..70usize, seed: u32) {
            let (weights, x) = (random(outputs, inputs, seed), random(n, inputs, !seed));
            let expected = x.matmul(&weights.t().unwrap()).unwrap();
            let got = matrix(&weights, Precision::F32).forward(&x).unwrap();
            prop_assert_eq!(got.dims(), [n, outputs]);
            prop_assert!(greatest_difference(&got, &expected) < 1e-4);
        }

        #[test]
        fn a_row_does_not_depend_on_its_neighbours(n in 2..9usize, outputs in 1..40usize, seed: u32) {
            let (weights, x) = (random(outputs, 96, seed), random(n, 96, !seed));
            for precision in Precision::ALL {
                let matrix = matrix(&weights, precision);
                let together = matrix.forward(&x).unwrap();
                for row in 0..n {
                    let alone = matrix.forward(&x.narrow(0, row, 1).unwrap()).unwrap();
                    prop_assert_eq!(bits(&alone), bits(&together.narrow(0, row, 1).unwrap()));
                }
            }
        }

        #[test]
        fn rows_are_those_of_the_matrix(ids in prop::collection::vec(0..37u32, 1..9), seed: u32) {
            let weights = random(37, 64, seed);
            let expected = weights.index_select(&Tensor::new(ids.as_slice(), &Device::Cpu).unwrap(), 0).unwrap();
            let rows = matrix(&weights, Precision::F32).rows(&ids).unwrap();
            prop_assert_eq!(bits(&rows), bits(&expected));
            // Half a step of 2 / 254, and the rounding of the scale to 16 bits; a whole step of 1 / 8 where a number
            // as great as the greatest has the other sign.
            for (precision, most) in [(Precision::Q8_0, 0.005), (Precision::Q4_0, 0.126)] {
                let rows = matrix(&weights, precision).rows(&ids).unwrap();
                prop_assert!(greatest_difference(&rows, &expected) < most);
            }
        }
    }

    #[test]
    fn a_row_outside_the_matrix_is_an_error() {
        for precision in Precision::ALL {
            let matrix = matrix(&random(17, 32, 1), precision);
            assert!(matrix.rows(&[16]).is_ok());
            assert!(matrix.rows(&[17]).is_err());
        }
    }

    #[test]
    fn the_bytes_announced_are_the_bytes_held() {
        for precision in Precision::ALL {
            let held = match matrix(&random(17, 64, 1), precision) {
                Matrix::F32(panels) => size_of_val(panels.as_ref().data()) as u64,
                Matrix::Blocks(blocks) => blocks.storage_size_in_bytes() as u64,
            };
            assert_eq!(precision.bytes(17, 64), held, "{precision:?}");
        }
    }
}
