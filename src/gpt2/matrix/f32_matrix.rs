//! A matrix in 32-bit floats.

use crate::error;
use crate::gpt2::memory;
use crate::kernels::f32_panels::{self, PANEL};

/// An f32 matrix `[out, in]` in panels, as [`f32_panels::matmul_t`] reads it.
#[derive(Clone)]
pub struct F32Matrix {
    /// `[out / PANEL, in, PANEL]`, as far as outputs were written; the lanes of the last panel beyond `out` are zero.
    data: Vec<f32>,
    outputs: usize,
    inputs: usize,
}

impl F32Matrix {
    /// An empty matrix with capacity for all numbers; rows or columns are written next, roughly in order.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn with_capacity(outputs: usize, inputs: usize) -> error::Result<Self> {
        Ok(Self { data: memory::try_with_capacity(outputs.next_multiple_of(PANEL) * inputs)?, outputs, inputs })
    }

    /// Bytes of a matrix of this size.
    pub fn bytes(outputs: u64, inputs: u64) -> u64 {
        outputs.next_multiple_of(PANEL as u64).saturating_mul(inputs).saturating_mul(4)
    }

    /// Writes the weights of one output.
    pub fn set_row(&mut self, output: usize, row: impl IntoIterator<Item = f32>) {
        let panel = PANEL * self.inputs;
        let first = output / PANEL * panel;
        if self.data.len() < first + panel {
            self.data.resize(first + panel, 0.0);
        }
        for (lanes, number) in self.data[first..][..panel].chunks_exact_mut(PANEL).zip(row) {
            lanes[output % PANEL] = number;
        }
    }

    /// Writes the weights of one input.
    pub fn set_column(&mut self, input: usize, column: &[f32]) {
        // A column is in all panels.
        self.data.resize(self.outputs.next_multiple_of(PANEL) * self.inputs, 0.0);
        for (panel, numbers) in self.data.chunks_exact_mut(PANEL * self.inputs).zip(column.chunks(PANEL)) {
            panel[input * PANEL..][..numbers.len()].copy_from_slice(numbers);
        }
    }

    /// The weights of one output.
    pub fn row(&self, output: usize) -> impl Iterator<Item = f32> {
        let panel = &self.data[output / PANEL * PANEL * self.inputs..][..PANEL * self.inputs];
        panel.iter().skip(output % PANEL).step_by(PANEL).copied()
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

    /// `x` of shape `[n, in]` times the transposed matrix, into `out` of shape `[n, out]`.
    pub fn matmul_t(&self, x: &[f32], out: &mut [f32]) {
        f32_panels::matmul_t(&self.data, x, self.inputs, out, self.outputs);
    }
}
