//! The forward pass of GPT-2 (Radford et al., 2019): learned position embeddings, pre-norm transformer blocks, a final
//! layer norm, and an `lm_head` that is usually tied to the token embedding.
//!
//! `reference.rs` is its definition: the same network as a textbook writes it. This file differs from it in what makes it
//! fast: a KV cache, weights that stay quantised, and buffers that are reused.
//!
//! This code works on rows of floats and is the same for every precision and instruction set. Matrix products, attention
//! and activation functions handle the differences.

use std::ops::Range;

use super::activation::Activation;
use super::attention::attention;
use super::config::Config;
use super::kv_cache::{LayerKvCache, Scratch};
use super::matrix::{Linear, Matrix, Precision};
use super::memory::try_reserve;
use super::norm::LayerNorm;
use super::profile::{Part, Stopwatch};
use crate::error::Result;
use crate::kernels::{ActivationBlock, BLOCK};

/// The weights of a whole model.
#[derive(Clone)]
pub struct Network {
    /// `wte`: `[vocab_size, n_embd]`.
    pub token_embedding: Matrix,
    /// `wpe`: `[n_positions, n_embd]`.
    pub position_embedding: Vec<f32>,
    /// The transformer blocks, in order.
    pub blocks: Vec<Block>,
    /// `ln_f`.
    pub norm: LayerNorm,
    /// `[vocab_size, n_embd]`; shares its memory with `token_embedding` if tied.
    pub lm_head: Matrix,
}

/// The weights of one transformer block.
#[derive(Clone)]
pub struct Block {
    /// `ln_1`.
    pub attention_norm: LayerNorm,
    /// `attn.c_attn`: `n_embd` to `3 * n_embd`, queries, keys and values side by side.
    pub qkv: Linear,
    /// `attn.c_proj`: the concatenated heads, `n_embd`, to `n_embd`.
    pub attention_output: Linear,
    /// Factor for the attention scores.
    pub attention_scale: f32,
    /// `ln_2`.
    pub mlp_norm: LayerNorm,
    /// `mlp.c_fc`: `n_embd` to `n_inner`.
    pub mlp_up: Linear,
    /// The activation function between the two linear layers.
    pub activation: Activation,
    /// `mlp.c_proj`: `n_inner` to `n_embd`.
    pub mlp_down: Linear,
}

/// The buffers of a forward pass, with one row for each id. They are reused, so that a decode step does not allocate.
#[derive(Default)]
pub struct Workspace {
    /// `[n, n_embd]`: the residual stream; after a pass, the last hidden states.
    hidden: Vec<f32>,
    /// `[n, n_embd]`: the output of a layer norm.
    normed: Vec<f32>,
    /// `[n, 3 * n_embd]`.
    qkv: Vec<f32>,
    /// `[n, n_embd]`: the outputs of the heads, concatenated.
    heads: Vec<f32>,
    /// `[n, n_inner]`.
    inner: Vec<f32>,
    /// `[n, n_embd]`: the output of attention or MLP, to be added to the residual stream.
    added: Vec<f32>,
    quantised: Vec<ActivationBlock>,
    attention: Scratch,
    /// Times the parts.
    pub stopwatch: Stopwatch,
}

/// The buffers of [`Block::multiply_once`].
#[derive(Default)]
pub struct TrialBuffers {
    /// Arbitrary activations, as many as the largest matrix has inputs.
    pub x: Vec<f32>,
    /// The quantised activations.
    pub quantised: Vec<ActivationBlock>,
    /// The results, which are not used.
    pub out: Vec<f32>,
}

impl Workspace {
    /// Reserves space for a pass over `n` positions, the last of which attends to `visible` positions.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn reserve(&mut self, config: &Config, n: usize, visible: usize) -> Result<()> {
        let Config { n_embd, n_inner, .. } = *config;
        for rows in [&mut self.hidden, &mut self.normed, &mut self.heads, &mut self.added] {
            try_reserve(rows, n * n_embd)?;
        }
        try_reserve(&mut self.qkv, n * 3 * n_embd)?;
        try_reserve(&mut self.inner, n * n_inner)?;
        try_reserve(&mut self.quantised, n * n_embd.max(n_inner).div_ceil(BLOCK))?;
        self.attention.reserve(visible, config.head_dim())
    }
}

impl Network {
    /// Computes the last hidden states of `ids`, which follow the positions in `cache` (one for each block), and appends
    /// their keys and values to it. The ids must be in the vocabulary and their positions in the context, and space must be
    /// reserved in both `cache` and `work`.
    pub fn hidden(&self, ids: &[u32], cache: &mut [LayerKvCache], work: &mut Workspace) {
        work.stopwatch.start();
        let past = cache.first().map_or(0, LayerKvCache::len);
        self.token_embedding.rows(ids, &mut work.hidden);
        let n_embd = work.hidden.len() / ids.len();
        add(&mut work.hidden, &self.position_embedding[past * n_embd..]);
        work.stopwatch.lap(Part::Embedding);
        for (block, cache) in self.blocks.iter().zip(cache) {
            block.forward(cache, work);
        }
    }

