//! Latency by position: does a longer text slow a step down?

use serde::Serialize;

use super::bench::Bench;
use super::distribution;
use super::spec::{ExperimentSpec, TALE, n, prompt};
use super::stats::{Line, median, quantile};
use crate::error::Result;

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "latency",
    question: "Does a longer text slow it down?",
    options: &[prompt(TALE), n("384", 1024)],
};

/// Steps between two probes of the machine.
const PROBED: usize = 48;

/// The halves must differ by more than this share to be called a drift.
const FLAT: f64 = 0.1;

/// One step after the first token.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct LatencyRow {
    /// The output token, from 1: the first needs no step.
    pub step: u32,
    /// The position that the step processed.
    pub position: u32,
    /// Its milliseconds.
    pub ms: f64,
}

/// What the rows say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct LatencySummary {
    /// Mean milliseconds of a step in the first half. A mean, because a clock may tick more coarsely than a step is long.
    pub first_half_ms: f64,
    /// The same of the second half.
    pub second_half_ms: f64,
    /// Median of the first half.
    pub first_half_median_ms: f64,
    /// Median of the second half.
    pub second_half_median_ms: f64,
    /// Milliseconds by position.
    pub line: Option<Line>,
    /// What a position adds to a step if only arithmetic counts: a step's time, times the products of attention that a
    /// position adds, by all products of a step at the first position. In milliseconds; null if the model does not say.
    pub arithmetic_slope_ms: Option<f64>,
    /// Whether the halves differ by more than a tenth. Then percentiles mix early and late steps.
    pub drift: bool,
    /// Percentiles of all steps: 50, 95 and 99.
    pub percentiles_ms: [f64; 3],
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(LatencyRow)) -> Result<LatencySummary> {
    let n = bench.options.count("n");
    let prompt = bench.encode(bench.options.text("prompt"), n.min(2))?;
    // What fits.
    let n = n.min(bench.model.context_length() + 1 - prompt.len());
    bench.desk.expect(n);
    bench.warm_up(&prompt).await?;
    let (mut logits, _) = bench.prefill(&prompt).await?;
    let mut rows = Vec::new();
    for step in 1..n {
        if step % PROBED == 1 {
            bench.desk.probe();
        }
        let position = bench.model.len();
        let ms;
        (logits, ms) = bench.step(distribution::best(&logits).0).await?;
        let row = LatencyRow { step: step as u32, position: position as u32, ms };
        post(row.clone());
        bench.desk.advance(1);
        rows.push(row);
    }
    let products = bench.model.gpt2().map(|model| {
        let config = model.config();
        let block = 4 * config.n_embd * config.n_embd + 2 * config.n_embd * config.n_inner;
        (config.n_layer * block + config.vocab_size * config.n_embd, 2 * config.n_layer * config.n_embd)
    });
    Ok(summarise(&rows, products))
}

/// `products`: those of a step without attention, and those that each position adds.
pub fn summarise(rows: &[LatencyRow], products: Option<(usize, usize)>) -> LatencySummary {
    let times: Vec<_> = rows.iter().map(|row| row.ms).collect();
    let (first, second) = times.split_at(times.len() / 2);
    let mean = |times: &[f64]| super::stats::mean(times.iter().copied());
    let (first_half_ms, second_half_ms) = (mean(first), mean(second));
    let line = Line::through(&rows.iter().map(|row| (f64::from(row.position), row.ms)).collect::<Vec<_>>());
    LatencySummary {
        first_half_ms,
        second_half_ms,
        first_half_median_ms: median(first),
        second_half_median_ms: median(second),
        arithmetic_slope_ms: products
            .zip(line.as_ref())
            .map(|((weights, attention), line)| line.intercept * attention as f64 / weights as f64),
        line,
        drift: (second_half_ms / first_half_ms - 1.0).abs() > FLAT,
        percentiles_ms: [0.5, 0.95, 0.99].map(|share| quantile(&times, share)),
    }
}
