//! The activation functions of the feed-forward network.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use libm::erf;

use crate::kernels::exp::exp_all;

/// An activation function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `gelu_new`, which GPT-2 uses: the tanh approximation of GELU (Hendrycks and Gimpel, 2016).
    NewGelu,
    /// Exact GELU: `x` times the cumulative normal distribution at `x` (Hendrycks and Gimpel, 2016).
    Gelu,
    /// `max(x, 0)`.
    Relu,
    /// `x` times the logistic function of `x`.
    Silu,
}

impl Activation {
    /// Applies the function to each number in place.
    pub fn apply(self, x: &mut [f32]) {
        match self {
            Self::NewGelu => {
                // x (1 + tanh u) / 2 is x / (1 + exp(-2u)), with u = sqrt(2 / pi) (x + 0.044715 x^3).
                let linear = (-2.0 * (2.0 / PI).sqrt()) as f32;
                let cubic = (-2.0 * (2.0 / PI).sqrt() * 0.044715) as f32;
                divide(x, |x| x * (linear + cubic * x * x));
            }
            Self::Gelu => {
                for x in x {
                    *x = (f64::from(*x) * 0.5 * (1.0 + erf(f64::from(*x) * FRAC_1_SQRT_2))) as f32;
                }
            }
            Self::Relu => {
                for x in x {
                    // Not `f32::max`, which would turn NaN into 0.
                    *x = if *x < 0.0 { 0.0 } else { *x };
                }
            }
            Self::Silu => divide(x, |x| -x),
        }
    }
}

/// Divides each number by `1 + exp(exponent(number))`.
fn divide(x: &mut [f32], exponent: impl Fn(f32) -> f32) {
    // Chunks keep the intermediate results in the L1 cache.
    let mut powers = [0.0; 256];
    for x in x.chunks_mut(powers.len()) {
        let powers = &mut powers[..x.len()];
        for (power, x) in powers.iter_mut().zip(x.iter()) {
            *power = exponent(*x);
        }
        exp_all(powers);
        for (x, power) in x.iter_mut().zip(powers) {
            *x /= 1.0 + *power;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(activation: Activation, x: f64) -> f64 {
        match activation {
            Activation::NewGelu => 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)).tanh()),
            Activation::Gelu => 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
            Activation::Relu => x.max(0.0),
            Activation::Silu => x / (1.0 + (-x).exp()),
        }
    }

    const ALL: [Activation; 4] = [Activation::NewGelu, Activation::Gelu, Activation::Relu, Activation::Silu];

    #[test]
    fn each_is_its_definition_to_a_millionth() {
        for activation in ALL {
            for step in -200_000..=200_000 {
                let x = step as f32 * 1e-4;
                let mut got = [x];
                activation.apply(&mut got);
                let expected = definition(activation, x.into());
                let error = (f64::from(got[0]) - expected).abs();
                assert!(error <= 1e-6 * expected.abs().max(1.0), "{activation:?}({x}) is {}, not {expected}", got[0]);
            }
        }
    }

    #[test]
    fn nothing_overflows_and_nan_stays() {
        for activation in ALL {
            let mut x = [1e30, -1e30, f32::NAN, 0.0];
            activation.apply(&mut x);
            assert_eq!((x[0], x[1].abs(), x[3]), (1e30, 0.0, 0.0), "{activation:?}");
            assert!(x[2].is_nan(), "{activation:?}");
        }
    }
}
