//! The kernels for WebAssembly's 128-bit SIMD. Weights and activations are widened to 16 bits; one instruction multiplies
//! eight pairs and adds adjacent products.

use core::arch::wasm32::{
    i16x8, i16x8_add, i16x8_extadd_pairwise_i8x16, i16x8_extend_high_i8x16, i16x8_extend_low_i8x16,
    i16x8_load_extend_u8x8, i16x8_mul, i16x8_splat, i32x4_add, i32x4_dot_i16x8, i32x4_extadd_pairwise_i16x8,
    i32x4_extract_lane, i32x4_shr, i32x4_shuffle, i64x2_splat, u16x8_shr, v128, v128_and, v128_load, v128_load64_splat,
    v128_store,
};

use super::lanes::{Lanes, splats};
use super::packed::{OFFSET, SIGN};
use super::{ActivationBlock, BLOCK, Q4x4, Q8x4};

/// Loads the numbers of a block as two vectors.
#[inline(always)]
pub(super) fn halves(numbers: &[i8; BLOCK]) -> [v128; 2] {
    // SAFETY: each load reads 16 of the 32 bytes.
    [0, 16].map(|half| unsafe { v128_load(numbers.as_ptr().add(half).cast()) })
}

/// Stores four vectors as bytes.
#[inline(always)]
pub(super) fn bytes(vectors: [v128; 4]) -> [u8; 2 * BLOCK] {
    let mut bytes = [0; 2 * BLOCK];
    for (bytes, vector) in bytes.as_chunks_mut::<16>().0.iter_mut().zip(vectors) {
        // SAFETY: a vector is sixteen bytes.
        unsafe { v128_store(bytes.as_mut_ptr().cast(), vector) };
    }
    bytes
}

/// The sum of all 8-bit numbers of two vectors.
#[inline(always)]
pub(super) fn sum([a, b]: [v128; 2]) -> i32 {
    let pairs = i16x8_add(i16x8_extadd_pairwise_i8x16(a), i16x8_extadd_pairwise_i8x16(b));
    let fours = i32x4_extadd_pairwise_i16x8(pairs);
    i32x4_extract_lane::<0>(fours)
        + i32x4_extract_lane::<1>(fours)
        + i32x4_extract_lane::<2>(fours)
        + i32x4_extract_lane::<3>(fours)
}

/// Activations as 16-bit numbers, in order.
#[inline(always)]
fn wide(numbers: &[i8; BLOCK]) -> [v128; 4] {
    let [a, b] = halves(numbers);
    [i16x8_extend_low_i8x16(a), i16x8_extend_high_i8x16(a), i16x8_extend_low_i8x16(b), i16x8_extend_high_i8x16(b)]
}

/// 8-bit weights. They are stored with an offset of 128; the initial sum subtracts what the offset adds.
pub struct Simd8;

fn prepare8(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock {
    ActivationBlock { bytes: bytes(wide(numbers)), start: -i32::from(SIGN) * sum(halves(numbers)), scale }
}

impl Lanes for Simd8 {
    type PackedBlock = Q8x4;

    /// Two vectors, each with the sums of two outputs: adjacent inputs are still apart.
    type Sum = [v128; 2];

    const ROWS_PER_TILE: usize = 3;
    const WEIGHT_BYTES: usize = 32;
    const X_BYTES: usize = 16;

    #[inline(always)]
    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock {
        prepare8(numbers, scale)
    }

    #[inline(always)]
    fn start(start: v128) -> [v128; 2] {
        // Adjacent lanes are added at the end, so only one of the two begins with `start`.
        let start = v128_and(start, i64x2_splat(0xffff_ffff));
        [start, start]
    }

    #[inline(always)]
    unsafe fn add<const G: usize, const N: usize>(
        sums: &mut [[[v128; 2]; N]; G],
        weights: [*const u8; G],
        x: [*const u8; N],
    ) {
        for quad in 0..2 {
            // SAFETY: four of the eight 16-bit numbers are read.
            let x = x.map(|x| unsafe { v128_load64_splat(x.add(8 * quad).cast()) });
            for (weights, sums) in weights.into_iter().zip(&mut *sums) {
                for half in 0..2 {
                    // SAFETY: eight of the 32 bytes are read.
                    let weights = unsafe { i16x8_load_extend_u8x8(weights.add(16 * quad + 8 * half)) };
                    for (x, sums) in x.iter().zip(&mut *sums) {
                        sums[half] = i32x4_add(sums[half], i32x4_dot_i16x8(weights, *x));
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn products([low, high]: [v128; 2]) -> v128 {
        i32x4_add(i32x4_shuffle::<0, 2, 4, 6>(low, high), i32x4_shuffle::<1, 3, 5, 7>(low, high))
    }
}

/// 4-bit weights. The nibbles stay in the 16-bit lanes they are loaded in, so those in the upper half of a byte are 16
/// times as large. The activations for the lower half are multiplied by 16 to match, and the sum is 16 times as large.
pub struct Simd4;

/// Binary logarithm of the factor in the sums.
const SHIFT: u32 = 4;

fn prepare4(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock {
    let factors = i16x8(1 << SHIFT, 1 << SHIFT, 1, 1, 1 << SHIFT, 1 << SHIFT, 1, 1);
    let shifted = wide(numbers).map(|numbers| i16x8_mul(numbers, factors));
    // Subtracts what the offset of the stored weights adds: the offset times the sum of the activations.
    let start = -i32::from(OFFSET) * (sum(halves(numbers)) << SHIFT);
    ActivationBlock { bytes: bytes(shifted), start, scale }
}

impl Lanes for Simd4 {
    type PackedBlock = Q4x4;
    type Sum = v128;

    const ROWS_PER_TILE: usize = 3;
    const WEIGHT_BYTES: usize = 16;
    const X_BYTES: usize = 16;

    #[inline(always)]
    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock {
        prepare4(numbers, scale)
    }

    #[inline(always)]
    fn start(start: v128) -> v128 {
        start
    }

    #[inline(always)]
    unsafe fn add<const G: usize, const N: usize>(
        sums: &mut [[v128; N]; G],
        weights: [*const u8; G],
        x: [*const u8; N],
    ) {
        let (low, high) = (i16x8_splat(0x0f), i16x8_splat(0xf0));
        // SAFETY: each load reads two of the eight 16-bit numbers.
        let pairs = [0, 4, 8, 12].map(|at| unsafe { splats(x, at) });
        for (weights, sums) in weights.into_iter().zip(sums) {
            // SAFETY: a vector is sixteen bytes.
            let even = unsafe { v128_load(weights.cast()) };
            let odd = u16x8_shr(even, 8);
            let nibbles = [v128_and(even, low), v128_and(even, high), v128_and(odd, low), v128_and(odd, high)];
            for (nibbles, pair) in nibbles.iter().zip(&pairs) {
                for (sum, pair) in sums.iter_mut().zip(pair) {
                    *sum = i32x4_add(*sum, i32x4_dot_i16x8(*nibbles, *pair));
                }
            }
        }
    }

    #[inline(always)]
    fn products(sum: v128) -> v128 {
        i32x4_shr(sum, SHIFT)
    }
}
