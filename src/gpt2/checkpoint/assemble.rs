//! Loaded tensors -> the network.

use std::collections::BTreeMap;

use super::tensor_reader::LoadedTensor;
use super::tensors::{Names, TensorId, TensorKind};
use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::config::Config;
use crate::gpt2::matrix::{Linear, Matrix, Precision};
use crate::gpt2::network::{Block, Network};
use crate::gpt2::norm::LayerNorm;

/// A network, the precision of most of its weights, and their number.
pub(super) struct Assembled {
    pub network: Network,
    pub precision: Precision,
    pub parameters: usize,
}

/// Builds the network from all tensors of a model of this configuration.
///
/// # Errors
/// `MissingTensor`, with its name in the format.
pub(super) fn assemble(config: &Config, names: &Names, held: BTreeMap<TensorId, LoadedTensor>) -> Result<Assembled> {
    let mut parts = Parts { config, names, held, weights: BTreeMap::new() };
    let token_embedding = parts.matrix(TensorId::single(TensorKind::TokenEmbedding))?;
    let lm_head = match parts.held.remove(&TensorId::single(TensorKind::LmHead)) {
        Some(LoadedTensor::Matrix(own)) if !own.shares(&token_embedding) => parts.count(own),
        _ => token_embedding.clone(),
    };
    let network = Network {
        token_embedding,
        lm_head,
        position_embedding: parts.plain(TensorId::single(TensorKind::PositionEmbedding))?,
        norm: parts.norm(None, TensorKind::Norm)?,
        blocks: (0..config.n_layer)
            .map(|block| {
                Ok(Block {
                    attention_norm: parts.norm(Some(block), TensorKind::AttentionNorm)?,
                    qkv: parts.linear(block, TensorKind::Qkv)?,
                    attention_output: parts.linear(block, TensorKind::AttentionOutput)?,
                    attention_scale: config.attention_scale(block),
                    mlp_norm: parts.norm(Some(block), TensorKind::MlpNorm)?,
                    mlp_up: parts.linear(block, TensorKind::MlpUp)?,
                    activation: config.activation,
                    mlp_down: parts.linear(block, TensorKind::MlpDown)?,
                })
            })
            .collect::<Result<_>>()?,
    };
    let most = parts.weights.iter().max_by_key(|(_, count)| **count);
    let precision = most.map_or(Precision::F32, |(precision, _)| *precision);
    Ok(Assembled { network, precision, parameters: parts.weights.values().sum() })
}

struct Parts<'a> {
    config: &'a Config,
    names: &'a Names,
    held: BTreeMap<TensorId, LoadedTensor>,
    /// Number of weights so far, by precision.
    weights: BTreeMap<Precision, usize>,
}

impl Parts<'_> {
    fn norm(&mut self, block: Option<usize>, kind: TensorKind) -> Result<LayerNorm> {
        let [scale, shift] = [false, true].map(|bias| TensorId { block, kind, bias });
        Ok(LayerNorm::new(self.plain(scale)?, self.plain(shift)?, self.config.layer_norm_epsilon as f32))
    }

    fn linear(&mut self, block: usize, kind: TensorKind) -> Result<Linear> {
        let [weight, bias] = [false, true].map(|bias| TensorId { block: Some(block), kind, bias });
        Ok(Linear::new(self.matrix(weight)?, self.plain(bias)?))
    }

    fn plain(&mut self, id: TensorId) -> Result<Vec<f32>> {
        match self.held.remove(&id) {
            Some(LoadedTensor::Vector(numbers)) => {
                *self.weights.entry(Precision::F32).or_default() += numbers.len();
                Ok(numbers)
            }
            _ => Err(missing(self.names, id)),
        }
    }

    fn matrix(&mut self, id: TensorId) -> Result<Matrix> {
        match self.held.remove(&id) {
            Some(LoadedTensor::Matrix(matrix)) => Ok(self.count(matrix)),
            _ => Err(missing(self.names, id)),
        }
    }

    fn count(&mut self, matrix: Matrix) -> Matrix {
        let (outputs, inputs) = matrix.shape();
        *self.weights.entry(matrix.precision()).or_default() += outputs * inputs;
        matrix
    }
}

/// The error for a missing tensor.
pub(super) fn missing(names: &Names, id: TensorId) -> Error {
    Error::new(
        ErrorKind::MissingTensor,
        format!("the model needs the tensor {}, which is not there; is it a whole GPT-2?", names.name(id)),
    )
}
