//! Weight matrices made row by row, while their numbers stream in: what is kept is allocated once, and nothing else of
//! the matrix's size exists beside it, but for a matrix that comes turned around and must be quantised.

use std::sync::Arc;

use candle_core::quantized::k_quants::{BlockQ4_0, BlockQ8_0};
use candle_core::quantized::{GgmlType, QStorage, QTensor};

use super::linear::{BLOCK, Matrix, Precision};
use super::memory;
use super::panels::Panels;
use crate::error::{Error, ErrorKind, Result};

/// Rows of a turned matrix that are gathered in one run through its memory.
const GATHERED: usize = 16;

/// In which order a file has the numbers of a matrix `[out, in]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All weights of the first output, then of the second.
    OutputsFirst,
    /// All weights of the first input, then of the second: Hugging Face's `Conv1D`.
    InputsFirst,
}

/// A matrix `[out, in]` in the making.
pub struct MatrixBuilder {
    outputs: usize,
    inputs: usize,
    /// Complete rows of the file taken so far.
    taken: usize,
    state: State,
}

enum State {
    /// Rows are put where they belong.
    Rows(Numbers),
    /// So are columns, in 32-bit floats.
    Columns(Panels),
    /// A block needs 32 inputs of one output, so all of a `Conv1D` must be there first: `[in, out]`.
    Turned(Vec<f32>, Precision),
    /// So far every row is that of another matrix.
    Repeated(Matrix),
}

/// What will be kept.
enum Numbers {
    F32(Panels),
    Q8_0(Vec<BlockQ8_0>),
    Q4_0(Vec<BlockQ4_0>),
}

impl MatrixBuilder {
    /// A matrix that will be held in `precision` and comes in `order`.
    ///
    /// # Errors
    /// `OutOfMemory`; `Engine` if its rows do not make blocks.
    pub fn new(outputs: usize, inputs: usize, precision: Precision, order: Order) -> Result<Self> {
        if precision != Precision::F32 && !inputs.is_multiple_of(BLOCK) {
            return Err(Error::new(ErrorKind::Engine, format!("rows of {inputs} numbers make no blocks of {BLOCK}")));
        }
        let state = match (precision, order) {
            (Precision::F32, Order::InputsFirst) => State::Columns(Panels::zeros(outputs, inputs)?),
            (_, Order::InputsFirst) => {
                let mut turned = memory::filled(outputs * inputs, 0.0)?;
                turned.clear();
                State::Turned(turned, precision)
            }
            (_, Order::OutputsFirst) => State::Rows(Numbers::zeros(outputs, inputs, precision)?),
        };
        Ok(Self { outputs, inputs, taken: 0, state })
    }

    /// A matrix of the shape and precision of `other` that may turn out to be the same. While it is, it takes no
    /// memory, and if it is to the end, it is a clone of `other`.
    pub fn perhaps(other: &Matrix) -> Self {
        let (outputs, inputs) = other.shape();
        Self { outputs, inputs, taken: 0, state: State::Repeated(other.clone()) }
    }

    /// Takes the next complete rows of the file (columns, if inputs come first), as finite numbers not beyond
    /// [`Precision::greatest`].
    ///
    /// # Errors
    /// `OutOfMemory` if a matrix that began as another must be held after all.
    pub fn push(&mut self, rows: &[f32]) -> Result<()> {
        let (first, inputs) = (self.taken, self.inputs);
        let width = if self.turned() { self.outputs } else { inputs };
        self.taken += rows.len() / width;
        match &mut self.state {
            State::Rows(numbers) => numbers.set_rows(first, rows, inputs),
            State::Columns(panels) => {
                for (input, column) in (first..).zip(rows.chunks_exact(width)) {
                    panels.set_column(input, column);
                }
            }
            State::Turned(turned, _) => turned.extend_from_slice(rows),
            State::Repeated(other) => {
                let mut piece = Numbers::zeros(rows.len() / inputs, inputs, other.precision())?;
                piece.set_rows(0, rows, inputs);
                let piece = piece.into_matrix(rows.len() / inputs, inputs)?;
                self.compare(first, &piece)?;
            }
        }
        Ok(())
    }

    /// Whether the file has the inputs first.
    fn turned(&self) -> bool {
        matches!(self.state, State::Columns(_) | State::Turned(..))
    }

