//! Hugging Face's layout: `model.safetensors` and `config.json`.

use candle_core::safetensors::SliceSafetensors;
use candle_core::{DType, Device};

use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::{Config, Gpt2, Precision};

use super::assemble::{Assembled, Entries, Entry, Names, Numbers, assemble, check, full_name};
use super::{Format, Loaded, Progress};

const NAMES: Names = Names {
    block: "h",
    token_embedding: "wte",
    position_embedding: "wpe",
    norm: "ln_f",
    head: "lm_head",
    attention_norm: "ln_1",
    qkv: "attn.c_attn",
    attention_output: "attn.c_proj",
    mlp_norm: "ln_2",
    mlp_up: "mlp.c_fc",
    mlp_down: "mlp.c_proj",
    inputs_first: true,
};

/// Stands before the keys of everything but the head in files saved from the model with its head.
const PREFIX: &str = "transformer.";

/// Loads a model from one safetensors file and its configuration.
pub(super) fn load(
    config: &[u8],
    bytes: &[u8],
    precision: Option<Precision>,
    progress: &mut Progress<'_>,
) -> Result<Loaded> {
    let config = Config::from_json(config)?;
    refuse_long_header(bytes)?;
    // The library checks that the tensors cover the file exactly, without gaps or overlaps.
    let file = SliceSafetensors::new(bytes).map_err(|error| {
        damaged(format!("the safetensors file does not agree with its header ({error}); download it again"))
    })?;
    let tensors = file.tensors();
    let dtypes: Vec<String> = tensors.iter().map(|(_, view)| format!("{:?}", view.dtype())).collect();
    let mut entries = Entries::new();
    let mut keys = std::collections::BTreeMap::new();
    for ((key, view), dtype) in tensors.iter().zip(&dtypes) {
        let name = key.strip_prefix(PREFIX).unwrap_or(key);
        if is_buffer(name) {
            continue;
        }
        if !matches!(dtype.as_str(), "F32" | "F16" | "BF16") {
            return Err(Error::new(
                ErrorKind::UnsupportedModel,
                format!("the tensor {key} has the type {dtype}; a safetensors file must be in F32, F16 or BF16"),
            ));
        }
        keys.insert(name, key);
        let entry = Entry { shape: view.shape().to_vec(), dtype, bytes: view.data() };
        if entries.insert(name.to_owned(), entry).is_some() {
            return Err(Error::new(
                ErrorKind::UnexpectedTensor,
                format!("the file holds the tensor {name} twice, with and without `{PREFIX}`"),
            ));
        }
    }
    check(&config, &NAMES, &entries)?;
    let read = |scope: &str, name: &str| {
        let tensor = file.load(keys[full_name(scope, name).as_str()], &Device::Cpu)?.to_dtype(DType::F32)?;
        let input_by_output = !scope.is_empty() && tensor.rank() == 2;
        Ok(Numbers::F32(if input_by_output { tensor.t()? } else { tensor }))
    };
    let Assembled { network, precision, parameters } = assemble(&config, &NAMES, &entries, &read, precision, progress)?;
    let model = Gpt2::new(config, network);
    Ok(Loaded { model, tokenizer: None, format: Format::Safetensors, precision, parameters })
}

/// Masks that old versions of the library saved with the weights: `h.N.attn.bias` and `h.N.attn.masked_bias`.
fn is_buffer(name: &str) -> bool {
    name.strip_prefix("h.")
        .and_then(|rest| rest.split_once('.'))
        .is_some_and(|(block, name)| block.parse::<u32>().is_ok() && matches!(name, "attn.bias" | "attn.masked_bias"))
}

/// The library refuses this too, without the numbers a person needs to see.
fn refuse_long_header(bytes: &[u8]) -> Result<()> {
    let length = bytes.first_chunk().map_or(u64::MAX, |length| u64::from_le_bytes(*length));
    if length > (bytes.len() as u64).saturating_sub(8) {
        return Err(damaged(format!(
            "the safetensors header claims {length} bytes, and the file has {}; download it again",
            bytes.len()
        )));
    }
    Ok(())
}

fn damaged(message: String) -> Error {
    Error::new(ErrorKind::DamagedModel, message)
}
