//! The products in WebAssembly's vectors of 128 bits: weights and activations as 16-bit numbers, of which one
//! instruction multiplies eight pairs and adds neighbours.

use core::arch::wasm32::{
    f32x4_add, f32x4_convert_i32x4, f32x4_mul, f32x4_splat, i16x8, i16x8_add, i16x8_extadd_pairwise_i8x16,
    i16x8_extend_high_i8x16, i16x8_extend_low_i8x16, i16x8_load_extend_i8x8, i16x8_mul, i16x8_splat, i32x4_add,
    i32x4_dot_i16x8, i32x4_extadd_pairwise_i16x8, i32x4_extract_lane, i32x4_shr, i32x4_shuffle, i32x4_splat, u16x8_shr,
    v128, v128_and, v128_load, v128_load32_splat, v128_load64_splat, v128_store,
};

use super::blocks::OFFSET;
use super::{BLOCK, GROUP, Kernel, Q4, Q8, Quantised, at, common};

/// The two vectors of a block's numbers.
#[inline(always)]
pub(super) fn halves(numbers: &[i8; BLOCK]) -> [v128; 2] {
    // SAFETY: sixteen of the 32 bytes each are read.
    [0, 16].map(|half| unsafe { v128_load(numbers.as_ptr().add(half).cast()) })
}

/// The bytes of four vectors.
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

/// Activations as 16-bit numbers, in their order.
#[inline(always)]
fn wide(numbers: &[i8; BLOCK]) -> [v128; 4] {
    let [a, b] = halves(numbers);
    [i16x8_extend_low_i8x16(a), i16x8_extend_high_i8x16(a), i16x8_extend_low_i8x16(b), i16x8_extend_high_i8x16(b)]
}

/// The sums so far, and the products of one more block, which are multiplied by the scales of both sides.
#[inline(always)]
pub(super) fn add_scaled(sums: v128, products: v128, weights: &[f32; GROUP], x: f32) -> v128 {
    // SAFETY: a vector is four floats.
    let scales = unsafe { v128_load(weights.as_ptr().cast()) };
    f32x4_add(sums, f32x4_mul(f32x4_convert_i32x4(products), f32x4_mul(scales, f32x4_splat(x))))
}

/// The lanes of all sums.
#[inline(always)]
pub(super) fn lanes<const G: usize, const N: usize>(sums: [[v128; N]; G]) -> [[[f32; GROUP]; N]; G] {
    sums.map(|sums| {
        sums.map(|sum| {
            let mut lanes = [0.0; GROUP];
            // SAFETY: four floats are a vector.
            unsafe { v128_store(lanes.as_mut_ptr().cast(), sum) };
            lanes
        })
    })
}

/// 8-bit weights.
pub struct Simd8;

impl Kernel for Simd8 {
    type Weights = Q8;

    const POSITIONS: usize = 3;

    #[inline(always)]
    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> Quantised {
        Quantised { bytes: bytes(wide(numbers)), start: 0, scale }
    }

    #[inline(always)]
    fn tile<const G: usize, const N: usize>(weights: [&[Q8]; G], x: [&[Quantised]; N]) -> [[[f32; GROUP]; N]; G] {
        let mut sums = [[f32x4_splat(0.0); N]; G];
        for block in 0..common(&weights, &x) {
            // SAFETY: `block` is below what all have in common.
            let (weights, x) = unsafe { (at(&weights, block), at(&x, block)) };
            // Of two neighbours of four inputs, and of two outputs each.
            let mut halves = [[[i32x4_splat(0); 2]; N]; G];
            for quad in 0..BLOCK / 4 {
                // SAFETY: four 16-bit numbers are read, of the 32 there are.
                let x = x.map(|x| unsafe { v128_load64_splat(x.bytes.as_ptr().add(8 * quad).cast()) });
                for (weights, halves) in weights.iter().zip(&mut halves) {
                    for half in 0..2 {
                        // SAFETY: eight of the sixteen bytes of a quad are read.
                        let weights = unsafe { i16x8_load_extend_i8x8(weights.quads[quad].as_ptr().add(8 * half)) };
                        for (x, halves) in x.iter().zip(halves.iter_mut()) {
                            halves[half] = i32x4_add(halves[half], i32x4_dot_i16x8(weights, *x));
                        }
                    }
                }
            }
            for group in 0..G {
                for position in 0..N {
                    let [low, high] = halves[group][position];
                    let products =
                        i32x4_add(i32x4_shuffle::<0, 2, 4, 6>(low, high), i32x4_shuffle::<1, 3, 5, 7>(low, high));
                    let sum = &mut sums[group][position];
                    *sum = add_scaled(*sum, products, &weights[group].scales, x[position].scale);
                }
            }
        }
        lanes(sums)
    }
}

/// 4-bit weights. The nibbles stay in the 16-bit lanes they are read in, and in the upper half of a byte they are 16
/// times as large: the activations that meet the others are 16 times as large instead, and so is the sum.
pub struct Simd4;

/// Logarithm of what the sums are multiplied by.
const SHIFT: u32 = 4;

impl Kernel for Simd4 {
    type Weights = Q4;

    const POSITIONS: usize = 3;

    #[inline(always)]
    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> Quantised {
        let factors = i16x8(1 << SHIFT, 1 << SHIFT, 1, 1, 1 << SHIFT, 1 << SHIFT, 1, 1);
        let shifted = wide(numbers).map(|numbers| i16x8_mul(numbers, factors));
        // The weights are held with an offset, which adds that many times the activations.
        let start = -i32::from(OFFSET) * (sum(halves(numbers)) << SHIFT);
        Quantised { bytes: bytes(shifted), start, scale }
    }

    #[inline(always)]
    fn tile<const G: usize, const N: usize>(weights: [&[Q4]; G], x: [&[Quantised]; N]) -> [[[f32; GROUP]; N]; G] {
        let (low, high) = (i16x8_splat(0x0f), i16x8_splat(0xf0));
        let mut sums = [[f32x4_splat(0.0); N]; G];
        for block in 0..common(&weights, &x) {
            // SAFETY: `block` is below what all have in common.
            let (weights, x) = unsafe { (at(&weights, block), at(&x, block)) };
            let mut products = [x.map(|x| i32x4_splat(x.start)); G];
            for eight in 0..BLOCK / 8 {
                // SAFETY: two 16-bit numbers each are read, of the 32 there are.
                let pairs: [[v128; 4]; N] = x.map(|x| {
                    core::array::from_fn(|pair| unsafe {
                        v128_load32_splat(x.bytes.as_ptr().add(16 * eight + 4 * pair).cast())
                    })
                });
                for (weights, products) in weights.iter().zip(&mut products) {
                    // SAFETY: a vector is sixteen bytes.
                    let even = unsafe { v128_load(weights.eights[eight].as_ptr().cast()) };
                    let odd = u16x8_shr(even, 8);
                    let nibbles = [v128_and(even, low), v128_and(even, high), v128_and(odd, low), v128_and(odd, high)];
                    for (pairs, product) in pairs.iter().zip(products) {
                        for (nibbles, pair) in nibbles.iter().zip(pairs) {
                            *product = i32x4_add(*product, i32x4_dot_i16x8(*nibbles, *pair));
                        }
                    }
                }
            }
            for group in 0..G {
                for position in 0..N {
                    let sum = &mut sums[group][position];
                    let products = i32x4_shr(products[group][position], SHIFT);
                    *sum = add_scaled(*sum, products, &weights[group].scales, x[position].scale);
                }
            }
        }
        lanes(sums)
    }
}
