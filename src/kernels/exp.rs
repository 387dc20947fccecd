//! Exponential functions in 32-bit floats: [`exp`] for softmax and activations, [`exp2`] for the weights of tokens.
//!
//! Both split off a power of two and evaluate a polynomial. They have no branches or tables, so loops over them
//! vectorise, and they only add and multiply, so the result is bit-identical on every machine and in every build, which
//! the standard library does not guarantee.

use core::f32::consts::LOG2_E;

/// After adding it to a number below 2^22, the lowest bits of the sum are the nearest integer.
const SHIFT: f32 = (3u32 << 22) as f32;

/// ln 2 in two parts (Cody and Waite). The first ends in zero bits, so its product with an exponent is exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

/// 1/7!, 1/6!, ... 1/0!: the Taylor series, with an error below r^8 / 8! < 6e-9.
const TAYLOR: [f32; 8] = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];

/// `exp` is 0 below the first and infinite above the second.
const ENDS: [f32; 2] = [-87.0, 88.3];

/// `exp(x)` with a relative error up to 3e-7. It is 0 below -87, infinite above 88.3, and NaN for NaN.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // exp(x) = 2^n exp(r) with |r| <= ln 2 / 2.
    let shifted = x.clamp(ENDS[0], ENDS[1]) * LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = x - n * LN_2[0] - n * LN_2[1];
    let mut power = TAYLOR[0];
    for term in &TAYLOR[1..] {
        power = power * r + term;
    }
    let scaled = times_power_of_two(power, shifted);
    let scaled = if x < ENDS[0] { 0.0 } else { scaled };
    let scaled = if x > ENDS[1] { f32::INFINITY } else { scaled };
    if x.is_nan() { x } else { scaled }
}

/// `2^x` for `x <= 0` with a relative error up to 2e-7. It is 0 for `x <= -127` and exactly 1 for 0.
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    /// The minimax polynomial of 2^f through (0, 1) for |f| <= 1/2, highest power first. Its relative error is 3e-9
    /// before rounding.
    const POWERS: [f32; 7] =
        [1.559_468e-4, 1.340_664_4e-3, 9.617_693e-3, 5.550_310_6e-2, 2.402_265_3e-1, 6.931_472e-1, 1.0];

    // At -127, f is 0 and the exponent bits of the result are those of 0.
    let x = if x > -127.0 { x } else { -127.0 };
    // 2^x = 2^n 2^f with an integer n.
    let shifted = x + SHIFT;
    let f = x - (shifted - SHIFT);
    let power = POWERS.iter().fold(0.0, |sum, coefficient| sum * f + coefficient);
    times_power_of_two(power, shifted)
}

