//! Builds weight matrices row by row while their numbers stream in. The result is allocated once. Nothing else of that size
//! exists, except for a matrix that is stored transposed and must be quantised.

use std::sync::Arc;

use super::f32_matrix::F32Matrix;
use super::packed_matrix::PackedMatrix;
use super::quantise::{self, Q4_0_BYTES, Q8_0_BYTES, QuantBlock};
use super::{Matrix, Precision};
use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::memory;
use crate::kernels::{BLOCK, PackedBlock, Q4x4, Q8x4};

/// Rows of a transposed matrix that are gathered in one pass over it.
const GATHERED: usize = 16;

/// The order of the numbers of a matrix `[out, in]` in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// All weights of the first output, then of the second.
    RowMajor,
    /// All weights of the first input, then of the second: Hugging Face's `Conv1D`.
    Transposed,
}

/// An unfinished matrix `[out, in]`.
pub struct MatrixBuilder {
    outputs: usize,
    inputs: usize,
    /// Complete rows of the file so far.
    taken: usize,
    state: State,
}

enum State {
    /// Rows are written in place.
    Rows(MatrixData),
    /// Columns are written in place, in 32-bit floats.
    Columns(F32Matrix),
    /// A block needs 32 inputs of one output, so a whole `Conv1D` is collected first: `[in, out]`.
    Transposed(Vec<f32>, Precision),
    /// Every row so far equals that of another matrix.
    MaybeTied(Matrix),
}

/// The numbers of the matrix.
enum MatrixData {
    F32(F32Matrix),
    Q8_0(PackedMatrix<Q8x4>),
    Q4_0(PackedMatrix<Q4x4>),
}

impl MatrixBuilder {
    /// A matrix that will be held in `precision` and comes in `order`.
    ///
    /// # Errors
    /// `OutOfMemory`; `Engine` if its rows do not make blocks.
    pub fn new(outputs: usize, inputs: usize, precision: Precision, order: Layout) -> Result<Self> {
        if precision != Precision::F32 && !inputs.is_multiple_of(BLOCK) {
            return Err(Error::new(ErrorKind::Engine, format!("rows of {inputs} numbers make no blocks of {BLOCK}")));
        }
        let state = match (precision, order) {
            (Precision::F32, Layout::Transposed) => State::Columns(F32Matrix::with_capacity(outputs, inputs)?),
            (_, Layout::Transposed) => State::Transposed(memory::try_with_capacity(outputs * inputs)?, precision),
            (_, Layout::RowMajor) => State::Rows(MatrixData::with_capacity(outputs, inputs, precision)?),
        };
        Ok(Self { outputs, inputs, taken: 0, state })
    }

    /// A matrix of the shape and precision of `other` that may be equal to it. While it is, it takes no memory; if it is to
    /// the end, the result is a clone of `other`.
    pub fn maybe_tied(other: &Matrix) -> Self {
        let (outputs, inputs) = other.shape();
        Self { outputs, inputs, taken: 0, state: State::MaybeTied(other.clone()) }
    }

    /// Takes the next complete rows of the file (columns, if inputs come first), as finite numbers not beyond
    /// [`Precision::max`].
    ///
    /// # Errors
    /// `OutOfMemory` if a matrix that began like another one differs after all.
    pub fn push(&mut self, rows: &[f32]) -> Result<()> {
        let (first, inputs) = (self.taken, self.inputs);
        let width = if self.transposed() { self.outputs } else { inputs };
        self.taken += rows.len() / width;
        match &mut self.state {
            State::Rows(numbers) => numbers.set_rows(first, rows, inputs),
            State::Columns(held) => {
                for (input, column) in (first..).zip(rows.chunks_exact(width)) {
                    held.set_column(input, column);
                }
            }
            State::Transposed(transposed, _) => transposed.extend_from_slice(rows),
            State::MaybeTied(other) => {
                let mut piece = MatrixData::with_capacity(rows.len() / inputs, inputs, other.precision())?;
                piece.set_rows(0, rows, inputs);
                let piece = piece.into_matrix();
                self.compare(first, &piece)?;
            }
        }
        Ok(())
    }

