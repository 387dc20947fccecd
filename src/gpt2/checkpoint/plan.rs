//! Decides from a file's header what becomes of each tensor.

use std::collections::{BTreeMap, VecDeque};

use candle_core::quantized::GgmlDType;

use super::assemble::missing;
use super::budget::TensorMeta;
use super::header::{Header, TensorInfo};
use super::tensors::{self, Names, TensorId, TensorKind};
use super::wrapped::{self, Wrapping};
use super::{Format, gguf, kinds, safetensors};
use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::Config;

/// The tensors of a file, in file order.
pub(super) type Plan = VecDeque<Planned>;

/// One tensor of a file.
#[derive(Debug)]
pub(super) struct Planned {
    /// Its name in the file.
    pub name: String,
    /// Its place in the model and its type; none if it is left out.
    pub keep: Option<(TensorId, GgmlDType)>,
    /// Where its data begins in the file.
    pub begin: u64,
    /// Where its data ends.
    pub end: u64,
}

impl Format {
    pub(super) fn names(self) -> &'static Names {
        match self {
            Self::Safetensors => &safetensors::NAMES,
            Self::Gguf => &gguf::NAMES,
        }
    }
}

/// Plans the tensors of weights file number `file`, and adds those of the model to `found`.
///
/// # Errors
/// `UnexpectedTensor` for one that a GPT-2 does not have or that appears twice, `UnsupportedModel` for a type that
/// cannot be read, `WrongShape`.
pub(super) fn plan(
    header: &Header,
    file: usize,
    files: &[String],
    config: Option<&Config>,
    found: &mut BTreeMap<TensorId, TensorMeta>,
    left_out: &mut Vec<String>,
) -> Result<Plan> {
    let names = header.format.names();
    let unwrapped: Vec<_> = header.tensors.iter().map(|tensor| wrapped::unwrapped(&tensor.name)).collect();
    let wrapping = match header.format {
        Format::Safetensors => Some(Wrapping::of(unwrapped.iter().map(AsRef::as_ref))?),
        Format::Gguf => None,
    };
    let mut plan = Plan::with_capacity(header.tensors.len());
    for (tensor, unwrapped) in header.tensors.iter().zip(&unwrapped) {
        let (begin, end) = (header.data.saturating_add(tensor.begin), header.data.saturating_add(tensor.end));
        let mut planned = Planned { name: tensor.name.clone(), keep: None, begin, end };
        let plain = wrapping.as_ref().map_or(tensor.name.as_str(), |wrapping| wrapping.plain(unwrapped));
        if header.format == Format::Safetensors && safetensors::is_buffer(plain) {
            plan.push_back(planned);
            continue;
        }
        if header.format == Format::Safetensors && wrapped::is_other_head(plain) {
            left_out.push(tensor.name.clone());
            plan.push_back(planned);
            continue;
        }
        let id = names.id(plain).filter(|id| config.is_none_or(|config| is_of(*id, config)));
        let id = id.ok_or_else(|| {
            // Another tensor may identify the model better.
            let mut names = header.tensors.iter().map(|tensor| tensor.name.as_str());
            unexpected(names.find(|name| kinds::architecture(name).is_some()).unwrap_or(&tensor.name))
        })?;
        let dtype = tensor.dtype.ok_or_else(|| unreadable(header.format, tensor))?;
        let shape = shape(names, id, tensor, config)?;
        planned.keep = Some((id, dtype));
        plan.push_back(planned);
        if let Some(first) = found.insert(id, TensorMeta { shape, dtype, file }) {
            let (first, second) = (&files[first.file], &files[file]);
            let places =
                if first == second { format!("twice in {first}") } else { format!("in {first} and in {second}") };
            return Err(Error::new(
                ErrorKind::UnexpectedTensor,
                format!("the tensor {plain} appears {places}; give the files of one model, each once"),
            ));
        }
    }
    Ok(plan)
}

/// The error for a tensor that a GPT-2 does not have.
fn unexpected(tensor: &str) -> Error {
    match kinds::architecture(tensor) {
        Some(what) => Error::new(
            ErrorKind::UnsupportedModel,
            format!("the file holds the tensor {tensor}, so the model is {what}; only a plain GPT-2 can be loaded"),
        ),
        None => Error::new(
            ErrorKind::UnexpectedTensor,
            format!("the file holds the tensor {tensor}, which a GPT-2 of this configuration does not have"),
        ),
    }
}

/// A notice that lists the omitted tensors.
pub(super) fn without(left_out: &[String]) -> Option<String> {
    let (first, others) = left_out.split_first()?;
    let others = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    Some(format!("{first}{others}: a head for another task than writing text, which was left out"))
}

fn is_of(id: TensorId, config: &Config) -> bool {
    id.block.is_none_or(|block| block < config.n_layer)
}

