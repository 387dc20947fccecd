//! Products of weights in blocks of 8 or 4 bits with activations, in exact integers. Nothing here knows GPT-2.
//!
//! A row of weights is cut into blocks of 32 with one scale each, as GGUF has them, and so is a row of activations,
//! which are rounded to 8 bits on their way in. The product of two blocks is a sum of integers, exact in whatever order
//! it is taken; it is turned into a float, multiplied by both scales, and added to those of the blocks before it. So
//! every kernel gives the same bits, for one row of activations or for many: [`scalar`] is the definition, `simd128`
//! and `relaxed` are as many lanes of it as the engine has.
//!
//! `docs/performance.md` tells why the weights lie as they do.

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

/// Numbers that share one scale.
pub const BLOCK: usize = 32;

/// Outputs whose weights lie side by side.
pub const GROUP: usize = 4;

/// Times eight inputs in a block. The inner loops of the vector kernels are told it by whoever cannot be seen through by
/// the compiler: it would unroll them, then move each sum's operations together, and leave the engine with more vectors
/// at a time than there are registers.
pub const EIGHTS: usize = BLOCK / 8;

/// How many places of a matrix a row of activations may be multiplied with at a time. Whichever it is, the products are
/// the same; which is fastest depends on the machine ([`set_readers`]).
pub const READERS: [usize; 3] = [2, 4, 8];

/// The number of readers as long as nobody has tried which is the fastest: nowhere the worst, because it keeps several
/// of a memory's lines on their way and fits the registers.
pub const DEFAULT_READERS: usize = 4;

/// One way to multiply blocks of weights with blocks of activations.
pub trait Kernel {
    /// The blocks of weights it takes.
    type PackedBlock: PackedBlock;

    /// Positions that share one reading of the weights, 2 or 3: with 4 groups of outputs or 2 these are as many as the
    /// registers hold sums for.
    const ROWS_PER_TILE: usize;

    /// A block of activations as this kernel reads it.
    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> ActivationBlock;

    /// The products of `N` rows of activations with `G` groups of four outputs. Each row has as many blocks as each
    /// group. `eights` is [`EIGHTS`].
    fn tile<const G: usize, const N: usize>(
        weights: [&[Self::PackedBlock]; G],
        x: [&[ActivationBlock]; N],
        eights: usize,
    ) -> [[[f32; GROUP]; N]; G];
}

/// A whole matrix times rows of activations; [`matmul::matmul_t`] says what it takes.
pub type MatmulFn<W> = fn(&[W], &[f32], usize, &mut [ActivationBlock], &mut [f32], usize, usize);

/// The products of one instruction set.
#[derive(Debug, Clone, Copy)]
pub struct KernelSet {
    /// The instruction set: `relaxed-simd`, `simd128` or `scalar`.
    pub name: &'static str,
    /// Of 8-bit weights.
    pub q8: MatmulFn<Q8x4>,
    /// Of 4-bit weights.
    pub q4: MatmulFn<Q4x4>,
}

/// The fastest products that this build has.
pub const BUILT_IN: &KernelSet = {
    #[cfg(target_feature = "simd128")]
    {
        &KernelSet { name: "simd128", q8: matmul::matmul_t::<simd128::Simd8>, q4: matmul::matmul_t::<simd128::Simd4> }
    }
    #[cfg(not(target_feature = "simd128"))]
    SCALAR
};

/// The reference.
pub const SCALAR: &KernelSet = &KernelSet {
    name: "scalar",
    q8: matmul::matmul_t::<scalar::Scalar<Q8x4>>,
    q4: matmul::matmul_t::<scalar::Scalar<Q4x4>>,
};

/// Null, or from a `&'static KernelSet`.
static ACTIVE: AtomicPtr<KernelSet> = AtomicPtr::new(null_mut());

/// The products that are used.
pub fn selected() -> &'static KernelSet {
    // SAFETY: all that is ever stored comes from a shared reference that lives for ever.
    unsafe { ACTIVE.load(Ordering::Acquire).as_ref() }.unwrap_or(BUILT_IN)
}

/// Uses other products from now on. They must give the same bits, or runs could not be repeated.
pub fn select(products: &'static KernelSet) {
    ACTIVE.store(core::ptr::from_ref(products).cast_mut(), Ordering::Release);
}

static ACTIVE_READERS: AtomicUsize = AtomicUsize::new(DEFAULT_READERS);

/// The number of readers in use, one of [`READERS`].
pub fn readers() -> usize {
    ACTIVE_READERS.load(Ordering::Relaxed)
}

/// Uses another number of readers from now on, one of [`READERS`].
pub fn set_readers(readers: usize) {
    debug_assert!(READERS.contains(&readers), "{readers} readers");
    ACTIVE_READERS.store(readers, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    /// Numbers without pattern, the same for the same seed.
    pub struct Random(pub u64);

    impl Random {
        /// A number from `-most` to `most`.
        pub fn number(&mut self, most: i16) -> i16 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((self.0 >> 33) % (2 * most as u64 + 1)) as i16 - most
        }

        pub fn group(&mut self, most: i16) -> super::attention::KeyGroup {
            std::array::from_fn(|_| [self.number(most), self.number(most)])
        }
    }
}