    /// Whether the file has the inputs first.
    fn transposed(&self) -> bool {
        matches!(self.state, State::Columns(_) | State::Transposed(..))
    }

    /// Takes the next complete rows as blocks of the file, which are those of the precision: nothing is quantised again.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_blocks(&mut self, bytes: &[u8]) -> Result<()> {
        let (first, inputs) = (self.taken, self.inputs);
        let rows = match &mut self.state {
            State::Rows(numbers) => numbers.set_blocks(first, bytes, inputs)?,
            State::MaybeTied(other) => {
                let precision = other.precision();
                let rows = bytes.len() / (precision.stored().type_size() * (inputs / BLOCK));
                let mut piece = MatrixData::with_capacity(rows, inputs, precision)?;
                piece.set_blocks(0, bytes, inputs)?;
                let piece = piece.into_matrix();
                self.compare(first, &piece)?;
                rows
            }
            State::Columns(_) | State::Transposed(..) => return Err(no_blocks()),
        };
        self.taken += rows;
        Ok(())
    }

    /// Compares `piece` with the other matrix from row `first` on; if they differ, starts a separate matrix.
    fn compare(&mut self, first: usize, piece: &Matrix) -> Result<()> {
        let State::MaybeTied(other) = &self.state else { return Ok(()) };
        let rows = piece.shape().0;
        if (0..rows).all(|row| same_row(other, first + row, piece, row)) {
            return Ok(());
        }
        let mut own = MatrixData::with_capacity(self.outputs, self.inputs, other.precision())?;
        own.copy_rows(0, other, first)?;
        own.copy_rows(first, piece, rows)?;
        self.state = State::Rows(own);
        Ok(())
    }

    /// The matrix.
    ///
    /// # Errors
    /// `OutOfMemory`; `Engine` if rows are missing.
    pub fn finish(self) -> Result<Matrix> {
        let expected = if self.transposed() { self.inputs } else { self.outputs };
        let Self { outputs, inputs, taken, state } = self;
        if taken != expected {
            return Err(Error::new(ErrorKind::Engine, format!("a matrix got {taken} of its {expected} rows")));
        }
        match state {
            State::Rows(numbers) => Ok(numbers.into_matrix()),
            State::Columns(held) => Ok(MatrixData::F32(held).into_matrix()),
            State::MaybeTied(other) => Ok(other),
            State::Transposed(transposed, precision) => {
                let mut numbers = MatrixData::with_capacity(outputs, inputs, precision)?;
                let mut rows = memory::try_with_capacity(GATHERED.min(outputs) * inputs)?;
                rows.resize(GATHERED.min(outputs) * inputs, 0.0);
                for first in (0..outputs).step_by(GATHERED) {
                    let count = GATHERED.min(outputs - first);
                    for (input, column) in transposed.chunks_exact(outputs).enumerate() {
                        for (row, number) in column[first..first + count].iter().enumerate() {
                            rows[row * inputs + input] = *number;
                        }
                    }
                    numbers.set_rows(first, &rows[..count * inputs], inputs);
                }
                drop(transposed);
                Ok(numbers.into_matrix())
            }
        }
    }
}

impl MatrixData {
    fn with_capacity(outputs: usize, inputs: usize, precision: Precision) -> Result<Self> {
        Ok(match precision {
            Precision::F32 => Self::F32(F32Matrix::with_capacity(outputs, inputs)?),
            Precision::Q8_0 => Self::Q8_0(PackedMatrix::with_capacity(outputs, inputs)?),
            Precision::Q4_0 => Self::Q4_0(PackedMatrix::with_capacity(outputs, inputs)?),
        })
    }

