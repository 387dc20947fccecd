//! Check against produce: tokens that are known are checked in one pass.

use serde::Serialize;

use super::bench::Bench;
use super::distribution::{self, Piece};
use super::naive::by_step;
use super::spec::{ExperimentSpec, TALE, n, prompt, repeats};
use super::stats::Spread;
use crate::error::Result;

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "check",
    question: "Why is checking cheaper than producing?",
    options: &[prompt(TALE), n("64", 1024), repeats("5")],
};

/// Two logits that are closer than this are nearly equal: rounding decides which is greater.
const NEAR_TIE: f64 = 0.05;

/// The first `tokens` of the output, produced and checked.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct CheckRow {
    /// Tokens produced, and checked.
    pub tokens: u32,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// At how many positions the check would have chosen the same token.
    pub agree: u32,
    /// Milliseconds to produce them with the cache, the prompt included: the median.
    pub produce_ms: f64,
    /// Milliseconds to produce them with the whole prefix run again for each.
    pub naive_ms: f64,
    /// Milliseconds to check them, the prompt included: the median.
    pub check_ms: f64,
    /// `produce_ms / check_ms`.
    pub ratio: f64,
    /// `naive_ms / check_ms`.
    pub naive_ratio: f64,
    /// Passes that the check took: 1, or more where one would take long.
    pub passes: u32,
    /// The range of `produce_ms`.
    pub produce_spread: Spread,
    /// The range of `check_ms`.
    pub check_spread: Spread,
    /// Where the check would have chosen another token.
    pub disagreements: Vec<Disagreement>,
}

/// A position at which the check would have chosen another token.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Disagreement {
    /// The output token, from 0.
    pub step: u32,
    /// What was produced.
    pub produced: Piece,
    /// Its logit in the check.
    pub produced_logit: f64,
    /// What the check would have chosen.
    pub checked: Piece,
    /// Its logit in the check.
    pub checked_logit: f64,
    /// Whether the two logits are so close that rounding decides.
    pub near_tie: bool,
}

/// What the rows say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct CheckSummary {
    /// The output.
    pub text: String,
    /// Milliseconds of each step with the cache; the first is the prefill.
    pub produce_steps_ms: Vec<f64>,
    /// Milliseconds of each step with the whole prefix run again.
    pub naive_steps_ms: Vec<f64>,
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(CheckRow)) -> Result<CheckSummary> {
    let n = bench.options.count("n");
    let prompt = bench.encode(bench.options.text("prompt"), n)?;
    let repeats = bench.options.count("repeats");
    let mut lengths = vec![n.div_ceil(8), n.div_ceil(4), n.div_ceil(2), n];
    lengths.dedup();
    bench.desk.expect(n * repeats + n + lengths.len() * repeats);
    bench.warm_up(&prompt).await?;

    let mut runs = Vec::new();
    let mut ids = Vec::new();
    for _ in 0..repeats {
        bench.desk.probe();
        let produced = bench.produce(&prompt, n).await?;
        bench.desk.advance(n);
        ids = produced.ids;
        runs.push(produced.step_ms);
    }
    let mut naive = Vec::new();
    let mut prefix = prompt.clone();
    for &id in &ids {
        naive.push(bench.whole_pass(&prefix, runs[0][n - 1]).await?.1);
        prefix.push(id);
        bench.desk.advance(1);
    }
    let steps = by_step(&runs);
    for tokens in lengths {
        bench.desk.probe();
        let row = check(bench, &prompt, &ids[..tokens], &runs, &naive, repeats).await?;
        post(row);
    }
    Ok(CheckSummary { text: bench.tokenizer.decode(&ids), produce_steps_ms: steps, naive_steps_ms: naive })
}

async fn check(
    bench: &mut Bench<'_>,
    prompt: &[u32],
    ids: &[u32],
    runs: &[Vec<f64>],
    naive: &[f64],
    repeats: usize,
) -> Result<CheckRow> {
    let n = ids.len();
    // The logits after the last id but one choose the last, so it need not be processed.
    let given = [prompt, &ids[..n - 1]].concat();
    let first = prompt.len() - 1;
    let step_ms = runs[0].last().copied().unwrap_or_default();
    let (mut times, mut passes, mut found) = (Vec::new(), 0, Vec::new());
    for _ in 0..repeats {
        found.clear();
        let each = |place: usize, logits: &[f32]| {
            if place >= first {
                let id = ids[place - first];
                let (best, logit) = distribution::best(logits);
                if best != id {
                    found.push((place - first, best, f64::from(logit), f64::from(logits[id as usize])));
                }
            }
        };
        let (ms, took) = bench.score(&given, step_ms, each).await?;
        times.push(ms);
        passes = took;
        bench.desk.advance(1);
    }
    let disagreements = found.iter().map(|&(step, best, checked_logit, produced_logit)| Disagreement {
        step: step as u32,
        produced: bench.piece(ids[step]),
        produced_logit,
        checked: bench.piece(best),
        checked_logit,
        near_tie: checked_logit - produced_logit < NEAR_TIE,
    });
    let disagreements: Vec<_> = disagreements.collect();
    let produce_spread = Spread::of(&runs.iter().map(|steps| steps[..n].iter().sum()).collect::<Vec<f64>>());
    let (check_spread, naive_ms) = (Spread::of(&times), naive[..n].iter().sum::<f64>());
    Ok(CheckRow {
        tokens: n as u32,
        prompt_tokens: prompt.len() as u32,
        agree: (n - disagreements.len()) as u32,
        produce_ms: produce_spread.median,
        naive_ms,
        check_ms: check_spread.median,
        ratio: produce_spread.median / check_spread.median,
        naive_ratio: naive_ms / check_spread.median,
        passes,
        produce_spread,
        check_spread,
        disagreements,
    })
}
