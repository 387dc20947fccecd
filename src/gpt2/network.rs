//! The forward pass of GPT-2 (Radford et al., 2019), in the published architecture: learned positions, layer norm
//! before each part of a block, one layer norm after the last block, and the token embedding as output head.
//!
//! It is written on plain rows of floats. What lies under it, the products, attention and the functions of single
//! numbers, differs by precision and instruction set; this does not.

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
    /// The blocks, from the input on.
    pub blocks: Vec<Block>,
    /// `ln_f`.
    pub norm: LayerNorm,
    /// `[vocab_size, n_embd]`; shares its numbers with `token_embedding` when the head is tied.
    pub lm_head: Matrix,
}

/// The weights of one block.
#[derive(Clone)]
pub struct Block {
    /// `ln_1`.
    pub attention_norm: LayerNorm,
    /// `c_attn`: `n_embd` to queries, keys and values, side by side.
    pub qkv: Linear,
    /// `attn.c_proj`: the heads, side by side, back to `n_embd`.
    pub attention_output: Linear,
    /// What attention scores are multiplied by.
    pub attention_scale: f32,
    /// `ln_2`.
    pub mlp_norm: LayerNorm,
    /// `c_fc`: `n_embd` to `n_inner`.
    pub mlp_up: Linear,
    /// The nonlinearity between the two.
    pub activation: Activation,
    /// `mlp.c_proj`: `n_inner` to `n_embd`.
    pub mlp_down: Linear,
}

/// What a pass works in: rows of floats, one for each id. It is kept from pass to pass, so that a step allocates
/// nothing.
#[derive(Default)]
pub struct Workspace {
    /// `[n, n_embd]`: what the blocks add to, and in the end the last hidden states.
    hidden: Vec<f32>,
    /// `[n, n_embd]`: what a part of a block begins with.
    normed: Vec<f32>,
    /// `[n, 3 * n_embd]`.
    qkv: Vec<f32>,
    /// `[n, n_embd]`: the heads, side by side.
    heads: Vec<f32>,
    /// `[n, n_inner]`.
    inner: Vec<f32>,
    /// `[n, n_embd]`: what a part of a block ends with.
    added: Vec<f32>,
    quantised: Vec<ActivationBlock>,
    attention: Scratch,
    /// Times the parts.
    pub stopwatch: Stopwatch,
}

/// What [`Block::multiply_once`] works in.
#[derive(Default)]
pub struct TrialWorkspace {
    /// As many numbers as the widest matrix has inputs. Which they are does not matter.
    pub x: Vec<f32>,
    /// The same, quantised.
    pub quantised: Vec<ActivationBlock>,
    /// Results, which nobody wants.
    pub out: Vec<f32>,
}

impl Workspace {
    /// Takes room for a pass over `n` positions, of which the last sees `visible`.
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
    /// Computes the last hidden state of each of `ids` after the positions that `cache` (one per block) holds, and
    /// appends their keys and values to it. Ids must be in the vocabulary, positions in the context, and there must be room
    /// in both `cache` and `work`.
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

    /// The logits for the last hidden states `rows` into `logits`: `[rows.len(), vocab_size]`.
    pub fn logits(&self, rows: Range<usize>, work: &mut Workspace, logits: &mut Vec<f32>) {
        work.stopwatch.start();
        let n_embd = self.lm_head.shape().1;
        self.norm.forward(&work.hidden[rows.start * n_embd..rows.end * n_embd], &mut work.normed);
        self.lm_head.matmul_t(&work.normed, &mut work.quantised, logits);
        work.stopwatch.lap(Part::LmHead);
    }
}

impl Block {
    /// `x + attention(norm(x))`, and then the same with the feed-forward part, where `x` is `work.hidden`.
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

    /// Bytes of its matrices.
    pub fn bytes(&self) -> u64 {
        self.matrices().map(|linear| linear.bytes()).sum()
    }

    /// How most of its weights are held.
    pub fn precision(&self) -> Precision {
        self.mlp_up.precision()
    }

    /// Passes through its weights as one position does, for nothing but the time it takes.
    pub fn multiply_once(&self, room: &mut TrialWorkspace) {
        let TrialWorkspace { x, quantised, out } = room;
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

/// Adds `other`, which may go on, to `x`.
fn add(x: &mut [f32], other: &[f32]) {
    for (x, other) in x.iter_mut().zip(other) {
        *x += other;
    }
}
