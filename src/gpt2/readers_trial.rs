//! Measures with which number of readers this machine reads the model's weights fastest, for a few milliseconds. The
//! results of a model do not depend on it.

use super::matrix::Precision;
use super::network::{Block, TrialBuffers};
use crate::kernels::{self, ActivationBlock, BLOCK, DEFAULT_READERS, GROUP, MatmulFn, PackedBlock, READERS};
use crate::record::ReadersTrial;

/// Time limit of a trial in milliseconds. Each number of readers is measured at least once, even if that takes longer.
const MAX_MS: f64 = 25.0;

/// Minimum number of bytes read in one turn, so that a clock with a resolution of 0.1 ms can compare turns.
const TURN_BYTES: u64 = 16 << 20;

/// Smaller models are not measured: they fit into a large cache, where the number of readers makes no difference.
pub const MIN_BYTES: u64 = 48 << 20;

/// Minimum speedup over the default for another number to be chosen, because of measurement noise.
const MARGIN: f64 = 1.03;

/// Makes the engine optimise the kernels while a large model is loading: a browser starts with baseline code, in which the
/// number of readers makes no difference, and later replaces code that runs often. Takes about 5 ms.
pub fn warm_up(clock: fn() -> f64) {
    /// The width of the smallest GPT-2, and a few outputs.
    const INPUTS: usize = 768;
    const OUTPUTS: usize = 64;
    const MS: f64 = 2.5;
    let products = kernels::selected();
    multiply_for(MS, products.q8, (OUTPUTS, INPUTS), clock);
    multiply_for(MS, products.q4, (OUTPUTS, INPUTS), clock);
}

/// Multiplies one row of activations with each number of readers in turn, for `ms` milliseconds.
fn multiply_for<W: PackedBlock>(ms: f64, product: MatmulFn<W>, (outputs, inputs): (usize, usize), clock: fn() -> f64) {
    /// Limit in case the clock does not advance.
    const MAX_PRODUCTS: usize = 10_000;
    let weights = vec![W::ZERO; outputs / GROUP * (inputs / BLOCK)];
    let (x, mut out) = (vec![1.0; inputs], vec![0.0; outputs]);
    let mut quantised = vec![ActivationBlock::EMPTY; inputs / BLOCK];
    let began = clock();
    for readers in READERS.into_iter().cycle().take(MAX_PRODUCTS) {
        product(&weights, &x, inputs, &mut quantised, &mut out, outputs, readers);
        if clock() - began > ms {
            break;
        }
    }
}

/// Measures the bandwidth of each number of readers on the weights of `blocks`. Empty for small models, for f32, or if
/// the clock is too coarse.
pub fn run(blocks: &[Block], clock: fn() -> f64) -> Vec<ReadersTrial> {
    let block_bytes = blocks.first().map_or(0, Block::bytes);
    let held = block_bytes * blocks.len() as u64;
    let f32 = blocks.iter().any(|block| block.precision() == Precision::F32);
    if f32 || held < MIN_BYTES { Vec::new() } else { turns(blocks, block_bytes, clock) }
}

fn turns(blocks: &[Block], block_bytes: u64, clock: fn() -> f64) -> Vec<ReadersTrial> {
    let before = kernels::readers();
    let (mut buffers, mut next) = (TrialBuffers::default(), blocks.iter().cycle());
    let blocks_a_turn = TURN_BYTES.div_ceil(block_bytes.max(1)) as usize;
    let began = clock();
    let mut last = began;
    let mut times: [Vec<f64>; READERS.len()] = Default::default();
    loop {
        let round = last;
        for (readers, times) in READERS.into_iter().zip(&mut times) {
            kernels::set_readers(readers);
            for block in next.by_ref().take(blocks_a_turn) {
                block.multiply_once(&mut buffers);
            }
            let now = clock();
            times.push(now - last);
            last = now;
        }
        if last - began + (last - round) > MAX_MS || last <= round {
            break;
        }
    }
    kernels::set_readers(before);
    // Some browsers have a clock with a resolution of 1 ms, which is the length of a turn.
    if times.iter().flatten().all(|ms| (ms - ms.round()).abs() < 1e-6) {
        return Vec::new();
    }
    let bytes = (block_bytes * blocks_a_turn as u64) as f64;
    let speed = |times: Vec<f64>| bytes / fastest_half(times) / 1e6;
    READERS.into_iter().zip(times).map(|(readers, times)| ReadersTrial { readers, gb_s: speed(times) }).collect()
}

