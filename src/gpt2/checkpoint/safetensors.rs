//! Hugging Face's layout: safetensors files, and the configuration in a separate file.

use std::fmt;

use candle_core::quantized::GgmlDType;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::Format;
use super::header::{Header, MAX_HEADER_BYTES, TensorInfo, Unread};
use super::tensors::{Names, TensorKind, block_number};
use crate::error::{Error, ErrorKind};

pub(super) const NAMES: Names = Names {
    block: "h",
    single: [
        ("wte", TensorKind::TokenEmbedding),
        ("wpe", TensorKind::PositionEmbedding),
        ("ln_f", TensorKind::Norm),
        ("lm_head", TensorKind::LmHead),
    ],
    of_block: [
        ("ln_1", TensorKind::AttentionNorm),
        ("attn.c_attn", TensorKind::Qkv),
        ("attn.c_proj", TensorKind::AttentionOutput),
        ("ln_2", TensorKind::MlpNorm),
        ("mlp.c_fc", TensorKind::MlpUp),
        ("mlp.c_proj", TensorKind::MlpDown),
    ],
    inputs_first: true,
};

/// Whether this is one of the masks that old versions of transformers saved with the weights: `h.N.attn.bias` and
/// `h.N.attn.masked_bias`.
pub(super) fn is_buffer(name: &str) -> bool {
    name.strip_prefix("h.")
        .and_then(|rest| rest.split_once('.'))
        .is_some_and(|(block, name)| block_number(block).is_some() && matches!(name, "attn.bias" | "attn.masked_bias"))
}

/// Reads the header of the safetensors file `name` in front of `bytes`: eight bytes of length, then JSON.
pub(super) fn header(name: &str, bytes: &[u8], size: Option<u64>) -> Result<Header, Unread> {
    let Some(length) = bytes.first_chunk().map(|length| u64::from_le_bytes(*length)) else {
        return Err(Unread::Short(8));
    };
    let most = size.map_or(MAX_HEADER_BYTES, |size| size.saturating_sub(8).min(MAX_HEADER_BYTES));
    if length > most {
        return Err(damaged(match size {
            Some(size) => {
                format!("the header of {name} claims {length} bytes, and the file has {size}; download it again")
            }
            None => format!("the header of {name} claims {length} bytes; at most {MAX_HEADER_BYTES} are allowed"),
        }));
    }
    let data = 8 + length;
    let Some(json) = usize::try_from(data).ok().and_then(|data| bytes.get(8..data)) else {
        return Err(Unread::Short(data));
    };
    let Entries(entries) = serde_json::from_slice(json)
        .map_err(|error| damaged(format!("the header of {name} cannot be read ({error}); download it again")))?;
    let mut tensors = Vec::with_capacity(entries.len());
    for (key, entry) in entries {
        tensors.push(entry.checked(key)?);
    }
    Ok(Header {
        format: Format::Safetensors,
        config: None,
        part: None,
        tokenizer: Ok(None),
        tensors,
        data,
        alignment: 1,
    })
}

/// The types there are, with the bytes of a number, and candle's reader for those a GPT-2 is published in. Another one
/// may be newer than this list; then its tensor's size says how large its numbers are.
const TYPES: [(&str, u64, Option<GgmlDType>); 14] = [
    ("F32", 4, Some(GgmlDType::F32)),
    ("F16", 2, Some(GgmlDType::F16)),
    ("BF16", 2, Some(GgmlDType::BF16)),
    ("F64", 8, None),
    ("BOOL", 1, None),
    ("U8", 1, None),
    ("I8", 1, None),
    ("U16", 2, None),
    ("I16", 2, None),
    ("U32", 4, None),
    ("I32", 4, None),
    ("U64", 8, None),
    ("I64", 8, None),
    ("F8_E4M3", 1, None),
];

/// A tensor in the JSON.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl Entry {
    fn checked(self, name: String) -> Result<TensorInfo, Unread> {
        let Self { dtype: type_name, shape: sizes, data_offsets: [begin, end] } = self;
        let claims = || {
            damaged(format!(
                "the tensor {name} has the shape {sizes:?} in {type_name} and claims the bytes {begin} to {end}, \
                 which is something else; download the file again"
            ))
        };
        let shape = sizes.iter().map(|&size| usize::try_from(size).map_err(|_| claims())).collect::<Result<_, _>>()?;
        let numbers = sizes.iter().try_fold(1, |product: u64, &size| product.checked_mul(size)).ok_or_else(claims)?;
        let known = TYPES.iter().find(|(known, ..)| *known == type_name);
        let fits = known.is_none_or(|(_, bytes, _)| numbers.checked_mul(*bytes) == end.checked_sub(begin));
        if !fits || begin > end {
            return Err(claims());
        }
        let dtype = known.and_then(|(.., dtype)| *dtype);
        Ok(TensorInfo { name, type_name, dtype, shape, begin, end })
    }
}

/// All tensors of the JSON object, including duplicate names.
struct Entries(Vec<(String, Entry)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tensors;
        impl<'de> Visitor<'de> for Tensors {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        entries.push((name, map.next_value()?));
                    }
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Tensors)
    }
}

fn damaged(message: String) -> Unread {
    Error::new(ErrorKind::DamagedModel, message).into()
}
