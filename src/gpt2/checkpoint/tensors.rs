//! The tensors of a GPT-2 and their names in each format.

use std::collections::BTreeMap;

use crate::gpt2::config::Config;

/// A part of a GPT-2; tensors are a part's weight and bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TensorKind {
    TokenEmbedding,
    PositionEmbedding,
    Norm,
    LmHead,
    AttentionNorm,
    Qkv,
    AttentionOutput,
    MlpNorm,
    MlpUp,
    MlpDown,
}

/// The role of a tensor, which determines how it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A vector or the position embedding: always stored in f32.
    Vector,
    /// A matrix `[out, in]` in every format.
    Embedding,
    /// A matrix of a transformer block, `[out, in]`, which Hugging Face's `Conv1D` stores transposed.
    Linear,
}

/// One tensor of a GPT-2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TensorId {
    /// The transformer block; none for tensors outside the blocks.
    pub block: Option<usize>,
    pub kind: TensorKind,
    /// The bias, not the weight.
    pub bias: bool,
}

impl TensorId {
    /// A weight outside the blocks.
    pub const fn single(kind: TensorKind) -> Self {
        Self { block: None, kind, bias: false }
    }

    pub fn role(self) -> Role {
        match self.kind {
            _ if self.bias => Role::Vector,
            TensorKind::TokenEmbedding | TensorKind::LmHead => Role::Embedding,
            TensorKind::Qkv | TensorKind::AttentionOutput | TensorKind::MlpUp | TensorKind::MlpDown => Role::Linear,
            TensorKind::PositionEmbedding | TensorKind::Norm | TensorKind::AttentionNorm | TensorKind::MlpNorm => {
                Role::Vector
            }
        }
    }

    /// Number of dimensions.
    pub fn rank(self) -> usize {
        if self.role() == Role::Vector && self.kind != TensorKind::PositionEmbedding { 1 } else { 2 }
    }

    /// The shape in a model of this configuration; matrices are `[out, in]`.
    pub fn shape(self, config: &Config) -> Vec<usize> {
        let (embd, inner) = (config.n_embd, config.n_inner);
        let (outputs, inputs) = match self.kind {
            TensorKind::TokenEmbedding | TensorKind::LmHead => (config.vocab_size, embd),
            TensorKind::PositionEmbedding => (config.n_positions, embd),
            TensorKind::Norm | TensorKind::AttentionNorm | TensorKind::MlpNorm => return vec![embd],
            TensorKind::Qkv => (3 * embd, embd),
            TensorKind::AttentionOutput => (embd, embd),
            TensorKind::MlpUp => (inner, embd),
            TensorKind::MlpDown => (embd, inner),
        };
        if self.bias { vec![outputs] } else { vec![outputs, inputs] }
    }

    /// Every tensor that a model of this configuration needs, including the `lm_head` if `head`.
    pub fn needed(config: &Config, head: bool) -> impl Iterator<Item = Self> {
        let once = [
            (TensorKind::TokenEmbedding, false),
            (TensorKind::PositionEmbedding, false),
            (TensorKind::Norm, false),
            (TensorKind::Norm, true),
        ];
        let parts = [
            TensorKind::AttentionNorm,
            TensorKind::Qkv,
            TensorKind::AttentionOutput,
            TensorKind::MlpNorm,
            TensorKind::MlpUp,
            TensorKind::MlpDown,
        ];
        let blocks = (0..config.n_layer).flat_map(move |block| {
            parts.into_iter().flat_map(move |kind| [false, true].map(|bias| Self { block: Some(block), kind, bias }))
        });
        once.into_iter()
            .map(|(kind, bias)| Self { block: None, kind, bias })
            .chain(head.then_some(Self::single(TensorKind::LmHead)))
            .chain(blocks)
    }
}

