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
pub mod blocks;
pub mod exp;
pub mod product;
#[cfg(target_feature = "simd128")]
pub mod relaxed;
pub mod rows;
pub mod scalar;
#[cfg(target_feature = "simd128")]
pub mod simd128;

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

pub use activations::Quantised;
pub use blocks::{Q4, Q8, Weights};

/// Numbers that share one scale.
pub const BLOCK: usize = 32;

/// Outputs whose weights lie side by side.
pub const GROUP: usize = 4;

/// One way to multiply blocks of weights with blocks of activations.
pub trait Kernel {
    /// The blocks of weights it takes.
    type Weights: Weights;

    /// Positions that share one reading of the weights, 3 or 4: as many as the registers hold sums for.
    const POSITIONS: usize;

    /// A block of activations as this kernel reads it.
    fn prepare(numbers: &[i8; BLOCK], scale: f32) -> Quantised;

    /// The products of `N` rows of activations with `G` groups of four outputs. Each row has as many blocks as each
    /// group.
    fn tile<const G: usize, const N: usize>(
        weights: [&[Self::Weights]; G],
        x: [&[Quantised]; N],
    ) -> [[[f32; GROUP]; N]; G];
}

/// The blocks that both sides have of each row.
#[cfg(target_feature = "simd128")]
#[inline(always)]
fn common<W, const G: usize, const N: usize>(weights: &[&[W]; G], x: &[&[Quantised]; N]) -> usize {
    let lens = weights.iter().map(|row| row.len()).chain(x.iter().map(|row| row.len()));
    lens.min().unwrap_or_default()
}

/// The block `index` of each row.
///
/// # Safety
/// All rows have more blocks than that.
#[cfg(target_feature = "simd128")]
#[inline(always)]
unsafe fn at<'a, T, const R: usize>(rows: &[&'a [T]; R], index: usize) -> [&'a T; R] {
    // SAFETY: the caller's promise.
    rows.map(|row| unsafe { row.get_unchecked(index) })
}

/// A whole matrix times rows of activations; [`product::product`] says what it takes.
pub type Product<W> = fn(&[W], &[f32], usize, &mut [Quantised], &mut [f32], usize);

/// The products of one instruction set.
#[derive(Debug, Clone, Copy)]
pub struct Products {
    /// The instruction set: `relaxed-simd`, `simd128` or `scalar`.
    pub name: &'static str,
    /// Of 8-bit weights.
    pub q8: Product<Q8>,
    /// Of 4-bit weights.
    pub q4: Product<Q4>,
}

/// The fastest products that this build has.
pub const BUILT_IN: &Products = {
    #[cfg(target_feature = "simd128")]
    {
        &Products { name: "simd128", q8: product::product::<simd128::Simd8>, q4: product::product::<simd128::Simd4> }
    }
    #[cfg(not(target_feature = "simd128"))]
    SCALAR
};

/// The reference.
pub const SCALAR: &Products = &Products {
    name: "scalar",
    q8: product::product::<scalar::Scalar<Q8>>,
    q4: product::product::<scalar::Scalar<Q4>>,
};

/// Null, or from a `&'static Products`.
static ACTIVE: AtomicPtr<Products> = AtomicPtr::new(null_mut());

/// The products that are used.
pub fn active() -> &'static Products {
    // SAFETY: all that is ever stored comes from a shared reference that lives for ever.
    unsafe { ACTIVE.load(Ordering::Acquire).as_ref() }.unwrap_or(BUILT_IN)
}

/// Uses other products from now on. They must give the same bits, or runs could not be repeated.
pub fn activate(products: &'static Products) {
    ACTIVE.store(core::ptr::from_ref(products).cast_mut(), Ordering::Release);
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

        pub fn quarter(&mut self, most: i16) -> super::rows::Quarter {
            std::array::from_fn(|_| [self.number(most), self.number(most)])
        }
    }
}
