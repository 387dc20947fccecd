//! The header of a GGUF file, read without copying; every count is checked against the file's size.
//!
//! Candle reads GGUF as well, and is the oracle of the tests; but it wants the whole file, takes alignments and shapes as
//! they come, names no tensor in its errors, and multiplies a large array of bytes by the size of its value type.

use std::collections::HashMap;
use std::fmt;

use candle_core::quantized::GgmlDType;

use super::header::{MAX_HEADER_BYTES, TensorInfo, Unread};
use crate::error::{Error, ErrorKind};

type Result<T, E = Unread> = std::result::Result<T, E>;

/// Maximum number of elements in all arrays of a header: ten times what GPT-2's tokenizer needs.
const MAX_ARRAY_ELEMENTS: u64 = 1 << 21;

/// Maximum depth of nested lists.
const MAX_DEPTH: u32 = 8;

/// Default alignment of the tensor data and of each tensor in it.
const ALIGNMENT: u64 = 32;

/// A tensor type: its number in the file, name, numbers in a block, bytes of a block, and candle's reader.
type Kind = (u32, &'static str, usize, usize, Option<GgmlDType>);

/// The tensor types of llama.cpp's `ggml.h`; those without a reader are refused by name.
const KINDS: [Kind; 32] = [
    (0, "F32", 1, 4, Some(GgmlDType::F32)),
    (1, "F16", 1, 2, Some(GgmlDType::F16)),
    (2, "Q4_0", 32, 18, Some(GgmlDType::Q4_0)),
    (3, "Q4_1", 32, 20, Some(GgmlDType::Q4_1)),
    (6, "Q5_0", 32, 22, Some(GgmlDType::Q5_0)),
    (7, "Q5_1", 32, 24, Some(GgmlDType::Q5_1)),
    (8, "Q8_0", 32, 34, Some(GgmlDType::Q8_0)),
    // Candle cannot dequantise this type; it is made for activations and is in no published file.
    (9, "Q8_1", 32, 36, None),
    (10, "Q2_K", 256, 84, Some(GgmlDType::Q2K)),
    (11, "Q3_K", 256, 110, Some(GgmlDType::Q3K)),
    (12, "Q4_K", 256, 144, Some(GgmlDType::Q4K)),
    (13, "Q5_K", 256, 176, Some(GgmlDType::Q5K)),
    (14, "Q6_K", 256, 210, Some(GgmlDType::Q6K)),
    (15, "Q8_K", 256, 292, Some(GgmlDType::Q8K)),
    (16, "IQ2_XXS", 256, 66, None),
    (17, "IQ2_XS", 256, 74, None),
    (18, "IQ3_XXS", 256, 98, None),
    (19, "IQ1_S", 256, 50, None),
    (20, "IQ4_NL", 32, 18, None),
    (21, "IQ3_S", 256, 110, None),
    (22, "IQ2_S", 256, 82, None),
    (23, "IQ4_XS", 256, 136, None),
    (24, "I8", 1, 1, None),
    (25, "I16", 1, 2, None),
    (26, "I32", 1, 4, None),
    (27, "I64", 1, 8, None),
    (28, "F64", 1, 8, None),
    (29, "IQ1_M", 256, 56, None),
    (30, "BF16", 1, 2, Some(GgmlDType::BF16)),
    (34, "TQ1_0", 256, 54, None),
    (35, "TQ2_0", 256, 66, None),
    (39, "MXFP4", 32, 17, None),
];

/// Metadata and tensors of a file.
pub(super) struct RawHeader<'a> {
    pub metadata: HashMap<&'a str, Value<'a>>,
    pub tensors: Vec<TensorInfo>,
    /// Where the data begins in the file.
    pub data: u64,
    /// Alignment of the data and of each tensor in it.
    pub alignment: u64,
}

/// A metadata value of the types that are used here.
#[derive(Debug, PartialEq)]
pub(super) enum Value<'a> {
    Integer(u64),
    Float(f64),
    String(&'a str),
    Strings(Vec<&'a str>),
    Integers(Vec<u64>),
    Bool(bool),
    /// Negative numbers, and lists of anything else.
    Other,
}

/// A short form for messages.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::String(text) => write!(f, "{:.40}", text.escape_debug().to_string()),
            Self::Strings(texts) => write!(f, "a list of {} texts", texts.len()),
            Self::Integers(numbers) => write!(f, "a list of {} numbers", numbers.len()),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Other => f.write_str("a value of another kind"),
        }
    }
}

