//! The kernels that need relaxed SIMD, as a WebAssembly module of their own: an engine without it refuses a whole
//! module for one such instruction. It is under 80 kilobytes, which the main module carries, and works in the main
//! module's memory.
//!
//! For that it may have neither static data nor a stack, which would lie where the main module has its own: the build
//! looks whether it has data (`scripts/check-relaxed.mjs`), and gives it a stack of no size, on which code that needed
//! one would trap.

#![no_std]

#[expect(dead_code, reason = "it shares the sources of all kernels and needs one")]
#[path = "../../src/kernels/mod.rs"]
mod kernels;

use core::arch::wasm32::{i8x16_splat, i32x4_extract_lane, i32x4_splat};
use core::slice::{from_raw_parts, from_raw_parts_mut};

use kernels::matmul::Shape;
use kernels::relaxed::{Dot, Fours4, Instructions, Native, Pairs4, Pairs8, Signed8, Unsigned8};
use kernels::{Kernel, Q4x4, Q8x4, ActivationBlock};

/// The sum by which the main module tells of which kind ([`Dot`]) the instruction is.
#[unsafe(no_mangle)]
pub extern "C" fn probe() -> i32 {
    let (first, second) = Dot::PROBE;
    let sums = Native::fours(i8x16_splat(first), i8x16_splat(second as i8), i32x4_splat(0));
    i32x4_extract_lane::<0>(sums)
}

/// [`Shape::multiply`] by one kernel: each pointer to a slice with the number of its elements.
macro_rules! multiply {
    ($name:ident, $kernel:ty, $weights:ty) => {
        /// # Safety
        /// The pointers and lengths are those of slices, of which `out` is exclusive, and `shape` is one.
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
            // SAFETY: the caller's promise is that of `run`.
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
/// Each pair is the pointer and the length of a slice, of which `out` is exclusive, and `shape` is one.
unsafe fn run<K: Kernel>(
    weights: (*const K::PackedBlock, usize),
    x: (*const ActivationBlock, usize),
    out: (*mut f32, usize),
    shape: *const Shape,
) {
    // SAFETY: the caller's promise.
    let (weights, x, out, shape) = unsafe {
        (from_raw_parts(weights.0, weights.1), from_raw_parts(x.0, x.1), from_raw_parts_mut(out.0, out.1), &*shape)
    };
    shape.multiply::<K>(weights, x, out);
}

/// Nobody here could say anything of it: the engine reports the trap.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
