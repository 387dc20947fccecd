//! Tries in how many places at a time this machine reads the weights fastest: with the model's own, for a few
//! milliseconds. Results do not depend on the choice.

use super::matrix::Precision;
use super::network::{Block, TrialWorkspace};
use crate::kernels::{self, ActivationBlock, BLOCK, DEFAULT_READERS, GROUP, MatmulFn, PackedBlock, READERS};
use crate::record::ReadersTrial;

/// A trial ends before it takes longer, in milliseconds, unless the first turn of each number of readers takes longer
/// already.
const MAX_MS: f64 = 25.0;

/// Bytes of weights that one turn passes through, at least: so many that a clock which ticks ten times a millisecond
/// tells turns apart.
const TURN_BYTES: u64 = 16 << 20;

/// Models whose blocks take less are not worth it: a large cache holds them, and then all numbers are alike.
pub const MIN_BYTES: u64 = 48 << 20;

/// How much faster than the default another number must be to be chosen: less may be chance.
const MARGIN: f64 = 1.03;

/// Has the engine compile the products well while a large model is on its way: a browser begins with code made in haste,
/// by which all numbers of readers are alike, and goes on to better code for what has run a while. Takes some 5 ms.
pub fn warm_up(clock: fn() -> f64) {
    /// As many as a matrix of the smallest model has, and few outputs.
    const INPUTS: usize = 768;
    const OUTPUTS: usize = 64;
    const MS: f64 = 2.5;
    let products = kernels::selected();
    multiply_for(MS, products.q8, (OUTPUTS, INPUTS), clock);
    multiply_for(MS, products.q4, (OUTPUTS, INPUTS), clock);
}

/// Multiplies by one row with each number of readers in turn, until `ms` milliseconds are over.
fn multiply_for<W: PackedBlock>(ms: f64, product: MatmulFn<W>, (outputs, inputs): (usize, usize), clock: fn() -> f64) {
    /// Bounds it where the clock stands still.
    const MOST: usize = 10_000;
    let weights = vec![W::ZERO; outputs / GROUP * (inputs / BLOCK)];
    let (x, mut out) = (vec![1.0; inputs], vec![0.0; outputs]);
    let mut quantised = vec![ActivationBlock::EMPTY; inputs / BLOCK];
    let began = clock();
    for readers in READERS.into_iter().cycle().take(MOST) {
        product(&weights, &x, inputs, &mut quantised, &mut out, outputs, readers);
        if clock() - began > ms {
            break;
        }
    }
}

/// Passes through `blocks`, each number of readers in turn with the next of them, and tells how fast each read. Nothing
/// where that says nothing: for few weights, for those in f32, or by a coarse clock.
pub fn run(blocks: &[Block], clock: fn() -> f64) -> Vec<ReadersTrial> {
    let block_bytes = blocks.first().map_or(0, Block::bytes);
    let held = block_bytes * blocks.len() as u64;
    let f32 = blocks.iter().any(|block| block.precision() == Precision::F32);
    if f32 || held < MIN_BYTES { Vec::new() } else { turns(blocks, block_bytes, clock) }
}

fn turns(blocks: &[Block], block_bytes: u64, clock: fn() -> f64) -> Vec<ReadersTrial> {
    let before = kernels::readers();
    let (mut room, mut next) = (TrialWorkspace::default(), blocks.iter().cycle());
    let blocks_a_turn = TURN_BYTES.div_ceil(block_bytes.max(1)) as usize;
    let began = clock();
    let mut last = began;
    let mut times: [Vec<f64>; READERS.len()] = Default::default();
    loop {
        let round = last;
        for (readers, times) in READERS.into_iter().zip(&mut times) {
            kernels::set_readers(readers);
            for block in next.by_ref().take(blocks_a_turn) {
                block.multiply_once(&mut room);
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
    // Some browsers tell whole milliseconds, as long as a turn.
    if times.iter().flatten().all(|ms| (ms - ms.round()).abs() < 1e-6) {
        return Vec::new();
    }
    let bytes = (block_bytes * blocks_a_turn as u64) as f64;
    let speed = |times: Vec<f64>| bytes / fastest_half(times) / 1e6;
    READERS.into_iter().zip(times).map(|(readers, times)| ReadersTrial { readers, gb_s: speed(times) }).collect()
}

/// The mean of the faster half: whatever disturbs a turn makes it slower.
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

    /// Tells a tenth of a millisecond more whenever it is asked.
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
        // 16 MiB in a tenth of a millisecond, or more if other tests asked meanwhile.
        assert!(tried.iter().all(|of| of.gb_s > 0.0 && of.gb_s < 168.0), "{tried:?}");
        assert_eq!(kernels::readers(), before);

        // A clock that ticks once a millisecond, or never, says nothing. Not a test of its own: the number of readers is
        // one for all threads.
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
