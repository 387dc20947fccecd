//! Naive against cached: what the KV cache saves.

use serde::Serialize;

use super::bench::{Bench, Produced};
use super::distribution::{self, Piece};
use super::spec::{ExperimentSpec, TALE, prompt, repeats};
use super::stats::Spread;
use crate::error::Result;
use crate::options::{OptionRange, OptionSpec};

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "naive",
    question: "What does the cache save?",
    options: &[
        prompt(TALE),
        OptionSpec {
            name: "lengths",
            range: OptionRange::Numbers { min: 1.0, max: 1024.0, whole: true, most: 12 },
            default: "[8, 16, 32, 64, 128]",
            help: "How many tokens to generate, for each row.",
        },
        repeats("3"),
        OptionSpec {
            name: "textbook",
            range: OptionRange::Flag,
            default: "true",
            help: "Also runs the textbook model, once. It is slow.",
        },
    ],
};

/// One length, generated in each way.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct NaiveRow {
    /// Tokens generated.
    pub tokens: u32,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Positions processed where every step runs the whole prefix again: the sum of the prefixes' lengths.
    pub naive_positions: u32,
    /// Positions processed with the cache: those of the prompt, and one for each token but the last.
    pub cached_positions: u32,
    /// `naive_positions / cached_positions`.
    pub waste_factor: f64,
    /// Milliseconds without the cache: the median.
    pub naive_ms: f64,
    /// Milliseconds with the cache: the median.
    pub cached_ms: f64,
    /// `naive_ms / cached_ms`.
    pub slowdown: f64,
    /// Milliseconds of the textbook model, which has no cache; null if it did not run.
    pub textbook_ms: Option<f64>,
    /// The range of `naive_ms`.
    pub naive_spread: Spread,
    /// The range of `cached_ms`.
    pub cached_spread: Spread,
    /// Microseconds for each position processed without the cache.
    pub naive_us_per_position: f64,
    /// Microseconds for each position processed with the cache.
    pub cached_us_per_position: f64,
    /// The same of the textbook model.
    pub textbook_us_per_position: Option<f64>,
    /// Whether the loop chose the same tokens with and without the cache.
    pub equal: bool,
    /// Whether the textbook model chose them too, with its activations in f32; null if it did not run.
    pub textbook_equal: Option<bool>,
    /// Where each way first chose another token than the cached loop.
    pub differences: Vec<Difference>,
    /// Milliseconds of each step.
    pub steps: NaiveSteps,
}

/// Milliseconds of each step, medians of the repeats; the first is the prefill.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct NaiveSteps {
    /// With the cache.
    pub cached_ms: Vec<f64>,
    /// With the whole prefix run again.
    pub naive_ms: Vec<f64>,
    /// With the textbook model; empty if it did not run.
    pub textbook_ms: Vec<f64>,
}

/// Where two ways chose differently.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Difference {
    /// Which way differed: `naive` or `textbook`.
    pub way: &'static str,
    /// The step, from 0.
    pub step: u32,
    /// What the cached loop chose.
    pub cached: Piece,
    /// What the other way chose.
    pub other: Piece,
    /// How much greater its logit is there than that of the cached loop's token.
    pub logit_gap: f64,
}

/// What the rows say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct NaiveSummary {
    /// Whether every row has the same tokens with and without the cache.
    pub equal: bool,
    /// Whether the textbook model chose them in every row; null if it did not run.
    pub textbook_equal: Option<bool>,
    /// The greatest waste factor.
    pub waste_factor: f64,
    /// The greatest slowdown.
    pub slowdown: f64,
}

/// The positions that a loop without a cache processes for `n` tokens: prefixes of `prompt`, `prompt + 1`, … positions.
pub fn naive_positions(prompt: usize, n: usize) -> usize {
    n * prompt + n * (n - 1) / 2
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(NaiveRow)) -> Result<NaiveSummary> {
    let mut lengths = bench.options.counts("lengths");
    lengths.sort_unstable();
    lengths.dedup();
    let prompt = bench.encode(bench.options.text("prompt"), lengths.last().copied().unwrap_or(1))?;
    let repeats = bench.options.count("repeats");
    let textbook = bench.options.flag("textbook") && bench.model.gpt2().is_some();
    bench.desk.expect(lengths.iter().map(|n| n * (repeats + usize::from(textbook))).sum());
    bench.warm_up(&prompt).await?;

    let mut rows: Vec<NaiveRow> = Vec::new();
    for n in lengths {
        let (mut cached, mut naive, mut differences) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..repeats {
            bench.desk.probe();
            let produced = bench.produce(&prompt, n).await?;
            let (again, differs) = again(bench, &prompt, &produced).await?;
            if differences.is_empty() {
                differences.extend(differs);
            }
            cached.push(produced);
            naive.push(again);
        }
        let book = if textbook {
            let (book, differs) = by_the_book(bench, &prompt, &cached[0].ids).await?;
            differences.extend(differs);
            Some(book)
        } else {
            None
        };
        let row = row(prompt.len(), n, &cached, &naive, book, differences);
        post(row.clone());
        rows.push(row);
    }
    let greatest = |value: fn(&NaiveRow) -> f64| rows.iter().map(value).fold(0.0, f64::max);
    Ok(NaiveSummary {
        equal: rows.iter().all(|row| row.equal),
        textbook_equal: rows.iter().map(|row| row.textbook_equal).reduce(|a, b| Some(a? && b?)).flatten(),
        waste_factor: greatest(|row| row.waste_factor),
        slowdown: greatest(|row| row.slowdown),
    })
}

