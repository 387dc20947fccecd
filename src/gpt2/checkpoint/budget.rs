//! The precision and the memory requirement of a model, from its headers alone.

use std::collections::BTreeMap;

use candle_core::quantized::GgmlDType;

use super::Format;
use super::tensors::{Role, TensorId};
use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::Config;
use crate::gpt2::kv_cache::KvPrecision;
use crate::gpt2::matrix::Precision;
use crate::gpt2::memory::MIB;
use crate::kernels::BLOCK;

/// Memory for activations, the tokenizer, pieces of files, and the program itself.
const WORKING_SPACE: u64 = 48 * MIB;

/// What is kept of a tensor: its shape as `[out, in]`, and the type of the file.
#[derive(Debug, Clone)]
pub(super) struct TensorMeta {
    pub shape: Vec<usize>,
    pub dtype: GgmlDType,
    /// The file it is in, by its place among the weights files.
    pub file: usize,
}

/// The precision of a matrix in memory: the requested one, else that of the file if it is supported, else the nearest one.
/// A matrix stays in f32 if its rows are not a multiple of the block size.
pub(super) fn precision_of(asked: Option<Precision>, dtype: GgmlDType, inputs: usize) -> Precision {
    let wanted = asked.unwrap_or(match dtype {
        GgmlDType::F32 | GgmlDType::F16 | GgmlDType::BF16 => Precision::F32,
        GgmlDType::Q4_0 => Precision::Q4_0,
        _ => Precision::Q8_0,
    });
    if inputs.is_multiple_of(BLOCK) { wanted } else { Precision::F32 }
}

/// A notice of the matrices that stay in f32 although blocks were asked for.
pub(super) fn not_quantised(
    found: &BTreeMap<TensorId, TensorMeta>,
    asked: Option<Precision>,
    format: Format,
) -> Option<String> {
    let asked = asked.filter(|asked| *asked != Precision::F32)?;
    let mut kept = found.iter().filter_map(|(id, found)| match (id.role(), found.shape.as_slice()) {
        (Role::Embedding | Role::Linear, &[_, inputs]) if !inputs.is_multiple_of(BLOCK) => Some((*id, inputs)),
        _ => None,
    });
    let (first, inputs) = kept.next()?;
    let (name, others) = (format.names().name(first), kept.count());
    let others = if others == 0 { String::new() } else { format!(" and {others} more like it") };
    Some(format!(
        "{name}{others} stay in f32: rows of {inputs} numbers do not make blocks of {BLOCK} for {}",
        asked.name()
    ))
}

/// Bytes of all tensors in memory.
pub(super) fn kept(found: &BTreeMap<TensorId, TensorMeta>, asked: Option<Precision>) -> u64 {
    let bytes = |(id, found): (&TensorId, &TensorMeta)| match (id.role(), found.shape.as_slice()) {
        (Role::Embedding | Role::Linear, &[outputs, inputs]) => {
            precision_of(asked, found.dtype, inputs).bytes(outputs as u64, inputs as u64)
        }
        (_, shape) => shape.iter().fold(4, |bytes: u64, &size| bytes.saturating_mul(size as u64)),
    };
    found.iter().map(bytes).fold(0, u64::saturating_add)
}

/// The precision of most weights.
fn most_used(found: &BTreeMap<TensorId, TensorMeta>, asked: Option<Precision>) -> Precision {
    let mut weights: BTreeMap<Precision, u64> = BTreeMap::new();
    for (id, found) in found {
        let (precision, shape) = match (id.role(), found.shape.as_slice()) {
            (Role::Embedding | Role::Linear, shape @ &[_, inputs]) => (precision_of(asked, found.dtype, inputs), shape),
            (_, shape) => (Precision::F32, shape),
        };
        let count = shape.iter().fold(1, |count: u64, &size| count.saturating_mul(size as u64));
        let all = weights.entry(precision).or_default();
        *all = all.saturating_add(count);
    }
    weights.into_iter().max_by_key(|(_, count)| *count).map_or(Precision::F32, |(precision, _)| precision)
}

/// Bytes of a loaded model: its tensors and the KV cache of a full context.
pub(super) fn held(found: &BTreeMap<TensorId, TensorMeta>, config: Option<&Config>, asked: Option<Precision>) -> u64 {
    let positions = config.map_or(0, |config| {
        let head = KvPrecision::of_model(most_used(found, asked), config.head_dim()).bytes(config.head_dim() as u64);
        [config.n_layer, config.n_head, config.n_positions]
            .into_iter()
            .fold(head, |bytes, size| bytes.saturating_mul(size as u64))
    });
    kept(found, asked).saturating_add(positions)
}

