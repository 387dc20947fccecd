//! The products that need relaxed SIMD, from the module that this one carries (`relaxed/`): instantiated in this module's
//! memory, where the engine accepts it, and called through this module's table of functions.

use std::hint::black_box;
use std::sync::OnceLock;

use js_sys::{Function, Object, Reflect, WebAssembly};
use wasm_bindgen::prelude::*;

use crate::kernels::matmul::{Shape, check, prepare};
use crate::kernels::relaxed::{Dot, prepare_nibbles, prepare_pairs8, prepare_signed8, prepare_unsigned8};
use crate::kernels::{
    self, ActivationBlock, BLOCK, BUILT_IN, EIGHTS, GROUP, KernelSet, MatmulFn, PackedBlock, Q4x4, Q8x4, READERS,
};

/// The module, compiled before this one.
const MODULE: &[u8] = include_bytes!(env!("GPT2_WEB_RELAXED"));

/// A function of the other module: slices as pointers and lengths, and the shape.
type Multiply<W> = unsafe extern "C" fn(*const W, usize, *const ActivationBlock, usize, *mut f32, usize, *const Shape);

/// How a kernel of the other module wants its activations.
type Prepare = fn(&[i8; BLOCK], f32) -> ActivationBlock;

/// The other module's functions for this engine, once it is there.
static MULTIPLY: OnceLock<(Multiply<Q8x4>, Prepare, Multiply<Q4x4>)> = OnceLock::new();

/// Holds the place in the table of functions that [`Multiply`] for 8-bit weights will have: the table cannot grow.
unsafe extern "C" fn place8(
    _: *const Q8x4,
    _: usize,
    _: *const ActivationBlock,
    _: usize,
    _: *mut f32,
    _: usize,
    _: *const Shape,
) {
    unreachable!("8-bit weights before the module was there");
}

/// The same for 4-bit weights. Not one function for both: the linker would make one place of two with the same code.
unsafe extern "C" fn place4(
    _: *const Q4x4,
    _: usize,
    _: *const ActivationBlock,
    _: usize,
    _: *mut f32,
    _: usize,
    _: *const Shape,
) {
    unreachable!("4-bit weights before the module was there");
}

static RELAXED: KernelSet = KernelSet { name: "relaxed-simd", q8: product8, q4: product4 };

/// Uses the relaxed products if the engine has relaxed SIMD and they give the bits of the others, and says whether.
///
/// # Errors
/// What the engine says if it accepts the module and cannot run it, or if its products are wrong.
pub fn install() -> Result<bool, JsValue> {
    let module = js_sys::Uint8Array::from(MODULE);
    if !WebAssembly::validate(&module)? {
        return Ok(false);
    }
    let imports = Object::new();
    let env = Object::new();
    Reflect::set(&env, &"memory".into(), &wasm_bindgen::memory())?;
    Reflect::set(&imports, &"env".into(), &env)?;
    let exports = WebAssembly::Instance::new(&WebAssembly::Module::new(&module)?, &imports)?.exports();
    let table: WebAssembly::Table = wasm_bindgen::function_table().dyn_into()?;
    let export = |name: &str| Reflect::get(&exports, &name.into())?.dyn_into::<Function>();
    let sum = export("probe")?.call0(&JsValue::UNDEFINED)?.as_f64().unwrap_or_default();
    let (name8, prepare8, name4): (_, Prepare, _) = match Dot::of(sum as i32) {
        Dot::Unsigned => ("unsigned8", prepare_unsigned8, "fours4"),
        Dot::Signed => ("signed8", prepare_signed8, "fours4"),
        Dot::Pairs => ("pairs8", prepare_pairs8, "pairs4"),
    };
    // A function pointer is a place in the table. Which function is there the compiler must not take for known.
    let places = black_box((place8 as Multiply<Q8x4>, place4 as Multiply<Q4x4>));
    for (place, name) in [(places.0 as usize, name8), (places.1 as usize, name4)] {
        table.set(place as u32, &export(name)?)?;
    }
    MULTIPLY.get_or_init(|| (places.0, prepare8, places.1));
    if !(agree(RELAXED.q8, BUILT_IN.q8) && agree(RELAXED.q4, BUILT_IN.q4)) {
        return Err(JsValue::from_str(
            "the relaxed SIMD of this browser gives other sums than its SIMD; it is not used",
        ));
    }
    kernels::select(&RELAXED);
    Ok(true)
}

fn product8(
    weights: &[Q8x4],
    x: &[f32],
    inputs: usize,
    quantised: &mut [ActivationBlock],
    out: &mut [f32],
    outputs: usize,
    readers: usize,
) {
    let (multiply, kernel, _) = functions();
    check(weights, x, inputs, quantised, out, outputs);
    prepare(kernel, x, quantised);
    call(multiply, weights, quantised, inputs, out, outputs, readers);
}

fn product4(
    weights: &[Q4x4],
    x: &[f32],
    inputs: usize,
    quantised: &mut [ActivationBlock],
    out: &mut [f32],
    outputs: usize,
    readers: usize,
) {
    let (_, _, multiply) = functions();
    check(weights, x, inputs, quantised, out, outputs);
    prepare(prepare_nibbles, x, quantised);
    call(multiply, weights, quantised, inputs, out, outputs, readers);
}

fn functions() -> (Multiply<Q8x4>, Prepare, Multiply<Q4x4>) {
    *MULTIPLY.get().expect("activated before it was installed")
}

fn call<W>(
    multiply: Multiply<W>,
    weights: &[W],
    x: &[ActivationBlock],
    inputs: usize,
    out: &mut [f32],
    outputs: usize,
    readers: usize,
) {
    let shape = Shape { blocks: inputs / BLOCK, outputs, readers, eights: EIGHTS };
    // SAFETY: pointers and lengths of slices, of which `out` is borrowed exclusively.
    unsafe { multiply(weights.as_ptr(), weights.len(), x.as_ptr(), x.len(), out.as_mut_ptr(), out.len(), &shape) }
}

/// Whether two products give the same bits for the greatest and smallest numbers and some between, for one row of
/// activations, for any number of readers, and for several.
fn agree<W: PackedBlock>(a: MatmulFn<W>, b: MatmulFn<W>) -> bool {
    const INPUTS: usize = 2 * BLOCK;
    const OUTPUTS: usize = 37;
    let mut weights = vec![W::ZERO; OUTPUTS.div_ceil(GROUP) * INPUTS / BLOCK];
    for (index, block) in weights.iter_mut().enumerate() {
        for output in 0..GROUP {
            block.set(
                output,
                &std::array::from_fn(|input| W::NUMBERS[(index + output * input) % W::NUMBERS.len()]),
                0.5,
            );
        }
    }
    READERS.map(|readers| (1, readers)).into_iter().chain([(7, READERS[0])]).all(|(rows, readers)| {
        let x: Vec<f32> = (0..rows * INPUTS).map(|index| ((index * 37) % 255) as f32 - 127.0).collect();
        let mut quantised = vec![ActivationBlock::EMPTY; x.len() / BLOCK];
        let mut run = |product: MatmulFn<W>| {
            let mut out = vec![0.0; rows * OUTPUTS];
            product(&weights, &x, INPUTS, &mut quantised, &mut out, OUTPUTS, readers);
            out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        run(a) == run(b)
    })
}
