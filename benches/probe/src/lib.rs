//! The roofline of this machine: the memory bandwidth and the peak rate of the kernels, measured in WebAssembly on one
//! thread. A decode step reads every weight once, so the memory bandwidth limits it. The benchmark compares its results
//! with these limits.
#![cfg(target_arch = "wasm32")]

use gpt2_web::kernels::{self, ActivationBlock, BLOCK, GROUP as GROUP_OUTPUTS, MatmulFn, PackedBlock, READERS};
use gpt2_web::{Error, ErrorKind, Result};
use serde::Serialize;
use wasm_bindgen::prelude::*;

/// The results of [`measure`]. The benchmark reads the fields by these names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limits {
    /// Memory bandwidth of one thread in GB/s (10⁹ bytes): the maximum of `by_streams`.
    pub stream_gb_s: f64,
    /// The bandwidth by number of sequential streams read in turn. The processor prefetches for each stream, so one
    /// stream may not reach the full bandwidth.
    pub by_streams: Vec<(usize, f64)>,
    /// The compute-bound rates of the products.
    pub products: Vec<ProductRate>,
}

/// The rate of a product whose weights fit into the processor's cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProductRate {
    /// The precision of the weights: `q8_0` or `q4_0`.
    pub precision: &'static str,
    /// Rows of activations: 1 in decode, more in prefill.
    pub rows: usize,
    /// 10⁹ operations per second; a multiply-add counts as two.
    pub gop_s: f64,
    /// Weights read in GB/s (10⁹ bytes), if each weight is read once for all rows.
    pub gb_s: f64,
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance)]
    fn now() -> f64;
}

/// Number of trials for each limit. The maximum counts, because a disturbance only makes a trial slower.
const TRIALS: usize = 4;

/// Minimum length of a trial in milliseconds. The clock of a page may have a resolution of only 0.1 ms.
const TRIAL_MS: f64 = 20.0;

/// Words read from one stream before the next stream: two cache lines with 128-bit words. Each word has its own sum, so
/// that additions do not depend on each other.
const GROUP: usize = 8;

/// Groups of each stream that one call of [`sum`] reads. Browsers optimise a function after several calls, but not during
/// a call.
const GROUPS_A_CALL: usize = 1 << 11;

#[cfg(target_feature = "simd128")]
mod word {
    use core::arch::wasm32::{i64x2_add, i64x2_splat, v128};

    /// The operand of one load instruction.
    pub type Word = v128;

    #[inline]
    pub fn add(a: Word, b: Word) -> Word {
        i64x2_add(a, b)
    }

    #[inline]
    pub fn splat(number: i64) -> Word {
        i64x2_splat(number)
    }
}

#[cfg(not(target_feature = "simd128"))]
mod word {
    /// The operand of one load instruction.
    pub type Word = i64;

    #[inline]
    pub fn add(a: Word, b: Word) -> Word {
        a.wrapping_add(b)
    }

    #[inline]
    pub fn splat(number: i64) -> Word {
        number
    }
}

use word::Word;

/// Measures the limits of this thread, in less than a second. The bandwidth is measured by reading `megabytes` MiB
/// repeatedly, as decode steps read a model's weights. Use the size of the model, so that caches have the same effect.
///
/// # Errors
/// `InvalidRequest` if `megabytes` is 0, `OutOfMemory` if the allocation fails, `Engine` if there is no clock.
pub fn measure(megabytes: u32) -> Result<Limits> {
    if megabytes == 0 {
        return Err(Error::new(ErrorKind::InvalidRequest, "cannot measure with 0 MiB; give at least 1"));
    }
    let count = (u64::from(megabytes) << 20) / size_of::<[Word; GROUP]>() as u64;
    let mut groups = Vec::new();
    let count =
        usize::try_from(count).ok().filter(|&count| groups.try_reserve_exact(count).is_ok()).ok_or_else(|| {
            Error::new(
                ErrorKind::OutOfMemory,
                format!("cannot allocate {megabytes} MiB for the measurement; give fewer, or close other tabs"),
            )
        })?;
    // Not zeros: untouched pages may all map to one physical page, which would stay in the cache.
    groups.resize(count, [word::splat(1); GROUP]);
    let by_streams = vec![
        (1, stream_gb_s::<1>(&groups)),
        (2, stream_gb_s::<2>(&groups)),
        (4, stream_gb_s::<4>(&groups)),
        (8, stream_gb_s::<8>(&groups)),
    ];
    #[cfg(feature = "relaxed")]
    gpt2_web::web::relaxed::install().map_err(|error| Error::new(ErrorKind::Engine, format!("{error:?}")))?;
    let products = kernels::selected();
    let rates = [1, 32]
        .into_iter()
        .flat_map(|rows| [product_rate("q8_0", products.q8, rows), product_rate("q4_0", products.q4, rows)]);
    Ok(Limits {
        stream_gb_s: by_streams.iter().map(|&(_, speed)| speed).fold(0.0, f64::max),
        by_streams,
        products: rates.collect(),
    })
}

