//! Layer norm (Ba et al., 2016).

/// `(x - mean) / sqrt(variance + epsilon) * scale + shift`, for each row.
#[derive(Clone)]
pub struct LayerNorm {
    scale: Vec<f32>,
    shift: Vec<f32>,
    epsilon: f32,
}

impl LayerNorm {
    /// A layer norm over rows as long as `scale` and `shift`.
    pub fn new(scale: Vec<f32>, shift: Vec<f32>, epsilon: f32) -> Self {
        debug_assert_eq!(scale.len(), shift.len());
        Self { scale, shift, epsilon }
    }

    /// Scale, shift and epsilon.
    pub fn parts(&self) -> (&[f32], &[f32], f32) {
        (&self.scale, &self.shift, self.epsilon)
    }

    /// Normalises each row of `x` (`[n, n_embd]`) and writes `out`, of the same shape.
    pub fn forward(&self, x: &[f32], out: &mut Vec<f32>) {
        let width = self.scale.len();
        out.resize(x.len(), 0.0);
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            // Two passes: `mean(x²) - mean²` would lose most digits if the mean is large.
            let mean = sum(x, |x| x) / width as f32;
            let variance = sum(x, |x| (x - mean) * (x - mean)) / width as f32;
            let factor = 1.0 / (variance + self.epsilon).sqrt();
            for (((out, x), scale), shift) in out.iter_mut().zip(x).zip(&self.scale).zip(&self.shift) {
                *out = (x - mean) * factor * scale + shift;
            }
        }
    }
}

/// The sum of `term` over all numbers, in eight independent lanes that vectorise.
fn sum(x: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let (groups, rest) = x.as_chunks::<8>();
    let mut lanes = [0.0; 8];
    for group in groups {
        for (lane, x) in lanes.iter_mut().zip(group) {
            *lane += term(*x);
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().map(|x| term(*x)).sum::<f32>()
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_its_definition(width in 1..70usize, rows in 1..4usize, mean in -3.0..3f64, size in 0.01..10f64) {
            let digits_lost = 1.0 + mean.abs() / size;
            let random = |rows, mean, size| Tensor::randn(mean as f32, size as f32, (rows, width), &Device::Cpu).unwrap();
            let numbers = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let (x, scale, shift) = (random(rows, mean, size), random(1, 1.0, 0.5), random(1, 0.0, 1.0));
            let flat = |tensor: &Tensor| tensor.flatten_all().unwrap();
            let away = x.broadcast_sub(&x.mean_keepdim(1).unwrap()).unwrap();
            let variance = away.sqr().unwrap().mean_keepdim(1).unwrap();
            let expected = away.broadcast_div(&(variance + 1e-5).unwrap().sqrt().unwrap()).unwrap();
            let expected = expected.broadcast_mul(&flat(&scale)).unwrap().broadcast_add(&flat(&shift)).unwrap();

            let mut out = Vec::new();
            LayerNorm::new(numbers(&scale), numbers(&shift), 1e-5).forward(&numbers(&x), &mut out);
            for (got, expected) in out.iter().zip(numbers(&expected)) {
                prop_assert!(f64::from((got - expected).abs()) < 5e-6 * digits_lost, "{got} for {expected}");
            }
        }
    }

    #[test]
    fn a_large_mean_costs_no_digits() {
        let (x, mut out) = ([10_000.0, 10_001.0, 10_002.0, 10_003.0], Vec::new());
        LayerNorm::new(vec![1.0; 4], vec![0.0; 4], 0.0).forward(&x, &mut out);
        let expected = [-1.341_640_8, -0.447_213_6, 0.447_213_6, 1.341_640_8];
        assert!(out.iter().zip(expected).all(|(got, expected): (&f32, f32)| (got - expected).abs() < 1e-6), "{out:?}");
    }
}
