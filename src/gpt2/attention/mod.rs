//! Causal self-attention over the cached keys and values, as one operator.
//!
//! Written out as tensors it is `softmax(mask(Q Kᵀ · scale)) V` for each head (Vaswani et al., 2017, equation 1); the
//! tests hold it against that. As one operator it looks only at the keys a query may see, so a position costs and
//! gives the same in a chunk of any size, and nothing of the cache is copied.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, bail};

use super::cache::BlockCache;

/// The operator: applied to queries `[n, heads * head_dim]` and their mask `[n, positions held]` it gives
/// `[n, heads * head_dim]`. In the mask 1 hides a key; what it leaves visible must be the first keys of the row, as in
/// every causal mask.
pub struct Attention<'a> {
    /// Keys and values of the block, those of the queries' own positions included.
    pub cache: &'a BlockCache,
    /// What scores are multiplied by.
    pub scale: f32,
}

impl CustomOp2 for Attention<'_> {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(
        &self,
        queries: &CpuStorage,
        query_layout: &Layout,
        mask: &CpuStorage,
        mask_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (n, width) = query_layout.shape().dims2()?;
        let (head_dim, heads) = (self.cache.head_dim(), self.cache.heads().len());
        if width != heads * head_dim || mask_layout.dims() != [n, self.cache.len()] {
            bail!("queries {:?} and mask {:?} do not fit the cache", query_layout.dims(), mask_layout.dims());
        }
        let &[row_stride, 1] = query_layout.stride() else { bail!("the numbers of a query must be adjacent") };
        let queries = &queries.as_slice::<f32>()?[query_layout.start_offset()..];
        let Some((start, end)) = mask_layout.contiguous_offsets() else { bail!("the mask must be contiguous") };
        let visible: Vec<usize> =
            mask.as_slice::<u8>()?[start..end].chunks_exact(self.cache.len()).map(visible_keys).collect();

        let mut out = vec![0.0; n * width];
        let mut weights = Vec::with_capacity(self.cache.len());
        for (head, (keys, values)) in self.cache.heads().enumerate() {
            for (row, &visible) in visible.iter().enumerate() {
                let query = &queries[row * row_stride + head * head_dim..][..head_dim];
                let (keys, values) = (&keys[..visible * head_dim], &values[..visible * head_dim]);
                softmax_of_scores(query, keys, self.scale, &mut weights);
                weighted_sum(&weights, values, &mut out[row * width + head * head_dim..][..head_dim]);
            }
        }
        Ok((CpuStorage::F32(out), (n, width).into()))
    }
}

/// How many keys a row of the mask shows.
fn visible_keys(mask: &[u8]) -> usize {
    let visible = mask.iter().take_while(|&&hidden| hidden == 0).count();
    debug_assert!(mask[visible..].iter().all(|&hidden| hidden != 0), "the mask is not causal");
    visible
}

/// `softmax(query · key · scale)` over `keys` (`[visible, head_dim]`), into `weights`. The greatest score is taken off
/// first, so that no exponential overflows.
fn softmax_of_scores(query: &[f32], keys: &[f32], scale: f32, weights: &mut Vec<f32>) {
    weights.clear();
    weights.extend(keys.chunks_exact(query.len()).map(|key| scale * dot(query, key)));
    let greatest = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for weight in weights.iter_mut() {
        *weight = (*weight - greatest).exp();
        sum += *weight;
    }
    for weight in weights.iter_mut() {
        *weight /= sum;
    }
}

/// The product of two vectors, summed in four lanes: one vector register.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<4>(), b.as_chunks::<4>());
    let mut sums = [0.0; 4];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..4 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    (sums[0] + sums[2]) + (sums[1] + sums[3]) + rest
}

