//! Reads the data of one tensor, a few rows at a time.

use std::borrow::Cow;

use candle_core::CpuStorage;
use candle_core::quantized::GgmlDType;

use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::matrix::MatrixBuilder;
use crate::gpt2::matrix::{Matrix, Precision};
use crate::gpt2::memory;

/// Rows are dequantised in pieces of about this size, in bytes.
const PIECE_BYTES: usize = 1 << 16;

/// A tensor as the model keeps it.
pub(super) enum LoadedTensor {
    Vector(Vec<f32>),
    Matrix(Matrix),
}

/// Where the numbers of a tensor go.
pub(super) enum Target {
    /// A vector of 32-bit floats.
    Vector(Vec<f32>),
    /// A matrix of this precision.
    Matrix(MatrixBuilder, Precision),
}

impl Target {
    /// Allocates a vector for a tensor of this shape.
    pub fn plain(shape: &[usize]) -> Result<Self> {
        Ok(Self::Vector(memory::try_with_capacity(shape.iter().product())?))
    }

    fn precision(&self) -> Precision {
        match self {
            Self::Vector(_) => Precision::F32,
            Self::Matrix(_, precision) => *precision,
        }
    }
}

/// Takes the data of one tensor in pieces of any size.
pub(super) struct TensorReader {
    /// The tensor's name, for errors.
    name: String,
    dtype: GgmlDType,
    /// Bytes of a row in the file.
    row_bytes: usize,
    /// Remaining bytes.
    left: u64,
    /// The rows being collected, as words, because candle needs aligned blocks.
    piece: Vec<u32>,
    filled: usize,
    target: Target,
}

impl TensorReader {
    /// A reader for the tensor `name` of type `dtype`, with `row` numbers in a row and `bytes` bytes in total.
    pub fn new(name: &str, dtype: GgmlDType, row: usize, bytes: u64, target: Target) -> Self {
        let row_bytes = row / dtype.block_size() * dtype.type_size();
        // 64 KB or one row: the loader has checked that this is free.
        let piece = (PIECE_BYTES / row_bytes).max(1) * row_bytes;
        let piece = usize::try_from(bytes).map_or(piece, |bytes| piece.min(bytes));
        let piece = vec![0; piece.div_ceil(4)];
        Self { name: name.to_owned(), dtype, row_bytes, left: bytes, piece, filled: 0, target }
    }

    /// Consumes the data of this tensor from the front of `bytes`. Returns whether the tensor is complete.
    ///
    /// # Errors
    /// `DamagedModel` if a number is NaN or infinite, `UnsupportedModel` if it is too large for the precision,
    /// `OutOfMemory`.
    pub fn push(&mut self, bytes: &mut &[u8]) -> Result<bool> {
        let whole = (PIECE_BYTES / self.row_bytes).max(1) * self.row_bytes;
        while self.left > 0 && !bytes.is_empty() {
            let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(whole - self.filled);
            let (taken, rest) = bytes.split_at(wanted.min(bytes.len()));
            bytemuck::cast_slice_mut(&mut self.piece)[self.filled..][..taken.len()].copy_from_slice(taken);
            self.filled += taken.len();
            self.left -= taken.len() as u64;
            *bytes = rest;
            if self.filled == whole || self.left == 0 {
                self.convert()?;
                self.filled = 0;
            }
        }
        Ok(self.left == 0)
    }

    /// The complete tensor.
    pub fn finish(self) -> Result<LoadedTensor> {
        Ok(match self.target {
            Target::Vector(numbers) => LoadedTensor::Vector(numbers),
            Target::Matrix(builder, _) => LoadedTensor::Matrix(builder.finish()?),
        })
    }

    /// Converts the collected rows.
    fn convert(&mut self) -> Result<()> {
        let bytes = &bytemuck::cast_slice(&self.piece)[..self.filled];
        let precision = self.target.precision();
        if let (Target::Matrix(builder, _), true) = (&mut self.target, keeps_blocks(self.dtype, precision)) {
            // A block begins with a half-precision scale; its maximum exponent means NaN or infinity.
            let scales = bytes.chunks_exact(self.dtype.type_size());
            if !scales.clone().all(|block| u16::from_le_bytes([block[0], block[1]]) & 0x7c00 != 0x7c00) {
                return Err(not_finite(&self.name));
            }
            return builder.push_blocks(bytes);
        }
        let count = self.filled / self.dtype.type_size() * self.dtype.block_size();
        let CpuStorage::F32(numbers) = self.dtype.from_data(Cow::Borrowed(bytes)).dequantize(count).map_err(failed)?
        else {
            return Err(Error::new(ErrorKind::Engine, "the tensor library gave other numbers than f32"));
        };
        let max = precision.max();
        // Also false for NaN.
        if !numbers.iter().all(|number| number.abs() <= max) {
            if !numbers.iter().all(|number| number.is_finite()) {
                return Err(not_finite(&self.name));
            }
            return Err(Error::new(
                ErrorKind::UnsupportedModel,
                format!(
                    "the tensor {} holds numbers over {max}, which {} cannot hold; load the model in f32",
                    self.name,
                    precision.name()
                ),
            ));
        }
        match &mut self.target {
            Target::Vector(held) => held.extend_from_slice(&numbers),
            Target::Matrix(builder, _) => builder.push(&numbers)?,
        }
        Ok(())
    }
}

/// Whether blocks of the file are copied without requantising.
fn keeps_blocks(dtype: GgmlDType, precision: Precision) -> bool {
    precision != Precision::F32 && precision.stored() == dtype
}

/// Candle reports errors as text. An error means that a check in this crate is missing.
fn failed(error: candle_core::Error) -> Error {
    Error::new(ErrorKind::Engine, format!("the tensor library failed: {error}"))
}

fn not_finite(name: &str) -> Error {
    Error::new(
        ErrorKind::DamagedModel,
        format!("the tensor {name} holds NaN or infinite numbers; the file is damaged, download it again"),
    )
}