    /// Writes complete rows of `inputs` numbers from row `first` on.
    fn set_rows(&mut self, first: usize, rows: &[f32], inputs: usize) {
        for (output, row) in (first..).zip(rows.chunks_exact(inputs)) {
            let blocks = row.as_chunks::<BLOCK>().0.iter();
            match self {
                Self::F32(held) => held.set_row(output, row.iter().copied()),
                Self::Q8_0(held) => held.set_row(output, blocks.map(quantise::to_q8_0)),
                Self::Q4_0(held) => held.set_row(output, blocks.map(quantise::to_q4_0)),
            }
        }
    }

    /// Writes complete rows from row `first` on, given as blocks of a file; says how many.
    fn set_blocks(&mut self, first: usize, bytes: &[u8], inputs: usize) -> Result<usize> {
        match self {
            Self::F32(_) => Err(no_blocks()),
            Self::Q8_0(held) => Ok(set_blocks::<_, Q8_0_BYTES>(held, first, bytes, inputs, quantise::from_q8_0)),
            Self::Q4_0(held) => Ok(set_blocks::<_, Q4_0_BYTES>(held, first, bytes, inputs, quantise::from_q4_0)),
        }
    }

    /// Writes the first `rows` rows of `matrix`, of the same precision, from row `first` on.
    fn copy_rows(&mut self, first: usize, matrix: &Matrix, rows: usize) -> Result<()> {
        for row in 0..rows {
            match (&mut *self, matrix) {
                (Self::F32(held), Matrix::F32(other)) => held.set_row(first + row, other.row(row)),
                (Self::Q8_0(held), Matrix::Q8_0(other)) => held.set_row(first + row, other.blocks(row)),
                (Self::Q4_0(held), Matrix::Q4_0(other)) => held.set_row(first + row, other.blocks(row)),
                _ => return Err(Error::new(ErrorKind::Engine, "rows of another precision were to be copied")),
            }
        }
        Ok(())
    }

    fn into_matrix(self) -> Matrix {
        match self {
            Self::F32(held) => Matrix::F32(Arc::new(held)),
            Self::Q8_0(blocks) => Matrix::Q8_0(Arc::new(blocks)),
            Self::Q4_0(blocks) => Matrix::Q4_0(Arc::new(blocks)),
        }
    }
}

fn set_blocks<W: PackedBlock, const BYTES: usize>(
    held: &mut PackedMatrix<W>,
    first: usize,
    bytes: &[u8],
    inputs: usize,
    read: impl Fn(&[u8; BYTES]) -> QuantBlock,
) -> usize {
    let rows = bytes.as_chunks::<BYTES>().0.chunks_exact(inputs / BLOCK);
    let count = rows.len();
    for (output, row) in (first..).zip(rows) {
        held.set_row(output, row.iter().map(&read));
    }
    count
}

fn no_blocks() -> Error {
    Error::new(ErrorKind::Engine, "blocks were given to a matrix that has none")
}

/// Whether a row of one matrix is a row of another, of the same precision, bit by bit.
fn same_row(a: &Matrix, a_row: usize, b: &Matrix, b_row: usize) -> bool {
    fn same<W: PackedBlock>(a: &PackedMatrix<W>, a_row: usize, b: &PackedMatrix<W>, b_row: usize) -> bool {
        let bits = |(numbers, scale): ([i8; BLOCK], f32)| (numbers, scale.to_bits());
        a.blocks(a_row).map(bits).eq(b.blocks(b_row).map(bits))
    }
    match (a, b) {
        (Matrix::F32(a), Matrix::F32(b)) => a.row(a_row).map(f32::to_bits).eq(b.row(b_row).map(f32::to_bits)),
        (Matrix::Q8_0(a), Matrix::Q8_0(b)) => same(a, a_row, b, b_row),
        (Matrix::Q4_0(a), Matrix::Q4_0(b)) => same(a, a_row, b, b_row),
        _ => false,
    }
}

