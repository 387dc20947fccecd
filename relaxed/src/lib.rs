//! The kernels that need relaxed SIMD, as a WebAssembly module of their own: an engine without it refuses a whole
//! module for one such instruction. It is under 40 kilobytes, which the main module carries, and works in the main
//! module's memory.
//!
//! For that it may have neither static data nor a stack, which would lie where the main module has its own: the build
//! looks whether it has data (`scripts/check-relaxed.mjs`), and gives it a stack of no size, on which code that needed
//! one would trap.

#![no_std]

#[expect(dead_code, reason = "it shares the sources of all kernels and needs one")]
#[path = "../../src/kernels/mod.rs"]
mod kernels;

use core::slice::{from_raw_parts, from_raw_parts_mut};

use kernels::product::multiply;
use kernels::relaxed::{Relaxed4, Relaxed8};
use kernels::{Kernel, Q4, Q8, Quantised};

/// [`multiply`] for 8-bit weights: each pointer with the number of its elements.
///
/// # Safety
/// The pointers and lengths are those of slices, of which `out` is exclusive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn multiply8(
    weights: *const Q8,
    weights_len: usize,
    x: *const Quantised,
    x_len: usize,
    blocks: usize,
    out: *mut f32,
    out_len: usize,
    outputs: usize,
) {
    // SAFETY: the caller's promise is that of `run`.
    unsafe { run::<Relaxed8>((weights, weights_len), (x, x_len), blocks, (out, out_len), outputs) }
}

/// [`multiply`] for 4-bit weights.
///
/// # Safety
/// As [`multiply8`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn multiply4(
    weights: *const Q4,
    weights_len: usize,
    x: *const Quantised,
    x_len: usize,
    blocks: usize,
    out: *mut f32,
    out_len: usize,
    outputs: usize,
) {
    // SAFETY: the caller's promise is that of `run`.
    unsafe { run::<Relaxed4>((weights, weights_len), (x, x_len), blocks, (out, out_len), outputs) }
}

/// # Safety
/// Each pair is the pointer and the length of a slice, of which `out` is exclusive.
unsafe fn run<K: Kernel>(
    weights: (*const K::Weights, usize),
    x: (*const Quantised, usize),
    blocks: usize,
    out: (*mut f32, usize),
    outputs: usize,
) {
    // SAFETY: the caller's promise.
    let (weights, x, out) =
        unsafe { (from_raw_parts(weights.0, weights.1), from_raw_parts(x.0, x.1), from_raw_parts_mut(out.0, out.1)) };
    multiply::<K>(weights, x, blocks, out, outputs);
}

/// Nobody here could say anything of it: the engine reports the trap.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