/// Runs the whole prefix again for each token, and takes what was produced whatever it would choose, so that prefixes stay
/// the same.
async fn again(bench: &mut Bench<'_>, prompt: &[u32], produced: &Produced) -> Result<(Vec<f64>, Option<Difference>)> {
    let (mut prefix, mut times, mut difference) = (prompt.to_vec(), Vec::new(), None);
    for (step, &id) in produced.ids.iter().enumerate() {
        let (logits, ms) = bench.whole_pass(&prefix, produced.last_ms()).await?;
        times.push(ms);
        difference = difference.or_else(|| differs(bench, "naive", step, id, &logits));
        prefix.push(id);
        bench.desk.advance(1);
    }
    Ok((times, difference))
}

/// The same with the textbook model.
async fn by_the_book(bench: &mut Bench<'_>, prompt: &[u32], ids: &[u32]) -> Result<(Vec<f64>, Option<Difference>)> {
    let (mut prefix, mut times, mut difference) = (prompt.to_vec(), Vec::new(), None);
    for (step, &id) in ids.iter().enumerate() {
        let (logits, ms) = textbook_logits(bench, &prefix).await?;
        times.push(ms);
        difference = difference.or_else(|| differs(bench, "textbook", step, id, &logits));
        prefix.push(id);
        bench.desk.advance(1);
    }
    Ok((times, difference))
}

/// The textbook model's logits after the last of `ids`, and the milliseconds that took.
async fn textbook_logits(bench: &Bench<'_>, ids: &[u32]) -> Result<(Vec<f32>, f64)> {
    let Some(model) = bench.model.gpt2() else { return Ok((Vec::new(), 0.0)) };
    let mut ms = 0.0;
    let mut before = bench.desk.now();
    let mut pass = model.reference().begin(ids)?;
    while pass.next()?.is_some() {
        ms += bench.desk.now() - before;
        bench.desk.turn().await?;
        before = bench.desk.now();
    }
    let hidden = pass.hidden()?;
    let last = &hidden[hidden.len() - model.config().n_embd..];
    let mut parts = model.reference().logits(last)?;
    let mut logits = Vec::new();
    while let Some(part) = parts.next()? {
        logits.extend(part.rows.into_iter().flatten());
        ms += bench.desk.now() - before;
        bench.desk.turn().await?;
        before = bench.desk.now();
    }
    distribution::mask(&mut logits, bench.tokenizer);
    Ok((logits, ms))
}

fn differs(bench: &Bench<'_>, way: &'static str, step: usize, id: u32, logits: &[f32]) -> Option<Difference> {
    let (other, logit) = distribution::best(logits);
    (other != id).then(|| Difference {
        way,
        step: step as u32,
        cached: bench.piece(id),
        other: bench.piece(other),
        logit_gap: f64::from(logit) - f64::from(logits[id as usize]),
    })
}

fn row(
    prompt: usize,
    n: usize,
    cached: &[Produced],
    naive: &[Vec<f64>],
    book: Option<Vec<f64>>,
    differences: Vec<Difference>,
) -> NaiveRow {
    let same = |way| differences.iter().all(|difference| difference.way != way);
    let (naive_positions, cached_positions) = (naive_positions(prompt, n), prompt + n - 1);
    let cached: Vec<_> = cached.iter().map(|produced| produced.step_ms.clone()).collect();
    let spread = |runs: &[Vec<f64>]| Spread::of(&runs.iter().map(|steps| steps.iter().sum()).collect::<Vec<f64>>());
    let (naive_spread, cached_spread) = (spread(naive), spread(&cached));
    let textbook_ms = book.as_ref().map(|steps| steps.iter().sum());
    NaiveRow {
        tokens: n as u32,
        prompt_tokens: prompt as u32,
        naive_positions: naive_positions as u32,
        cached_positions: cached_positions as u32,
        waste_factor: naive_positions as f64 / cached_positions as f64,
        naive_ms: naive_spread.median,
        cached_ms: cached_spread.median,
        slowdown: naive_spread.median / cached_spread.median,
        textbook_ms,
        naive_spread,
        cached_spread,
        naive_us_per_position: 1000.0 * naive_spread.median / naive_positions as f64,
        cached_us_per_position: 1000.0 * cached_spread.median / cached_positions as f64,
        textbook_us_per_position: textbook_ms.map(|ms| 1000.0 * ms / naive_positions as f64),
        equal: same("naive"),
        textbook_equal: book.as_ref().map(|_| same("textbook")),
        differences,
        steps: NaiveSteps {
            cached_ms: by_step(&cached),
            naive_ms: by_step(naive),
            textbook_ms: book.unwrap_or_default(),
        },
    }
}

/// The median of each step over the runs.
pub fn by_step(runs: &[Vec<f64>]) -> Vec<f64> {
    let steps = runs.first().map_or(0, Vec::len);
    (0..steps).map(|step| super::stats::median(&runs.iter().map(|run| run[step]).collect::<Vec<_>>())).collect()
}
