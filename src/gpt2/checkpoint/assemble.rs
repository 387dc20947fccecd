//! What both formats share: the tensors a GPT-2 consists of, the check of a file against them, and the network made
//! of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::quantized::QTensor;
use candle_core::{Device, Tensor};
use candle_nn::LayerNorm;

use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::config::Config;
use crate::gpt2::linear::{Linear, Matrix, Precision};
use crate::gpt2::network::{Block, Network};

use super::Progress;

/// What a format calls the parts of a GPT-2; tensors are a part's `.weight` and `.bias`.
pub(super) struct Names {
    /// Before the number of a block.
    pub block: &'static str,
    pub token_embedding: &'static str,
    pub position_embedding: &'static str,
    pub norm: &'static str,
    pub head: &'static str,
    pub attention_norm: &'static str,
    pub qkv: &'static str,
    pub attention_output: &'static str,
    pub mlp_norm: &'static str,
    pub mlp_up: &'static str,
    pub mlp_down: &'static str,
    /// Whether the matrices of a block are stored input x output, as Hugging Face's `Conv1D` is.
    pub inputs_first: bool,
}

/// A tensor of a file, as its header describes it.
pub(super) struct Entry<'a> {
    pub shape: Vec<usize>,
    pub dtype: &'a str,
    pub bytes: &'a [u8],
}

/// The tensors of a file by their full names.
pub(super) type Entries<'a> = BTreeMap<String, Entry<'a>>;

/// The numbers of one tensor in the precision of the file; matrices as `[out, in]`.
pub(super) enum Numbers {
    F32(Tensor),
    Q8_0(Arc<QTensor>),
}

/// A network, what most of its matrices are held in, and its number of weights.
pub(super) struct Assembled {
    pub network: Network,
    pub precision: Precision,
    pub parameters: usize,
}

impl Names {
    /// Name and shape of each tensor a file of this format must hold.
    fn needed(&self, config: &Config) -> Vec<(String, Vec<usize>)> {
        let (embd, inner) = (config.n_embd, config.n_inner);
        let mut needed = vec![
            (weight("", self.token_embedding), vec![config.vocab_size, embd]),
            (weight("", self.position_embedding), vec![config.n_positions, embd]),
        ];
        let norm = |needed: &mut Vec<_>, scope: &str, part: &str| {
            needed.push((weight(scope, part), vec![embd]));
            needed.push((bias(scope, part), vec![embd]));
        };
        norm(&mut needed, "", self.norm);
        for index in 0..config.n_layer {
            let scope = self.scope(index);
            norm(&mut needed, &scope, self.attention_norm);
            norm(&mut needed, &scope, self.mlp_norm);
            for (part, inputs, outputs) in [
                (self.qkv, embd, 3 * embd),
                (self.attention_output, embd, embd),
                (self.mlp_up, embd, inner),
                (self.mlp_down, inner, embd),
            ] {
                let shape = if self.inputs_first { vec![inputs, outputs] } else { vec![outputs, inputs] };
                needed.push((weight(&scope, part), shape));
                needed.push((bias(&scope, part), vec![outputs]));
            }
        }
        needed
    }

    fn scope(&self, index: usize) -> String {
        format!("{}.{index}", self.block)
    }
}

fn weight(scope: &str, part: &str) -> String {
    full_name(scope, &format!("{part}.weight"))
}

fn bias(scope: &str, part: &str) -> String {
    full_name(scope, &format!("{part}.bias"))
}

