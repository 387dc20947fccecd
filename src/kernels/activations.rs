//! Activations rounded to 8 bits, a block of 32 with one scale.

use super::BLOCK;

/// A block of activations. What it holds, beside the scale, is the business of the kernel that prepared it.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub struct ActivationBlock {
    pub(super) bytes: [u8; 2 * BLOCK],
    /// What the sum of products begins with.
    pub(super) start: i32,
    /// What the integers are multiplied by.
    pub(super) scale: f32,
}

impl ActivationBlock {
    /// To be written over.
    pub const EMPTY: Self = Self { bytes: [0; 2 * BLOCK], start: 0, scale: 0.0 };
}

/// Numbers that are all below this count as zeros: the inverse of their scale would be infinite.
pub const TINY: f32 = 1e-30;

/// The nearest integer to a number below 2^22, of equally near ones the even.
#[inline(always)]
pub fn round(number: f32) -> i32 {
    /// Added, it leaves the nearest integer in the lowest bits of the sum.
    const SHIFT: f32 = (3u32 << 22) as f32;
    (number + SHIFT).to_bits().wrapping_sub(SHIFT.to_bits()) as i32
}

/// The largest absolute value among numbers; NaN if one of them is.
#[inline(always)]
pub fn max_abs(numbers: &[f32]) -> f32 {
    // The bits of sizes are in the order of the sizes, with infinity and then NaN at the end.
    let (fours, rest) = numbers.as_chunks::<4>();
    let mut max_abs = [0; 4];
    for four in fours {
        for (max_abs, number) in max_abs.iter_mut().zip(four) {
            *max_abs = number.abs().to_bits().max(*max_abs);
        }
    }
    let sizes = max_abs.into_iter().chain(rest.iter().map(|number| number.abs().to_bits()));
    f32::from_bits(sizes.fold(0, u32::max))
}

/// The nearest integers in -127..=127, of equally near ones the even, and the scale that makes numbers of them again:
/// a 127th of the largest absolute value. A block with NaN in it gets a scale that is NaN, one with an infinite number one that is
/// infinite, so that no product with it is finite by accident.
pub fn quantise(x: &[f32; BLOCK]) -> ([i8; BLOCK], f32) {
    let max_abs = max_abs(x);
    let inverse = if max_abs < TINY { 0.0 } else { 127.0 / max_abs };
    let mut numbers = [0; BLOCK];
    for (number, x) in numbers.iter_mut().zip(x) {
        *number = round(x * inverse) as i8;
    }
    (numbers, max_abs / 127.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_rounds_to_the_nearest_even(x in prop::array::uniform32(-1e4..1e4f32), exponent in -20..20i32) {
            let x = x.map(|x| x * 2f32.powi(exponent));
            let (numbers, scale) = quantise(&x);
            let max_abs = x.iter().fold(0.0, |a: f32, b| a.max(b.abs()));
            prop_assert_eq!(scale, max_abs / 127.0);
            for (x, number) in x.iter().zip(numbers) {
                prop_assert_eq!(f32::from(number), (x * (127.0 / max_abs)).round_ties_even());
            }
        }

        #[test]
        fn what_is_not_finite_shows(at in 0..BLOCK, other in 0..BLOCK) {
            let mut x = [1.0; BLOCK];
            x[other] = f32::INFINITY;
            prop_assert_eq!(quantise(&x).1, f32::INFINITY);
            x[at] = f32::NAN;
            prop_assert!(quantise(&x).1.is_nan());
        }
    }

    #[test]
    fn nothing_is_zeros() {
        for x in [[0.0; BLOCK], [f32::from_bits(1); BLOCK], [-1e-38; BLOCK]] {
            assert_eq!(quantise(&x).0, [0; BLOCK]);
        }
        assert_eq!(quantise(&[-1e-29; BLOCK]).0, [-127; BLOCK]);
    }
}
