//! Matrix products of activations with 8-bit or 4-bit weights, in exact integers. Nothing here is specific to GPT-2.
//!
//! A row of weights consists of GGUF blocks: 32 integers with one scale. A row of activations is quantised to 8 bits in
//! the same way. The dot product of two blocks is a sum of integers, which is exact in any order. It is converted to a
//! float, multiplied by both scales, and added to the sums of the blocks before it. Therefore every kernel gives the same
//! bits, for one row of activations or for many: [`scalar`] is the definition, and `simd128` and `relaxed` vectorise it.
//!
//! `docs/performance.md` gives the reasons for the layout of the weights.

pub mod activations;
pub mod attention;
pub mod exp;
pub mod f32_panels;
#[cfg(target_feature = "simd128")]
mod lanes;
pub mod matmul;
pub mod packed;
#[cfg(target_feature = "simd128")]
pub mod relaxed;
pub mod scalar;
#[cfg(target_feature = "simd128")]
pub mod simd128;

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

pub use activations::ActivationBlock;
pub use packed::{PackedBlock, Q4x4, Q8x4};

/// Numbers in a block: they share one scale.
pub const BLOCK: usize = 32;

/// Number of outputs whose weights are interleaved.
pub const GROUP: usize = 4;

/// Groups of eight inputs in a block. The vector kernels take it as an argument that the compiler cannot see as a
/// constant. With a constant the compiler would unroll the inner loop and reorder it, and the engine would need more
/// vectors than there are registers.
pub const EIGHTS: usize = BLOCK / 8;

/// The supported numbers of readers: places at which the weights are read at a time for a single row of activations. The
/// results are the same; the fastest number depends on the machine ([`set_readers`]).
pub const READERS: [usize; 3] = [2, 4, 8];

/// The number of readers before a trial. It is never the slowest, because it keeps several cache lines in flight and its
/// sums fit into the registers.
pub const DEFAULT_READERS: usize = 4;

/// An implementation of the product of quantised weights and activations.
pub trait Kernel {
    /// The layout of the weights.
    type PackedBlock: PackedBlock;

    /// Rows of activations in a tile, 2 or 3. Together with 4 or 2 groups of outputs, the sums fill the registers.
    const ROWS_PER_TILE: usize;

    /// Lays out a block of activations for this kernel.
    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock;

    /// The products of `N` rows of activations with `G` groups of four outputs, `[G][N][output]`. All slices have the
    /// same length. `eights` is [`EIGHTS`].
    fn tile<const G: usize, const N: usize>(
        weights: [&[Self::PackedBlock]; G],
        x: [&[ActivationBlock]; N],
        eights: usize,
    ) -> [[[f32; GROUP]; N]; G];
}

/// A product of a matrix and rows of activations; [`matmul::matmul_t`] describes the arguments.
pub type MatmulFn<W> = fn(&[W], &[f32], usize, &mut [ActivationBlock], &mut [f32], usize, usize);

/// The kernels of one instruction set.
#[derive(Debug, Clone, Copy)]
pub struct KernelSet {
    /// The instruction set: `relaxed-simd`, `simd128` or `scalar`.
    pub name: &'static str,
    /// The product with 8-bit weights.
    pub q8: MatmulFn<Q8x4>,
    /// The product with 4-bit weights.
    pub q4: MatmulFn<Q4x4>,
}

/// The fastest kernels in this module.
pub const BUILT_IN: &KernelSet = {
    #[cfg(target_feature = "simd128")]
    {
        &KernelSet { name: "simd128", q8: matmul::matmul_t::<simd128::Simd8>, q4: matmul::matmul_t::<simd128::Simd4> }
    }
    #[cfg(not(target_feature = "simd128"))]
    SCALAR
};

/// The reference kernels.
pub const SCALAR: &KernelSet = &KernelSet {
    name: "scalar",
    q8: matmul::matmul_t::<scalar::Scalar<Q8x4>>,
    q4: matmul::matmul_t::<scalar::Scalar<Q4x4>>,
};

/// Null for [`BUILT_IN`], or a `&'static KernelSet`.
static ACTIVE: AtomicPtr<KernelSet> = AtomicPtr::new(null_mut());

/// The kernels in use.
pub fn selected() -> &'static KernelSet {
    // SAFETY: every pointer stored comes from a `&'static` reference.
    unsafe { ACTIVE.load(Ordering::Acquire).as_ref() }.unwrap_or(BUILT_IN)
}

/// Selects other kernels for all products from now on. They must give the same bits, so that runs stay reproducible.
pub fn select(products: &'static KernelSet) {
    ACTIVE.store(core::ptr::from_ref(products).cast_mut(), Ordering::Release);
}

static ACTIVE_READERS: AtomicUsize = AtomicUsize::new(DEFAULT_READERS);

/// The number of readers in use, one of [`READERS`].
pub fn readers() -> usize {
    ACTIVE_READERS.load(Ordering::Relaxed)
}

/// Sets the number of readers for all products from now on, one of [`READERS`].
pub fn set_readers(readers: usize) {
    debug_assert!(READERS.contains(&readers), "{readers} readers");
    ACTIVE_READERS.store(readers, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    /// Pseudorandom numbers from a seed.
    pub struct Random(pub u64);

    impl Random {
        /// A number from `-max` to `max`.
        pub fn number(&mut self, max: i16) -> i16 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((self.0 >> 33) % (2 * max as u64 + 1)) as i16 - max
        }

        pub fn group(&mut self, max: i16) -> super::attention::KeyGroup {
            std::array::from_fn(|_| [self.number(max), self.number(max)])
        }
    }
}
