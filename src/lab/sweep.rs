//! Two-armed sweep: what a prompt token costs, and what an output token costs.

use serde::Serialize;

use super::bench::{Bench, Produced};
use super::spec::{ExperimentSpec, prompt, repeats};
use super::stats::{Line, Spread, median};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{OptionRange, OptionSpec};

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "sweep",
    question: "What does a prompt token cost?",
    options: &[
        OptionSpec {
            help: "The prompt's tokens are taken from this text, over and over.",
            ..prompt(
                r#""Once upon a time there was a king who had a beautiful daughter, and in the wood near the castle there lived an old woman. ""#,
            )
        },
        lengths("prompt_lengths", "[8, 16, 32, 64, 128, 256]", "Lengths of the prompt, with the output fixed."),
        lengths("output_lengths", "[4, 8, 16, 32, 64, 128]", "Lengths of the output, with the prompt fixed."),
        length("fixed_prompt", "16", "Length of the prompt while the output varies."),
        length("fixed_output", "16", "Length of the output while the prompt varies."),
        repeats("3"),
    ],
};

const fn lengths(name: &'static str, default: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, range: OptionRange::Numbers { min: 1.0, max: 1024.0, whole: true, most: 12 }, default, help }
}

const fn length(name: &'static str, default: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, range: OptionRange::Integer { min: 1, max: 1024 }, default, help }
}

/// What a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The prompt's length varies.
    Prompt,
    /// The output's length varies.
    Output,
    /// A long prompt with a short output, and a short prompt with a long output, of as many tokens together.
    Contrast,
}

/// One pair of lengths.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct SweepRow {
    /// What varies.
    pub arm: Arm,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the output.
    pub output_tokens: u32,
    /// Milliseconds to the first token: the median.
    pub first_token_ms: f64,
    /// Milliseconds between two tokens: the mean of the median run.
    pub between_tokens_ms: f64,
    /// Milliseconds in all: the median.
    pub total_ms: f64,
    /// What the formula says: `first_token_ms + (output_tokens - 1) * between_tokens_ms`, with the time between tokens of
    /// the whole arm.
    pub formula_ms: f64,
    /// The share of the time that the prompt takes.
    pub prefill_share: f64,
    /// The range of `first_token_ms`.
    pub first_token_spread: Spread,
    /// The range of `total_ms`.
    pub total_spread: Spread,
}

/// What the rows say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct SweepSummary {
    /// Time to the first token by the prompt's tokens, in milliseconds; null if there is only one length.
    pub prompt_line: Option<Line>,
    /// Total time by the output's tokens, in milliseconds.
    pub output_line: Option<Line>,
    /// Prompt tokens that take as long as one output token: the ratio of the slopes.
    pub prompt_tokens_per_output_token: Option<f64>,
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(SweepRow)) -> Result<SweepSummary> {
    let [prompts, outputs] = ["prompt_lengths", "output_lengths"].map(|name| sorted(bench.options.counts(name)));
    let [fixed_prompt, fixed_output] = ["fixed_prompt", "fixed_output"].map(|name| bench.options.count(name));
    let long = prompts.last().copied().unwrap_or(fixed_prompt).max(2);
    let (some, many) = (long / 16 + 1, long - long / 16);
    let mut arms: Vec<_> = prompts.into_iter().map(|prompt| (Arm::Prompt, prompt, fixed_output)).collect();
    arms.extend(outputs.into_iter().map(|output| (Arm::Output, fixed_prompt, output)));
    arms.extend([(Arm::Contrast, many, some), (Arm::Contrast, some, many)]);

    let longest = arms.iter().map(|(_, prompt, _)| *prompt).max().unwrap_or(1);
    let text = source(bench, longest)?;
    let context = bench.model.context_length();
    if let Some((_, prompt, output)) = arms.iter().find(|(_, prompt, output)| prompt + output > context + 1) {
        let sentence = format!(
            "a prompt of {prompt} tokens and an output of {output} do not fit into the context of {context}; give smaller lengths"
        );
        return Err(Error::new(ErrorKind::InvalidOption, sentence));
    }
    let repeats = bench.options.count("repeats");
    bench.desk.expect(repeats * arms.iter().map(|(_, _, output)| output + 1).sum::<usize>());
    bench.warm_up(&text[..1]).await?;

    let mut rows = Vec::new();
    for (arm, prompt, output) in arms {
        let mut runs = Vec::new();
        for _ in 0..repeats {
            bench.desk.probe();
            runs.push(bench.produce(&text[..prompt], output).await?);
            bench.desk.advance(output + 1);
        }
        let row = row(arm, prompt, &runs);
        post(row.clone());
        rows.push(row);
    }
    Ok(summarise(&rows))
}

/// As many tokens as the longest prompt has, of the given text over and over.
fn source(bench: &Bench<'_>, longest: usize) -> Result<Vec<u32>> {
    let ids = bench.encode(bench.options.text("prompt"), 1)?;
    Ok(ids.into_iter().cycle().take(longest).collect())
}

fn sorted(mut lengths: Vec<usize>) -> Vec<usize> {
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

fn row(arm: Arm, prompt: usize, runs: &[Produced]) -> SweepRow {
    let of = |time: fn(&Produced) -> f64| runs.iter().map(time).collect::<Vec<_>>();
    let between = |run: &Produced| match run.step_ms.len() {
        1 => 0.0,
        steps => (run.ms() - run.step_ms[0]) / (steps - 1) as f64,
    };
    let first_token_spread = Spread::of(&of(|run| run.step_ms[0]));
    let total_spread = Spread::of(&of(Produced::ms));
    let output = runs[0].ids.len();
    let between_tokens_ms = median(&runs.iter().map(between).collect::<Vec<_>>());
    SweepRow {
        arm,
        prompt_tokens: prompt as u32,
        output_tokens: output as u32,
        first_token_ms: first_token_spread.median,
        between_tokens_ms,
        total_ms: total_spread.median,
        formula_ms: first_token_spread.median + (output - 1) as f64 * between_tokens_ms,
        prefill_share: first_token_spread.median / total_spread.median,
        first_token_spread,
        total_spread,
    }
}

/// The lines through the rows of each arm.
pub fn summarise(rows: &[SweepRow]) -> SweepSummary {
    let of = |arm: Arm, point: fn(&SweepRow) -> (f64, f64)| {
        Line::through(&rows.iter().filter(|row| row.arm == arm).map(point).collect::<Vec<_>>())
    };
    let prompt_line = of(Arm::Prompt, |row| (f64::from(row.prompt_tokens), row.first_token_ms));
    let output_line = of(Arm::Output, |row| (f64::from(row.output_tokens), row.total_ms));
    let ratio = match (&prompt_line, &output_line) {
        (Some(prompt), Some(output)) if prompt.slope > 0.0 => Some(output.slope / prompt.slope),
        _ => None,
    };
    SweepSummary { prompt_line, output_line, prompt_tokens_per_output_token: ratio }
}