/// `number` times 2^n, where `shifted` is `n + SHIFT`: adding n to the exponent multiplies by 2^n.
#[inline(always)]
fn times_power_of_two(number: f32, shifted: f32) -> f32 {
    f32::from_bits(number.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// Replaces each number by its [`exp`].
pub fn exp_all(numbers: &mut [f32]) {
    #[cfg(target_feature = "simd128")]
    let numbers = vectors::exp_all_pairs(numbers);
    for number in numbers {
        *number = exp(*number);
    }
}

/// Replaces each number by `exp(number - max)` and returns their sum. No number may be above `max`.
///
/// The sum has four independent lanes; the lanes and then the last numbers are added at the end.
pub fn exp_each(numbers: &mut [f32], max: f32) -> f32 {
    let mut sums = [0.0; 4];
    #[cfg(target_feature = "simd128")]
    let numbers = vectors::exp_pairs(numbers, max, &mut sums);
    let exp_of = |number: &mut f32| {
        *number = exp(*number - max);
        *number
    };
    let (fours, rest) = numbers.as_chunks_mut::<4>();
    for four in fours {
        for (sum, number) in sums.iter_mut().zip(four) {
            *sum += exp_of(number);
        }
    }
    rest.iter_mut().fold(sums.iter().sum(), |sum, number| sum + exp_of(number))
}

#[cfg(target_feature = "simd128")]
mod vectors {
    use core::arch::wasm32::{
        f32x4, f32x4_add, f32x4_gt, f32x4_lt, f32x4_mul, f32x4_pmax, f32x4_pmin, f32x4_splat, f32x4_sub, i32x4,
        i32x4_add, i32x4_shl, v128, v128_andnot, v128_bitselect, v128_load, v128_store,
    };
    use core::f32::consts::LOG2_E;
    use core::hint::black_box;

    use super::{ENDS, LN_2, SHIFT, TAYLOR};

    /// The constants, as vectors. They are loaded through [`black_box`] so that they are not inlined: engines rebuild
    /// an inlined constant at each use, with three instructions.
    struct Constants {
        min: v128,
        max: v128,
        infinite: v128,
        log2_e: v128,
        shift: v128,
        ln_2: [v128; 2],
        taylor: [v128; 8],
        /// The exponent bias.
        bias: v128,
    }

    const fn splat(number: f32) -> v128 {
        f32x4(number, number, number, number)
    }

    static CONSTANTS: Constants = Constants {
        min: splat(ENDS[0]),
        max: splat(ENDS[1]),
        infinite: splat(f32::INFINITY),
        log2_e: splat(LOG2_E),
        shift: splat(SHIFT),
        ln_2: [splat(LN_2[0]), splat(LN_2[1])],
        taylor: {
            let mut terms = [splat(0.0); 8];
            let mut at = 0;
            while at < terms.len() {
                terms[at] = splat(TAYLOR[at]);
                at += 1;
            }
            terms
        },
        bias: i32x4(127, 127, 127, 127),
    };

    /// [`exp_all`](super::exp_all) for pairs of vectors. Returns the remaining numbers, fewer than eight.
    pub fn exp_all_pairs(numbers: &mut [f32]) -> &mut [f32] {
        let (eights, rest) = numbers.as_chunks_mut::<8>();
        let constants = black_box(&CONSTANTS);
        for eight in eights {
            for four in eight.as_chunks_mut::<4>().0 {
                let four = four.as_mut_ptr().cast::<v128>();
                // SAFETY: four floats are a vector.
                unsafe {
                    let x = v128_load(four);
                    let within = exp(f32x4_pmin(x, constants.max), constants);
                    v128_store(four, v128_bitselect(constants.infinite, within, f32x4_gt(x, constants.max)));
                }
            }
        }
        rest
    }

    /// [`exp_each`](super::exp_each) for pairs of independent vectors. Returns the remaining numbers, fewer than eight.
    pub fn exp_pairs<'a>(numbers: &'a mut [f32], max: f32, sums: &mut [f32; 4]) -> &'a mut [f32] {
        let (eights, rest) = numbers.as_chunks_mut::<8>();
        let (constants, max) = (black_box(&CONSTANTS), f32x4_splat(max));
        let mut sum = f32x4_splat(0.0);
        for eight in eights {
            for four in eight.as_chunks_mut::<4>().0 {
                let four = four.as_mut_ptr().cast::<v128>();
                // SAFETY: four floats are a vector.
                unsafe {
                    let power = exp(f32x4_sub(v128_load(four), max), constants);
                    sum = f32x4_add(sum, power);
                    v128_store(four, power);
                }
            }
        }
        // SAFETY: as above.
        unsafe { v128_store(sums.as_mut_ptr().cast(), sum) };
        rest
    }

    /// The operations of [`exp`](super::exp) in the same order, with two differences: numbers are not above the upper
    /// limit, and 2^n is a factor instead of an addition to the exponent. Both give the same bits, because no result
    /// above the lower limit is subnormal, and the product keeps NaN.
    #[inline(always)]
    fn exp(x: v128, constants: &Constants) -> v128 {
        let Constants { min, log2_e, shift, ln_2, taylor, bias, .. } = constants;
        let shifted = f32x4_add(f32x4_mul(f32x4_pmax(x, *min), *log2_e), *shift);
        let n = f32x4_sub(shifted, *shift);
        let r = ln_2.iter().fold(x, |r, part| f32x4_sub(r, f32x4_mul(n, *part)));
        let power = taylor[1..].iter().fold(taylor[0], |power, term| f32x4_add(f32x4_mul(power, r), *term));
        let scaled = f32x4_mul(power, i32x4_shl(i32x4_add(shifted, *bias), 23));
        v128_andnot(scaled, f32x4_lt(x, *min))
    }
}

#[cfg(test)]
mod tests {
    use super::exp;

    #[test]
    fn equals_the_standard_library() {
        for step in -870_000..=883_000 {
            let x = step as f32 * 1e-4;
            let error = f64::from(exp(x)) / f64::from(x).exp() - 1.0;
            assert!(error.abs() < 3e-7, "exp({x}) is off by {error}");
        }
    }

    #[test]
    fn holds_at_the_ends() {
        assert_eq!([0.0, -0.0, -87.1, -1e30, f32::NEG_INFINITY].map(exp), [1.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!([88.5, 1e30, f32::INFINITY].map(exp), [f32::INFINITY; 3]);
        assert!(exp(f32::NAN).is_nan());
    }
}
