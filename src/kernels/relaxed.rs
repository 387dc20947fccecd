//! The products in vectors of 128 bits where the engine has relaxed SIMD: one instruction multiplies sixteen pairs of
//! 8-bit numbers and adds them to four sums. Not all engines that have SIMD have that, so the products are compiled into
//! a module of their own (`relaxed/`); what prepares the activations for them needs no more than SIMD.
//!
//! What that instruction gives depends on the machine where its second operand is beyond 0..=127, or where a pair of
//! products overflows 16 bits. Neither happens here: that operand is a size of at most 127 or a nibble, and 2 · 128 ·
//! 127 is below 2^15. So the sums are exact, and those of the other kernels.

use core::arch::wasm32::{i8x16_abs, i8x16_shr, i8x16_shuffle, i32x4_shuffle, v128_and};

use super::blocks::OFFSET;
use super::simd128::{bytes, halves, sum};
use super::{BLOCK, Quantised};

/// A block as the product of 8-bit weights reads it: four signs, the four sizes they belong to, and so on.
#[inline(always)]
pub fn prepare8(numbers: &[i8; BLOCK], scale: f32) -> Quantised {
    let numbers = halves(numbers);
    let (signs, sizes) = (numbers.map(|numbers| i8x16_shr(numbers, 7)), numbers.map(|numbers| i8x16_abs(numbers)));
    let negative = [v128_and(signs[0], sizes[0]), v128_and(signs[1], sizes[1])];
    let quads = |half: usize| {
        let (signs, sizes) = (signs[half], sizes[half]);
        [i32x4_shuffle::<0, 4, 1, 5>(signs, sizes), i32x4_shuffle::<2, 6, 3, 7>(signs, sizes)]
    };
    let ([a, b], [c, d]) = (quads(0), quads(1));
    Quantised { bytes: bytes([a, b, c, d]), start: sum(negative), scale }
}

/// A block as the product of 4-bit weights reads it: of each eight inputs first those of the lower nibbles of an
/// output's four bytes, then those of the upper.
#[inline(always)]
pub fn prepare4(numbers: &[i8; BLOCK], scale: f32) -> Quantised {
    let numbers = halves(numbers);
    let [a, b] =
        numbers.map(|numbers| i8x16_shuffle::<0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15>(numbers, numbers));
    let start = -i32::from(OFFSET) * sum(numbers);
    Quantised { bytes: bytes([a, b, a, b]), start, scale }
}

#[cfg(target_feature = "relaxed-simd")]
pub use products::{Relaxed4, Relaxed8};

#[cfg(target_feature = "relaxed-simd")]
mod products {
    use core::arch::wasm32::{
        f32x4_splat, i8x16_splat, i32x4_relaxed_dot_i8x16_i7x16_add, i32x4_splat, u16x8_shr, v128_and, v128_load,
        v128_load32_splat, v128_xor,
    };

    use super::super::simd128::{add_scaled, lanes};
    use super::super::{BLOCK, GROUP, Kernel, Q4, Q8, Quantised, at, common};
    use super::{prepare4, prepare8};

    /// 8-bit weights. An activation is taken apart into size and sign, and the sign is given to the weight: by inverting
    /// its bits, which makes `w` to `-w - 1`. The 1 is made good by a sum of the sizes, once for a block.
    pub struct Relaxed8;

    impl Kernel for Relaxed8 {
        type Weights = Q8;

        const POSITIONS: usize = 3;

        #[inline(always)]
        fn prepare(numbers: &[i8; BLOCK], scale: f32) -> Quantised {
            prepare8(numbers, scale)
        }

        #[inline(always)]
        fn tile<const G: usize, const N: usize>(weights: [&[Q8]; G], x: [&[Quantised]; N]) -> [[[f32; GROUP]; N]; G] {
            let mut sums = [[f32x4_splat(0.0); N]; G];
            for block in 0..common(&weights, &x) {
                // SAFETY: `block` is below what all have in common.
                let (weights, x) = unsafe { (at(&weights, block), at(&x, block)) };
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

        #[inline(always)]
        fn prepare(numbers: &[i8; BLOCK], scale: f32) -> Quantised {
            prepare4(numbers, scale)
        }

        #[inline(always)]
        fn tile<const G: usize, const N: usize>(weights: [&[Q4]; G], x: [&[Quantised]; N]) -> [[[f32; GROUP]; N]; G] {
            let low = i8x16_splat(0x0f);
            let mut sums = [[f32x4_splat(0.0); N]; G];
            for block in 0..common(&weights, &x) {
                // SAFETY: `block` is below what all have in common.
                let (weights, x) = unsafe { (at(&weights, block), at(&x, block)) };
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
}
