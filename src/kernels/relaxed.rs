//! The kernels for engines with relaxed SIMD: one instruction multiplies sixteen pairs of 8-bit numbers and adds adjacent
//! products. Not every engine with SIMD supports it, so these kernels are compiled into a separate module (`relaxed/`);
//! the functions that prepare activations only need SIMD.
//!
//! The result of such an instruction depends on the processor if its second operand is outside 0..=127 or if the sum of
//! two products overflows 16 bits. [`Dot`] lists the variants and [`Dot::of`] detects them. [`Pairs8`], [`Pairs4`] and
//! [`Fours4`] avoid the differences. [`Unsigned8`] and [`Signed8`] rely on one variant each and need half as many
//! instructions.

use core::arch::wasm32::{
    i8x16_abs, i8x16_shr, i8x16_shuffle, i8x16_splat, i16x8_add, i16x8_splat, i32x4_add, i32x4_dot_i16x8,
    i32x4_shuffle, u16x8_shr, v128, v128_and, v128_load, v128_xor,
};
use core::marker::PhantomData;

use super::lanes::{Lanes, splats};
use super::packed::{OFFSET, SIGN};
use super::simd128::{bytes, halves, sum};
use super::{ActivationBlock, BLOCK, Q4x4, Q8x4};

/// How an engine multiplies and adds four adjacent numbers; the specification of relaxed SIMD allows each of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dot {
    /// The second operand is unsigned, and the sum of four products is exact: `vpdpbusd` on x86 processors with VNNI.
    Unsigned,
    /// Both operands are signed, and the sum is exact: `sdot` on ARM, `vpdpbssd` on recent x86 processors.
    Signed,
    /// Pairs of products are added in 16 bits first, then the pairs: all others.
    Pairs,
}

impl Dot {
    /// Lanes of the first and second operand for which the variants differ.
    pub const PROBE: (i8, u8) = (-128, 255);

    /// The variant that gives this sum of four products of [`PROBE`](Self::PROBE).
    pub fn of(sum: i32) -> Self {
        const FOUR: i32 = 4 * Dot::PROBE.0 as i32;
        const UNSIGNED: i32 = FOUR * Dot::PROBE.1 as i32;
        const SIGNED: i32 = FOUR * Dot::PROBE.1 as i8 as i32;
        match sum {
            UNSIGNED => Self::Unsigned,
            SIGNED => Self::Signed,
            _ => Self::Pairs,
        }
    }
}

/// The relaxed instructions: those of the engine, or a test's emulation.
pub trait Instructions {
    /// The products of 16 pairs, adjacent ones added in 16 bits: `i16x8.relaxed_dot_i8x16_i7x16_s`.
    fn pairs(a: v128, b: v128) -> v128;

    /// The products of 16 pairs, four adjacent ones added to each of `sums`: `i32x4.relaxed_dot_i8x16_i7x16_add_s`.
    fn fours(a: v128, b: v128, sums: v128) -> v128;
}

/// 8-bit weights. The sign of an activation is moved to the weight by inverting the bits of the weight, which turns `w`
/// into `-w - 1`. The initial sum of a block corrects the 1: it is the sum of the absolute values of negative activations.
/// Two products fit into 16 bits: 2 * 128 * 127 < 2^15.
///
/// Adjacent sums are added by multiplying by 1 explicitly: on these engines the instruction for four products does the
/// same, but rebuilds the constant each time.
pub struct Pairs8<I>(PhantomData<I>);