    /// Takes the next complete rows as blocks of the file, which are those of the precision: nothing is rounded again.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_blocks(&mut self, bytes: &[u8]) -> Result<()> {
        let first = self.taken;
        let row_bytes = |precision: Precision| precision.bytes(1, self.inputs as u64) as usize;
        let row = match &mut self.state {
            State::Rows(Numbers::Q8_0(blocks)) => {
                let row = row_bytes(Precision::Q8_0);
                bytes_of(blocks)[first * row..][..bytes.len()].copy_from_slice(bytes);
                row
            }
            State::Rows(Numbers::Q4_0(blocks)) => {
                let row = row_bytes(Precision::Q4_0);
                bytes_of(blocks)[first * row..][..bytes.len()].copy_from_slice(bytes);
                row
            }
            State::Repeated(other) if other.precision() != Precision::F32 => {
                let precision = other.precision();
                let row = row_bytes(precision);
                let mut piece = Self::new(bytes.len() / row, self.inputs, precision, Order::OutputsFirst)?;
                piece.push_blocks(bytes)?;
                self.compare(first, &piece.finish()?)?;
                row
            }
            _ => return Err(Error::new(ErrorKind::Engine, "blocks were given to a matrix that has none")),
        };
        self.taken += bytes.len() / row;
        Ok(())
    }

    /// Looks whether `piece` is what the other matrix has from row `first` on; if not, parts from it.
    fn compare(&mut self, first: usize, piece: &Matrix) -> Result<()> {
        let State::Repeated(other) = &self.state else { return Ok(()) };
        let rows = piece.shape().0;
        let same = match (other, piece) {
            (Matrix::F32(other), Matrix::F32(piece)) => {
                (0..rows).all(|row| other.row(first + row).map(f32::to_bits).eq(piece.row(row).map(f32::to_bits)))
            }
            (Matrix::Blocks(other), Matrix::Blocks(piece)) => {
                let (other, piece) = (other.data()?, piece.data()?);
                let row = piece.len() / rows;
                other[first * row..][..piece.len()] == *piece
            }
            _ => false,
        };
        if same {
            return Ok(());
        }
        let mut own = Numbers::zeros(self.outputs, self.inputs, other.precision())?;
        own.copy_rows(0, other, first, self.inputs)?;
        own.copy_rows(first, piece, rows, self.inputs)?;
        self.state = State::Rows(own);
        Ok(())
    }

    /// The matrix.
    ///
    /// # Errors
    /// `OutOfMemory`; `Engine` if rows are missing.
    pub fn finish(self) -> Result<Matrix> {
        let expected = if self.turned() { self.inputs } else { self.outputs };
        let Self { outputs, inputs, taken, state } = self;
        if taken != expected {
            return Err(Error::new(ErrorKind::Engine, format!("a matrix got {taken} of its {expected} rows")));
        }
        match state {
            State::Rows(numbers) => numbers.into_matrix(outputs, inputs),
            State::Columns(panels) => Numbers::F32(panels).into_matrix(outputs, inputs),
            State::Repeated(other) => Ok(other),
            State::Turned(turned, precision) => {
                let mut numbers = Numbers::zeros(outputs, inputs, precision)?;
                let mut rows = vec![0.0; GATHERED.min(outputs) * inputs];
                for first in (0..outputs).step_by(GATHERED) {
                    let count = GATHERED.min(outputs - first);
                    for (input, column) in turned.chunks_exact(outputs).enumerate() {
                        for (row, number) in column[first..first + count].iter().enumerate() {
                            rows[row * inputs + input] = *number;
                        }
                    }
                    numbers.set_rows(first, &rows[..count * inputs], inputs);
                }
                drop(turned);
                numbers.into_matrix(outputs, inputs)
            }
        }
    }
}

impl Numbers {
    fn zeros(outputs: usize, inputs: usize, precision: Precision) -> Result<Self> {
        let blocks = outputs * (inputs / BLOCK);
        Ok(match precision {
            Precision::F32 => Self::F32(Panels::zeros(outputs, inputs)?),
            Precision::Q8_0 => Self::Q8_0(memory::filled(blocks, BlockQ8_0::zeros())?),
            Precision::Q4_0 => Self::Q4_0(memory::filled(blocks, BlockQ4_0::zeros())?),
        })
    }

