//! Dot products and weighted sums over cached keys and values, in exact integers.
//!
//! Keys are interleaved in groups of four positions and values in pairs, so that each sum has its own vector lane. Keys
//! are read at four places at a time, a quarter of the rows apart: a single reader reaches little more than half of the
//! memory bandwidth. Values are read in order, because only a few rows share one scale and prefetching does not pay off.

/// Two adjacent numbers of four rows: `[row][column % 2]`.
pub type KeyGroup = [[i16; 2]; 4];

/// The numbers of two rows in the same column.
pub type ValuePair = [i8; 2];

/// Number of places read at a time.
const READERS: usize = 4;

/// The dot product of each row with `x`, times the row's scale and `factor`: the `q · k` of attention.
///
/// Shapes: `rows` is `[rows / 4, x.len()]`; `scales` and `out` are `[rows / 4]` with four lanes each. The sums must fit
/// into 32 bits: the maximum of `rows` times the maximum of `x` times `2 * x.len()` is below 2^31.
pub fn qk_dot(rows: &[KeyGroup], x: &[[i16; 2]], scales: &[[f32; 4]], factor: f32, out: &mut [[f32; 4]]) {
    let (len, apart) = (x.len(), out.len() / READERS);
    let group = |index: usize| &rows[index * len..][..len];
    // Scales are applied here so that a cache miss on them overlaps with the next dot products.
    let scaled =
        |index: usize, sums: [i32; 4]| core::array::from_fn(|row| sums[row] as f32 * (scales[index][row] * factor));
    for first in 0..apart {
        let groups: [usize; READERS] = core::array::from_fn(|reader| first + reader * apart);
        for (index, sums) in groups.into_iter().zip(products(groups.map(group), x)) {
            out[index] = scaled(index, sums);
        }
    }
    for (index, out) in out.iter_mut().enumerate().skip(READERS * apart) {
        let [sums] = products([group(index)], x);
        *out = scaled(index, sums);
    }
}

/// Adds the rows of `pairs`, each times its weight, to `sums`: the `softmax · V` of attention.
///
/// `pairs` has the shape `[weights.len(), sums.len()]`, two rows in each element. The length of `sums` is a multiple of
/// 4, and `weights` is not empty. The sums must fit into 32 bits: the absolute weights add up to less than 2^31 / 128.
pub fn add_weighted_values(sums: &mut [i32], pairs: &[ValuePair], weights: &[[i16; 2]]) {
    /// Vectors of sums that stay in registers during one pass over the rows.
    const VECTORS: usize = 8;
    let width = sums.len();
    debug_assert!(width.is_multiple_of(4) && pairs.len() == width * weights.len());
    let (many, few) = sums.split_at_mut(width / (4 * VECTORS) * (4 * VECTORS));
    let many_width = many.len();
    for (index, sums) in many.as_chunks_mut::<{ 4 * VECTORS }>().0.iter_mut().enumerate() {
        let sums: &mut [[i32; 4]; VECTORS] = sums.as_chunks_mut::<4>().0.try_into().expect("of that length");
        add_columns(sums, &pairs[4 * VECTORS * index..], weights, width);
    }
    for (index, sums) in few.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        add_columns(core::array::from_mut(sums), &pairs[many_width + 4 * index..], weights, width);
    }
}

#[cfg(not(target_feature = "simd128"))]
use scalar::{add_columns, products};
#[cfg(target_feature = "simd128")]
use simd128::{add_columns, products};

#[cfg(not(target_feature = "simd128"))]
mod scalar {
    use super::{KeyGroup, ValuePair};

    /// The dot products of `x` with the four rows of each of `R` groups.
    pub fn products<const R: usize>(groups: [&[KeyGroup]; R], x: &[[i16; 2]]) -> [[i32; 4]; R] {
        groups.map(|rows| {
            let mut sums = [0; 4];
            for (rows, x) in rows.iter().zip(x) {
                for (sum, row) in sums.iter_mut().zip(rows) {
                    *sum += i32::from(row[0]) * i32::from(x[0]) + i32::from(row[1]) * i32::from(x[1]);
                }
            }
            sums
        })
    }

    /// Adds the first `4 * V` columns of the rows, which are `width` long, times their weights.
    pub fn add_columns<const V: usize>(
        sums: &mut [[i32; 4]; V],
        pairs: &[ValuePair],
        weights: &[[i16; 2]],
        width: usize,
    ) {
        for (pairs, weights) in pairs.chunks(width).zip(weights) {
            for (sum, pair) in sums.as_flattened_mut().iter_mut().zip(pairs) {
                *sum += i32::from(pair[0]) * i32::from(weights[0]) + i32::from(pair[1]) * i32::from(weights[1]);
            }
        }
    }
}

#[cfg(target_feature = "simd128")]
mod simd128 {
    use core::arch::wasm32::{
        i16x8_load_extend_i8x8, i32x4_add, i32x4_dot_i16x8, i32x4_splat, v128, v128_load, v128_load32_splat, v128_store,
    };

    use super::{KeyGroup, ValuePair};