/// The sum of the rows of `values` (`[weights.len(), out.len()]`), each times its weight, into `out`.
fn weighted_sum(weights: &[f32], values: &[f32], out: &mut [f32]) {
    /// Columns summed in registers while one pass runs over the rows.
    const COLUMNS: usize = 16;
    let width = out.len();
    let (columns, rest) = out.as_chunks_mut::<COLUMNS>();
    let rest_at = width - rest.len();
    for (index, out) in columns.iter_mut().enumerate() {
        let mut sums = [0.0; COLUMNS];
        for (weight, value) in weights.iter().zip(values.chunks_exact(width)) {
            let value = &value[index * COLUMNS..][..COLUMNS];
            for lane in 0..COLUMNS {
                sums[lane] += weight * value[lane];
            }
        }
        *out = sums;
    }
    for (weight, value) in weights.iter().zip(values.chunks_exact(width)) {
        for (out, value) in rest.iter_mut().zip(&value[rest_at..]) {
            *out += weight * value;
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{D, Device, Tensor};
    use candle_transformers::utils::build_causal_mask;
    use proptest::prelude::*;

    use super::*;

    /// The textbook: whole matrices, a mask of minus infinity, a softmax.
    fn oracle(q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor, heads: usize, scale: f32) -> Result<Tensor> {
        let split = |x: &Tensor| x.reshape((x.dim(0)?, heads, ()))?.transpose(0, 1)?.contiguous();
        let (q, k, v) = (split(q)?, split(k)?, split(v)?);
        let scores = (q.matmul(&k.t()?)? * f64::from(scale))?;
        let hidden = Tensor::full(f32::NEG_INFINITY, scores.shape(), &Device::Cpu)?;
        let scores = mask.broadcast_as(scores.shape())?.where_cond(&hidden, &scores)?;
        candle_nn::ops::softmax(&scores, D::Minus1)?.matmul(&v)?.transpose(0, 1)?.contiguous()?.flatten_from(1)
    }

    proptest! {
        #[test]
        fn it_is_the_textbook_formula(
            past in 0..20usize, n in 1..12usize, heads in 1..4usize, head_dim in 1..40usize, size in 0.1..30f64,
        ) {
            let (total, width) = (past + n, heads * head_dim);
            let random = |rows| Tensor::randn(0f32, 1.0, (rows, width), &Device::Cpu).unwrap();
            let (q, k, v) = ((random(n) * size).unwrap(), random(total), random(total));
            let mask = build_causal_mask(n, past, &Device::Cpu).unwrap();
            let mut cache = BlockCache::new(heads, head_dim, total);
            cache.append(&k, &v).unwrap();
            let got = q.apply_op2_no_bwd(&mask, &Attention { cache: &cache, scale: 0.3 }).unwrap();
            let expected = oracle(&q, &k, &v, &mask, heads, 0.3).unwrap();
            let difference = (got - expected).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
            prop_assert!(difference < 1e-4, "{difference}");
        }
    }

    #[test]
    fn huge_scores_do_not_overflow() {
        let mut cache = BlockCache::new(1, 2, 2);
        let keys = Tensor::new(&[[1e4f32, 0.0], [-1e4, 0.0]], &Device::Cpu).unwrap();
        cache.append(&keys, &Tensor::new(&[[1f32, 2.0], [3.0, 4.0]], &Device::Cpu).unwrap()).unwrap();
        let query = Tensor::new(&[[1e4f32, 0.0]], &Device::Cpu).unwrap();
        let mask = build_causal_mask(1, 1, &Device::Cpu).unwrap();
        let out = query.apply_op2_no_bwd(&mask, &Attention { cache: &cache, scale: 1.0 }).unwrap();
        assert_eq!(out.to_vec2::<f32>().unwrap(), [[1.0, 2.0]]);
    }

    #[test]
    fn shapes_that_do_not_fit_are_errors() {
        let mut cache = BlockCache::new(1, 2, 4);
        let two = Tensor::zeros((2, 2), candle_core::DType::F32, &Device::Cpu).unwrap();
        cache.append(&two, &two).unwrap();
        let mask = build_causal_mask(1, 0, &Device::Cpu).unwrap();
        let query = two.narrow(0, 0, 1).unwrap();
        assert!(query.apply_op2_no_bwd(&mask, &Attention { cache: &cache, scale: 1.0 }).is_err());
    }
}
