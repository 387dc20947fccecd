//! The reference kernels: the definition of the products, number by number.

use core::marker::PhantomData;

use super::packed::SIGN;
use super::{ActivationBlock, BLOCK, GROUP, Kernel, PackedBlock, Q4x4, Q8x4};

/// The reference kernel for weights of type `W`.
pub struct Scalar<W>(PhantomData<W>);

impl<W: PackedBlock + Integers> Kernel for Scalar<W> {
    type PackedBlock = W;

    const ROWS_PER_TILE: usize = 3;

    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock {
        let mut bytes = [0; 2 * BLOCK];
        for (byte, number) in bytes.iter_mut().zip(numbers) {
            *byte = *number as u8;
        }
        ActivationBlock { bytes, start: 0, scale }
    }

    fn tile<const G: usize, const N: usize>(
        weights: [&[W]; G],
        x: [&[ActivationBlock]; N],
        _: usize,
    ) -> [[[f32; GROUP]; N]; G] {
        weights.map(|weights| {
            x.map(|x| {
                let mut sums = [0.0; GROUP];
                for (weights, x) in weights.iter().zip(x) {
                    let (products, scales) = weights.products(x);
                    for output in 0..GROUP {
                        sums[output] += products[output] as f32 * (scales[output] * x.scale);
                    }
                }
                sums
            })
        })
    }
}

/// Blocks that can be multiplied number by number.
pub trait Integers {
    /// The integer dot product of each of the four outputs with the activations, and the scales of the outputs.
    fn products(&self, x: &ActivationBlock) -> ([i32; GROUP], [f32; GROUP]);
}

impl Integers for Q8x4 {
    fn products(&self, x: &ActivationBlock) -> ([i32; GROUP], [f32; GROUP]) {
        let mut sums = [0; GROUP];
        for (quad, x) in self.quads.iter().zip(x.bytes.as_chunks::<4>().0) {
            for (sum, weights) in sums.iter_mut().zip(quad.as_chunks::<4>().0) {
                for (weight, x) in weights.iter().zip(x) {
                    *sum += i32::from((weight ^ SIGN) as i8) * i32::from(*x as i8);
                }
            }
        }
        (sums, self.scales)
    }
}

impl Integers for Q4x4 {
    fn products(&self, x: &ActivationBlock) -> ([i32; GROUP], [f32; GROUP]) {
        let mut sums = [0; GROUP];
        for (output, sum) in sums.iter_mut().enumerate() {
            for (weight, x) in self.get(output).0.iter().zip(&x.bytes) {
                *sum += i32::from(*weight) * i32::from(*x as i8);
            }
        }
        (sums, self.scales)
    }
}