    /// The dot products of `x` with the four rows of each of `R` groups.
    pub fn products<const R: usize>(groups: [&[KeyGroup]; R], x: &[[i16; 2]]) -> [[i32; 4]; R] {
        let groups = groups.map(|rows| &rows[..x.len()]);
        let mut sums = [i32x4_splat(0); R];
        for (index, x) in x.iter().enumerate() {
            // SAFETY: two 16-bit numbers are read.
            let x = unsafe { v128_load32_splat(x.as_ptr().cast()) };
            for (rows, sum) in groups.iter().zip(&mut sums) {
                // SAFETY: eight 16-bit numbers are a vector.
                let rows = unsafe { v128_load(rows[index].as_ptr().cast()) };
                *sum = i32x4_add(*sum, i32x4_dot_i16x8(rows, x));
            }
        }
        sums.map(|sum| {
            let mut lanes = [0; 4];
            // SAFETY: four 32-bit numbers are a vector.
            unsafe { v128_store(lanes.as_mut_ptr().cast(), sum) };
            lanes
        })
    }

    /// Adds the first `4 * V` columns of the rows, which are `width` long, times their weights.
    pub fn add_columns<const V: usize>(
        sums: &mut [[i32; 4]; V],
        pairs: &[ValuePair],
        weights: &[[i16; 2]],
        width: usize,
    ) {
        // Bounds checks: everything read below is inside these two slices.
        let Some(last) = weights.len().checked_sub(1) else { return };
        let (pairs, weights) = (&pairs[..last * width + 4 * V], &weights[..=last]);
        // SAFETY: four 32-bit numbers are a vector.
        let mut added: [v128; V] = sums.map(|lanes| unsafe { v128_load(lanes.as_ptr().cast()) });
        let mut add = |pairs: *const ValuePair, weights: *const [i16; 2]| {
            // SAFETY: two 16-bit numbers are read, and eight bytes each of the 8 V there are in a row.
            let weights = unsafe { v128_load32_splat(weights.cast()) };
            for (index, sum) in added.iter_mut().enumerate() {
                let pairs = unsafe { i16x8_load_extend_i8x8(pairs.add(4 * index).cast()) };
                *sum = i32x4_add(*sum, i32x4_dot_i16x8(pairs, weights));
            }
        };
        // Unrolled by two rows: the loop overhead is a quarter of a row's instructions.
        let (mut row, mut weight) = (pairs.as_ptr(), weights.as_ptr());
        for _ in 0..weights.len() / 2 {
            add(row, weight);
            add(row.wrapping_add(width), weight.wrapping_add(1));
            row = row.wrapping_add(2 * width);
            weight = weight.wrapping_add(2);
        }
        if !weights.len().is_multiple_of(2) {
            add(row, weight);
        }
        for (lanes, sum) in sums.iter_mut().zip(added) {
            // SAFETY: as above.
            unsafe { v128_store(lanes.as_mut_ptr().cast(), sum) };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn products_are_those_of_each_row(groups in 0..23usize, pairs in 1..20usize, seed: u64) {
            let mut random = crate::kernels::tests::Random(seed);
            let rows: Vec<KeyGroup> = (0..groups * pairs).map(|_| random.group(2047)).collect();
            let x: Vec<[i16; 2]> = (0..pairs).map(|_| [random.number(1023), random.number(1023)]).collect();
            let scales: Vec<[f32; 4]> = (0..groups).map(|_| std::array::from_fn(|_| random.number(999).into())).collect();
            let mut out = vec![[7.0; 4]; groups];
            qk_dot(&rows, &x, &scales, 0.3, &mut out);
            for (row, got) in out.as_flattened().iter().enumerate() {
                let number = |at: usize| i32::from(rows[row / 4 * pairs + at / 2][row % 4][at % 2]);
                let expected: i32 = (0..2 * pairs).map(|at| number(at) * i32::from(x[at / 2][at % 2])).sum();
                prop_assert_eq!(*got, expected as f32 * (scales[row / 4][row % 4] * 0.3));
            }
        }

        #[test]
        fn weighted_rows_add_up(rows in 1..23usize, width in 1..20usize, seed: u64) {
            let (mut random, width) = (crate::kernels::tests::Random(seed), 4 * width);
            let pairs: Vec<ValuePair> = (0..rows * width).map(|_| [random.number(127) as i8, random.number(127) as i8]).collect();
            let weights: Vec<[i16; 2]> = (0..rows).map(|_| [random.number(16383), random.number(16383)]).collect();
            let start: Vec<i32> = (0..width as i32).collect();
            let mut sums = start.clone();
            add_weighted_values(&mut sums, &pairs, &weights);
            for (column, got) in sums.into_iter().enumerate() {
                let term = |row: usize, side: usize| i32::from(pairs[row * width + column][side]) * i32::from(weights[row][side]);
                let expected: i32 = (0..rows).map(|row| term(row, 0) + term(row, 1)).sum();
                prop_assert_eq!(got, start[column] + expected);
            }
        }
    }
}
