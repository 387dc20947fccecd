//! The exponential function in 32-bit floats, for whole slices.

use core::f32::consts::LOG2_E;

/// `exp(x)` to a relative error of 3e-7; below -87 it is 0, above 88.3 infinite, and of NaN it is NaN.
///
/// It has no branches and no tables, so that the compiler makes vector instructions of a loop over it, and it is made
/// of additions and products alone, so that it is the same to the bit on every machine.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    /// Added to a number below 2^22 it leaves the nearest whole number in the lowest bits of the sum.
    const SHIFT: f32 = (3u32 << 22) as f32;
    /// ln 2 in two parts: products of the first, which ends in zero bits, with an exponent are exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    /// 1/7!, 1/6!, ... 1/0!: Taylor's series, which is wrong by less than r^8 / 8! < 6e-9.
    const TAYLOR: [f32; 8] = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];

    // exp(x) = 2^n exp(r) with |r| <= ln 2 / 2.
    let shifted = x.clamp(-87.0, 88.3) * LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = x - n * LN_2[0] - n * LN_2[1];
    let mut power = TAYLOR[0];
    for term in &TAYLOR[1..] {
        power = power * r + term;
    }
    // Adding n to the exponent multiplies by 2^n.
    let scaled = f32::from_bits(power.to_bits().wrapping_add(shifted.to_bits() << 23));
    let scaled = if x < -87.0 { 0.0 } else { scaled };
    let scaled = if x > 88.3 { f32::INFINITY } else { scaled };
    if x.is_nan() { x } else { scaled }
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
