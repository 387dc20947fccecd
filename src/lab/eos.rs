//! EOS watch: how likely the end of the text is at each step.

use serde::Serialize;

use super::bench::Bench;
use super::distribution;
use super::spec::{ExperimentSpec, SEED, n, temperature, texts};
use crate::error::{Error, ErrorKind, Result};
use crate::record::StopReason;
use crate::sampler::UniformRng;

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "eos",
    question: "Does the model want to stop?",
    options: &[
        texts(
            "prompts",
            r#"["Once upon a time there was a king who", "The fox said to the crow:", "There was once a poor miller", "and they lived happily together until the end of their days.", "So the wicked witch was burned to ashes. THE END.", "User: Who are you?\nAssistant:"]"#,
            "The texts to continue, one run each.",
        ),
        n("96", 1024),
        temperature("0"),
        SEED,
    ],
};

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct EosRow {
    /// What it continued.
    pub prompt: String,
    /// Tokens chosen.
    pub tokens: u32,
    /// `eos`, `max_tokens` or `context_full`.
    pub stop_reason: StopReason,
    /// The greatest probability that the end had.
    pub max_probability: f64,
    /// The step it had it at, from 0.
    pub max_step: u32,
    /// The best rank that the end had: 1 is the most likely token.
    pub best_rank: u32,
    /// Steps at which the end was the most likely token.
    pub steps_as_best: u32,
    /// The probability of the end at each step.
    pub probabilities: Vec<f64>,
    /// Its rank at each step.
    pub ranks: Vec<u32>,
    /// What was written.
    pub text: String,
}

/// What the rows say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct EosSummary {
    /// Steps of all runs.
    pub steps: u32,
    /// Steps at which the end was the most likely token.
    pub steps_as_best: u32,
    /// Runs that the end stopped.
    pub ended: u32,
    /// The greatest probability of all.
    pub max_probability: f64,
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(EosRow)) -> Result<EosSummary> {
    let eos = bench.tokenizer.eos().filter(|&eos| (eos as usize) < bench.model.vocab_size()).ok_or_else(|| {
        let sentence =
            "this model's tokenizer has no end-of-text token, so there is nothing to watch; load another model";
        Error::new(ErrorKind::BadTokenizer, sentence)
    })?;
    let (prompts, n) = (bench.options.texts("prompts"), bench.options.count("n"));
    let temperature = bench.options.number("temperature");
    bench.desk.expect(prompts.len() * n);
    let mut rows = Vec::new();
    for prompt in prompts {
        let mut random = UniformRng::new(bench.options.number("seed") as u64);
        let row = watch(bench, eos, prompt, n, temperature, &mut random).await?;
        bench.desk.advance(n - row.tokens as usize);
        post(row.clone());
        rows.push(row);
    }
    Ok(EosSummary {
        steps: rows.iter().map(|row| row.tokens).sum(),
        steps_as_best: rows.iter().map(|row| row.steps_as_best).sum(),
        ended: rows.iter().filter(|row| row.stop_reason == StopReason::Eos).count() as u32,
        max_probability: rows.iter().map(|row| row.max_probability).fold(0.0, f64::max),
    })
}

async fn watch(
    bench: &mut Bench<'_>,
    eos: u32,
    prompt: String,
    n: usize,
    temperature: f64,
    random: &mut UniformRng,
) -> Result<EosRow> {
    let start = bench.encode(&prompt, 1)?;
    let (mut logits, _) = bench.prefill(&start).await?;
    let (mut ids, mut probabilities, mut ranks) = (Vec::new(), Vec::new(), Vec::new());
    let stop_reason = loop {
        // The model's own distribution, whatever is drawn from.
        probabilities.push(distribution::logprob(&logits, eos).exp());
        ranks.push(distribution::rank(&logits, eos));
        let id = distribution::draw(&distribution::softmax(&logits, temperature), random.next_f64());
        ids.push(id);
        bench.desk.advance(1);
        if bench.tokenizer.ends(id) {
            break StopReason::Eos;
        }
        if ids.len() == n {
            break StopReason::MaxTokens;
        }
        if bench.model.len() == bench.model.context_length() {
            break StopReason::ContextFull;
        }
        logits = bench.step(id).await?.0;
    };
    let (max_step, max_probability) = probabilities
        .iter()
        .copied()
        .enumerate()
        .fold((0, 0.0), |most, step| if step.1 > most.1 { step } else { most });
    let written = ids.len() - usize::from(stop_reason == StopReason::Eos);
    Ok(EosRow {
        prompt,
        tokens: ids.len() as u32,
        stop_reason,
        max_probability,
        max_step: max_step as u32,
        best_rank: ranks.iter().copied().min().unwrap_or_default(),
        steps_as_best: ranks.iter().filter(|&&rank| rank == 1).count() as u32,
        probabilities,
        ranks,
        text: bench.tokenizer.decode(&ids[..written]),
    })
}
