//! Trace: the decoder by hand, one row a step.

use serde::Serialize;

use super::bench::Bench;
use super::distribution::{self, Chance, Piece};
use super::spec::{ExperimentSpec, IDS, TALE, n, prompt};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{OptionRange, OptionSpec};

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "trace",
    question: "One token at a time",
    options: &[
        prompt(TALE),
        IDS,
        OptionSpec { help: "Steps.", ..n("8", 256) },
        OptionSpec {
            name: "choices",
            range: OptionRange::Numbers { min: 0.0, max: u32::MAX as f64, whole: true, most: 256 },
            default: "[]",
            help: "Token ids to choose in the first steps, instead of the most likely.",
        },
        OptionSpec {
            name: "candidates",
            range: OptionRange::Integer { min: 1, max: 50 },
            default: "8",
            help: "Most likely tokens to show at each step.",
        },
    ],
};

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct TraceRow {
    /// The step, from 0.
    pub step: u32,
    /// The text that the model has read.
    pub prefix: String,
    /// Its tokens.
    pub prefix_tokens: u32,
    /// Positions that this step processed: the whole prompt, and then one each.
    pub positions: u32,
    /// The most likely next tokens, best first.
    pub candidates: Vec<Chance>,
    /// The token that was chosen.
    pub chosen: Piece,
    /// Its probability.
    pub probability: f64,
    /// How many tokens are more likely, plus 1.
    pub rank: u32,
    /// Whether it was given, and not the most likely.
    pub given: bool,
}

/// What the rows say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct TraceSummary {
    /// The prompt's tokens.
    pub prompt: Vec<Piece>,
    /// What was chosen.
    pub text: String,
    /// The probability of the whole continuation: the product of the steps'.
    pub probability: f64,
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(TraceRow)) -> Result<TraceSummary> {
    let [n, most] = ["n", "candidates"].map(|name| bench.options.count(name));
    let choices: Vec<u32> = bench.options.counts("choices").into_iter().map(|id| id as u32).collect();
    let prompt = bench.prompt(n)?;
    let known = bench.model.vocab_size().min(bench.tokenizer.len());
    if let Some(id) = choices.iter().find(|&&id| id as usize >= known) {
        let sentence = format!("`choices` must be ids below {known}; got {id}");
        return Err(Error::new(ErrorKind::InvalidOption, sentence));
    }
    bench.desk.expect(n);
    let (mut logits, _) = bench.prefill(&prompt).await?;
    let (mut prefix, mut probability, mut positions) = (prompt.clone(), 1.0, prompt.len());
    for step in 0..n {
        let best = distribution::best(&logits).0;
        let id = choices.get(step).copied().unwrap_or(best);
        let chance = |id| distribution::logprob(&logits, id).exp();
        let candidates = distribution::top(&logits, most);
        let row = TraceRow {
            step: step as u32,
            prefix: bench.tokenizer.decode(&prefix),
            prefix_tokens: prefix.len() as u32,
            positions: positions as u32,
            candidates: candidates
                .iter()
                .map(|&id| Chance { piece: bench.piece(id), probability: chance(id) })
                .collect(),
            chosen: bench.piece(id),
            probability: chance(id),
            rank: distribution::rank(&logits, id),
            given: id != best,
        };
        probability *= row.probability;
        prefix.push(id);
        post(row);
        bench.desk.advance(1);
        if step + 1 < n {
            logits = bench.step(id).await?.0;
            positions = 1;
        }
    }
    Ok(TraceSummary {
        prompt: prompt.iter().map(|&id| bench.piece(id)).collect(),
        text: bench.tokenizer.decode(&prefix[prompt.len()..]),
        probability,
    })
}
