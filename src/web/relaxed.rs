//! The products that need relaxed SIMD, from the module that this one carries (`relaxed/`): instantiated in this module's
//! memory, where the engine accepts it, and called through this module's table of functions.

use std::hint::black_box;
use std::sync::OnceLock;

use js_sys::{Function, Object, Reflect, WebAssembly};
use wasm_bindgen::prelude::*;

use crate::kernels::product::{check, prepare};
use crate::kernels::{self, BLOCK, BUILT_IN, GROUP, Product, Products, Q4, Q8, Quantised, Weights, relaxed};

/// The module, compiled before this one.
const MODULE: &[u8] = include_bytes!(env!("GPT2_WEB_RELAXED"));

/// A function of the other module: slices as pointers and lengths.
type Multiply<W> = unsafe extern "C" fn(*const W, usize, *const Quantised, usize, usize, *mut f32, usize, usize);

/// The other module's functions, once it is there.
static MULTIPLY: OnceLock<(Multiply<Q8>, Multiply<Q4>)> = OnceLock::new();

/// Holds the place in the table of functions that [`Multiply`] for 8-bit weights will have: the table cannot grow.
unsafe extern "C" fn place8(
    _: *const Q8,
    _: usize,
    _: *const Quantised,
    _: usize,
    _: usize,
    _: *mut f32,
    _: usize,
    _: usize,
) {
    unreachable!("8-bit weights before the module was there");
}

/// The same for 4-bit weights. Not one function for both: the linker would make one place of two with the same code.
unsafe extern "C" fn place4(
    _: *const Q4,
    _: usize,
    _: *const Quantised,
    _: usize,
    _: usize,
    _: *mut f32,
    _: usize,
    _: usize,
) {
    unreachable!("4-bit weights before the module was there");
}

static RELAXED: Products = Products { name: "relaxed-simd", q8: product8, q4: product4 };

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
    // A function pointer is a place in the table. Which function is there the compiler must not take for known.
    let places = black_box((place8 as Multiply<Q8>, place4 as Multiply<Q4>));
    for (place, name) in [(places.0 as usize, "multiply8"), (places.1 as usize, "multiply4")] {
        table.set(place as u32, &Reflect::get(&exports, &name.into())?.dyn_into::<Function>()?)?;
    }
    MULTIPLY.get_or_init(|| places);
    if !(agree(RELAXED.q8, BUILT_IN.q8) && agree(RELAXED.q4, BUILT_IN.q4)) {
        return Err(JsValue::from_str(
            "the relaxed SIMD of this browser gives other sums than its SIMD; it is not used",
        ));
    }
    kernels::activate(&RELAXED);
    Ok(true)
}

fn product8(weights: &[Q8], x: &[f32], inputs: usize, quantised: &mut [Quantised], out: &mut [f32], outputs: usize) {
    check(weights, x, inputs, quantised, out, outputs);
    prepare(relaxed::prepare8, x, quantised);
    multiply(MULTIPLY.get().map(|of| of.0), weights, quantised, inputs, out, outputs);
}

fn product4(weights: &[Q4], x: &[f32], inputs: usize, quantised: &mut [Quantised], out: &mut [f32], outputs: usize) {
    check(weights, x, inputs, quantised, out, outputs);
    prepare(relaxed::prepare4, x, quantised);
    multiply(MULTIPLY.get().map(|of| of.1), weights, quantised, inputs, out, outputs);
}

fn multiply<W>(
    multiply: Option<Multiply<W>>,
    weights: &[W],
    x: &[Quantised],
    inputs: usize,
    out: &mut [f32],
    outputs: usize,
) {
    let multiply = multiply.expect("activated before it was installed");
    let blocks = inputs / BLOCK;
    // SAFETY: pointers and lengths of slices, of which `out` is borrowed exclusively.
    unsafe {
        multiply(weights.as_ptr(), weights.len(), x.as_ptr(), x.len(), blocks, out.as_mut_ptr(), out.len(), outputs);
    }
}

/// Whether two products give the same bits for the greatest and smallest numbers and some between, for one row of
/// activations and for several.
fn agree<W: Weights>(a: Product<W>, b: Product<W>) -> bool {
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
    [1, 6].into_iter().all(|rows| {
        let x: Vec<f32> = (0..rows * INPUTS).map(|index| ((index * 37) % 255) as f32 - 127.0).collect();
        let mut quantised = vec![Quantised::EMPTY; x.len() / BLOCK];
        let mut run = |product: Product<W>| {
            let mut out = vec![0.0; rows * OUTPUTS];
            product(&weights, &x, INPUTS, &mut quantised, &mut out, OUTPUTS);
            out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        run(a) == run(b)
    })
}
