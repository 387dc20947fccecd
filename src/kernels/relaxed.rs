//! The products in vectors of 128 bits where the engine has relaxed SIMD: one instruction multiplies sixteen pairs of
//! 8-bit numbers and adds them to four sums.
//!
//! What that instruction gives depends on the machine where its second operand is beyond 0..=127, or where a pair of
//! products overflows 16 bits. Neither happens here: that operand is a size of at most 127 or a nibble, and 2 · 128 ·
//! 127 is below 2^15. So the sums are exact, and those of the other kernels.

use core::arch::wasm32::{
    f32x4_splat, i8x16_splat, i32x4_relaxed_dot_i8x16_i7x16_add, i32x4_splat, u16x8_shr, v128_and, v128_load,
    v128_load32_splat, v128_xor,
};

use super::blocks::{OFFSET, place};
use super::simd128::{add_scaled, lanes};
use super::{BLOCK, GROUP, Kernel, Q4, Q8, Quantised};

/// 8-bit weights. An activation is taken apart into size and sign, and the sign is given to the weight: by inverting
/// its bits, which makes `w` to `-w - 1`. The 1 is made good by a sum of the sizes, once for a block.
pub struct Relaxed8;

impl Kernel for Relaxed8 {
    type Weights = Q8;

    const POSITIONS: usize = 3;

    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> Quantised {
        let (mut bytes, mut start) = ([0; 2 * BLOCK], 0);
        for (quad, bytes) in numbers.as_chunks::<4>().0.iter().zip(bytes.as_chunks_mut::<8>().0) {
            for (input, &number) in quad.iter().enumerate() {
                let size = number.unsigned_abs();
                bytes[input] = if number < 0 { 0xff } else { 0 };
                bytes[4 + input] = size;
                start += if number < 0 { i32::from(size) } else { 0 };
            }
        }
        Quantised { bytes, start, scale }
    }

    #[inline(always)]
    fn tile<const G: usize, const N: usize>(weights: [&[Q8]; G], x: [&[Quantised]; N]) -> [[[f32; GROUP]; N]; G] {
        let mut sums = [[f32x4_splat(0.0); N]; G];
        for block in 0..weights[0].len() {
            let (weights, x) = (weights.map(|weights| &weights[block]), x.map(|x| &x[block]));
            let mut products = [x.map(|x| i32x4_splat(x.start)); G];
            for quad in 0..BLOCK / 4 {
                // SAFETY: four bytes each are read, of the 64 there are.
                let (signs, sizes) = (
                    x.map(|x| unsafe { v128_load32_splat(x.bytes.as_ptr().add(8 * quad).cast()) }),
                    x.map(|x| unsafe { v128_load32_splat(x.bytes.as_ptr().add(8 * quad + 4).cast()) }),
                );
                for (weights, products) in weights.iter().zip(&mut products) {
                    // SAFETY: a vector is sixteen bytes.
                    let weights = unsafe { v128_load(weights.quads[quad].as_ptr().cast()) };
                    for (position, product) in products.iter_mut().enumerate() {
                        let signed = v128_xor(weights, signs[position]);
                        *product = i32x4_relaxed_dot_i8x16_i7x16_add(signed, sizes[position], *product);
                    }
                }
            }
            for group in 0..G {
                for position in 0..N {
                    let sum = &mut sums[group][position];
                    let products = products[group][position];
                    *sum = add_scaled(*sum, products, &weights[group].scales, x[position].scale);
                }
            }
        }
        lanes(sums)
    }
}

/// 4-bit weights.
pub struct Relaxed4;

impl Kernel for Relaxed4 {
    type Weights = Q4;

    const POSITIONS: usize = 4;

    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> Quantised {
        let mut bytes = [0; 2 * BLOCK];
        for (eight, bytes) in numbers.as_chunks::<8>().0.iter().zip(bytes.as_chunks_mut::<8>().0) {
            for (input, &number) in eight.iter().enumerate() {
                let (byte, shift) = place(input);
                bytes[byte + shift as usize] = number as u8;
            }
        }
        let sum: i32 = numbers.iter().map(|&number| i32::from(number)).sum();
        Quantised { bytes, start: -i32::from(OFFSET) * sum, scale }
    }

    #[inline(always)]
    fn tile<const G: usize, const N: usize>(weights: [&[Q4]; G], x: [&[Quantised]; N]) -> [[[f32; GROUP]; N]; G] {
        let low = i8x16_splat(0x0f);
        let mut sums = [[f32x4_splat(0.0); N]; G];
        for block in 0..weights[0].len() {
            let (weights, x) = (weights.map(|weights| &weights[block]), x.map(|x| &x[block]));
            let mut products = [x.map(|x| i32x4_splat(x.start)); G];
            for eight in 0..BLOCK / 8 {
                // SAFETY: four bytes each are read, of the 64 there are.
                let (lows, highs) = (
                    x.map(|x| unsafe { v128_load32_splat(x.bytes.as_ptr().add(8 * eight).cast()) }),
                    x.map(|x| unsafe { v128_load32_splat(x.bytes.as_ptr().add(8 * eight + 4).cast()) }),
                );
                for (weights, products) in weights.iter().zip(&mut products) {
                    // SAFETY: a vector is sixteen bytes.
                    let both = unsafe { v128_load(weights.eights[eight].as_ptr().cast()) };
                    let (lower, upper) = (v128_and(both, low), v128_and(u16x8_shr(both, 4), low));
                    for (position, product) in products.iter_mut().enumerate() {
                        *product = i32x4_relaxed_dot_i8x16_i7x16_add(lows[position], lower, *product);
                        *product = i32x4_relaxed_dot_i8x16_i7x16_add(highs[position], upper, *product);
                    }
                }
            }
            for group in 0..G {
                for position in 0..N {
                    let sum = &mut sums[group][position];
                    let products = products[group][position];
                    *sum = add_scaled(*sum, products, &weights[group].scales, x[position].scale);
                }
            }
        }
        lanes(sums)
    }
}
