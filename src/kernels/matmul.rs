//! Matrix products of activations with quantised weights, tiled over outputs and rows.

use core::hint::black_box;

use super::activations::quantise;
use super::{ActivationBlock, BLOCK, EIGHTS, GROUP, Kernel};

/// Multiplies `x` (`[n, inputs]`) by the transposed matrix `weights` (`[ceil(outputs / GROUP), inputs / BLOCK]`) and
/// writes `out` (`[n, outputs]`). `quantised` is a workspace of one block for every 32 numbers of `x`. For a single row
/// of activations, the weights are read at `readers` places at a time, one of [`READERS`](super::READERS).
///
/// A row of the result depends neither on the other rows nor on the number of readers.
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

/// Checks that the lengths of the slices fit together.
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

/// Quantises `x` and lays out each block for a kernel.
#[inline(always)]
pub fn prepare(kernel: fn(&[i8; BLOCK], f32) -> ActivationBlock, x: &[f32], quantised: &mut [ActivationBlock]) {
    for (x, block) in x.as_chunks::<BLOCK>().0.iter().zip(quantised) {
        let (numbers, scale) = quantise(x);
        *block = kernel(&numbers, scale);
    }
}

/// The dimensions of a product.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Shape {
    /// Number of blocks in a row.
    pub blocks: usize,
    /// Rows of the transposed matrix.
    pub outputs: usize,
    /// Number of places at which the weights are read at a time for a single row of activations, evenly spread over the
    /// matrix. The processor prefetches for each reader; a single reader reaches little more than half of the memory
    /// bandwidth.
    pub readers: usize,
    /// [`EIGHTS`].
    pub eights: usize,
}

// The code below must not panic: a panic message is static data, and the relaxed module, which works in the memory of the
// main module, cannot have any. Slices that are out of range are empty instead; `check` has ruled that out.

/// Row `index` of a matrix with rows of `len` elements.
#[inline(always)]
fn row<T>(rows: &[T], index: usize, len: usize) -> &[T] {
    rows.get(index * len..).and_then(|rows| rows.get(..len)).unwrap_or_default()
}

/// Prefetches `count` of the `of` parts of `blocks`, beginning with part `first`, by reading a word of each cache line.
/// Interleaved with the arithmetic on the blocks before, it hides the latency of the memory.
#[inline(always)]
fn touch<W>(blocks: &[W], first: usize, count: usize, of: usize) {
    const LINE: usize = 64;
    let words = size_of_val(blocks) / LINE;
    for line in words * first / of..words * (first + count) / of {
        // SAFETY: `line` is below the number of whole lines, and any four bytes of a block of weights are a valid `u32`.
        unsafe { blocks.as_ptr().byte_add(line * LINE).cast::<u32>().read_volatile() };
    }
}

impl Shape {
    /// Multiplies prepared rows of activations by the transposed matrix and writes `out`.
    pub fn multiply<K: Kernel>(&self, weights: &[K::PackedBlock], x: &[ActivationBlock], out: &mut [f32]) {
        // A single row is memory-bound. Several rows are compute-bound, so the tiles fill the registers.
        match (x.len() == self.blocks, self.readers, K::ROWS_PER_TILE) {
            (true, 2, _) => self.rows::<K, 2, 1>(weights, x, out),
            (true, 8, _) => self.rows::<K, 8, 1>(weights, x, out),
            (true, ..) => self.rows::<K, 4, 1>(weights, x, out),
            (false, _, 2) => self.rows::<K, 4, 2>(weights, x, out),
            (false, ..) => self.rows::<K, 2, 3>(weights, x, out),
        }
    }

    /// All groups of outputs, `G` at a time, then the remaining ones one at a time.
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

    /// All rows of activations, `N` at a time, then the remaining ones.
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
            // A single row is memory-bound: prefetching would not help.
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

    /// One tile: `N` rows, beginning with row `first`.
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

    /// The blocks of one output: integers and scale.
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

    /// The definition of the product, on unpacked rows.
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

    /// The bits of the numbers, with one value for all NaNs.
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

    /// A random matrix and random activations, including special values.
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
