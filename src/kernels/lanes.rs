//! The loop over the blocks of a tile that all 128-bit kernels share. A kernel supplies the products of eight inputs and
//! the reduction of a block's sums.

use core::arch::wasm32::{
    f32x4_add, f32x4_convert_i32x4, f32x4_mul, f32x4_splat, v128, v128_load, v128_load32_splat, v128_store,
};
use core::mem::offset_of;

use super::{ActivationBlock, BLOCK, GROUP, Kernel, PackedBlock};

/// The part of a kernel that differs by instruction set.
pub trait Lanes {
    /// See [`Kernel::PackedBlock`].
    type PackedBlock: PackedBlock;

    /// See [`Kernel::ROWS_PER_TILE`].
    const ROWS_PER_TILE: usize;

    /// The accumulator of a block, for one group of outputs and one row of activations.
    type Sum: Copy;

    /// Bytes of eight inputs of a group's weights.
    const WEIGHT_BYTES: usize;

    /// Bytes of eight prepared activations.
    const X_BYTES: usize;

    /// See [`Kernel::prepare`].
    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock;

    /// The initial accumulator of a block, given the initial sum in each lane.
    fn start(start: v128) -> Self::Sum;

    /// Adds the products of eight inputs to `sums`.
    ///
    /// # Safety
    /// [`WEIGHT_BYTES`](Self::WEIGHT_BYTES) may be read from each of `weights`, and [`X_BYTES`](Self::X_BYTES) from each of
    /// `x`.
    unsafe fn add<const G: usize, const N: usize>(
        sums: &mut [[Self::Sum; N]; G],
        weights: [*const u8; G],
        x: [*const u8; N],
    );

    /// Reduces the accumulator of a block to one sum for each of the four outputs.
    fn products(sum: Self::Sum) -> v128;
}

impl<L: Lanes> Kernel for L {
    type PackedBlock = L::PackedBlock;

    const ROWS_PER_TILE: usize = L::ROWS_PER_TILE;

    #[inline(always)]
    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock {
        L::prepare(numbers, scale)
    }

    #[inline(always)]
    fn tile<const G: usize, const N: usize>(
        weights: [&[L::PackedBlock]; G],
        x: [&[ActivationBlock]; N],
        eights: usize,
    ) -> [[[f32; GROUP]; N]; G] {
        let lens = weights.iter().map(|row| row.len()).chain(x.iter().map(|row| row.len()));
        let blocks = lens.min().unwrap_or_default();
        let mut weights = weights.map(|row| row.as_ptr().cast::<u8>());
        let mut x = x.map(|row| row.as_ptr().cast::<u8>());
        let mut sums = [[f32x4_splat(0.0); N]; G];
        for _ in 0..blocks {
            // SAFETY: each row has this many blocks. In a block of weights four scales follow the integers, and a block
            // of activations begins with its integers.
            unsafe {
                let splat = |at: usize| x.map(|x| v128_load32_splat(x.add(at).cast()));
                let scales = splat(offset_of!(ActivationBlock, scale));
                let mut block = [splat(offset_of!(ActivationBlock, start)).map(L::start); G];
                let mut numbers = x;
                for _ in 0..eights {
                    L::add(&mut block, weights, numbers);
                    weights = weights.map(|weights| weights.add(L::WEIGHT_BYTES));
                    numbers = numbers.map(|x| x.add(L::X_BYTES));
                }
                for group in 0..G {
                    let factors = v128_load(weights[group].cast());
                    for row in 0..N {
                        let products = f32x4_convert_i32x4(L::products(block[group][row]));
                        let sum = &mut sums[group][row];
                        *sum = f32x4_add(*sum, f32x4_mul(products, f32x4_mul(factors, scales[row])));
                    }
                }
                weights = weights.map(|weights| weights.add(size_of::<[f32; GROUP]>()));
                x = x.map(|x| x.add(size_of::<ActivationBlock>()));
            }
        }
        sums.map(|sums| {
            sums.map(|sum| {
                let mut lanes = [0.0; GROUP];
                // SAFETY: four floats are a vector.
                unsafe { v128_store(lanes.as_mut_ptr().cast(), sum) };
                lanes
            })
        })
    }
}

/// Splats the four bytes at an offset of each of `x` to all four lanes.
///
/// # Safety
/// These bytes may be read.
#[inline(always)]
pub unsafe fn splats<const N: usize>(x: [*const u8; N], at: usize) -> [v128; N] {
    // SAFETY: the caller's promise.
    x.map(|x| unsafe { v128_load32_splat(x.add(at).cast()) })
}
