//! A matrix in blocks of 8 or 4 bits.

use crate::error;
use crate::gpt2::memory;
use crate::kernels::{self, ActivationBlock, BLOCK, GROUP, MatmulFn, PackedBlock};

/// A matrix `[out, in]` in groups of four outputs, each block by block.
#[derive(Clone, PartialEq)]
pub struct PackedMatrix<W> {
    /// `[out / GROUP, in / BLOCK]`, as far as outputs were written; those of the last group beyond `out` are zero.
    data: Vec<W>,
    outputs: usize,
    inputs: usize,
}

impl<W: PackedBlock> PackedMatrix<W> {
    /// An empty matrix with capacity for all blocks; rows are written next, roughly in order. `inputs` is a multiple of 32.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn with_capacity(outputs: usize, inputs: usize) -> error::Result<Self> {
        debug_assert!(inputs.is_multiple_of(BLOCK));
        Ok(Self { data: memory::try_with_capacity(outputs.div_ceil(GROUP) * (inputs / BLOCK))?, outputs, inputs })
    }

    /// Bytes of a matrix of this size.
    pub fn bytes(outputs: u64, inputs: u64) -> u64 {
        let groups = outputs.div_ceil(GROUP as u64);
        groups.saturating_mul(inputs / BLOCK as u64).saturating_mul(size_of::<W>() as u64)
    }

    /// Outputs and inputs.
    pub fn shape(&self) -> (usize, usize) {
        (self.outputs, self.inputs)
    }

    /// Writes the blocks of one output: their numbers, and the scale these are multiplied by.
    pub fn set_row(&mut self, output: usize, row: impl Iterator<Item = ([i8; BLOCK], f32)>) {
        let blocks = self.inputs / BLOCK;
        let first = output / GROUP * blocks;
        if self.data.len() < first + blocks {
            self.data.resize(first + blocks, W::ZERO);
        }
        for (block, (numbers, scale)) in self.data[first..][..blocks].iter_mut().zip(row) {
            block.set(output % GROUP, &numbers, scale);
        }
    }

    /// The blocks of one output.
    pub fn blocks(&self, output: usize) -> impl Iterator<Item = ([i8; BLOCK], f32)> {
        let blocks = self.inputs / BLOCK;
        self.data[output / GROUP * blocks..][..blocks].iter().map(move |block| block.get(output % GROUP))
    }

    /// The weights of one output.
    pub fn row(&self, output: usize) -> impl Iterator<Item = f32> {
        self.blocks(output).flat_map(|(numbers, scale)| numbers.map(|number| f32::from(number) * scale))
    }

    /// `x` of shape `[n, in]` to `out` of shape `[n, out]`.
    pub fn matmul_t(&self, product: MatmulFn<W>, x: &[f32], quantised: &mut Vec<ActivationBlock>, out: &mut [f32]) {
        let blocks = x.len() / BLOCK;
        if quantised.len() < blocks {
            quantised.resize(blocks, ActivationBlock::EMPTY);
        }
        product(&self.data, x, self.inputs, &mut quantised[..blocks], out, self.outputs, kernels::readers());
    }

    /// Bytes held.
    #[cfg(test)]
    pub fn size(&self) -> u64 {
        size_of_val(self.data.as_slice()) as u64
    }
}
