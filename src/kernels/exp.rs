//! The exponential function in 32-bit floats, for whole slices.

use core::f32::consts::LOG2_E;

/// Added to a number below 2^22 it leaves the nearest whole number in the lowest bits of the sum.
const SHIFT: f32 = (3u32 << 22) as f32;

/// ln 2 in two parts: products of the first, which ends in zero bits, with an exponent are exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

/// 1/7!, 1/6!, ... 1/0!: Taylor's series, which is wrong by less than r^8 / 8! < 6e-9.
const TAYLOR: [f32; 8] = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];

/// Below the first the result is 0, above the second infinite.
const ENDS: [f32; 2] = [-87.0, 88.3];

/// `exp(x)` to a relative error of 3e-7; below -87 it is 0, above 88.3 infinite, and of NaN it is NaN.
///
/// It has no branches and no tables, so that the compiler makes vector instructions of a loop over it, and it is made
/// of additions and products alone, so that it is the same to the bit on every machine.
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
    // Adding n to the exponent multiplies by 2^n.
    let scaled = f32::from_bits(power.to_bits().wrapping_add(shifted.to_bits() << 23));
    let scaled = if x < ENDS[0] { 0.0 } else { scaled };
    let scaled = if x > ENDS[1] { f32::INFINITY } else { scaled };
    if x.is_nan() { x } else { scaled }
}

/// Makes `exp(number - less)` of each number.
pub fn exp_each(numbers: &mut [f32], less: f32) {
    #[cfg(target_feature = "simd128")]
    let numbers = vectors::exp_pairs(numbers, less);
    for number in numbers {
        *number = exp(*number - less);
    }
}

#[cfg(target_feature = "simd128")]
mod vectors {
    use core::arch::wasm32::{
        f32x4_add, f32x4_gt, f32x4_lt, f32x4_mul, f32x4_ne, f32x4_pmax, f32x4_pmin, f32x4_splat, f32x4_sub, i32x4_add,
        i32x4_shl, v128, v128_andnot, v128_bitselect, v128_load, v128_store,
    };
    use core::f32::consts::LOG2_E;

    use super::{ENDS, LN_2, SHIFT, TAYLOR};

    /// As [`exp_each`](super::exp_each) for the first numbers; gives the rest, which are fewer than eight. Two vectors at a
    /// time: an engine makes the many constants anew for each time.
    pub fn exp_pairs(numbers: &mut [f32], less: f32) -> &mut [f32] {
        let (eights, rest) = numbers.as_chunks_mut::<8>();
        for eight in eights {
            let [low, high] = [0, 4].map(|at| eight[at..].as_mut_ptr().cast::<v128>());
            // SAFETY: four floats are a vector, and there are two of them.
            unsafe {
                let [a, b] = exp([low, high].map(|four| f32x4_sub(v128_load(four), f32x4_splat(less))));
                v128_store(low, a);
                v128_store(high, b);
            }
        }
        rest
    }

    /// The same operations as [`exp`](super::exp), in the same order.
    #[inline(always)]
    fn exp(x: [v128; 2]) -> [v128; 2] {
        let clamped = x.map(|x| f32x4_pmin(f32x4_splat(ENDS[1]), f32x4_pmax(f32x4_splat(ENDS[0]), x)));
        let shifted = clamped.map(|x| f32x4_add(f32x4_mul(x, f32x4_splat(LOG2_E)), f32x4_splat(SHIFT)));
        let n = shifted.map(|shifted| f32x4_sub(shifted, f32x4_splat(SHIFT)));
        let mut r = x;
        for part in LN_2 {
            r = [0, 1].map(|of| f32x4_sub(r[of], f32x4_mul(n[of], f32x4_splat(part))));
        }
        let mut power = [f32x4_splat(TAYLOR[0]); 2];
        for term in &TAYLOR[1..] {
            power = [0, 1].map(|of| f32x4_add(f32x4_mul(power[of], r[of]), f32x4_splat(*term)));
        }
        [0, 1].map(|of| {
            let scaled = i32x4_add(power[of], i32x4_shl(shifted[of], 23));
            let scaled = v128_andnot(scaled, f32x4_lt(x[of], f32x4_splat(ENDS[0])));
            let scaled = v128_bitselect(f32x4_splat(f32::INFINITY), scaled, f32x4_gt(x[of], f32x4_splat(ENDS[1])));
            v128_bitselect(x[of], scaled, f32x4_ne(x[of], x[of]))
        })
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