    /// Writes complete rows of `inputs` numbers from row `first` on.
    fn set_rows(&mut self, first: usize, rows: &[f32], inputs: usize) {
        let (from, count) = (first * (inputs / BLOCK), rows.len() / BLOCK);
        match self {
            Self::F32(panels) => {
                for (output, row) in (first..).zip(rows.chunks_exact(inputs)) {
                    panels.set_row(output, row);
                }
            }
            Self::Q8_0(blocks) => BlockQ8_0::from_float(rows, &mut blocks[from..][..count]),
            Self::Q4_0(blocks) => BlockQ4_0::from_float(rows, &mut blocks[from..][..count]),
        }
    }

    /// Writes the first `rows` rows of `matrix`, which is held alike, from row `first` on.
    fn copy_rows(&mut self, first: usize, matrix: &Matrix, rows: usize, inputs: usize) -> Result<()> {
        let copy = |to: &mut [u8], blocks: &QTensor| -> Result<()> {
            let from = blocks.data()?;
            let row = from.len() / blocks.shape().dims()[0];
            to[first * row..][..rows * row].copy_from_slice(&from[..rows * row]);
            Ok(())
        };
        match (self, matrix) {
            (Self::F32(panels), Matrix::F32(other)) => {
                let mut numbers = Vec::with_capacity(inputs);
                for row in 0..rows {
                    numbers.clear();
                    numbers.extend(other.row(row));
                    panels.set_row(first + row, &numbers);
                }
                Ok(())
            }
            (Self::Q8_0(blocks), Matrix::Blocks(other)) => copy(bytes_of(blocks), other),
            (Self::Q4_0(blocks), Matrix::Blocks(other)) => copy(bytes_of(blocks), other),
            _ => Err(Error::new(ErrorKind::Engine, "rows of another precision were to be copied")),
        }
    }

    fn into_matrix(self, outputs: usize, inputs: usize) -> Result<Matrix> {
        let storage = match self {
            Self::F32(panels) => return Ok(Matrix::F32(Arc::new(panels))),
            Self::Q8_0(blocks) => QStorage::Cpu(Box::new(blocks)),
            Self::Q4_0(blocks) => QStorage::Cpu(Box::new(blocks)),
        };
        Ok(Matrix::Blocks(Arc::new(QTensor::new(storage, (outputs, inputs))?)))
    }
}

/// A block that is nothing but its bytes.
///
/// # Safety
/// The type must have no padding, and every pattern of bits must be a value of it.
unsafe trait Plain: Sized {}

// SAFETY: `repr(C)`: an `f16` (two bytes, transparent over `u16`), then 32 `i8`; 2 + 32 is the size candle asserts at
// compile time, so nothing is left for padding, and any bits are such numbers.
unsafe impl Plain for BlockQ8_0 {}
const _: () = assert!(size_of::<BlockQ8_0>() == 2 + 32);

// SAFETY: as above, with 16 `u8` in place of the `i8`.
unsafe impl Plain for BlockQ4_0 {}
const _: () = assert!(size_of::<BlockQ4_0>() == 2 + 16);

/// The memory of `blocks`, to copy blocks of a file into. Candle has no other way than to copy a whole matrix once more.
fn bytes_of<B: Plain>(blocks: &mut [B]) -> &mut [u8] {
    let size = size_of_val(blocks);
    // SAFETY: the pointer and the size are those of one live, exclusively borrowed slice, whose lifetime the result
    // keeps; bytes need no alignment; `Plain` promises that all bytes are initialised and may be written with any value.
    unsafe { std::slice::from_raw_parts_mut(blocks.as_mut_ptr().cast(), size) }
}

#[cfg(test)]
pub(super) mod tests {
    use candle_core::quantized::GgmlDType;
    use candle_core::{Device, Tensor};
    use proptest::prelude::*;

    use super::*;

