//! A weight matrix and its product with activations.
//!
//! Every product here is a set of independent dot products with one order of summation, so a row of the result does
//! not depend on how many rows were computed with it: prefill in chunks of any size gives the same bits.

use std::str::FromStr;
use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{CpuStorage, CustomOp1, Device, Layout, Module, Result, Shape, Tensor, bail};

use crate::error;

/// How the numbers of a weight matrix are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 32-bit floats: the reference.
    F32,
    /// Blocks of 32 weights in 8 bits with one scale, as GGUF defines them; activations are rounded alike.
    Q8_0,
}

impl Precision {
    /// The name in records and messages: `f32` or `q8_0`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Q8_0 => "q8_0",
        }
    }
}

impl FromStr for Precision {
    type Err = error::Error;

    /// The precision of that [`name`](Self::name).
    fn from_str(name: &str) -> error::Result<Self> {
        [Self::F32, Self::Q8_0].into_iter().find(|precision| precision.name() == name).ok_or_else(|| {
            let sentence = format!("there is no precision `{name}`; give `f32` or `q8_0`");
            error::Error::new(error::ErrorKind::InvalidRequest, sentence)
        })
    }
}

/// A weight matrix of shape `[out, in]`. Clones share the numbers.
#[derive(Clone)]
pub enum Matrix {
    /// In 32-bit floats.
    F32(Arc<Panels>),
    /// In blocks of 8 bits.
    Q8_0(Arc<QTensor>),
}

impl Matrix {
    /// The matrix of the f32 tensor `weights`, `[out, in]` in any memory order, held in `precision`.
    ///
    /// # Errors
    /// For q8_0 if `in` is no multiple of 32.
    pub fn new(weights: &Tensor, precision: Precision) -> Result<Self> {
        Ok(match precision {
            Precision::F32 => Self::F32(Arc::new(Panels::new(weights)?)),
            Precision::Q8_0 => Self::Q8_0(Arc::new(QTensor::quantize(&weights.contiguous()?, GgmlDType::Q8_0)?)),
        })
    }

    /// The rows `ids` as f32, shape `[ids.len(), in]`; nothing else is dequantised.
    pub fn rows(&self, ids: &[u32]) -> Result<Tensor> {
        match self {
            Self::F32(panels) => panels.rows(ids),
            Self::Q8_0(blocks) => blocks.embedding(&Tensor::new(ids, &Device::Cpu)?),
        }
    }
}

impl Module for Matrix {
    /// `x` of shape `[n, in]` times the transposed matrix: `[n, out]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::F32(panels) => x.apply_op1_no_bwd(panels.as_ref()),
            // Candle rounds each row of `x` to q8_0 on its own.
            Self::Q8_0(blocks) => x.apply_op1_no_bwd(blocks.as_ref()),
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

/// Outputs computed side by side: four 128-bit registers, enough to hide the latency of an addition.
const WIDTH: usize = 16;

/// Rows of activations that share one reading of the weights.
const ROWS: usize = 2;

/// An f32 matrix `[out, in]` cut into panels of [`WIDTH`] outputs, each panel stored input by input. The product runs
/// through memory in one direction, has one vector lane per output and so needs no sum across lanes.
pub struct Panels {
    /// `[out / WIDTH, in, WIDTH]`; the lanes of the last panel beyond `out` are zero.
    data: Vec<f32>,
    outputs: usize,
    inputs: usize,
}

impl Panels {
    fn new(weights: &Tensor) -> Result<Self> {
        let (outputs, inputs) = weights.dims2()?;
        let (storage, layout) = weights.storage_and_layout();
        let candle_core::Storage::Cpu(storage) = &*storage else { bail!("weights must be on the CPU") };
        let numbers = storage.as_slice::<f32>()?;
        let (start, stride) = (layout.start_offset(), layout.stride());
        let mut data = vec![0.0; outputs.div_ceil(WIDTH) * inputs * WIDTH];
        for (panel, first) in data.chunks_exact_mut(inputs * WIDTH).zip((0..outputs).step_by(WIDTH)) {
            for (input, lanes) in panel.chunks_exact_mut(WIDTH).enumerate() {
                for (lane, output) in lanes.iter_mut().zip(first..outputs) {
                    *lane = numbers[start + output * stride[0] + input * stride[1]];
                }
            }
        }
        Ok(Self { data, outputs, inputs })
    }