    /// Bytes of all matrices; those of a tied head count once.
    pub fn bytes(&self) -> u64 {
        let head = if self.lm_head.shares(&self.token_embedding) { 0 } else { self.lm_head.bytes() };
        self.token_embedding.bytes() + head + self.blocks.iter().map(Block::bytes).sum::<u64>()
    }

    /// The same network with its matrices in another precision, as far as their shapes allow.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn in_precision(&self, precision: Precision) -> Result<Self> {
        let token_embedding = self.token_embedding.in_precision(precision)?;
        let lm_head = match self.lm_head.shares(&self.token_embedding) {
            true => token_embedding.clone(),
            false => self.lm_head.in_precision(precision)?,
        };
        let blocks = self.blocks.iter().map(|block| block.in_precision(precision)).collect::<Result<_>>()?;
        Ok(Self { token_embedding, lm_head, blocks, ..self.clone() })
    }

    /// Writes the logits for the last hidden states of the positions `rows` to `logits`: `[rows.len(), vocab_size]`.
    pub fn logits(&self, rows: Range<usize>, work: &mut Workspace, logits: &mut Vec<f32>) {
        work.stopwatch.start();
        let n_embd = self.lm_head.shape().1;
        self.norm.forward(&work.hidden[rows.start * n_embd..rows.end * n_embd], &mut work.normed);
        self.lm_head.matmul_t(&work.normed, &mut work.quantised, logits);
        work.stopwatch.lap(Part::LmHead);
    }
}

impl Block {
    /// `x += attention(norm(x))`, then `x += mlp(norm(x))`, where `x` is `work.hidden`.
    fn forward(&self, cache: &mut LayerKvCache, work: &mut Workspace) {
        self.attention_norm.forward(&work.hidden, &mut work.normed);
        self.attention(cache, work);
        add(&mut work.hidden, &work.added);
        work.stopwatch.lap(Part::Attention);

        self.mlp_norm.forward(&work.hidden, &mut work.normed);
        self.mlp(work);
        add(&mut work.hidden, &work.added);
        work.stopwatch.lap(Part::Mlp);
    }

    fn attention(&self, cache: &mut LayerKvCache, work: &mut Workspace) {
        self.qkv.forward(&work.normed, &mut work.quantised, &mut work.qkv);
        cache.append(&work.qkv);
        work.heads.resize(work.hidden.len(), 0.0);
        attention(&work.qkv, cache, self.attention_scale, &mut work.attention, &mut work.heads);
        self.attention_output.forward(&work.heads, &mut work.quantised, &mut work.added);
    }

    fn in_precision(&self, precision: Precision) -> Result<Self> {
        Ok(Self {
            qkv: self.qkv.in_precision(precision)?,
            attention_output: self.attention_output.in_precision(precision)?,
            mlp_up: self.mlp_up.in_precision(precision)?,
            mlp_down: self.mlp_down.in_precision(precision)?,
            ..self.clone()
        })
    }

    /// Bytes of the matrices of this block.
    pub fn bytes(&self) -> u64 {
        self.matrices().map(|linear| linear.bytes()).sum()
    }

    /// Numbers in the largest of its matrices.
    pub fn largest(&self) -> usize {
        let sizes = self.matrices().map(|linear| linear.parts().0.shape()).map(|(outputs, inputs)| outputs * inputs);
        sizes.max().unwrap_or_default()
    }

    /// The precision of the MLP, which has most of the weights.
    pub fn precision(&self) -> Precision {
        self.mlp_up.precision()
    }

    /// Multiplies by each matrix once, as for one position, to measure the time.
    pub fn multiply_once(&self, buffers: &mut TrialBuffers) {
        let TrialBuffers { x, quantised, out } = buffers;
        for linear in self.matrices() {
            x.resize(x.len().max(linear.inputs()), 1.0);
            linear.forward(&x[..linear.inputs()], quantised, out);
        }
    }

    fn matrices(&self) -> impl Iterator<Item = &Linear> {
        [&self.qkv, &self.attention_output, &self.mlp_up, &self.mlp_down].into_iter()
    }

    fn mlp(&self, work: &mut Workspace) {
        self.mlp_up.forward(&work.normed, &mut work.quantised, &mut work.inner);
        self.activation.apply(&mut work.inner);
        self.mlp_down.forward(&work.inner, &mut work.quantised, &mut work.added);
    }
}

/// Adds the first `x.len()` numbers of `other` to `x`.
fn add(x: &mut [f32], other: &[f32]) {
    for (x, other) in x.iter_mut().zip(other) {
        *x += other;
    }
}