impl<'a> RawHeader<'a> {
    /// Reads the header of the file `name` in front of `bytes`. The file has `size` bytes, if known.
    ///
    /// # Errors
    /// `DamagedModel` if it contradicts itself, `UnsupportedModel` for versions, arrays and tensor types that cannot be
    /// read.
    pub fn read(name: &str, bytes: &'a [u8], size: Option<u64>) -> Result<Self> {
        let (mut reader, metadata, count) = read_metadata(name, bytes, size)?;
        let alignment = match metadata.get("general.alignment") {
            None => ALIGNMENT,
            Some(&Value::Integer(number)) if number.is_power_of_two() && number <= 1 << 16 => number,
            Some(other) => {
                return Err(damaged(format!("`general.alignment` of the GGUF file is {other}, no small power of two")));
            }
        };
        let mut tensors = Vec::new();
        for _ in 0..count {
            tensors.push(reader.tensor()?);
        }
        Ok(Self { metadata, tensors, data: (reader.at as u64).next_multiple_of(alignment), alignment })
    }
}

/// The reader behind the metadata, the metadata, and the number of tensors.
fn read_metadata<'a>(
    name: &str,
    bytes: &'a [u8],
    size: Option<u64>,
) -> Result<(Reader<'a>, HashMap<&'a str, Value<'a>>, u64)> {
    // After the four bytes `GGUF`.
    let mut reader = Reader { bytes, at: 4, array_elements: 0 };
    check_version(name, reader.u32()?)?;
    let (tensors, values) = (reader.u64()?, reader.u64()?);
    // The least a tensor or a value takes is 24 and 13 bytes; anything allocated for them is bounded by that.
    let most = size.map_or(MAX_HEADER_BYTES, |size| size.min(MAX_HEADER_BYTES));
    if tensors.saturating_mul(24).saturating_add(values.saturating_mul(13)) > most {
        return Err(damaged(format!(
            "the header of {name} claims {tensors} tensors and {values} values, more than the file can hold; \
             download it again"
        )));
    }
    let mut metadata = HashMap::new();
    for _ in 0..values {
        let key = reader.string()?;
        let kind = reader.u32()?;
        let value = reader.value(key, kind)?;
        if metadata.insert(key, value).is_some() {
            return Err(damaged(format!("the GGUF header gives `{key}` twice")));
        }
    }
    Ok((reader, metadata, tensors))
}

fn check_version(name: &str, version: u32) -> Result<()> {
    let problem = match (version, version.swap_bytes()) {
        (2 | 3, _) => return Ok(()),
        (_, 1..=0xffff) => {
            "is a big-endian GGUF file, made for other processors; give the little-endian one, which is the usual kind"
                .to_owned()
        }
        (1, _) => {
            "has version 1 of GGUF, which llama.cpp wrote for some days of 2023; convert the model again".to_owned()
        }
        _ => format!("has version {version} of GGUF; versions 2 and 3 are supported"),
    };
    Err(unsupported(format!("{name} {problem}")))
}