/// The shape of a tensor as `[out, in]`, checked.
fn shape(names: &Names, id: TensorId, tensor: &TensorInfo, config: Option<&Config>) -> Result<Vec<usize>> {
    let mut shape = tensor.shape.clone();
    match config.map(|config| names.stored_shape(id, config)) {
        Some(expected) if expected != shape => Err(Error::new(
            ErrorKind::WrongShape,
            format!(
                "the tensor {} has the shape {shape:?}, and the configuration says {expected:?}; {}",
                tensor.name,
                if shape.iter().rev().eq(&expected) {
                    "it is transposed, as nanoGPT and others write it; convert it to Hugging Face's layout"
                } else {
                    "do the files belong together?"
                }
            ),
        )),
        None if shape.len() != id.rank() || shape.contains(&0) => Err(Error::new(
            ErrorKind::WrongShape,
            format!(
                "the tensor {} has the shape {shape:?}, and a GPT-2's has {} dimensions, none of them 0",
                tensor.name,
                id.rank()
            ),
        )),
        _ => {
            if names.turns(id) {
                shape.reverse();
            }
            Ok(shape)
        }
    }
}

fn unreadable(format: Format, tensor: &TensorInfo) -> Error {
    let readable = match format {
        Format::Safetensors => "a safetensors file in F32, F16 or BF16",
        Format::Gguf => "a GGUF file in F32, F16, BF16, Q4_0 to Q8_0 or Q2_K to Q8_K",
    };
    Error::new(
        ErrorKind::UnsupportedModel,
        format!("the tensor {} has the type {}, which cannot be read; give {readable}", tensor.name, tensor.type_name),
    )
}

/// The configuration inferred from the shapes, with a notice of what is a guess.
///
/// # Errors
/// `MissingTensor` if a tensor needed for that is missing, `UnsupportedModel` if the width gives no number of
/// heads, `WrongShape` if the shapes contradict each other, and those of [`Config::checked`].
pub(super) fn infer(found: &BTreeMap<TensorId, TensorMeta>, names: &Names) -> Result<(Config, String)> {
    let first_up = TensorId { block: Some(0), kind: TensorKind::MlpUp, bias: false };
    for id in [TensorId::single(TensorKind::TokenEmbedding), TensorId::single(TensorKind::PositionEmbedding), first_up]
    {
        if !found.contains_key(&id) {
            return Err(missing(names, id));
        }
    }
    let shapes = found.iter().map(|(id, found)| (*id, found.shape.clone())).collect();
    let Some(config) = tensors::infer(&shapes) else {
        return Err(Error::new(
            ErrorKind::UnsupportedModel,
            "the weights alone do not say how many attention heads the model has; give the config.json from the same \
             page with them",
        ));
    };
    let config = config.checked()?;
    for (id, shape) in &shapes {
        let (has, says) = (shape, id.shape(&config));
        if *has != says {
            return Err(Error::new(
                ErrorKind::WrongShape,
                format!("the tensor {} has the shape {has:?}, and the other tensors say {says:?}", names.name(*id)),
            ));
        }
    }
    let notice = format!(
        "there is no config.json: {} attention heads are a guess from the width of {}, and the rest is taken to be as in \
         GPT-2; if the text makes no sense, give the config.json",
        config.n_head, config.n_embd
    );
    Ok((config, notice))
}

/// The configuration of a split GGUF model, once all headers are known: the first part says everything except the number of
/// rows of the token embedding.
///
/// # Errors
/// `MissingTensor`, `UnexpectedTensor` or `WrongShape` if the parts do not belong together.
pub(super) fn join(config: Config, found: &BTreeMap<TensorId, TensorMeta>, names: &Names) -> Result<Config> {
    let embedding = TensorId::single(TensorKind::TokenEmbedding);
    let vocab_size = found.get(&embedding).and_then(|found| found.shape.first().copied());
    let vocab_size = vocab_size.ok_or_else(|| missing(names, embedding))?;
    let config = Config { vocab_size, ..config }.checked()?;
    for (id, TensorMeta { shape, .. }) in found {
        if !is_of(*id, &config) {
            return Err(unexpected(&names.name(*id)));
        }
        let says = id.shape(&config);
        if *shape != says {
            return Err(Error::new(
                ErrorKind::WrongShape,
                format!(
                    "the tensor {} has the shape {shape:?}, and the first part says {says:?}; do the parts belong together?",
                    names.name(*id)
                ),
            ));
        }
    }
    Ok(config)
}

/// Checks that nothing is missing once all headers are known.
///
/// # Errors
/// `MissingTensor`.
pub(super) fn check_complete(found: &BTreeMap<TensorId, TensorMeta>, config: &Config, names: &Names) -> Result<()> {
    match all(found, config).find(|id| !found.contains_key(id)) {
        None => Ok(()),
        Some(id) => Err(missing(names, id)),
    }
}

/// Every tensor of the model.
pub(super) fn all(found: &BTreeMap<TensorId, TensorMeta>, config: &Config) -> impl Iterator<Item = TensorId> {
    let head = !config.tie_word_embeddings || found.contains_key(&TensorId::single(TensorKind::LmHead));
    TensorId::needed(config, head)
}
