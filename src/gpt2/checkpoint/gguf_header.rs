//! The header of a GGUF file, read without copying and with every count held against the size of the file.
//!
//! Candle reads GGUF as well, and loads the tensors; but it takes alignments and shapes as they come, names no tensor
//! in its errors, and multiplies a large array of bytes by the size of its value type. So a file is read here first,
//! and candle sees it only if nothing in it can surprise.

use std::collections::HashMap;
use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// Elements all arrays of a header may have together: ten times what GPT-2's tokenizer needs.
const MOST_ARRAY_ELEMENTS: u64 = 1 << 21;

/// Tensor data begins, and each tensor in it, at a multiple of this.
const ALIGNMENT: usize = 32;

/// The tensor types that can be loaded: number, name, numbers in a block, bytes of a block.
const TYPES: [(u32, &str, usize, usize); 3] = [(0, "F32", 1, 4), (1, "F16", 1, 2), (8, "Q8_0", 32, 34)];

/// Names for the other types, to refuse them by.
const OTHER_TYPES: [(u32, &str); 23] = [
    (2, "Q4_0"),
    (3, "Q4_1"),
    (6, "Q5_0"),
    (7, "Q5_1"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (12, "Q4_K"),
    (13, "Q5_K"),
    (14, "Q6_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (28, "F64"),
    (29, "IQ1_M"),
    (30, "BF16"),
    (39, "MXFP4"),
];

/// Metadata and tensors of a file.
pub(super) struct Header<'a> {
    pub metadata: HashMap<&'a str, Value<'a>>,
    pub tensors: Vec<TensorInfo<'a>>,
}

/// A metadata value, as far as anything here asks for it.
#[derive(Debug, PartialEq)]
pub(super) enum Value<'a> {
    Integer(u64),
    Float(f64),
    String(&'a str),
    Strings(Vec<&'a str>),
    /// Negative numbers, truth values and arrays of numbers.
    Other,
}

/// For messages: short, whatever the file holds.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::String(text) => write!(f, "{:.40}", text.escape_debug().to_string()),
            Self::Strings(texts) => write!(f, "a list of {} texts", texts.len()),
            Self::Other => f.write_str("a value of another kind"),
        }
    }
}

/// One tensor.
pub(super) struct TensorInfo<'a> {
    pub name: &'a str,
    /// Outermost dimension first (the file has it the other way round).
    pub shape: Vec<usize>,
    pub dtype: &'static str,
    pub bytes: &'a [u8],
}

impl<'a> Header<'a> {
    /// Reads the header in front of `bytes` and finds the data of each tensor behind it.
    ///
    /// # Errors
    /// `DamagedModel` if the file is cut short or contradicts itself, `UnsupportedModel` for versions, arrays and
    /// tensor types that cannot be read.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        let (mut reader, metadata, count) = read_metadata(bytes)?;
        let mut described = Vec::new();
        for _ in 0..count {
            described.push(reader.tensor()?);
        }
        let data = bytes.get(reader.at.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        let mut end = 0;
        let mut tensors = Vec::with_capacity(described.len());
        described.sort_by_key(|tensor| tensor.offset);
        for Described { name, shape, dtype, offset, size } in described {
            let range = offset..offset.saturating_add(size);
            let Some(bytes) = data.get(range.clone()) else {
                return Err(damaged(format!(
                    "the data of tensor {name} ends at byte {} of {}; the file is cut short, download it again",
                    range.end,
                    data.len()
                )));
            };
            if offset < end || !offset.is_multiple_of(ALIGNMENT) {
                return Err(damaged(format!(
                    "the data of tensor {name} begins at byte {offset}, inside another tensor's or off the alignment"
                )));
            }
            end = range.end;
            tensors.push(TensorInfo { name, shape, dtype, bytes });
        }
        Ok(Self { metadata, tensors })
    }

    /// Reads just the metadata.
    pub fn read_metadata(bytes: &'a [u8]) -> Result<HashMap<&'a str, Value<'a>>> {
        Ok(read_metadata(bytes)?.1)
    }
}

