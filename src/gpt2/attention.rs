//! Causal self-attention over the cached keys and values.
//!
//! Each head computes `softmax(q Kᵀ · scale) V`, where `K` and `V` hold the positions up to that of the query (Vaswani et
//! al., 2017, equation 1). The tests compare it with that formula, computed with whole matrices and a mask. A query is only
//! multiplied by the keys it may attend to, so the cost and the result of a position do not depend on the size of its
//! chunk, and the cache is not copied.

use super::kv_cache::{HeadCache, Heads, LayerKvCache, Scratch};

/// Computes attention for the last `n` positions in the cache into `out`, of shape `[n, n_embd]`. `qkv`, of shape
/// `[n, 3 * n_embd]`, holds their queries, keys and values side by side. Scores are multiplied by `scale`.
pub fn attention(qkv: &[f32], cache: &LayerKvCache, scale: f32, scratch: &mut Scratch, out: &mut [f32]) {
    match cache.heads() {
        Heads::F32(heads) => each(heads, qkv, cache, scale, scratch, out),
        Heads::Quantised(heads) => each(heads, qkv, cache, scale, scratch, out),
    }
}

fn each<H: HeadCache>(
    heads: &[H],
    qkv: &[f32],
    cache: &LayerKvCache,
    scale: f32,
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    let (head_dim, n_embd) = (cache.head_dim(), cache.n_embd());
    let past = cache.len() - out.len() / n_embd;
    // One head after the other, so that its keys and values stay in the processor's cache for all queries.
    for (index, head) in heads.iter().enumerate() {
        let columns = index * head_dim..(index + 1) * head_dim;
        let rows = qkv.chunks_exact(3 * n_embd).zip(out.chunks_exact_mut(n_embd));
        for (row, (qkv, out)) in rows.enumerate() {
            head.attend(&qkv[columns.clone()], past + row + 1, scale, scratch, &mut out[columns.clone()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{D, Device, Tensor};
    use candle_transformers::utils::build_causal_mask;
    use proptest::prelude::*;

    use super::super::kv_cache::KvPrecision;
    use super::*;

    /// The textbook formula with whole matrices and a causal mask.
    fn oracle(q: &Tensor, k: &Tensor, v: &Tensor, heads: usize, scale: f32) -> candle_core::Result<Tensor> {
        let (n, past) = (q.dim(0)?, k.dim(0)? - q.dim(0)?);
        let mask = build_causal_mask(n, past, &Device::Cpu)?;
        let split = |x: &Tensor| x.reshape((x.dim(0)?, heads, ()))?.transpose(0, 1)?.contiguous();
        let (q, k, v) = (split(q)?, split(k)?, split(v)?);
        let scores = (q.matmul(&k.t()?)? * f64::from(scale))?;
        let hidden = Tensor::full(f32::NEG_INFINITY, scores.shape(), &Device::Cpu)?;
        let scores = mask.broadcast_as(scores.shape())?.where_cond(&hidden, &scores)?;
        candle_nn::ops::softmax(&scores, D::Minus1)?.matmul(&v)?.transpose(0, 1)?.contiguous()?.flatten_from(1)
    }

    fn numbers(tensor: &Tensor) -> Vec<f32> {
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    /// Attention of the last `n` positions of `qkv` over all of them.
    fn run(qkv: &Tensor, n: usize, heads: usize, head_dim: usize, storage: KvPrecision, scale: f32) -> Vec<f32> {
        let total = qkv.dim(0).unwrap();
        let mut cache = LayerKvCache::new(heads, head_dim, total, storage);
        cache.reserve(total).unwrap();
        cache.append(&numbers(qkv));
        let mut out = vec![f32::NAN; n * heads * head_dim];
        let last = numbers(&qkv.narrow(0, total - n, n).unwrap());
        attention(&last, &cache, scale, &mut Scratch::default(), &mut out);
        out
    }

    proptest! {
        #[test]
        fn it_is_the_textbook_formula(
            past in 0..20usize, n in 1..12usize, heads in 1..4usize, head_dim in 1..40usize, size in 0.1..3f64,
        ) {
            let (total, width) = (past + n, heads * head_dim);
            let random = || Tensor::randn(0f32, 1.0, (total, width), &Device::Cpu).unwrap();
            let (q, k, v) = ((random() * size).unwrap(), random(), random());
            let qkv = Tensor::cat(&[&q, &k, &v], 1).unwrap();
            let expected = numbers(&oracle(&q.narrow(0, past, n).unwrap(), &k, &v, heads, 0.3).unwrap());
            // The quantisation error of a value of up to 4 is a 254th of it; keys add little.
            for (storage, tolerance) in [(KvPrecision::F32, 1e-5), (KvPrecision::Quantised, 0.03)] {
                for (got, expected) in run(&qkv, n, heads, head_dim, storage, 0.3).iter().zip(&expected) {
                    prop_assert!((got - expected).abs() < tolerance, "{storage:?}: {got} for {expected}");
                }
            }
        }

        #[test]
        fn nan_and_infinity_reach_the_output(storage in prop::sample::select(&[KvPrecision::F32, KvPrecision::Quantised]),
            at in 0..18usize, bad in prop::sample::select(&[f32::NAN, f32::INFINITY]))
        {
            let mut qkv = vec![0.5; 18];
            qkv[at] = bad;
            let qkv = Tensor::from_vec(qkv, (1, 18), &Device::Cpu).unwrap();
            let out = run(&qkv, 1, 1, 6, storage, 1.0);
            prop_assert!(out.iter().any(|number| !number.is_finite()), "{out:?}");
        }
    }

    #[test]
    fn a_dominant_position_does_not_zero_the_others() {
        // The first score is 10.4 above 1023 others, whose weights are below the quantisation error of the first.
        let n = 1024;
        let mut qkv = vec![0.0f32; 3 * n];
        for (position, qkv) in qkv.as_chunks_mut::<3>().0.iter_mut().enumerate() {
            *qkv = if position == 0 { [10.4, 1.0, -1.0] } else { [10.4, 0.0, 1.0] };
        }
        let qkv = Tensor::from_vec(qkv, (n, 3), &Device::Cpu).unwrap();
        let [exact, quantised] =
            [KvPrecision::F32, KvPrecision::Quantised].map(|storage| run(&qkv, 1, 1, 1, storage, 1.0)[0]);
        assert!((exact - quantised).abs() < 0.005, "{quantised} for {exact}");
    }

    #[test]
    fn huge_scores_do_not_overflow() {
        let qkv =
            Tensor::new(&[[0f32, 0.0, 1e4, 0.0, 1.0, 2.0], [1e4, 0.0, -1e4, 0.0, 3.0, 4.0]], &Device::Cpu).unwrap();
        assert_eq!(run(&qkv, 1, 1, 2, KvPrecision::F32, 1.0), [1.0, 2.0]);
        let quantised = run(&qkv, 1, 1, 2, KvPrecision::Quantised, 1.0);
        assert!((quantised[0] - 1.0).abs() < 0.01 && (quantised[1] - 2.0).abs() < 0.01, "{quantised:?}");
    }
}
