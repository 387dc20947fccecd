//! GPT-2 as a textbook writes it, in candle's operations. Read this first: it is the definition of the network.
//!
//! Every position is computed at once, with a causal mask and without a KV cache (Radford et al., 2019; Vaswani et al.,
//! 2017). There is one function for each sub-layer, in the order of the paper. The weights are those of the loaded model,
//! dequantised to f32 one block at a time, so that a model needs little memory beside itself.
//!
//! `network.rs` computes the same faster, and the tests hold it against this file. No generation runs through it: the lab
//! does, where one wants to see what the fast network never keeps: the residual stream after each block and the attention
//! of each head.

use candle_core::{Device, Module, Result, Tensor};
use candle_nn::{Activation as Function, LayerNorm, Linear, ops::softmax_last_dim};
use candle_transformers::utils::build_causal_mask;

use super::activation::Activation;
use super::config::Config;
use super::matrix::{self, Matrix};
use super::network::{Block, Network};
use super::{memory, norm};
use crate::error;

/// Rows of the `lm_head` that are dequantised at a time.
const HEAD_ROWS: usize = 4096;

/// The textbook form of a loaded model.
#[derive(Clone, Copy)]
pub struct Reference<'a> {
    config: &'a Config,
    network: &'a Network,
}

/// What a block leaves behind.
pub struct Layer {
    /// The residual stream after the block: `[n, n_embd]`.
    pub hidden: Vec<f32>,
    /// How much each query takes from each key: `[n_head, n, n]`. A row adds up to 1, and no query takes from a later key.
    pub attention: Vec<f32>,
}

/// One pass, a block per call of [`next`](Self::next).
pub struct ReferencePass<'a> {
    reference: Reference<'a>,
    /// The residual stream: `[n, n_embd]`.
    x: Tensor,
    blocks: usize,
}

/// The logits of some hidden states, for a part of the vocabulary per call of [`next`](Self::next).
pub struct ReferenceLogits<'a> {
    lm_head: &'a Matrix,
    /// After the last layer norm: `[m, n_embd]`.
    normed: Tensor,
    from: usize,
}

/// The logits of some hidden states for the ids from `first` on.
pub struct LogitsPart {
    /// The first id.
    pub first: u32,
    /// One row for each hidden state.
    pub rows: Vec<Vec<f32>>,
}

impl<'a> Reference<'a> {
    pub(super) fn new(config: &'a Config, network: &'a Network) -> Self {
        Self { config, network }
    }

    /// The token and position embeddings of `ids`, and a pass over them. The ids must be in the vocabulary and fit into the
    /// context.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn begin(self, ids: &[u32]) -> error::Result<ReferencePass<'a>> {
        Ok(ReferencePass { reference: self, x: self.embed(ids).map_err(failed)?, blocks: 0 })
    }

    /// The logits of `hidden`, one or several rows of the residual stream. After the last block these are the model's; after
    /// an earlier one they say what it would choose if it ended there (the "logit lens", nostalgebraist, 2020).
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn logits(self, hidden: &[f32]) -> error::Result<ReferenceLogits<'a>> {
        let shape = (hidden.len() / self.config.n_embd, self.config.n_embd);
        let hidden = Tensor::from_slice(hidden, shape, &Device::Cpu);
        let normed = hidden.and_then(|hidden| layer_norm(&self.network.norm)?.forward(&hidden)).map_err(failed)?;
        Ok(ReferenceLogits { lm_head: &self.network.lm_head, normed, from: 0 })
    }

    /// A whole pass: the logits of every position, `[n, vocab_size]`, and every layer.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn forward(self, ids: &[u32]) -> error::Result<(Vec<Vec<f32>>, Vec<Layer>)> {
        let mut pass = self.begin(ids)?;
        let mut layers = Vec::new();
        while let Some(layer) = pass.next()? {
            layers.push(layer);
        }
        let mut rows = vec![Vec::new(); ids.len()];
        let mut logits = self.logits(&pass.hidden()?)?;
        while let Some(part) = logits.next()? {
            for (row, part) in rows.iter_mut().zip(part.rows) {
                row.extend(part);
            }
        }
        Ok((rows, layers))
    }

    /// `x = wte[id] + wpe[position]`
    fn embed(&self, ids: &[u32]) -> Result<Tensor> {
        let (n, width) = (ids.len(), self.config.n_embd);
        let tokens = rows(&self.network.token_embedding, ids)?;
        let positions = Tensor::from_slice(&self.network.position_embedding[..n * width], (n, width), &Device::Cpu)?;
        tokens + positions
    }

    /// `x += attention(ln_1(x))`, then `x += mlp(ln_2(x))`. Also returns the attention.
    fn block(&self, index: usize, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let block = &self.network.blocks[index];
        let (attended, attention) = self.attention(index, &layer_norm(&block.attention_norm)?.forward(x)?)?;
        let x = (x + attended)?;
        let x = (&x + mlp(block, &layer_norm(&block.mlp_norm)?.forward(&x)?)?)?;
        Ok((x, attention))
    }

    /// `softmax(q kᵀ / sqrt(d)) v` for each head, side by side, through the output projection.
    fn attention(&self, index: usize, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let Config { n_head, n_embd, .. } = *self.config;
        let (block, n) = (&self.network.blocks[index], x.dim(0)?);
        // [n, 3 * n_embd] -> three times [n_head, n, head_dim]
        let qkv = linear(&block.qkv)?.forward(x)?;
        let part = |place: usize| {
            let part = qkv.narrow(1, place * n_embd, n_embd)?;
            part.reshape((n, n_head, n_embd / n_head))?.transpose(0, 1)?.contiguous()
        };
        let (q, k, v) = (part(0)?, part(1)?, part(2)?);

        let scores = (q.matmul(&k.t()?)? * self.scale(index))?;
        let hidden = build_causal_mask(n, 0, &Device::Cpu)?.unsqueeze(0)?.broadcast_as(scores.shape())?;
        let never = Tensor::new(f32::NEG_INFINITY, &Device::Cpu)?.broadcast_as(scores.shape())?;
        let attention = softmax_last_dim(&hidden.where_cond(&never, &scores)?)?;

        let heads = attention.matmul(&v)?.transpose(0, 1)?.reshape((n, n_embd))?;
        Ok((linear(&block.attention_output)?.forward(&heads)?, attention))
    }

    /// The factor of the scores in a block.
    fn scale(&self, index: usize) -> f64 {
        let config = self.config;
        let width = if config.scale_attn_weights { (config.n_embd as f64 / config.n_head as f64).sqrt() } else { 1.0 };
        let depth = if config.scale_attn_by_inverse_layer_idx { (index + 1) as f64 } else { 1.0 };
        1.0 / (width * depth)
    }
}

