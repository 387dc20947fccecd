//! Sampled check: where the most likely token and the drawn one part, and what the acceptance rule of speculative
//! sampling makes of tokens drawn from another distribution (Leviathan et al., 2022).

use serde::Serialize;

use super::bench::Bench;
use super::distribution::{self, Chance, Piece};
use super::spec::{ExperimentSpec, SEED, TALE, n, prompt, temperature};
use super::stats::mean;
use crate::error::Result;
use crate::options::OptionSpec;
use crate::sampler::UniformRng;

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "sampled-check",
    question: "Does the check hold for sampling?",
    options: &[
        prompt(TALE),
        n("64", 1024),
        OptionSpec { help: "Of the distribution the tokens are drawn from.", ..temperature("1") },
        OptionSpec {
            name: "target_temperature",
            help: "Of the second distribution, by which drawn tokens are accepted.",
            ..temperature("0.7")
        },
        SEED,
    ],
};

/// One position.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct SampledCheckRow {
    /// The output token, from 0.
    pub step: u32,
    /// The token that was drawn.
    #[serde(flatten)]
    pub drawn: Piece,
    /// Its probability in the distribution it was drawn from.
    pub probability: f64,
    /// How many tokens are more likely, plus 1.
    pub rank: u32,
    /// The most likely token, with its probability.
    pub best: Chance,
    /// Whether the most likely token was drawn.
    pub agree: bool,
    /// The drawn token's probability in the second distribution.
    pub target_probability: f64,
    /// `min(1, target_probability / probability)`: how likely the rule accepts it.
    pub accept_probability: f64,
    /// How likely the rule accepts what is drawn here: the sum of the lesser of both probabilities over all tokens.
    pub expected_acceptance: f64,
    /// Whether a random number accepted it.
    pub accepted: bool,
}

/// What the rows say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct SampledCheckSummary {
    /// The output.
    pub text: String,
    /// Share of positions at which the most likely token was drawn.
    pub agree_share: f64,
    /// Share that the random numbers accepted.
    pub accepted_share: f64,
    /// The mean of `expected_acceptance`.
    pub expected_acceptance: f64,
    /// Tokens that are accepted in a row on average, at that rate: `a / (1 - a)`; null if all are.
    pub expected_run: Option<f64>,
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(SampledCheckRow)) -> Result<SampledCheckSummary> {
    let n = bench.options.count("n");
    let prompt = bench.encode(bench.options.text("prompt"), n)?;
    let [temperature, target] = ["temperature", "target_temperature"].map(|name| bench.options.number(name));
    let mut random = UniformRng::new(bench.options.number("seed") as u64);
    bench.desk.expect(2 * n);

    // Drawn one by one.
    let mut ids = Vec::new();
    let (mut logits, mut ms) = bench.prefill(&prompt).await?;
    loop {
        ids.push(distribution::draw(&distribution::softmax(&logits, temperature), random.next_f64()));
        bench.desk.advance(1);
        if ids.len() == n {
            break;
        }
        (logits, ms) = bench.step(ids[ids.len() - 1]).await?;
    }
    // Checked in one pass.
    let (mut rows, first) = (Vec::new(), prompt.len() - 1);
    let given = [&prompt[..], &ids[..n - 1]].concat();
    let tokenizer = bench.tokenizer;
    let piece = |id| Piece { token_id: id, text: tokenizer.decode(&[id]) };
    bench
        .score(&given, ms, |place, logits| {
            if place >= first {
                let (step, id) = (place - first, ids[place - first]);
                rows.push(judge(step, id, logits, [temperature, target], random.next_f64(), &piece));
            }
        })
        .await?;
    for row in &rows {
        post(row.clone());
        bench.desk.advance(1);
    }
    let expected = mean(rows.iter().map(|row| row.expected_acceptance));
    let share = |which: fn(&SampledCheckRow) -> bool| mean(rows.iter().map(|row| f64::from(u8::from(which(row)))));
    Ok(SampledCheckSummary {
        text: bench.tokenizer.decode(&ids),
        agree_share: share(|row| row.agree),
        accepted_share: share(|row| row.accepted),
        expected_acceptance: expected,
        expected_run: (expected < 1.0 - 1e-9).then(|| expected / (1.0 - expected)),
    })
}

fn judge(
    step: usize,
    id: u32,
    logits: &[f32],
    [temperature, target]: [f64; 2],
    u: f64,
    piece: &impl Fn(u32) -> Piece,
) -> SampledCheckRow {
    let (drawn, wanted) = (distribution::softmax(logits, temperature), distribution::softmax(logits, target));
    let (best, _) = distribution::best(logits);
    let [probability, target_probability] = [&drawn, &wanted].map(|all| all[id as usize]);
    let accept_probability = acceptance(probability, target_probability);
    SampledCheckRow {
        step: step as u32,
        drawn: piece(id),
        probability,
        rank: distribution::rank(logits, id),
        best: Chance { piece: piece(best), probability: drawn[best as usize] },
        agree: best == id,
        target_probability,
        accept_probability,
        expected_acceptance: drawn.iter().zip(&wanted).map(|(a, b)| a.min(*b)).sum(),
        accepted: u < accept_probability,
    }
}

/// How likely a token is accepted that was drawn with probability `q` where `p` is wanted.
pub fn acceptance(q: f64, p: f64) -> f64 {
    if p >= q { 1.0 } else { p / q }
}