/// The name of tensor `name` of the block `scope`, or of the model if that is empty.
pub(super) fn full_name(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

/// Checks that `entries` are the tensors of the model, no more and no fewer, in their shapes.
///
/// # Errors
/// `MissingTensor`, `UnexpectedTensor` or `WrongShape`, with the tensor's name.
pub(super) fn check(config: &Config, names: &Names, entries: &Entries<'_>) -> Result<()> {
    let mut needed: BTreeMap<_, _> = names.needed(config).into_iter().collect();
    let head = weight("", names.head);
    if entries.contains_key(&head) || !config.tie_word_embeddings {
        needed.insert(head, vec![config.vocab_size, config.n_embd]);
    }
    for (name, shape) in &needed {
        let entry = entries.get(name).ok_or_else(|| {
            Error::new(
                ErrorKind::MissingTensor,
                format!("the model needs the tensor {name}, and the file does not hold it; is it a whole GPT-2?"),
            )
        })?;
        if &entry.shape != shape {
            return Err(Error::new(
                ErrorKind::WrongShape,
                format!(
                    "the tensor {name} has the shape {:?}, and the configuration says {shape:?}; \
                     do the files belong together?",
                    entry.shape
                ),
            ));
        }
    }
    match entries.keys().find(|name| !needed.contains_key(*name)) {
        None => Ok(()),
        Some(name) => Err(Error::new(
            ErrorKind::UnexpectedTensor,
            format!("the file holds the tensor {name}, which a GPT-2 of this configuration does not have"),
        )),
    }
}

/// Makes the network of a file that passed [`check`]. `read` gives the numbers of a tensor by block and name.
///
/// # Errors
/// `DamagedModel` if a number is NaN or infinite; `UnsupportedModel` if a matrix cannot be held in `precision`.
pub(super) fn assemble(
    config: &Config,
    names: &Names,
    entries: &Entries<'_>,
    read: &dyn Fn(&str, &str) -> Result<Numbers>,
    precision: Option<Precision>,
    progress: &mut Progress<'_>,
) -> Result<Assembled> {
    let mut loader = Loader { read, precision, progress, done: 0, total: entries.len(), parameters: 0, q8_0: 0 };
    let token_embedding = loader.matrix("", names.token_embedding)?;
    // Many files repeat the embedding as their head; then the two share their numbers here too.
    let (head, embedding) = (entries.get(&weight("", names.head)), &entries[&weight("", names.token_embedding)]);
    let repeated = head.is_some_and(|head| (head.dtype, head.bytes) == (embedding.dtype, embedding.bytes));
    let head = if head.is_some() && !repeated { loader.matrix("", names.head)? } else { token_embedding.clone() };
    if repeated {
        loader.count();
    }
    let network = Network {
        token_embedding,
        head,
        position_embedding: loader.tensor("", names.position_embedding, "weight")?,
        norm: loader.norm(config, "", names.norm)?,
        blocks: (0..config.n_layer)
            .map(|index| {
                let scope = names.scope(index);
                Ok(Block {
                    attention_norm: loader.norm(config, &scope, names.attention_norm)?,
                    qkv: loader.linear(&scope, names.qkv)?,
                    attention_output: loader.linear(&scope, names.attention_output)?,
                    attention_scale: config.attention_scale(index),
                    mlp_norm: loader.norm(config, &scope, names.mlp_norm)?,
                    mlp_up: loader.linear(&scope, names.mlp_up)?,
                    activation: config.activation,
                    mlp_down: loader.linear(&scope, names.mlp_down)?,
                })
            })
            .collect::<Result<_>>()?,
    };
    let precision = if 2 * loader.q8_0 > loader.parameters { Precision::Q8_0 } else { Precision::F32 };
    Ok(Assembled { network, precision, parameters: loader.parameters })
}

struct Loader<'a, 'p> {
    read: &'a dyn Fn(&str, &str) -> Result<Numbers>,
    precision: Option<Precision>,
    progress: &'a mut Progress<'p>,
    done: usize,
    total: usize,
    parameters: usize,
    /// How many of them are held in q8_0.
    q8_0: usize,
}

impl Loader<'_, '_> {
    fn norm(&mut self, config: &Config, scope: &str, part: &str) -> Result<LayerNorm> {
        let (scale, shift) = (self.tensor(scope, part, "weight")?, self.tensor(scope, part, "bias")?);
        Ok(LayerNorm::new(scale, shift, config.layer_norm_epsilon))
    }

    fn linear(&mut self, scope: &str, part: &str) -> Result<Linear> {
        Ok(Linear::new(self.matrix(scope, part)?, self.tensor(scope, part, "bias")?))
    }

    /// A tensor that is held in f32 in any case.
    fn tensor(&mut self, scope: &str, part: &str, kind: &str) -> Result<Tensor> {
        let tensor = match self.numbers(scope, &format!("{part}.{kind}"))? {
            Numbers::F32(tensor) => tensor,
            Numbers::Q8_0(blocks) => blocks.dequantize(&Device::Cpu)?,
        };
        self.parameters += tensor.elem_count();
        Ok(tensor)
    }

    fn matrix(&mut self, scope: &str, part: &str) -> Result<Matrix> {
        let name = format!("{part}.weight");
        let numbers = self.numbers(scope, &name)?;
        let (elements, matrix) = match (numbers, self.precision) {
            (Numbers::Q8_0(blocks), None | Some(Precision::Q8_0)) => {
                (blocks.shape().elem_count(), Matrix::Q8_0(blocks))
            }
            (Numbers::Q8_0(blocks), Some(Precision::F32)) => {
                (blocks.shape().elem_count(), Matrix::new(&blocks.dequantize(&Device::Cpu)?, Precision::F32)?)
            }
            (Numbers::F32(tensor), precision) => {
                let precision = precision.unwrap_or(Precision::F32);
                let inputs = tensor.dim(1)?;
                if precision == Precision::Q8_0 && !inputs.is_multiple_of(32) {
                    return Err(Error::new(
                        ErrorKind::UnsupportedModel,
                        format!(
                            "the tensor {} has rows of {inputs} numbers, which do not make blocks of 32 for q8_0; \
                             load the model in f32",
                            full_name(scope, &name)
                        ),
                    ));
                }
                (tensor.elem_count(), Matrix::new(&tensor, precision)?)
            }
        };
        self.parameters += elements;
        if let Matrix::Q8_0(_) = matrix {
            self.q8_0 += elements;
        }
        Ok(matrix)
    }

    fn numbers(&mut self, scope: &str, name: &str) -> Result<Numbers> {
        let numbers = (self.read)(scope, name)?;
        if !numbers.are_finite()? {
            return Err(Error::new(
                ErrorKind::DamagedModel,
                format!("the tensor {} holds NaN or infinite numbers; the file is damaged", full_name(scope, name)),
            ));
        }
        self.count();
        Ok(numbers)
    }

    fn count(&mut self) {
        self.done += 1;
        (self.progress)(self.done, self.total);
    }
}

impl Numbers {
    fn are_finite(&self) -> Result<bool> {
        Ok(match self {
            Self::F32(tensor) => {
                let (storage, _) = tensor.storage_and_layout();
                let candle_core::Storage::Cpu(storage) = &*storage else { return Ok(false) };
                storage.as_slice::<f32>()?.iter().all(|number| number.is_finite())
            }
            // A block is a scale in half precision, whose largest exponent means "not finite", and 32 integers.
            Self::Q8_0(blocks) => {
                blocks.data()?.chunks_exact(34).all(|block| u16::from_le_bytes([block[0], block[1]]) & 0x7c00 != 0x7c00)
            }
        })
    }
}
