//! Cancel and abandon: how soon a run ends that nobody wants any more, and what that saves.

use serde::Serialize;

use super::bench::Bench;
use super::spec::{ExperimentSpec, SEED, TALE, n, prompt};
use super::stats::{Spread, median};
use crate::error::Result;
use crate::generate::{CancelToken, Generation, Progress};
use crate::model::LanguageModel;
use crate::options::{OptionRange, OptionSpec};
use crate::sampler::UniformRng;
use crate::settings::Settings;
use crate::text::Tokenizer;

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "cancel",
    question: "What does cancelling save?",
    options: &[
        prompt(TALE),
        n("64", 1024),
        OptionSpec {
            name: "runs",
            range: OptionRange::Integer { min: 1, max: 200 },
            default: "20",
            help: "How many runs to cancel, each at a random moment.",
        },
        OptionSpec {
            name: "abandoned",
            range: OptionRange::Number { min: 0.0, max: Some(1.0), open: false },
            default: "0.2",
            help: "Share of readers who leave before the end.",
        },
        SEED,
    ],
};

/// Readers whose leaving is played through, without running the model.
const READERS: usize = 1000;

/// Tokens of the suffix that is asked for without its prefix, and of what follows it.
const SUFFIX: usize = 4;
const FOLLOWING: usize = 8;

/// One run that was cancelled.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct CancelRow {
    /// The run, from 0.
    pub run: u32,
    /// Tokens it was asked for.
    pub asked_steps: u32,
    /// Milliseconds after its start at which it was cancelled.
    pub cancelled_at_ms: f64,
    /// Steps that were complete at that moment.
    pub steps_before: u32,
    /// Steps it had done when it ended.
    pub done_steps: u32,
    /// Milliseconds from the cancel to the end.
    pub latency_ms: f64,
    /// Milliseconds of the step that was running.
    pub step_ms: f64,
}

/// What the rows say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct CancelSummary {
    /// Milliseconds from a cancel to the end.
    pub latency: Spread,
    /// Milliseconds of a step: the median of a whole run.
    pub step_ms: f64,
    /// The most steps that a run did after it was cancelled.
    pub most_steps_after: u32,
    /// Readers, of whom some leave at a random step.
    pub readers: u32,
    /// Readers who left.
    pub abandoned: u32,
    /// Positions processed for all readers if a run ends when its reader leaves.
    pub positions_with_cancel: u32,
    /// The same if every run goes on to its end.
    pub positions_without_cancel: u32,
    /// The share of the work that cancelling saves.
    pub saved_share: f64,
    /// A time limit shorter than a step, in milliseconds.
    pub timeout_ms: f64,
    /// Tokens that it let through.
    pub timeout_tokens: u32,
    /// How much later than the limit the run ended.
    pub overshoot_ms: f64,
    /// Some tokens from the middle of a text.
    pub suffix: String,
    /// What follows them after the whole text before.
    pub with_prefix: String,
    /// What follows them if they are all there is.
    pub without_prefix: String,
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(CancelRow)) -> Result<CancelSummary> {
    let (n, runs) = (bench.options.count("n"), bench.options.count("runs"));
    let prompt = bench.options.text("prompt").to_owned();
    let ids = bench.encode(&prompt, n.max(SUFFIX + FOLLOWING))?;
    let mut random = UniformRng::new(bench.options.number("seed") as u64);
    bench.desk.expect(runs + 1);
    bench.warm_up(&ids).await?;
    bench.desk.probe();
    let whole = bench.produce(&ids, n).await?;
    let step_ms = median(&whole.step_ms[1.min(n - 1)..]);
    bench.desk.advance(1);

    let mut rows = Vec::new();
    for run in 0..runs {
        let at_ms = random.next_f64() * whole.ms();
        let row = cancelled(bench, &prompt, run, n, at_ms).await?;
        bench.desk.probe();
        post(row.clone());
        bench.desk.advance(1);
        rows.push(row);
    }
    let timeout_ms = (step_ms / 2.0).max(0.01);
    let (timeout_tokens, ended_ms) = timed_out(bench, &prompt, n, timeout_ms).await?;
    let readers = leave(ids.len(), n, bench.options.number("abandoned"), &mut random);

    let text = bench.produce(&ids, SUFFIX + FOLLOWING).await?.ids;
    let (suffix, following) = text.split_at(SUFFIX);
    let alone = bench.produce(suffix, FOLLOWING).await?.ids;
    let decode = |ids: &[u32]| bench.tokenizer.decode(ids);
    Ok(CancelSummary {
        latency: Spread::of(&rows.iter().map(|row| row.latency_ms).collect::<Vec<_>>()),
        step_ms,
        most_steps_after: rows.iter().map(|row| row.done_steps - row.steps_before).max().unwrap_or_default(),
        readers: READERS as u32,
        abandoned: readers.abandoned as u32,
        positions_with_cancel: readers.with_cancel as u32,
        positions_without_cancel: readers.without_cancel as u32,
        saved_share: 1.0 - readers.with_cancel as f64 / readers.without_cancel as f64,
        timeout_ms,
        timeout_tokens,
        overshoot_ms: ended_ms - timeout_ms,
        suffix: decode(suffix),
        with_prefix: decode(following),
        without_prefix: decode(&alone),
    })
}