    pub fn random(rows: usize, columns: usize, seed: u32) -> Tensor {
        let mut state = seed;
        let numbers: Vec<f32> = (0..rows * columns)
            .map(|_| {
                state = state.wrapping_mul(1664525).wrapping_add(1013904223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect();
        Tensor::from_vec(numbers, (rows, columns), &Device::Cpu).unwrap()
    }

    fn numbers(tensor: &Tensor) -> Vec<f32> {
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    pub fn matrix(weights: &Tensor, precision: Precision) -> Matrix {
        let (outputs, inputs) = weights.dims2().unwrap();
        let mut builder = MatrixBuilder::new(outputs, inputs, precision, Order::OutputsFirst).unwrap();
        builder.push(&numbers(weights)).unwrap();
        builder.finish().unwrap()
    }

    /// All numbers, bit by bit.
    fn bits(matrix: &Matrix) -> Vec<u32> {
        let ids: Vec<u32> = (0..matrix.shape().0 as u32).collect();
        numbers(&matrix.rows(&ids).unwrap()).iter().map(|number| number.to_bits()).collect()
    }

    fn push_in_pieces(builder: &mut MatrixBuilder, numbers: &[f32], width: usize, rows: usize) {
        for piece in numbers.chunks(width * rows) {
            builder.push(piece).unwrap();
        }
    }

    proptest! {
        #[test]
        fn order_and_pieces_make_no_difference(outputs in 1..50usize, rows in 1..9usize, seed: u32) {
            let weights = random(outputs, 64, seed);
            let turned = numbers(&weights.t().unwrap().contiguous().unwrap());
            for precision in Precision::ALL {
                let at_once = matrix(&weights, precision);
                let mut pieces = MatrixBuilder::new(outputs, 64, precision, Order::OutputsFirst).unwrap();
                push_in_pieces(&mut pieces, &numbers(&weights), 64, rows);
                prop_assert_eq!(bits(&pieces.finish().unwrap()), bits(&at_once));
                let mut columns = MatrixBuilder::new(outputs, 64, precision, Order::InputsFirst).unwrap();
                push_in_pieces(&mut columns, &turned, outputs, rows);
                prop_assert_eq!(bits(&columns.finish().unwrap()), bits(&at_once));
            }
        }

        #[test]
        fn quantised_rows_are_those_of_candle(outputs in 1..9usize, seed: u32) {
            let weights = random(outputs, 96, seed);
            for (precision, dtype) in [(Precision::Q8_0, GgmlDType::Q8_0), (Precision::Q4_0, GgmlDType::Q4_0)] {
                let oracle = QTensor::quantize(&weights, dtype).unwrap();
                let Matrix::Blocks(blocks) = matrix(&weights, precision) else { panic!("{precision:?}") };
                prop_assert_eq!(blocks.data().unwrap(), oracle.data().unwrap());
                let mut copied = MatrixBuilder::new(outputs, 96, precision, Order::OutputsFirst).unwrap();
                let data = oracle.data().unwrap();
                for row in data.chunks(data.len() / outputs) {
                    copied.push_blocks(row).unwrap();
                }
                let Matrix::Blocks(copied) = copied.finish().unwrap() else { panic!("{precision:?}") };
                prop_assert_eq!(copied.data().unwrap(), oracle.data().unwrap());
            }
        }

        #[test]
        fn a_repeated_matrix_is_shared_and_another_is_not(
            outputs in 1..40usize, rows in 1..9usize, change in prop::option::of(0..40usize), seed: u32,
        ) {
            let weights = random(outputs, 32, seed);
            let mut second = numbers(&weights);
            let change = change.filter(|&row| row < outputs);
            if let Some(row) = change {
                second[row * 32 + 5] = 1.5;
            }
            let changed = Tensor::from_vec(second.clone(), (outputs, 32), &Device::Cpu).unwrap();
            for precision in Precision::ALL {
                let first = matrix(&weights, precision);
                let mut builder = MatrixBuilder::perhaps(&first);
                push_in_pieces(&mut builder, &second, 32, rows);
                let got = builder.finish().unwrap();
                prop_assert_eq!(got.shares(&first), change.is_none());
                prop_assert_eq!(bits(&got), bits(&matrix(&changed, precision)));
                if let Matrix::Blocks(blocks) = matrix(&changed, precision) {
                    let mut builder = MatrixBuilder::perhaps(&first);
                    let data = blocks.data().unwrap();
                    for row in data.chunks(rows * data.len() / outputs) {
                        builder.push_blocks(row).unwrap();
                    }
                    let again = builder.finish().unwrap();
                    prop_assert_eq!(again.shares(&first), change.is_none());
                    prop_assert_eq!(bits(&again), bits(&got));
                }
            }
        }
    }

    #[test]
    fn a_matrix_with_missing_rows_is_an_error() {
        for order in [Order::OutputsFirst, Order::InputsFirst] {
            let mut builder = MatrixBuilder::new(32, 32, Precision::Q8_0, order).unwrap();
            builder.push(&[0.0; 32]).unwrap();
            assert!(builder.finish().is_err());
        }
        assert!(MatrixBuilder::new(2, 33, Precision::Q4_0, Order::OutputsFirst).is_err());
    }
}
