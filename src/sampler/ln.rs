//! The natural logarithm, the same to the bit on every machine.

use std::f64::consts::{LN_2, SQRT_2};

/// `f64::ln` of a number that is not negative, to a relative error of 1e-15; minus infinity for 0.
///
/// The standard library's is whatever the platform has, and min-p, which decides what can be drawn, is compared by its
/// logarithm.
pub(super) fn ln(x: f64) -> f64 {
    /// Bits of the fraction of an `f64`.
    const FRACTION: u32 = f64::MANTISSA_DIGITS - 1;
    /// 1/23, 1/21, ... 1: the series of artanh in z^2, wrong by less than z^24 / 25 < 2e-20.
    const ARTANH: [f64; 12] = {
        let mut terms = [1.0; 12];
        let mut n = 0;
        while n < 12 {
            terms[n] = 1.0 / (23 - 2 * n) as f64;
            n += 1;
        }
        terms
    };

    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x < f64::MIN_POSITIVE {
        return ln(x * (1u64 << 54) as f64) - 54.0 * LN_2;
    }
    // x = 2^n m with m between the roots of 1/2 and 2, and ln m = 2 artanh((m - 1) / (m + 1)).
    let mut n = (x.to_bits() >> FRACTION) as f64 - 1023.0;
    let mut m = f64::from_bits(x.to_bits() & ((1 << FRACTION) - 1) | 1.0f64.to_bits());
    if m > SQRT_2 {
        m *= 0.5;
        n += 1.0;
    }
    let z = (m - 1.0) / (m + 1.0);
    let series = ARTANH.iter().fold(0.0, |sum, term| sum * (z * z) + term);
    n * LN_2 + 2.0 * z * series
}

#[cfg(test)]
mod tests {
    use super::ln;

    #[test]
    fn equals_the_standard_library() {
        let mut x = 5e-324;
        while x < f64::MAX / 1.01 {
            let error = (ln(x) - x.ln()).abs() / x.ln().abs().max(f64::MIN_POSITIVE);
            assert!(error < 2e-15, "ln({x}) is off by {error}");
            x = (x * 1.000_7).max(x + 5e-324);
        }
    }

    #[test]
    fn holds_at_the_ends() {
        assert_eq!(ln(0.0), f64::NEG_INFINITY);
        assert_eq!(ln(1.0).to_bits(), 0.0f64.to_bits());
        assert!((ln(f64::MAX) - f64::MAX.ln()).abs() < 1e-12);
    }
}
