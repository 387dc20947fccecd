//! Activations quantised to 8 bits, in blocks of 32 with one scale.

use super::BLOCK;

/// A block of activations. Only the kernel that prepared it knows the layout of `bytes` and the meaning of `start`.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub struct ActivationBlock {
    pub(super) bytes: [u8; 2 * BLOCK],
    /// Initial value of the integer sum.
    pub(super) start: i32,
    /// The scale: an integer times it is the activation.
    pub(super) scale: f32,
}

impl ActivationBlock {
    /// A placeholder for buffers.
    pub const EMPTY: Self = Self { bytes: [0; 2 * BLOCK], start: 0, scale: 0.0 };
}

/// A block whose `max_abs` is below this is quantised to zeros: the inverse of its scale would be infinite.
pub const TINY: f32 = 1e-30;

/// Rounds a number below 2^22 to the nearest integer, ties to even.
#[inline(always)]
pub fn round(number: f32) -> i32 {
    /// After adding it, the lowest bits of the sum are the nearest integer.
    const SHIFT: f32 = (3u32 << 22) as f32;
    (number + SHIFT).to_bits().wrapping_sub(SHIFT.to_bits()) as i32
}

/// The maximum absolute value; NaN if a number is NaN.
#[inline(always)]
pub fn max_abs(numbers: &[f32]) -> f32 {
    // The bit patterns of non-negative floats are ordered like the floats, then infinity, then NaN.
    let (fours, rest) = numbers.as_chunks::<4>();
    let mut max_abs = [0; 4];
    for four in fours {
        for (max_abs, number) in max_abs.iter_mut().zip(four) {
            *max_abs = number.abs().to_bits().max(*max_abs);
        }
    }
    let bits = max_abs.into_iter().chain(rest.iter().map(|number| number.abs().to_bits()));
    f32::from_bits(bits.fold(0, u32::max))
}

/// Quantises a block to integers in -127..=127 (ties to even) and a scale of `max_abs / 127`. NaN in a block makes its
/// scale NaN, and infinity makes it infinite, so that the product shows it.
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
        fn nan_and_infinity_reach_the_scale(at in 0..BLOCK, other in 0..BLOCK) {
            let mut x = [1.0; BLOCK];
            x[other] = f32::INFINITY;
            prop_assert_eq!(quantise(&x).1, f32::INFINITY);
            x[at] = f32::NAN;
            prop_assert!(quantise(&x).1.is_nan());
        }
    }

    #[test]
    fn tiny_blocks_become_zeros() {
        for x in [[0.0; BLOCK], [f32::from_bits(1); BLOCK], [-1e-38; BLOCK]] {
            assert_eq!(quantise(&x).0, [0; BLOCK]);
        }
        assert_eq!(quantise(&[-1e-29; BLOCK]).0, [-127; BLOCK]);
    }
}