/// Measures the rate of one product.
fn product_rate<W: PackedBlock>(precision: &'static str, product: MatmulFn<W>, rows: usize) -> ProductRate {
    /// A matrix of 288 KB in 8 bits: it fits into the L2 cache, and quantising the activations has a similarly small share
    /// of the time as in a model.
    const OUTPUTS: usize = 256;
    const INPUTS: usize = 1024;
    let mut weights = vec![W::ZERO; OUTPUTS / GROUP_OUTPUTS * INPUTS / BLOCK];
    for (index, block) in weights.iter_mut().enumerate() {
        for output in 0..GROUP_OUTPUTS {
            block.set(output, &std::array::from_fn(|input| ((index + 3 * input) % 16) as i8 - 8), 0.01);
        }
    }
    let x: Vec<f32> = (0..rows * INPUTS).map(|index| (index % 17) as f32 - 8.0).collect();
    let (mut quantised, mut out) = (vec![ActivationBlock::EMPTY; x.len() / BLOCK], vec![0.0; rows * OUTPUTS]);
    let mut trial = |readers: usize| {
        let (began, mut count) = (now(), 0);
        loop {
            for _ in 0..8 {
                product(&weights, &x, INPUTS, &mut quantised, std::hint::black_box(&mut out), OUTPUTS, readers);
            }
            count += 8;
            let ms = now() - began;
            if ms >= TRIAL_MS {
                return f64::from(count) / ms;
            }
        }
    };
    // The number of readers has no effect on several rows.
    let choice = if rows == 1 { &READERS[..] } else { &READERS[..1] };
    let trials = (0..TRIALS).flat_map(|_| choice);
    let per_ms = trials.map(|&readers| trial(readers)).fold(0.0, f64::max);
    let bytes = size_of_val(weights.as_slice()) as f64;
    ProductRate {
        precision,
        rows,
        gop_s: per_ms * (2 * rows * OUTPUTS * INPUTS) as f64 / 1e6,
        gb_s: per_ms * bytes / 1e6,
    }
}

/// [`measure`] for JavaScript: an object with the fields of [`Limits`].
///
/// # Errors
/// As [`measure`].
#[wasm_bindgen]
pub fn measure_limits(megabytes: u32) -> std::result::Result<JsValue, JsError> {
    Ok(serde_wasm_bindgen::to_value(&measure(megabytes)?)?)
}

/// Memory bandwidth in GB/s with `S` streams, which split `groups` evenly.
fn stream_gb_s<const S: usize>(groups: &[[Word; GROUP]]) -> f64 {
    let length = groups.len() / S;
    let trial = || {
        let (began, mut bytes) = (now(), 0.0);
        loop {
            for from in (0..length).step_by(GROUPS_A_CALL) {
                let to = length.min(from + GROUPS_A_CALL);
                let places = std::array::from_fn::<_, S, _>(|place| &groups[place * length..][from..to]);
                std::hint::black_box(sum(places));
            }
            bytes += (length * S * size_of::<[Word; GROUP]>()) as f64;
            let ms = now() - began;
            if ms >= TRIAL_MS {
                return bytes / ms / 1e6;
            }
        }
    };
    (0..TRIALS).map(|_| trial()).fold(0.0, f64::max)
}

/// Reads one group of each stream in turn, up to the length of the first.
#[inline(never)]
fn sum<const S: usize>(places: [&[[Word; GROUP]]; S]) -> Word {
    let mut sums = [word::splat(0); GROUP];
    for index in 0..places[0].len() {
        for place in &places {
            let group = place[index];
            sums = std::array::from_fn(|turn| word::add(sums[turn], group[turn]));
        }
    }
    sums.into_iter().fold(word::splat(0), word::add)
}
