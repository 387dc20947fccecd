//! A whole matrix times rows of activations.

use core::hint::black_box;

use super::activations::quantise;
use super::{ActivationBlock, BLOCK, EIGHTS, GROUP, Kernel};

/// `x` (`[n, inputs]`) times the transposed matrix `weights` (`[outputs / GROUP, inputs / BLOCK]`, both rounded up to
/// whole ones), into `out` (`[n, outputs]`). `quantised` is room for a block of each 32 numbers in `x`. One row of
/// activations is multiplied with the outputs of `readers` places at a time, one of [`READERS`](super::READERS).
///
/// A row of the result is the same whatever other rows there are, and for any number of readers.
pub fn matmul_t<K: Kernel>(
    weights: &[K::PackedBlock],
    x: &[f32],
    inputs: usize,
    quantised: &mut [ActivationBlock],
    out: &mut [f32],
    outputs: usize,
    readers: usize,
) {
    check(weights, x, inputs, quantised, out, outputs);
    prepare(K::prepare, x, quantised);
    let shape = Shape { blocks: inputs / BLOCK, outputs, readers, eights: black_box(EIGHTS) };
    shape.multiply::<K>(weights, quantised, out);
}

/// Refuses slices that do not belong together.
///
/// # Panics
/// If they do not.
pub fn check<W>(weights: &[W], x: &[f32], inputs: usize, quantised: &[ActivationBlock], out: &[f32], outputs: usize) {
    assert!(inputs > 0 && inputs.is_multiple_of(BLOCK), "rows of {inputs} numbers make no blocks");
    let rows = x.len() / inputs;
    assert_eq!(weights.len(), outputs.div_ceil(GROUP) * (inputs / BLOCK), "blocks of weights");
    assert_eq!((x.len(), out.len()), (rows * inputs, rows * outputs), "numbers of {rows} rows");
    assert_eq!(quantised.len(), rows * (inputs / BLOCK), "blocks of {rows} rows");
}

/// Rounds `x`, and lays out each block of it as a kernel reads it.
#[inline(always)]
pub fn prepare(kernel: fn(&[i8; BLOCK], f32) -> ActivationBlock, x: &[f32], quantised: &mut [ActivationBlock]) {
    for (x, block) in x.as_chunks::<BLOCK>().0.iter().zip(quantised) {
        let (numbers, scale) = quantise(x);
        *block = kernel(&numbers, scale);
    }
}

/// What a product is of.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Shape {
    /// Blocks of a row.
    pub blocks: usize,
    /// Rows of the transposed matrix.
    pub outputs: usize,
    /// Places of the matrix that one row of activations is multiplied with at a time, as far apart as there are groups
    /// for: a processor fetches ahead of each reader on its own, and one reader alone gets little more than half of what
    /// the memory gives.
    pub readers: usize,
    /// [`EIGHTS`].
    pub eights: usize,
}

// From here on nothing panics, because a panic has a text, and a module that works in another's memory has no place for
// one: parts that are not there are empty. `check` has seen to it that all are there.

/// Row `index` of rows that are `len` long.
#[inline(always)]
fn row<T>(rows: &[T], index: usize, len: usize) -> &[T] {
    rows.get(index * len..).and_then(|rows| rows.get(..len)).unwrap_or_default()
}

/// Reads a word of each line of the cache that the blocks take, from the `first` of `of` parts on, `count` of them. Spread
/// over the arithmetic on the blocks before, this brings them from the memory meanwhile.
#[inline(always)]
fn touch<W>(blocks: &[W], first: usize, count: usize, of: usize) {
    const LINE: usize = 64;
    let words = size_of_val(blocks) / LINE;
    for line in words * first / of..words * (first + count) / of {
        // SAFETY: `line` is below the whole lines there are, and any four bytes of a block of weights are a number.
        unsafe { blocks.as_ptr().byte_add(line * LINE).cast::<u32>().read_volatile() };
    }
}

impl Shape {
    /// Prepared rows of activations times the transposed matrix, into `out`.
    pub fn multiply<K: Kernel>(&self, weights: &[K::PackedBlock], x: &[ActivationBlock], out: &mut [f32]) {
        // Several rows are bound by arithmetic: tiles are as large as the registers allow.
        match (x.len() == self.blocks, self.readers, K::ROWS_PER_TILE) {
            (true, 2, _) => self.rows::<K, 2, 1>(weights, x, out),
            (true, 8, _) => self.rows::<K, 8, 1>(weights, x, out),
            (true, ..) => self.rows::<K, 4, 1>(weights, x, out),
            (false, _, 2) => self.rows::<K, 4, 2>(weights, x, out),
            (false, ..) => self.rows::<K, 2, 3>(weights, x, out),
        }
    }

    /// All groups, `G` at a time; and one at a time those that are left.
    fn rows<K: Kernel, const G: usize, const N: usize>(
        &self,
        weights: &[K::PackedBlock],
        x: &[ActivationBlock],
        out: &mut [f32],
    ) {
        let groups = weights.len().checked_div(self.blocks).unwrap_or_default();
        let apart = groups / G;
        for first in 0..apart {
            let groups = core::array::from_fn(|reader| first + reader * apart);
            self.tiles::<K, G, N>(weights, groups, x, out);
        }
        for group in apart * G..groups {
            self.tiles::<K, 1, N>(weights, [group], x, out);
        }
    }