/// The metadata in a file's first bytes, as far as it is complete.
pub(super) fn beginning(bytes: &[u8]) -> HashMap<&str, Value<'_>> {
    let mut reader = Reader { bytes, at: 8.min(bytes.len()), array_elements: 0 };
    let mut metadata = HashMap::new();
    let Ok((_, values)) = reader.u64().and_then(|tensors| Ok((tensors, reader.u64()?))) else { return metadata };
    for _ in 0..values {
        let next = reader.string().and_then(|key| {
            let kind = reader.u32()?;
            Ok((key, reader.value(key, kind)?))
        });
        let Ok((key, value)) = next else { break };
        metadata.insert(key, value);
    }
    metadata
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    array_elements: u64,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: u64) -> Result<&'a [u8]> {
        let left = &self.bytes[self.at..];
        let Some(taken) = usize::try_from(count).ok().and_then(|count| left.get(..count)) else {
            return Err(Unread::Short((self.at as u64).saturating_add(count)));
        };
        self.at += taken.len();
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn string(&mut self) -> Result<&'a str> {
        let (at, length) = (self.at, self.u64()?);
        std::str::from_utf8(self.take(length)?)
            .map_err(|_| damaged(format!("the text at byte {at} of the GGUF header is not UTF-8")))
    }

    fn value(&mut self, key: &str, kind: u32) -> Result<Value<'a>> {
        let signed = |number: i64| u64::try_from(number).map_or(Value::Other, Value::Integer);
        Ok(match kind {
            0 => Value::Integer(u8::from_le_bytes(self.array()?).into()),
            1 => signed(i8::from_le_bytes(self.array()?).into()),
            2 => Value::Integer(u16::from_le_bytes(self.array()?).into()),
            3 => signed(i16::from_le_bytes(self.array()?).into()),
            4 => Value::Integer(self.u32()?.into()),
            5 => signed(i32::from_le_bytes(self.array()?).into()),
            6 => Value::Float(f32::from_le_bytes(self.array()?).into()),
            7 => match self.array()? {
                [value @ (0 | 1)] => Value::Bool(value == 1),
                [other] => return Err(damaged(format!("`{key}` of the GGUF file is neither true nor false: {other}"))),
            },
            8 => Value::String(self.string()?),
            9 => self.list(key, 0)?,
            10 => Value::Integer(self.u64()?),
            11 => signed(i64::from_le_bytes(self.array()?)),
            12 => Value::Float(f64::from_le_bytes(self.array()?)),
            _ => return Err(damaged(format!("`{key}` of the GGUF file has the unknown type {kind}"))),
        })
    }

    /// A list inside `depth` others.
    fn list(&mut self, key: &str, depth: u32) -> Result<Value<'a>> {
        let (kind, count) = (self.u32()?, self.u64()?);
        self.array_elements = self.array_elements.saturating_add(count);
        if self.array_elements > MAX_ARRAY_ELEMENTS {
            return Err(unsupported(format!(
                "`{key}` of the GGUF file has {count} elements; at most {MAX_ARRAY_ELEMENTS} in all are supported"
            )));
        }
        match kind {
            8 => (0..count).map(|_| self.string()).collect::<Result<_>>().map(Value::Strings),
            // Most are not needed here and are skipped by their length.
            0..=7 | 10..=12 => {
                let mut numbers = Vec::new();
                for _ in 0..count {
                    if let Value::Integer(number) = self.value(key, kind)? {
                        numbers.push(number);
                    }
                }
                Ok(if numbers.len() as u64 == count { Value::Integers(numbers) } else { Value::Other })
            }
            // Nothing here needs lists of lists, but other programs may.
            9 if depth < MAX_DEPTH => {
                for _ in 0..count {
                    self.list(key, depth + 1)?;
                }
                Ok(Value::Other)
            }
            9 => Err(unsupported(format!(
                "`{key}` of the GGUF file has lists in lists, more than {MAX_DEPTH} deep; at most that is supported"
            ))),
            _ => Err(damaged(format!("`{key}` of the GGUF file is a list of the unknown type {kind}"))),
        }
    }

    fn tensor(&mut self) -> Result<TensorInfo> {
        let name = self.string()?;
        let rank = self.u32()?;
        if !(1..=4).contains(&rank) {
            return Err(damaged(format!("the tensor {name} has {rank} dimensions")));
        }
        let mut sizes = (0..rank).map(|_| self.u64()).collect::<Result<Vec<_>>>()?;
        sizes.reverse();
        let number = self.u32()?;
        let begin = self.u64()?;
        let Some(&(_, type_name, block, block_bytes, dtype)) = KINDS.iter().find(|(known, ..)| *known == number) else {
            return Err(unsupported(format!(
                "the tensor {name} has the type number {number}, which nobody knows here"
            )));
        };
        let claims = || damaged(format!("the tensor {name} has the shape {sizes:?}, which no {type_name} can have"));
        let shape =
            sizes.iter().map(|&size| usize::try_from(size).map_err(|_| claims())).collect::<Result<Vec<_>>>()?;
        let elements =
            shape.iter().try_fold(1, |product: usize, &size| product.checked_mul(size)).ok_or_else(claims)?;
        if elements == 0 || !shape[shape.len() - 1].is_multiple_of(block) {
            return Err(claims());
        }
        let bytes = ((elements / block) as u64).checked_mul(block_bytes as u64);
        let end = bytes.and_then(|bytes| begin.checked_add(bytes)).ok_or_else(claims)?;
        Ok(TensorInfo { name: name.to_owned(), type_name: type_name.to_owned(), dtype, shape, begin, end })
    }
}

fn damaged(message: String) -> Unread {
    Error::new(ErrorKind::DamagedModel, message).into()
}

fn unsupported(message: String) -> Unread {
    Error::new(ErrorKind::UnsupportedModel, message).into()
}