/// A run that is cancelled at a moment, perhaps in the middle of a step. It hears of it after that step, as a worker does,
/// which reads its messages between steps.
async fn cancelled(bench: &mut Bench<'_>, prompt: &str, run: usize, n: usize, at_ms: f64) -> Result<CancelRow> {
    let Bench { model, tokenizer, desk, .. } = bench;
    let (cancel, clock) = (CancelToken::default(), || desk.now());
    let mut generation = generation(*model, tokenizer, prompt, n, None, &clock, cancel.clone())?;
    let began = desk.now();
    let (mut row, mut before) = (None, 0.0);
    let mut steps = 0;
    while let Some(progress) = generation.advance()? {
        let now = desk.now() - began;
        match progress {
            Progress::End { .. } => break,
            Progress::Prefill { .. } => {}
            Progress::Step(_) => steps += 1,
        }
        if now >= at_ms && row.is_none() {
            cancel.cancel();
            let steps_before = steps - u32::from(matches!(progress, Progress::Step(_)));
            row = Some((steps_before, now - before));
        }
        before = now;
        desk.turn().await?;
    }
    let ended = desk.now() - began;
    let (steps_before, step_ms) = row.unwrap_or((steps, 0.0));
    Ok(CancelRow {
        run: run as u32,
        asked_steps: n as u32,
        cancelled_at_ms: at_ms,
        steps_before,
        done_steps: steps,
        latency_ms: (ended - at_ms).max(0.0),
        step_ms,
    })
}

/// A run with a time limit: how many tokens came, and when it ended.
async fn timed_out(bench: &mut Bench<'_>, prompt: &str, n: usize, timeout_ms: f64) -> Result<(u32, f64)> {
    let Bench { model, tokenizer, desk, .. } = bench;
    let clock = || desk.now();
    let began = desk.now();
    let mut generation = generation(*model, tokenizer, prompt, n, Some(timeout_ms), &clock, CancelToken::default())?;
    let mut tokens = 0;
    while let Some(progress) = generation.advance()? {
        tokens += u32::from(matches!(progress, Progress::Step(_)));
    }
    Ok((tokens, desk.now() - began))
}

fn generation<'a>(
    model: &'a mut dyn LanguageModel,
    tokenizer: &'a Tokenizer,
    prompt: &str,
    n: usize,
    timeout_ms: Option<f64>,
    clock: &'a dyn Fn() -> f64,
    cancel: CancelToken,
) -> Result<Generation<'a, dyn LanguageModel + 'a>> {
    let settings =
        Settings { max_tokens: n as u32, temperature: 0.0, top_logprobs: 0, timeout_ms, ..Settings::default() };
    Generation::new(model, tokenizer, prompt, settings, clock, cancel)
}

/// Readers who leave.
#[derive(Debug, PartialEq)]
struct Readers {
    abandoned: usize,
    /// Positions processed.
    with_cancel: usize,
    without_cancel: usize,
}

/// Plays through some readers of runs of `n` tokens after `prompt` positions; a `share` of them leaves, each after a random
/// number of tokens.
fn leave(prompt: usize, n: usize, share: f64, random: &mut UniformRng) -> Readers {
    let whole = prompt + n - 1;
    let mut readers = Readers { abandoned: 0, with_cancel: 0, without_cancel: READERS * whole };
    for _ in 0..READERS {
        let leaves = random.next_f64() < share;
        // The step that runs when the reader leaves is still done.
        let seen = 1 + (random.next_f64() * n as f64) as usize;
        readers.abandoned += usize::from(leaves);
        readers.with_cancel += if leaves { (prompt + seen - 1).min(whole) } else { whole };
    }
    readers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaving_saves_half_of_the_output_on_average() {
        let mut random = UniformRng::new(3);
        let readers = leave(10, 101, 1.0, &mut random);
        assert_eq!((readers.abandoned, readers.without_cancel), (READERS, READERS * 110));
        // Each leaves after 1 to 101 tokens: 60 positions on average, with a standard error of 0.9.
        assert!((readers.with_cancel as f64 / READERS as f64 - 60.0).abs() < 4.0, "{readers:?}");
        assert_eq!(leave(10, 101, 0.0, &mut random).with_cancel, READERS * 110);
    }
}