/// Bytes needed to load and run a model: the model, the largest matrix that is transposed during loading, and some
/// workspace.
pub(super) fn needed(
    found: &BTreeMap<TensorId, TensorMeta>,
    config: Option<&Config>,
    asked: Option<Precision>,
    turns: bool,
) -> u64 {
    let turned = found.iter().filter(|(id, _)| turns && id.role() == Role::Linear).map(|(_, found)| {
        match found.shape.as_slice() {
            &[outputs, inputs] if precision_of(asked, found.dtype, inputs) != Precision::F32 => {
                4 * (outputs as u64).saturating_mul(inputs as u64)
            }
            _ => 0,
        }
    });
    [held(found, config, asked), turned.max().unwrap_or(0), WORKING_SPACE].into_iter().fold(0, u64::saturating_add)
}

/// Refuses a model that needs more than `limit` bytes, where a model in use has `held` others.
///
/// # Errors
/// `OutOfMemory`, with the numbers and what to do; it says whether the model fits without the one in use.
pub(super) fn check(needed: u64, limit: u64, held: u64) -> Result<()> {
    if needed <= limit {
        return Ok(());
    }
    let alone = limit.saturating_add(held);
    if held > 0 && needed <= alone {
        return Err(beside(needed, limit, held));
    }
    Err(Error::new(
        ErrorKind::OutOfMemory,
        format!(
            "the model needs {} MiB of at most {} MiB; load it in a smaller precision (q8_0 or q4_0), or choose a \
             smaller model",
            needed.div_ceil(MIB),
            alone / MIB
        ),
    ))
}

/// The refusal of a model that would fit without the one in use.
pub(super) fn beside(needed: u64, left: u64, held: u64) -> Error {
    let sentence = format!(
        "the model needs {} MiB, and beside the {} MiB of the model in use no more than {} MiB are left; unload that one \
         first, or load this one in a smaller precision (q8_0 or q4_0)",
        needed.div_ceil(MIB),
        held.div_ceil(MIB),
        left / MIB
    );
    Error { fits_alone: true, ..Error::new(ErrorKind::OutOfMemory, sentence) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpt2::checkpoint::plan;

    #[test]
    fn what_a_model_in_use_holds_is_counted_and_could_be_freed() {
        let check = |needed: u64| super::check(needed * MIB, 100 * MIB, 50 * MIB);
        assert_eq!(check(100), Ok(()));
        let beside = check(150).unwrap_err();
        assert_eq!((beside.kind, beside.fits_alone), (ErrorKind::OutOfMemory, true));
        for says in ["needs 150 MiB", "50 MiB of the model in use", "100 MiB are left"] {
            assert!(beside.message.contains(says), "{beside}");
        }
        let never = check(151).unwrap_err();
        assert_eq!((never.kind, never.fits_alone), (ErrorKind::OutOfMemory, false));
        assert!(never.message.contains("at most 150 MiB"), "{never}");
        assert!(!super::check(101 * MIB, 100 * MIB, 0).unwrap_err().fits_alone);
    }

    #[test]
    fn the_catalogue_of_the_page_tells_the_same() {
        let catalog: serde_json::Value =
            serde_json::from_str(include_str!("../../../www/models/catalog.json")).unwrap();
        let models = catalog["models"].as_array().unwrap();
        for model in models.iter().filter(|model| model["repo"].is_string()) {
            let mut shape = model["shape"].clone();
            shape["n_head"] = (shape["n_embd"].as_u64().unwrap() / 64).into();
            let config = Config::from_json(shape.to_string().as_bytes()).unwrap();
            let found = |id: TensorId| (id, TensorMeta { shape: id.shape(&config), dtype: GgmlDType::F32, file: 0 });
            let found: BTreeMap<_, _> = plan::all(&BTreeMap::new(), &config).map(found).collect();
            for precision in [Precision::F32, Precision::Q8_0, Precision::Q4_0] {
                let needed = needed(&found, Some(&config), Some(precision), true);
                assert_eq!(model["memory"][precision.name()].as_u64(), Some(needed), "{} {precision:?}", model["name"]);
            }
        }
    }
}
