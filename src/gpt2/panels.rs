//! A matrix in 32-bit floats and its product: the reference.

use super::memory;
use crate::error;

/// Outputs computed side by side: four 128-bit registers, enough to hide the latency of an addition.
const WIDTH: usize = 16;

/// Rows of activations that share one reading of the weights.
const ROWS: usize = 2;

/// An f32 matrix `[out, in]` cut into panels of 16 outputs, each panel stored input by input. The product runs
/// through memory in one direction, has one vector lane per output and so needs no sum across lanes.
#[derive(Clone)]
pub struct Panels {
    /// `[out / WIDTH, in, WIDTH]`; the lanes of the last panel beyond `out` are zero.
    data: Vec<f32>,
    outputs: usize,
    inputs: usize,
}

impl Panels {
    /// A matrix of zeros.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn zeros(outputs: usize, inputs: usize) -> error::Result<Self> {
        Ok(Self { data: memory::filled(outputs.next_multiple_of(WIDTH) * inputs, 0.0)?, outputs, inputs })
    }

    /// What a matrix of this size takes.
    pub fn bytes(outputs: u64, inputs: u64) -> u64 {
        outputs.next_multiple_of(WIDTH as u64).saturating_mul(inputs).saturating_mul(4)
    }

    /// Writes the weights of one output.
    pub fn set_row(&mut self, output: usize, row: impl IntoIterator<Item = f32>) {
        let panel = &mut self.data[output / WIDTH * WIDTH * self.inputs..][..WIDTH * self.inputs];
        for (lanes, number) in panel.chunks_exact_mut(WIDTH).zip(row) {
            lanes[output % WIDTH] = number;
        }
    }

    /// Writes the weights of one input.
    pub fn set_column(&mut self, input: usize, column: &[f32]) {
        for (panel, numbers) in self.data.chunks_exact_mut(WIDTH * self.inputs).zip(column.chunks(WIDTH)) {
            panel[input * WIDTH..][..numbers.len()].copy_from_slice(numbers);
        }
    }

    /// The weights of one output.
    pub fn row(&self, output: usize) -> impl Iterator<Item = f32> {
        let panel = &self.data[output / WIDTH * WIDTH * self.inputs..][..WIDTH * self.inputs];
        panel.iter().skip(output % WIDTH).step_by(WIDTH).copied()
    }

    /// All numbers, in the order of the product.
    #[cfg(test)]
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// Outputs and inputs.
    pub fn shape(&self) -> (usize, usize) {
        (self.outputs, self.inputs)
    }

    /// `x` of shape `[n, in]`, row by row, to `out` of shape `[n, out]`.
    pub fn product(&self, x: &[f32], out: &mut [f32]) {
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