    /// All rows of activations, `N` at a time, and then those that are left.
    #[inline(always)]
    fn tiles<K: Kernel, const G: usize, const N: usize>(
        &self,
        weights: &[K::PackedBlock],
        groups: [usize; G],
        x: &[ActivationBlock],
        out: &mut [f32],
    ) {
        let next = groups.map(|group| row(weights, group + 1, self.blocks));
        let weights = groups.map(|group| row(weights, group, self.blocks));
        let rows = x.len().checked_div(self.blocks).unwrap_or_default();
        let whole = rows / N * N;
        for first in (0..whole).step_by(N) {
            self.tile::<K, G, N>(weights, groups, x, first, out);
            // One row alone is held up by the memory as it is.
            if N > 1 {
                for next in next {
                    touch(next, first, N, whole);
                }
            }
        }
        match rows - whole {
            1 => self.tile::<K, G, 1>(weights, groups, x, whole, out),
            2 => self.tile::<K, G, 2>(weights, groups, x, whole, out),
            _ => {}
        }
    }

    /// `N` rows from `first` on.
    #[inline(always)]
    fn tile<K: Kernel, const G: usize, const N: usize>(
        &self,
        weights: [&[K::PackedBlock]; G],
        groups: [usize; G],
        x: &[ActivationBlock],
        first: usize,
        out: &mut [f32],
    ) {
        let x = core::array::from_fn::<_, N, _>(|index| row(x, first + index, self.blocks));
        let sums = K::tile(weights, x, self.eights);
        for (group, sums) in groups.into_iter().zip(sums) {
            let column = group * GROUP;
            for (index, sums) in sums.iter().enumerate() {
                let end = (first + index + 1) * self.outputs;
                let Some(out) = out.get_mut(end - self.outputs + column..end) else { continue };
                match out.first_chunk_mut() {
                    Some(out) => *out = *sums,
                    // The last group may have fewer outputs than lanes.
                    None => {
                        for (lane, sum) in sums.iter().enumerate() {
                            if let Some(out) = out.get_mut(lane) {
                                *out = *sum;
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::scalar::{Integers, Scalar};
    use super::super::{PackedBlock, Q4x4, Q8x4, READERS};
    use super::*;

    /// A block of each output's row, and its scale.
    type Row = Vec<([i8; BLOCK], f32)>;

    fn pack<W: PackedBlock>(rows: &[Row]) -> Vec<W> {
        let blocks = rows[0].len();
        let mut packed = vec![W::ZERO; rows.len().div_ceil(GROUP) * blocks];
        for (output, row) in rows.iter().enumerate() {
            for (index, (numbers, scale)) in row.iter().enumerate() {
                packed[output / GROUP * blocks + index].set(output % GROUP, numbers, *scale);
            }
        }
        packed
    }

    /// The definition, on rows that are not packed.
    fn definition(rows: &[Row], x: &[f32]) -> Vec<f32> {
        let inputs = rows[0].len() * BLOCK;
        let row = |x: &[f32], row: &Row| {
            let mut sum = 0.0f32;
            for ((numbers, scale), x) in row.iter().zip(x.as_chunks::<BLOCK>().0) {
                let (x, x_scale) = quantise(x);
                let product: i32 = numbers.iter().zip(x).map(|(a, b)| i32::from(*a) * i32::from(b)).sum();
                sum += product as f32 * (scale * x_scale);
            }
            sum
        };
        x.chunks(inputs).flat_map(|x| rows.iter().map(move |weights| row(x, weights))).collect()
    }

    /// The same bits, but that one NaN is as good as another.
    fn bits(numbers: &[f32]) -> Vec<u32> {
        numbers.iter().map(|number| if number.is_nan() { u32::MAX } else { number.to_bits() }).collect()
    }

    fn check<W: PackedBlock + Integers>(rows: &[Row], x: &[f32]) {
        let (inputs, outputs) = (rows[0].len() * BLOCK, rows.len());
        let mut quantised = vec![ActivationBlock::EMPTY; x.len() / BLOCK];
        for readers in READERS {
            let mut out = vec![7.0; x.len() / inputs * outputs];
            matmul_t::<Scalar<W>>(&pack::<W>(rows), x, inputs, &mut quantised, &mut out, outputs, readers);
            assert_eq!(bits(&out), bits(&definition(rows, x)), "{readers} readers");
        }
    }

    fn scale() -> impl Strategy<Value = f32> {
        prop_oneof![
            6 => -2.0..2.0f32,
            1 => prop::sample::select(vec![0.0, -0.0, f32::from_bits(1), 6e-8, 65504.0, f32::INFINITY, f32::NAN]),
        ]
    }

    fn number() -> impl Strategy<Value = i8> {
        prop_oneof![4 => any::<i8>(), 1 => prop::sample::select(&[-128, -127, 0, 127])]
    }

    /// A matrix of any shape, and activations of any sort.
    fn case() -> impl Strategy<Value = (Vec<Row>, Vec<f32>)> {
        let activation = prop_oneof![
            20 => -4.0..4.0f32,
            1 => prop::sample::select(vec![0.0, f32::from_bits(3), 1e30, f32::INFINITY, f32::NAN]),
        ];
        (1..5usize, 1..80usize, 1..10usize).prop_flat_map(move |(blocks, outputs, n)| {
            let block = (prop::array::uniform32(number()), scale());
            (
                prop::collection::vec(prop::collection::vec(block, blocks), outputs),
                prop::collection::vec(activation.clone(), n * blocks * BLOCK),
            )
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_is_its_definition_to_the_bit((rows, x) in case()) {
            check::<Q8x4>(&rows, &x);
            let nibbles = |row: Row| row.into_iter().map(|(numbers, scale)| (numbers.map(|n| n >> 4), scale)).collect();
            check::<Q4x4>(&rows.into_iter().map(nibbles).collect::<Vec<_>>(), &x);
        }
    }
}