    fn rows(&self, ids: &[u32]) -> Result<Tensor> {
        let mut rows: Vec<f32> = Vec::with_capacity(ids.len() * self.inputs);
        for &id in ids {
            let id = id as usize;
            if id >= self.outputs {
                bail!("row {id} of a matrix with {}", self.outputs);
            }
            let panel = &self.data[id / WIDTH * WIDTH * self.inputs..][..WIDTH * self.inputs];
            rows.extend(panel.iter().skip(id % WIDTH).step_by(WIDTH));
        }
        Tensor::from_vec(rows, (ids.len(), self.inputs), &Device::Cpu)
    }

    /// `x` of shape `[n, in]`, row by row, to `[n, out]`.
    fn product(&self, x: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; x.len() / self.inputs * self.outputs];
        for (index, panel) in self.data.chunks_exact(self.inputs * WIDTH).enumerate() {
            let first = index * WIDTH;
            let used = WIDTH.min(self.outputs - first);
            let mut put = |row: usize, sums: &[f32; WIDTH]| {
                out[row * self.outputs + first..][..used].copy_from_slice(&sums[..used]);
            };
            let tiles = x.chunks_exact(ROWS * self.inputs);
            let rest = tiles.remainder();
            let whole = (x.len() - rest.len()) / self.inputs;
            for (tile, xs) in tiles.enumerate() {
                for (row, sums) in self.tile::<ROWS>(panel, xs).iter().enumerate() {
                    put(tile * ROWS + row, sums);
                }
            }
            for (row, xs) in rest.chunks_exact(self.inputs).enumerate() {
                put(whole + row, &self.tile::<1>(panel, xs)[0]);
            }
        }
        out
    }

    /// `N` rows of activations times one panel; each lane sums over the inputs in their order, whatever `N` is.
    #[inline(always)]
    fn tile<const N: usize>(&self, panel: &[f32], xs: &[f32]) -> [[f32; WIDTH]; N] {
        let xs: [&[f32]; N] = std::array::from_fn(|row| &xs[row * self.inputs..][..self.inputs]);
        let mut sums = [[0.0; WIDTH]; N];
        for (input, weights) in panel.as_chunks::<WIDTH>().0[..self.inputs].iter().enumerate() {
            for (sums, x) in sums.iter_mut().zip(xs) {
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum += x[input] * weight;
                }
            }
        }
        sums
    }
}

impl CustomOp1 for Panels {
    fn name(&self) -> &'static str {
        "f32-product"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (n, inputs) = layout.shape().dims2()?;
        let Some((start, end)) = layout.contiguous_offsets() else { bail!("activations must be contiguous") };
        if inputs != self.inputs {
            bail!("activations of width {inputs} for a matrix with {} inputs", self.inputs);
        }
        let out = self.product(&x.as_slice::<f32>()?[start..end]);
        Ok((CpuStorage::F32(out), (n, self.outputs).into()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn random(rows: usize, columns: usize, seed: u32) -> Tensor {
        let mut state = seed;
        let numbers: Vec<f32> = (0..rows * columns)
            .map(|_| {
                state = state.wrapping_mul(1664525).wrapping_add(1013904223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect();
        Tensor::from_vec(numbers, (rows, columns), &Device::Cpu).unwrap()
    }

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
            let got = Matrix::new(&weights, Precision::F32).unwrap().forward(&x).unwrap();
            prop_assert_eq!(got.dims(), [n, outputs]);
            prop_assert!(greatest_difference(&got, &expected) < 1e-4);
            // The same numbers in the other memory order.
            let turned = weights.t().unwrap().contiguous().unwrap();
            let again = Matrix::new(&turned.t().unwrap(), Precision::F32).unwrap().forward(&x).unwrap();
            prop_assert_eq!(bits(&again), bits(&got));
        }

        #[test]
        fn a_row_does_not_depend_on_its_neighbours(n in 2..9usize, outputs in 1..40usize, seed: u32) {
            let (weights, x) = (random(outputs, 96, seed), random(n, 96, !seed));
            for precision in [Precision::F32, Precision::Q8_0] {
                let matrix = Matrix::new(&weights, precision).unwrap();
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
            let rows = Matrix::new(&weights, Precision::F32).unwrap().rows(&ids).unwrap();
            prop_assert_eq!(bits(&rows), bits(&expected));
            // Half a step of 2 / 254, and the rounding of the scale to 16 bits.
            let rows = Matrix::new(&weights, Precision::Q8_0).unwrap().rows(&ids).unwrap();
            prop_assert!(greatest_difference(&rows, &expected) < 0.005);
        }
    }

    #[test]
    fn a_row_outside_the_matrix_is_an_error() {
        for precision in [Precision::F32, Precision::Q8_0] {
            let matrix = Matrix::new(&random(17, 32, 1), precision).unwrap();
            assert!(matrix.rows(&[16]).is_ok());
            assert!(matrix.rows(&[17]).is_err());
        }
    }
}