/// Lays out activations for [`Pairs8`]: the inversion mask of four weights, four absolute activations, and so on.
#[inline(always)]
pub fn prepare_pairs8(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock {
    let numbers = halves(numbers);
    let (signs, sizes) = (numbers.map(|numbers| i8x16_shr(numbers, 7)), numbers.map(|numbers| i8x16_abs(numbers)));
    let negative = [v128_and(signs[0], sizes[0]), v128_and(signs[1], sizes[1])];
    let quads = |half: usize| {
        // The same inversion restores the sign bit of the stored weights.
        let (inverted, sizes) = (v128_xor(signs[half], i8x16_splat(SIGN as i8)), sizes[half]);
        [i32x4_shuffle::<0, 4, 1, 5>(inverted, sizes), i32x4_shuffle::<2, 6, 3, 7>(inverted, sizes)]
    };
    let ([a, b], [c, d]) = (quads(0), quads(1));
    ActivationBlock { bytes: bytes([a, b, c, d]), start: sum(negative), scale }
}

impl<I: Instructions> Lanes for Pairs8<I> {
    type PackedBlock = Q8x4;
    type Sum = v128;

    const ROWS_PER_TILE: usize = 2;
    const WEIGHT_BYTES: usize = 32;
    const X_BYTES: usize = 16;

    #[inline(always)]
    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock {
        prepare_pairs8(numbers, scale)
    }

    #[inline(always)]
    fn start(start: v128) -> v128 {
        start
    }

    #[inline(always)]
    unsafe fn add<const G: usize, const N: usize>(
        sums: &mut [[v128; N]; G],
        weights: [*const u8; G],
        x: [*const u8; N],
    ) {
        let ones = i16x8_splat(1);
        for quad in 0..2 {
            // SAFETY: eight of the sixteen bytes are read.
            let (inverted, sizes) = unsafe { (splats(x, 8 * quad), splats(x, 8 * quad + 4)) };
            for (weights, sums) in weights.into_iter().zip(&mut *sums) {
                // SAFETY: a vector is sixteen of the 32 bytes.
                let weights = unsafe { v128_load(weights.add(16 * quad).cast()) };
                for (row, sum) in sums.iter_mut().enumerate() {
                    let pairs = I::pairs(v128_xor(weights, inverted[row]), sizes[row]);
                    *sum = i32x4_add(*sum, i32x4_dot_i16x8(pairs, ones));
                }
            }
        }
    }

    #[inline(always)]
    fn products(sum: v128) -> v128 {
        sum
    }
}

/// 8-bit weights on engines with [`Dot::Unsigned`]. Weights are used as stored, with an offset of 128; the initial sum
/// subtracts what the offset adds.
pub struct Unsigned8<I>(PhantomData<I>);

/// Lays out activations for [`Unsigned8`]: the numbers unchanged.
#[inline(always)]
pub fn prepare_unsigned8(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock {
    let [a, b] = halves(numbers);
    ActivationBlock { bytes: bytes([a, b, a, b]), start: -i32::from(SIGN) * sum([a, b]), scale }
}

impl<I: Instructions> Lanes for Unsigned8<I> {
    type PackedBlock = Q8x4;
    type Sum = v128;

    const ROWS_PER_TILE: usize = 2;
    const WEIGHT_BYTES: usize = 32;
    const X_BYTES: usize = 8;

    #[inline(always)]
    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock {
        prepare_unsigned8(numbers, scale)
    }

    #[inline(always)]
    fn start(start: v128) -> v128 {
        start
    }

    #[inline(always)]
    unsafe fn add<const G: usize, const N: usize>(
        sums: &mut [[v128; N]; G],
        weights: [*const u8; G],
        x: [*const u8; N],
    ) {
        // SAFETY: guaranteed by the caller.
        unsafe { add_fours(sums, weights, x, |weights, x, sum| I::fours(x, weights, sum)) }
    }

    #[inline(always)]
    fn products(sum: v128) -> v128 {
        sum
    }
}

/// 8-bit weights on engines with [`Dot::Signed`].
pub struct Signed8<I>(PhantomData<I>);

/// Lays out activations for [`Signed8`]: the numbers unchanged.
#[inline(always)]
pub fn prepare_signed8(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock {
    ActivationBlock { start: 0, ..prepare_unsigned8(numbers, scale) }
}

impl<I: Instructions> Lanes for Signed8<I> {
    type PackedBlock = Q8x4;
    type Sum = v128;

    const ROWS_PER_TILE: usize = 2;
    const WEIGHT_BYTES: usize = 32;
    const X_BYTES: usize = 8;

    #[inline(always)]
    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock {
        prepare_signed8(numbers, scale)
    }

    #[inline(always)]
    fn start(start: v128) -> v128 {
        start
    }

    #[inline(always)]
    unsafe fn add<const G: usize, const N: usize>(
        sums: &mut [[v128; N]; G],
        weights: [*const u8; G],
        x: [*const u8; N],
    ) {
        let sign = i8x16_splat(SIGN as i8);
        // SAFETY: guaranteed by the caller.
        unsafe { add_fours(sums, weights, x, |weights, x, sum| I::fours(v128_xor(weights, sign), x, sum)) }
    }

    #[inline(always)]
    fn products(sum: v128) -> v128 {
        sum
    }
}

/// Adds the products of eight inputs. `dot` takes a vector of weights, the activations and the sum so far.
///
/// # Safety
/// 32 bytes may be read from each of `weights`, and 8 from each of `x`.
#[inline(always)]
unsafe fn add_fours<const G: usize, const N: usize>(
    sums: &mut [[v128; N]; G],
    weights: [*const u8; G],
    x: [*const u8; N],
    dot: impl Fn(v128, v128, v128) -> v128,
) {
    for quad in 0..2 {
        // SAFETY: four of the eight bytes are read.
        let x = unsafe { splats(x, 4 * quad) };
        for (weights, sums) in weights.into_iter().zip(&mut *sums) {
            // SAFETY: a vector is sixteen of the 32 bytes.
            let weights = unsafe { v128_load(weights.add(16 * quad).cast()) };
            for (sum, x) in sums.iter_mut().zip(x) {
                *sum = dot(weights, x, *sum);
            }
        }
    }
}

/// Lays out activations for 4-bit weights: of every eight inputs, first those of the lower nibbles of an output's four
/// bytes, then those of the upper nibbles.
#[inline(always)]
pub fn prepare_nibbles(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock {
    let numbers = halves(numbers);
    let [a, b] =
        numbers.map(|numbers| i8x16_shuffle::<0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15>(numbers, numbers));
    let start = -i32::from(OFFSET) * sum(numbers);
    ActivationBlock { bytes: bytes([a, b, a, b]), start, scale }
}

/// Adds the products of eight inputs. `dot` takes a vector of nibbles, the activations and the sum so far.
///
/// # Safety
/// 16 bytes may be read from each of `weights`, and 8 from each of `x`.
#[inline(always)]
unsafe fn add_nibbles<const G: usize, const N: usize>(
    sums: &mut [[v128; N]; G],
    weights: [*const u8; G],
    x: [*const u8; N],
    dot: impl Fn(v128, v128, v128) -> v128,
) {
    let low = i8x16_splat(0x0f);
    // SAFETY: eight bytes are read.
    let (lows, highs) = unsafe { (splats(x, 0), splats(x, 4)) };
    for group in 0..G {
        // SAFETY: a vector is sixteen bytes.
        let both = unsafe { v128_load(weights[group].cast()) };
        let (lower, upper) = (v128_and(both, low), v128_and(u16x8_shr(both, 4), low));
        for row in 0..N {
            sums[group][row] = dot(upper, highs[row], dot(lower, lows[row], sums[group][row]));
        }
    }
}

/// 4-bit weights, summed in 16 bits: the sums of a whole block fit, 16 * 15 * 127 < 2^15.
pub struct Pairs4<I>(PhantomData<I>);

impl<I: Instructions> Lanes for Pairs4<I> {
    type PackedBlock = Q4x4;

    /// The sum of products in 16 bits, and the initial sum.
    type Sum = (v128, v128);

    const ROWS_PER_TILE: usize = 2;
    const WEIGHT_BYTES: usize = 16;
    const X_BYTES: usize = 8;

    #[inline(always)]
    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock {
        prepare_nibbles(numbers, scale)
    }

    #[inline(always)]
    fn start(start: v128) -> (v128, v128) {
        (i16x8_splat(0), start)
    }

    #[inline(always)]
    unsafe fn add<const G: usize, const N: usize>(
        sums: &mut [[(v128, v128); N]; G],
        weights: [*const u8; G],
        x: [*const u8; N],
    ) {
        let mut pairs = sums.map(|sums| sums.map(|sum| sum.0));
        // SAFETY: guaranteed by the caller.
        unsafe { add_nibbles(&mut pairs, weights, x, |nibbles, x, sum| i16x8_add(sum, I::pairs(x, nibbles))) };
        for (sums, pairs) in sums.iter_mut().zip(pairs) {
            for (sum, pairs) in sums.iter_mut().zip(pairs) {
                sum.0 = pairs;
            }
        }
    }

    #[inline(always)]
    fn products((pairs, start): (v128, v128)) -> v128 {
        i32x4_add(start, i32x4_dot_i16x8(pairs, i16x8_splat(1)))
    }
}

/// 4-bit weights on engines that sum four products in one instruction: all except [`Dot::Pairs`].
pub struct Fours4<I>(PhantomData<I>);

impl<I: Instructions> Lanes for Fours4<I> {
    type PackedBlock = Q4x4;
    type Sum = v128;

    const ROWS_PER_TILE: usize = 2;
    const WEIGHT_BYTES: usize = 16;
    const X_BYTES: usize = 8;

    #[inline(always)]
    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock {
        prepare_nibbles(numbers, scale)
    }

    #[inline(always)]
    fn start(start: v128) -> v128 {
        start
    }

    #[inline(always)]
    unsafe fn add<const G: usize, const N: usize>(
        sums: &mut [[v128; N]; G],
        weights: [*const u8; G],
        x: [*const u8; N],
    ) {
        // SAFETY: guaranteed by the caller.
        unsafe { add_nibbles(sums, weights, x, |nibbles, x, sum| I::fours(x, nibbles, sum)) }
    }

    #[inline(always)]
    fn products(sum: v128) -> v128 {
        sum
    }
}

/// The instructions of the engine.
#[cfg(target_feature = "relaxed-simd")]
pub struct Native;

#[cfg(target_feature = "relaxed-simd")]
impl Instructions for Native {
    #[inline(always)]
    fn pairs(a: v128, b: v128) -> v128 {
        core::arch::wasm32::i16x8_relaxed_dot_i8x16_i7x16(a, b)
    }

    #[inline(always)]
    fn fours(a: v128, b: v128, sums: v128) -> v128 {
        core::arch::wasm32::i32x4_relaxed_dot_i8x16_i7x16_add(a, b, sums)
    }
}