#[cfg(test)]
pub mod tests {
    use candle_core::quantized::{GgmlDType, QTensor};
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

    pub fn numbers(tensor: &Tensor) -> Vec<f32> {
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    /// The blocks that candle makes of `weights`, as the bytes of a file.
    fn candle_blocks(weights: &Tensor, dtype: GgmlDType) -> Vec<u8> {
        QTensor::quantize(weights, dtype).unwrap().data().unwrap().into_owned()
    }

    pub fn matrix(weights: &Tensor, precision: Precision) -> Matrix {
        let (outputs, inputs) = weights.dims2().unwrap();
        let mut builder = MatrixBuilder::new(outputs, inputs, precision, Layout::RowMajor).unwrap();
        builder.push(&numbers(weights)).unwrap();
        builder.finish().unwrap()
    }

    /// All numbers, bit by bit.
    fn bits(matrix: &Matrix) -> Vec<u32> {
        let (ids, mut rows): (Vec<u32>, _) = ((0..matrix.shape().0 as u32).collect(), Vec::new());
        matrix.rows(&ids, &mut rows);
        rows.iter().map(|number| number.to_bits()).collect()
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
            let transposed = numbers(&weights.t().unwrap().contiguous().unwrap());
            for precision in Precision::ALL {
                let at_once = matrix(&weights, precision);
                let mut pieces = MatrixBuilder::new(outputs, 64, precision, Layout::RowMajor).unwrap();
                push_in_pieces(&mut pieces, &numbers(&weights), 64, rows);
                prop_assert_eq!(bits(&pieces.finish().unwrap()), bits(&at_once));
                let mut columns = MatrixBuilder::new(outputs, 64, precision, Layout::Transposed).unwrap();
                push_in_pieces(&mut columns, &transposed, outputs, rows);
                prop_assert_eq!(bits(&columns.finish().unwrap()), bits(&at_once));
            }
        }

        #[test]
        fn quantised_rows_are_those_of_candle(outputs in 1..9usize, exponent in -6..4i32, seed: u32) {
            let weights = (random(outputs, 96, seed) * 10f64.powi(exponent)).unwrap();
            for (precision, dtype) in [(Precision::Q8_0, GgmlDType::Q8_0), (Precision::Q4_0, GgmlDType::Q4_0)] {
                let oracle = QTensor::quantize(&weights, dtype).unwrap();
                let expected = numbers(&oracle.dequantize(&Device::Cpu).unwrap());
                let expected: Vec<u32> = expected.iter().map(|number| number.to_bits()).collect();
                prop_assert_eq!(bits(&matrix(&weights, precision)), expected.clone());
                let mut copied = MatrixBuilder::new(outputs, 96, precision, Layout::RowMajor).unwrap();
                let data = candle_blocks(&weights, dtype);
                for row in data.chunks(data.len() / outputs) {
                    copied.push_blocks(row).unwrap();
                }
                prop_assert_eq!(bits(&copied.finish().unwrap()), expected);
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
                let mut builder = MatrixBuilder::maybe_tied(&first);
                push_in_pieces(&mut builder, &second, 32, rows);
                let got = builder.finish().unwrap();
                prop_assert_eq!(got.shares(&first), change.is_none());
                prop_assert_eq!(bits(&got), bits(&matrix(&changed, precision)));
                if precision != Precision::F32 {
                    let mut builder = MatrixBuilder::maybe_tied(&first);
                    let data = candle_blocks(&changed, precision.stored());
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
        for order in [Layout::RowMajor, Layout::Transposed] {
            let mut builder = MatrixBuilder::new(32, 32, Precision::Q8_0, order).unwrap();
            builder.push(&[0.0; 32]).unwrap();
            assert!(builder.finish().is_err());
        }
        assert!(MatrixBuilder::new(2, 33, Precision::Q4_0, Layout::RowMajor).is_err());
    }
}
