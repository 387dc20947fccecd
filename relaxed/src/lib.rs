//! The kernels that need relaxed SIMD, as a separate WebAssembly module: an engine without relaxed SIMD rejects a whole
//! module for one such instruction. The main module embeds it (under 80 kilobytes) and shares its memory with it.
//!
//! Therefore it must not have static data or a stack, which would overlap those of the main module. The build checks that
//! there is no data (`scripts/check-relaxed.mjs`) and sets the stack size to zero, so code that needs a stack traps.

#![no_std]

#[expect(dead_code, reason = "it shares the sources of all kernels and needs one")]
#[path = "../../src/kernels/mod.rs"]
mod kernels;

use core::arch::wasm32::{i8x16_splat, i32x4_extract_lane, i32x4_splat};
use core::slice::{from_raw_parts, from_raw_parts_mut};

use kernels::matmul::Shape;
use kernels::relaxed::{Dot, Fours4, Instructions, Native, Pairs4, Pairs8, Signed8, Unsigned8};
use kernels::{Kernel, Q4x4, Q8x4, ActivationBlock};

/// The sum from which the main module detects the variant ([`Dot`]) of the instruction.
#[unsafe(no_mangle)]
pub extern "C" fn probe() -> i32 {
    let (first, second) = Dot::PROBE;
    let sums = Native::fours(i8x16_splat(first), i8x16_splat(second as i8), i32x4_splat(0));
    i32x4_extract_lane::<0>(sums)
}

/// [`Shape::multiply`] with one kernel. Slices are passed as a pointer and a number of elements.
macro_rules! multiply {
    ($name:ident, $kernel:ty, $weights:ty) => {
        /// # Safety
        /// Each pointer and length must describe a valid slice, `out` exclusively, and `shape` must be valid.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            weights: *const $weights,
            weights_len: usize,
            x: *const ActivationBlock,
            x_len: usize,
            out: *mut f32,
            out_len: usize,
            shape: *const Shape,
        ) {
            // SAFETY: the caller guarantees what `run` requires.
            unsafe { run::<$kernel>((weights, weights_len), (x, x_len), (out, out_len), shape) }
        }
    };
}

multiply!(pairs8, Pairs8<Native>, Q8x4);
multiply!(unsigned8, Unsigned8<Native>, Q8x4);
multiply!(signed8, Signed8<Native>, Q8x4);
multiply!(pairs4, Pairs4<Native>, Q4x4);
multiply!(fours4, Fours4<Native>, Q4x4);

/// # Safety
/// Each pair must be the pointer and the length of a valid slice, `out` exclusively, and `shape` must be valid.
unsafe fn run<K: Kernel>(
    weights: (*const K::PackedBlock, usize),
    x: (*const ActivationBlock, usize),
    out: (*mut f32, usize),
    shape: *const Shape,
) {
    // SAFETY: guaranteed by the caller.
    let (weights, x, out, shape) = unsafe {
        (from_raw_parts(weights.0, weights.1), from_raw_parts(x.0, x.1), from_raw_parts_mut(out.0, out.1), &*shape)
    };
    shape.multiply::<K>(weights, x, out);
}

/// Traps; the engine reports it. There is no way to print a message from here.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
