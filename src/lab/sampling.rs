//! The sampling bench: a next-token distribution, and what each rule does to it.

use serde::Serialize;

use super::bench::Bench;
use super::distribution::{self, Piece};
use super::filters::{self, Filter};
use super::spec::{ExperimentSpec, IDS, SEED, TALE, prompt, temperature};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{OptionRange, OptionSpec};
use crate::sampler::UniformRng;
use crate::settings::{MIN_P, REPETITION_PENALTY, Settings, TOP_K, TOP_P};

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "sampling",
    question: "Where do probabilities go?",
    options: &[
        prompt(TALE),
        IDS,
        OptionSpec {
            name: "position",
            range: OptionRange::Integer { min: 0, max: 4096 },
            default: "0",
            help: "How many tokens of the text to read before the choice. 0 = all.",
        },
        OptionSpec { help: "Below 1: sharper. Above 1: flatter. 0: only the most likely token.", ..temperature("0.8") },
        TOP_K,
        TOP_P,
        MIN_P,
        REPETITION_PENALTY,
        OptionSpec {
            name: "draws",
            range: OptionRange::Integer { min: 0, max: 1_000_000 },
            default: "1000",
            help: "How often to draw a token.",
        },
        SEED,
        OptionSpec {
            name: "most",
            range: OptionRange::Integer { min: 1, max: 200 },
            default: "24",
            help: "Tokens to show.",
        },
    ],
};

/// One token.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct SamplingRow {
    /// Its rank in the model's own distribution, from 1.
    pub rank: u32,
    /// The token.
    #[serde(flatten)]
    pub piece: Piece,
    /// Its logit.
    pub logit: f64,
    /// Its probability in the model's own distribution.
    pub probability: f64,
    /// The same after penalty and temperature.
    pub tempered_probability: f64,
    /// The same after all filters; 0 if one removed it.
    pub filtered_probability: f64,
    /// The filter that removed it; null if it is kept.
    pub removed_by: Option<Filter>,
    /// Whether the penalty changed its logit.
    pub penalised: bool,
    /// How often it was drawn.
    pub drawn: u32,
}

/// What a filter removed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Removed {
    /// The filter.
    pub filter: Filter,
    /// How many tokens.
    pub tokens: u32,
    /// Their probability before it.
    pub mass: f64,
}

/// What the rows say together, and what they leave out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct SamplingSummary {
    /// The tokens of the whole text.
    pub text: Vec<Piece>,
    /// How many of them come before the choice.
    pub position: u32,
    /// Entropy of the model's own distribution, in bits.
    pub entropy_bits: f64,
    /// Entropy of the distribution that is drawn from, in bits.
    pub filtered_entropy_bits: f64,
    /// Tokens that can be drawn.
    pub kept: u32,
    /// Tokens of the vocabulary.
    pub vocabulary: u32,
    /// What each filter removed, in their order.
    pub removed: Vec<Removed>,
    /// The model's own probability of all tokens that are not in the rows.
    pub rest_probability: f64,
    /// The same after all filters.
    pub rest_filtered_probability: f64,
    /// How often one of them was drawn.
    pub rest_drawn: u32,
    /// Whether the logits were those of the time before, so that the model did not run.
    pub reused: bool,
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(SamplingRow)) -> Result<SamplingSummary> {
    let mut prefix = bench.prompt(1)?;
    let text = prefix.iter().map(|&id| bench.piece(id)).collect();
    let position = bench.options.count("position");
    if position > prefix.len() {
        let sentence = format!("`position` must be at most {}, the number of tokens; got {position}", prefix.len());
        return Err(Error::new(ErrorKind::InvalidOption, sentence));
    }
    if position > 0 {
        prefix.truncate(position);
    }
    let (logits, reused) = logits(bench, &prefix).await?;
    let options = &bench.options;
    let settings = Settings {
        temperature: options.number("temperature"),
        top_k: options.number("top_k") as u32,
        top_p: options.number("top_p"),
        min_p: options.number("min_p"),
        repetition_penalty: options.number("repetition_penalty"),
        ..Settings::default()
    };
    let filtered = filters::apply(&settings, &prefix, &logits);
    let own = distribution::softmax(&logits, 1.0);
    let draws = options.count("draws");
    bench.desk.expect(draws);
    let mut random = UniformRng::new(options.number("seed") as u64);
    let mut drawn = vec![0u32; logits.len()];
    let sums = sums(&filtered.kept);
    for draw in 0..draws {
        let u = random.next_f64();
        let id = sums.partition_point(|&(_, sum)| sum <= u).min(sums.len() - 1);
        drawn[sums[id].0 as usize] += 1;
        if draw % 1000 == 999 {
            bench.desk.advance(1000);
            bench.desk.turn().await?;
        }
    }

    let shown = distribution::top(&logits, options.count("most"));
    for (rank, &id) in (1..).zip(&shown) {
        let at = id as usize;
        post(SamplingRow {
            rank,
            piece: bench.piece(id),
            logit: logits[at].into(),
            probability: own[at],
            tempered_probability: filtered.tempered[at],
            filtered_probability: filtered.kept[at],
            removed_by: filtered.removed_by[at],
            penalised: filtered.penalised[at] != logits[at],
            drawn: drawn[at],
        });
    }
    let rest = |all: &[f64]| (1.0 - shown.iter().map(|&id| all[id as usize]).sum::<f64>()).max(0.0);
    Ok(SamplingSummary {
        text,
        position: prefix.len() as u32,
        entropy_bits: distribution::entropy_bits(own.iter().copied()),
        filtered_entropy_bits: distribution::entropy_bits(filtered.kept.iter().copied()),
        kept: filtered.kept.iter().filter(|&&probability| probability > 0.0).count() as u32,
        vocabulary: logits.len() as u32,
        removed: filtered.removed.iter().map(|&(filter, tokens, mass)| Removed { filter, tokens, mass }).collect(),
        rest_probability: rest(&own),
        rest_filtered_probability: rest(&filtered.kept),
        rest_drawn: draws as u32 - shown.iter().map(|&id| drawn[id as usize]).sum::<u32>(),
        reused,
    })
}

/// The logits after `prefix`, and whether they were still there.
async fn logits(bench: &mut Bench<'_>, prefix: &[u32]) -> Result<(Vec<f32>, bool)> {
    if let Some((_, logits)) = bench.memory.borrow().logits.as_ref().filter(|(ids, _)| ids == prefix) {
        return Ok((logits.clone(), true));
    }
    let (logits, _) = bench.prefill(prefix).await?;
    bench.memory.borrow_mut().logits = Some((prefix.to_vec(), logits.clone()));
    Ok((logits, false))
}

/// The tokens that can be drawn, in the order of their ids, with the sum of the probabilities up to each.
fn sums(probabilities: &[f64]) -> Vec<(u32, f64)> {
    let mut sum = 0.0;
    let possible = (0..).zip(probabilities).filter(|&(_, &probability)| probability > 0.0);
    possible
        .map(|(id, probability)| {
            sum += probability;
            (id, sum)
        })
        .collect()
}
