//! The forward pass of GPT-2 (Radford et al., 2019), in the published architecture: learned positions, layer norm
//! before each part of a block, one layer norm after the last block, and the token embedding as output head.

use candle_core::{Device, Result, Tensor};
use candle_nn::{Activation, LayerNorm};
use candle_transformers::utils::build_causal_mask;

use super::attention::Attention;
use super::cache::BlockCache;
use super::linear::{Linear, Matrix};

/// The weights of a whole model.
#[derive(Clone)]
pub struct Network {
    /// `wte`: `[vocab_size, n_embd]`.
    pub token_embedding: Matrix,
    /// `wpe`: `[n_positions, n_embd]`.
    pub position_embedding: Tensor,
    /// The blocks, from the input on.
    pub blocks: Vec<Block>,
    /// `ln_f`.
    pub norm: LayerNorm,
    /// `[vocab_size, n_embd]`; shares its numbers with `token_embedding` when the head is tied.
    pub head: Matrix,
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

impl Network {
    /// The last hidden state of each of `ids`, `[n, n_embd]`, after the positions that `cache` (one per block) holds;
    /// their keys and values are appended to it.
    pub fn hidden(&self, ids: &[u32], cache: &mut [BlockCache]) -> Result<Tensor> {
        let (n, past) = (ids.len(), cache.first().map_or(0, BlockCache::len));
        let mask = build_causal_mask(n, past, &Device::Cpu)?;
        let mut x = (self.token_embedding.rows(ids)? + self.position_embedding.narrow(0, past, n)?)?;
        for (block, cache) in self.blocks.iter().zip(cache) {
            x = block.forward(&x, &mask, cache)?;
        }
        Ok(x)
    }

    /// The logits, `[n, vocab_size]`, for last hidden states `[n, n_embd]`.
    pub fn logits(&self, hidden: &Tensor) -> Result<Tensor> {
        hidden.apply(&self.norm)?.apply(&self.head)
    }
}

impl Block {
    /// `x + attention(norm(x))`, then the same with the feed-forward part; `[n, n_embd]` to `[n, n_embd]`.
    fn forward(&self, x: &Tensor, mask: &Tensor, cache: &mut BlockCache) -> Result<Tensor> {
        let x = (x + self.attention(&x.apply(&self.attention_norm)?, mask, cache)?)?;
        &x + self.mlp(&x.apply(&self.mlp_norm)?)?
    }

    fn attention(&self, x: &Tensor, mask: &Tensor, cache: &mut BlockCache) -> Result<Tensor> {
        let n_embd = x.dim(1)?;
        let qkv = x.apply(&self.qkv)?;
        let [q, k, v] = [0, 1, 2].map(|part| qkv.narrow(1, part * n_embd, n_embd));
        cache.append(&k?, &v?)?;
        q?.apply_op2_no_bwd(mask, &Attention { cache, scale: self.attention_scale })?.apply(&self.attention_output)
    }

    fn mlp(&self, x: &Tensor) -> Result<Tensor> {
        x.apply(&self.mlp_up)?.apply(&self.activation)?.apply(&self.mlp_down)
    }
}