/// The names of the parts in a format.
pub(super) struct Names {
    /// Before the number of a block.
    pub block: &'static str,
    /// Parts outside the blocks.
    pub single: [(&'static str, TensorKind); 4],
    /// Parts of each block.
    pub of_block: [(&'static str, TensorKind); 6],
    /// Whether the matrices of a block are stored input x output.
    pub inputs_first: bool,
}

impl Names {
    /// The tensor of that name, if a GPT-2 can have it.
    pub fn id(&self, name: &str) -> Option<TensorId> {
        let (path, suffix) = name.rsplit_once('.')?;
        let bias = match suffix {
            "weight" => false,
            "bias" => true,
            _ => return None,
        };
        let of_block = path.strip_prefix(self.block).and_then(|rest| rest.strip_prefix('.'));
        let (block, name, kinds): (_, _, &[_]) = match of_block.and_then(|rest| rest.split_once('.')) {
            Some((number, name)) => (Some(block_number(number)?), name, &self.of_block),
            None => (None, path, &self.single),
        };
        let &(_, kind) = kinds.iter().find(|(known, _)| *known == name)?;
        let only_weight =
            matches!(kind, TensorKind::TokenEmbedding | TensorKind::PositionEmbedding | TensorKind::LmHead);
        (!(bias && only_weight)).then_some(TensorId { block, kind, bias })
    }

    /// The name of a tensor.
    pub fn name(&self, id: TensorId) -> String {
        let suffix = if id.bias { "bias" } else { "weight" };
        let named = |kinds: &[(&'static str, TensorKind)]| {
            kinds.iter().find(|(_, kind)| *kind == id.kind).map_or("?", |(name, _)| *name)
        };
        match id.block {
            Some(block) => format!("{}.{block}.{}.{suffix}", self.block, named(&self.of_block)),
            None => format!("{}.{suffix}", named(&self.single)),
        }
    }

    /// The shape of a tensor as the format writes it.
    pub fn stored_shape(&self, id: TensorId, config: &Config) -> Vec<usize> {
        let mut shape = id.shape(config);
        if self.turns(id) {
            shape.reverse();
        }
        shape
    }

    /// Whether the format stores a tensor transposed.
    pub fn turns(&self, id: TensorId) -> bool {
        self.inputs_first && id.role() == Role::Linear
    }
}

/// The number of a block as files write it: digits without leading zeros.
pub(super) fn block_number(text: &str) -> Option<usize> {
    let number: usize = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Infers a configuration from tensor shapes. The rest has GPT-2's defaults, and `n_head` is a guess.
///
/// `shapes` are `[out, in]`. None if a tensor that decides something is not there, or the width gives no number of
/// heads.
pub(super) fn infer(shapes: &BTreeMap<TensorId, Vec<usize>>) -> Option<Config> {
    /// The width of a head in every GPT-2 that was published.
    const HEAD_DIM: usize = 64;
    let rows = |id: TensorId| shapes.get(&id).and_then(|shape| shape.first().copied());
    let width = shapes.get(&TensorId::single(TensorKind::TokenEmbedding))?.get(1).copied()?;
    if width == 0 || !width.is_multiple_of(HEAD_DIM) {
        return None;
    }
    Some(Config {
        vocab_size: rows(TensorId::single(TensorKind::TokenEmbedding))?,
        n_positions: rows(TensorId::single(TensorKind::PositionEmbedding))?,
        n_embd: width,
        n_layer: shapes.keys().filter_map(|id| id.block).max()?.saturating_add(1),
        n_head: width / HEAD_DIM,
        n_inner: rows(TensorId { block: Some(0), kind: TensorKind::MlpUp, bias: false })?,
        ..Config::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::{gguf, safetensors};
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let config = Config { n_layer: 12, ..Config::default() };
        for names in [&safetensors::NAMES, &gguf::NAMES] {
            let mut seen = 0;
            for id in TensorId::needed(&config, true) {
                assert_eq!(names.id(&names.name(id)), Some(id));
                seen += 1;
            }
            assert_eq!(seen, 5 + 12 * 12);
        }
        assert_eq!(
            safetensors::NAMES.name(TensorId { block: Some(3), kind: TensorKind::MlpUp, bias: true }),
            "h.3.mlp.c_fc.bias"
        );
        assert_eq!(gguf::NAMES.name(TensorId::single(TensorKind::TokenEmbedding)), "token_embd.weight");
    }

    #[test]
    fn other_names_are_nothing() {
        for name in
            ["", "weight", "wte.bias", "lm_head.bias", "h.01.ln_1.bias", "h.x.ln_1.bias", "h.1.wte.weight", "wte.gamma"]
        {
            assert_eq!(safetensors::NAMES.id(name), None, "{name}");
        }
    }

    #[test]
    fn shapes_decide_all_but_the_heads() {
        let config = Config {
            vocab_size: 70,
            n_positions: 9,
            n_embd: 128,
            n_layer: 3,
            n_head: 2,
            n_inner: 99,
            ..Config::default()
        };
        let mut shapes: BTreeMap<_, _> = TensorId::needed(&config, false).map(|id| (id, id.shape(&config))).collect();
        assert_eq!(infer(&shapes), Some(config));
        shapes.remove(&TensorId::single(TensorKind::PositionEmbedding));
        assert_eq!(infer(&shapes), None);
    }
}