impl ReferencePass<'_> {
    /// Computes the next block; `None` after the last one.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not be asked for `hidden` in between")]
    pub fn next(&mut self) -> error::Result<Option<Layer>> {
        let Some(block) = self.reference.network.blocks.get(self.blocks) else { return Ok(None) };
        // The largest of its matrices is there twice for a moment. What is smaller is not asked for.
        drop(memory::try_with_capacity::<f32>(2 * block.largest())?);
        let layer = self.reference.block(self.blocks, &self.x).and_then(|(x, attention)| {
            self.x = x;
            Ok(Layer { hidden: numbers(&self.x)?, attention: numbers(&attention)? })
        });
        self.blocks += 1;
        layer.map(Some).map_err(failed)
    }

    /// The residual stream now: the sum of the embeddings before the first block, `[n, n_embd]`.
    ///
    /// # Errors
    /// `Engine`.
    pub fn hidden(&self) -> error::Result<Vec<f32>> {
        numbers(&self.x).map_err(failed)
    }
}

impl ReferenceLogits<'_> {
    /// The next part of the vocabulary; `None` after the last one.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[expect(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> error::Result<Option<LogitsPart>> {
        let (outputs, inputs) = self.lm_head.shape();
        let first = self.from;
        let ids: Vec<u32> = (first..outputs.min(first + HEAD_ROWS)).map(|id| id as u32).collect();
        if ids.is_empty() {
            return Ok(None);
        }
        self.from += ids.len();
        drop(memory::try_with_capacity::<f32>(2 * ids.len() * inputs)?);
        let logits = rows(self.lm_head, &ids).and_then(|head| self.normed.matmul(&head.t()?)?.to_vec2());
        Ok(Some(LogitsPart { first: first as u32, rows: logits.map_err(failed)? }))
    }
}

/// `c_proj(activation(c_fc(x)))`
fn mlp(block: &Block, x: &Tensor) -> Result<Tensor> {
    let activation = match block.activation {
        Activation::NewGelu => Function::NewGelu,
        Activation::Gelu => Function::Gelu,
        Activation::Relu => Function::Relu,
        Activation::Silu => Function::Silu,
    };
    linear(&block.mlp_down)?.forward(&activation.forward(&linear(&block.mlp_up)?.forward(x)?)?)
}

/// A linear layer with its weights dequantised.
fn linear(layer: &matrix::Linear) -> Result<Linear> {
    let (weight, bias) = layer.parts();
    let all: Vec<u32> = (0..weight.shape().0 as u32).collect();
    Ok(Linear::new(rows(weight, &all)?, Some(Tensor::new(bias, &Device::Cpu)?)))
}

fn layer_norm(norm: &norm::LayerNorm) -> Result<LayerNorm> {
    let (scale, shift, epsilon) = norm.parts();
    let [scale, shift] = [scale, shift].map(|numbers| Tensor::new(numbers, &Device::Cpu));
    Ok(LayerNorm::new(scale?, shift?, epsilon.into()))
}

/// Rows of a matrix, dequantised: `[ids.len(), inputs]`.
fn rows(matrix: &Matrix, ids: &[u32]) -> Result<Tensor> {
    let inputs = matrix.shape().1;
    let mut numbers = Vec::with_capacity(ids.len() * inputs);
    matrix.rows(ids, &mut numbers);
    Tensor::from_vec(numbers, (ids.len(), inputs), &Device::Cpu)
}

fn numbers(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.flatten_all()?.to_vec1()
}

fn failed(error: candle_core::Error) -> error::Error {
    error::Error::new(error::ErrorKind::Engine, format!("the textbook model failed: {error}"))
}