/// The mean of the faster half, because a disturbance only makes a turn slower.
fn fastest_half(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.truncate(times.len().div_ceil(2));
    times.iter().sum::<f64>() / times.len() as f64
}

/// The number of readers to use after a trial.
pub fn choice(trial: &[ReadersTrial]) -> usize {
    let speed = |readers| trial.iter().find(|of| of.readers == readers).map_or(0.0, |of| of.gb_s);
    let fastest = trial.iter().max_by(|a, b| a.gb_s.total_cmp(&b.gb_s));
    match fastest {
        Some(fastest) if fastest.gb_s > MARGIN * speed(DEFAULT_READERS) => fastest.readers,
        _ => DEFAULT_READERS,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::activation::Activation;
    use super::super::matrix::Linear;
    use super::super::matrix::samples::{matrix, random};
    use super::super::norm::LayerNorm;
    use super::*;

    /// A clock that advances by 0.1 ms on each call.
    fn clock() -> f64 {
        static ASKED: AtomicU64 = AtomicU64::new(0);
        ASKED.fetch_add(1, Ordering::Relaxed) as f64 * 0.1
    }

    fn block(precision: Precision) -> Block {
        let linear = |outputs, inputs| Linear::new(matrix(&random(outputs, inputs, 1), precision), vec![0.0; outputs]);
        let norm = || LayerNorm::new(vec![1.0; 32], vec![0.0; 32], 1e-5);
        Block {
            attention_norm: norm(),
            qkv: linear(96, 32),
            attention_output: linear(32, 32),
            attention_scale: 1.0,
            mlp_norm: norm(),
            mlp_up: linear(128, 32),
            activation: Activation::NewGelu,
            mlp_down: linear(32, 128),
        }
    }

    fn trial(speeds: [f64; 3]) -> Vec<ReadersTrial> {
        READERS.into_iter().zip(speeds).map(|(readers, gb_s)| ReadersTrial { readers, gb_s }).collect()
    }

    #[test]
    fn each_number_of_readers_has_its_turns_and_the_one_in_use_stays() {
        let before = kernels::readers();
        let blocks = vec![block(Precision::Q8_0)];
        let tried = turns(&blocks, TURN_BYTES / 2, clock);
        assert_eq!(tried.iter().map(|of| of.readers).collect::<Vec<_>>(), READERS);
        // 16 MiB in 0.1 ms, or longer if other tests call the clock meanwhile.
        assert!(tried.iter().all(|of| of.gb_s > 0.0 && of.gb_s < 168.0), "{tried:?}");
        assert_eq!(kernels::readers(), before);

        // A clock that advances by 1 ms, or never, gives no result. This is in the same test because the number of readers
        // is global.
        fn coarse() -> f64 {
            static ASKED: AtomicU64 = AtomicU64::new(0);
            (ASKED.fetch_add(1, Ordering::Relaxed) / 2) as f64
        }
        assert_eq!(turns(&[block(Precision::Q8_0)], TURN_BYTES, coarse), []);
        assert_eq!(choice(&turns(&[block(Precision::Q8_0)], TURN_BYTES, || 0.0)), DEFAULT_READERS);
    }

    #[test]
    fn little_is_not_tried_nor_is_f32() {
        for precision in [Precision::F32, Precision::Q8_0, Precision::Q4_0] {
            assert_eq!(run(&[block(precision)], clock), []);
        }
        assert_eq!(run(&[], clock), []);
    }

    #[test]
    fn another_number_must_be_clearly_faster() {
        for (speeds, expected) in [
            ([10.0, 12.0, 16.0], 8),
            ([33.0, 30.0, 25.0], 2),
            ([30.5, 30.0, 30.8], DEFAULT_READERS),
            ([f64::NAN, 30.0, 20.0], DEFAULT_READERS),
            ([20.0, 30.0, 20.0], 4),
        ] {
            assert_eq!(choice(&trial(speeds)), expected, "{speeds:?}");
        }
        assert_eq!(choice(&[]), DEFAULT_READERS);
    }
}