/// The reader behind the metadata, the metadata, and the number of tensors.
fn read_metadata(bytes: &[u8]) -> Result<(Reader<'_>, HashMap<&str, Value<'_>>, u64)> {
    if !bytes.starts_with(b"GGUF") {
        return Err(Error::new(ErrorKind::NotAModel, "the file is no GGUF file; it does not begin with `GGUF`"));
    }
    let mut reader = Reader { bytes, at: 4, array_elements: 0 };
    let version = reader.u32()?;
    if !(2..=3).contains(&version) {
        return Err(unsupported(format!("the GGUF file has version {version}; versions 2 and 3 are supported")));
    }
    let (tensors, values) = (reader.u64()?, reader.u64()?);
    // The least a tensor or a value takes is 24 and 13 bytes; anything allocated for them is bounded by that.
    if tensors.saturating_mul(24).saturating_add(values.saturating_mul(13)) > bytes.len() as u64 {
        return Err(damaged(format!(
            "the GGUF header claims {tensors} tensors and {values} values, more than the file of {} bytes can hold",
            bytes.len()
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
    if metadata.get("general.alignment").is_some_and(|value| value != &Value::Integer(ALIGNMENT as u64)) {
        return Err(unsupported(format!("`general.alignment` of the GGUF file is not {ALIGNMENT}")));
    }
    Ok((reader, metadata, tensors))
}

/// A tensor whose place in the data is not known to be sound yet.
struct Described<'a> {
    name: &'a str,
    shape: Vec<usize>,
    dtype: &'static str,
    offset: usize,
    size: usize,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    array_elements: u64,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: u64) -> Result<&'a [u8]> {
        let left = &self.bytes[self.at..];
        let taken = usize::try_from(count).ok().and_then(|count| left.get(..count)).ok_or_else(|| {
            damaged(format!(
                "the GGUF header asks for {count} bytes at byte {} of {}; the file is cut short, download it again",
                self.at,
                self.bytes.len()
            ))
        })?;
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
                [0 | 1] => Value::Other,
                [other] => return Err(damaged(format!("`{key}` of the GGUF file is neither true nor false: {other}"))),
            },
            8 => Value::String(self.string()?),
            9 => self.list(key)?,
            10 => Value::Integer(self.u64()?),
            11 => signed(i64::from_le_bytes(self.array()?)),
            12 => Value::Float(f64::from_le_bytes(self.array()?)),
            _ => return Err(damaged(format!("`{key}` of the GGUF file has the unknown type {kind}"))),
        })
    }

    fn list(&mut self, key: &str) -> Result<Value<'a>> {
        let (kind, count) = (self.u32()?, self.u64()?);
        self.array_elements = self.array_elements.saturating_add(count);
        if self.array_elements > MOST_ARRAY_ELEMENTS {
            return Err(unsupported(format!(
                "`{key}` of the GGUF file has {count} elements; at most {MOST_ARRAY_ELEMENTS} in all are supported"
            )));
        }
        match kind {
            8 => (0..count).map(|_| self.string()).collect::<Result<_>>().map(Value::Strings),
            // Nothing here needs them, but candle must be able to read them.
            0..=7 | 10..=12 => {
                for _ in 0..count {
                    self.value(key, kind)?;
                }
                Ok(Value::Other)
            }
            _ => Err(unsupported(format!("`{key}` of the GGUF file is a list of type {kind}, which no GPT-2 needs"))),
        }
    }

    fn tensor(&mut self) -> Result<Described<'a>> {
        let name = self.string()?;
        let rank = self.u32()?;
        if !(1..=4).contains(&rank) {
            return Err(damaged(format!("the tensor {name} has {rank} dimensions")));
        }
        let mut sizes = (0..rank).map(|_| self.u64()).collect::<Result<Vec<_>>>()?;
        sizes.reverse();
        let kind = self.u32()?;
        let offset = self.u64()?;
        let Some(&(_, dtype, block, block_bytes)) = TYPES.iter().find(|(number, ..)| *number == kind) else {
            let other = OTHER_TYPES.iter().find(|(number, _)| *number == kind);
            let other = other.map_or_else(|| format!("number {kind}"), |(_, name)| (*name).to_owned());
            return Err(unsupported(format!(
                "the tensor {name} has the type {other}; GGUF files in F32, F16 and Q8_0 are supported"
            )));
        };
        let claims = || damaged(format!("the tensor {name} has the shape {sizes:?}, which cannot be in this file"));
        let number = |size: u64| usize::try_from(size).map_err(|_| claims());
        let shape = sizes.iter().map(|&size| number(size)).collect::<Result<Vec<_>>>()?;
        let elements =
            shape.iter().try_fold(1, |product: usize, &size| product.checked_mul(size)).ok_or_else(claims)?;
        if elements == 0 || !shape[shape.len() - 1].is_multiple_of(block) {
            return Err(claims());
        }
        let size = (elements / block).checked_mul(block_bytes).ok_or_else(claims)?;
        Ok(Described { name, dtype, offset: number(offset)?, size, shape })
    }
}

fn damaged(message: String) -> Error {
    Error::new(ErrorKind::DamagedModel, message)
}

fn unsupported(message: String) -> Error {
    Error::new(ErrorKind::UnsupportedModel, message)
}
