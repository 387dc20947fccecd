//! A matrix in 32-bit floats and its product: the reference.

use super::memory;
use crate::error;

/// Outputs whose weights lie side by side.
const WIDTH: usize = 8;

/// Panels that one row of activations meets at a time, from as many places of the matrix: one reader alone gets little
/// more than half of what the memory gives.
pub const READERS: usize = 4;

/// Panels, and rows of activations, that share one reading of each other.
const TILE: (usize, usize) = (2, 2);

/// An f32 matrix `[out, in]` cut into panels of 8 outputs, each panel stored input by input. The product runs
/// through memory in one direction, has one vector lane per output and so needs no sum across lanes.
#[derive(Clone)]
pub struct Panels {
    /// `[out / WIDTH, in, WIDTH]`, as far as outputs were written; the lanes of the last panel beyond `out` are zero.
    data: Vec<f32>,
    outputs: usize,
    inputs: usize,
}

impl Panels {
    /// Room for a matrix whose outputs are to be written, in about their order, or whose inputs.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn room(outputs: usize, inputs: usize) -> error::Result<Self> {
        Ok(Self { data: memory::room(outputs.next_multiple_of(WIDTH) * inputs)?, outputs, inputs })
    }

    /// What a matrix of this size takes.
    pub fn bytes(outputs: u64, inputs: u64) -> u64 {
        outputs.next_multiple_of(WIDTH as u64).saturating_mul(inputs).saturating_mul(4)
    }

    /// Writes the weights of one output.
    pub fn set_row(&mut self, output: usize, row: impl IntoIterator<Item = f32>) {
        let panel = WIDTH * self.inputs;
        let first = output / WIDTH * panel;
        if self.data.len() < first + panel {
            self.data.resize(first + panel, 0.0);
        }
        for (lanes, number) in self.data[first..][..panel].chunks_exact_mut(WIDTH).zip(row) {
            lanes[output % WIDTH] = number;
        }
    }

    /// Writes the weights of one input.
    pub fn set_column(&mut self, input: usize, column: &[f32]) {
        // Each of them is in all panels.
        self.data.resize(self.outputs.next_multiple_of(WIDTH) * self.inputs, 0.0);
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
        if x.len() == self.inputs {
            self.panels::<READERS, 1>(x, out);
        } else {
            self.panels::<{ TILE.0 }, { TILE.1 }>(x, out);
        }
    }

    /// All panels, `P` at a time, and then those that are left; for each, all rows, `N` at a time.
    fn panels<const P: usize, const N: usize>(&self, x: &[f32], out: &mut [f32]) {
        let panels = self.outputs.div_ceil(WIDTH);
        let apart = panels / P;
        for first in 0..apart {
            self.rows::<P, N>(std::array::from_fn(|reader| first + reader * apart), x, out);
        }
        for panel in apart * P..panels {
            self.rows::<1, N>([panel], x, out);
        }
    }

    fn rows<const P: usize, const N: usize>(&self, panels: [usize; P], x: &[f32], out: &mut [f32]) {
        let tiles = x.chunks_exact(N * self.inputs);
        let rest = tiles.remainder();
        let whole = (x.len() - rest.len()) / self.inputs;
        for (tile, xs) in tiles.enumerate() {
            self.tile::<P, N>(panels, xs, &mut out[tile * N * self.outputs..]);
        }
        for (row, xs) in rest.chunks_exact(self.inputs).enumerate() {
            self.tile::<P, 1>(panels, xs, &mut out[(whole + row) * self.outputs..]);
        }
    }

    /// `N` rows of activations times `P` panels; each lane sums over the inputs in their order, whatever `N` and `P` are.
    #[inline(always)]
    fn tile<const P: usize, const N: usize>(&self, panels: [usize; P], xs: &[f32], out: &mut [f32]) {
        let weights = panels.map(|panel| &self.data.as_chunks::<WIDTH>().0[panel * self.inputs..][..self.inputs]);
        let xs: [&[f32]; N] = std::array::from_fn(|row| &xs[row * self.inputs..][..self.inputs]);
        let mut sums = [[[0.0; WIDTH]; P]; N];
        for input in 0..self.inputs {
            for (sums, x) in sums.iter_mut().zip(xs) {
                for (sums, weights) in sums.iter_mut().zip(weights) {
                    for (sum, weight) in sums.iter_mut().zip(&weights[input]) {
                        *sum += x[input] * weight;
                    }
                }
            }
        }
        for (sums, out) in sums.iter().zip(out.chunks_mut(self.outputs)) {
            for (sums, panel) in sums.iter().zip(panels) {
                let used = WIDTH.min(self.outputs - panel * WIDTH);
                out[panel * WIDTH..][..used].copy_from_slice(&sums[..used]);
            }
        }
    }
}
