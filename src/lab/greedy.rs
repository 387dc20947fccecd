//! Greedy against sampling: repetition, variety and probability of texts.

use std::collections::HashSet;

use serde::Serialize;

use super::bench::Bench;
use super::choosing::Choosing;
use super::spec::{ExperimentSpec, SEED, TALE, n, prompt};
use super::stats::mean;
use crate::error::Result;
use crate::options::{OptionRange, OptionSpec};

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "greedy",
    question: "Why does greedy text repeat?",
    options: &[
        prompt(TALE),
        n("160", 1024),
        OptionSpec {
            name: "temperatures",
            range: OptionRange::Numbers { min: 0.01, max: 100.0, whole: false, most: 6 },
            default: "[0.5, 0.8, 1, 1.3]",
            help: "Temperatures to sample at.",
        },
        OptionSpec {
            name: "seeds",
            range: OptionRange::Integer { min: 1, max: 32 },
            default: "3",
            help: "Texts for each temperature.",
        },
        SEED,
        OptionSpec {
            name: "ngram",
            range: OptionRange::Integer { min: 1, max: 16 },
            default: "4",
            help: "Tokens that must be the same to count as repeated.",
        },
    ],
};

/// One text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct GreedyRow {
    /// Its temperature; 0 is greedy.
    pub temperature: f64,
    /// Its seed; null for greedy.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(type = "number | null"))]
    pub seed: Option<u64>,
    /// Its tokens.
    pub tokens: u32,
    /// The share of its n-grams that have stood there before.
    pub repeated_share: f64,
    /// Different n-grams by all n-grams.
    pub distinct_share: f64,
    /// The mean natural logarithm of its tokens' probabilities, in the model's own distribution.
    pub mean_logprob: f64,
    /// Where the text ends in a loop.
    pub repeats: Option<TextLoop>,
    /// The text.
    pub text: String,
}

/// The end of a text that says the same over and over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct TextLoop {
    /// The token at which it begins, from 0.
    pub from: u32,
    /// Tokens of one turn.
    pub period: u32,
    /// The text of one turn.
    pub text: String,
    /// The text before the loop.
    pub before: String,
}

/// What the rows say together: means for each temperature, greedy first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct GreedySummary {
    /// One entry for each temperature.
    pub by_temperature: Vec<Repetition>,
}

/// The means of one temperature.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Repetition {
    /// The temperature.
    pub temperature: f64,
    /// Texts.
    pub texts: u32,
    /// As in a row.
    pub repeated_share: f64,
    /// As in a row.
    pub mean_logprob: f64,
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(GreedyRow)) -> Result<GreedySummary> {
    let [n, seeds, ngram] = ["n", "seeds", "ngram"].map(|name| bench.options.count(name));
    let temperatures = bench.options.numbers("temperatures");
    let first = bench.options.number("seed") as u64;
    let prompt = bench.encode(bench.options.text("prompt"), n)?;
    bench.desk.expect(1 + temperatures.len() * seeds);
    let sampled = temperatures.iter().flat_map(|&at| (0..seeds as u64).map(move |seed| (at, Some(first + seed))));
    let texts: Vec<_> = std::iter::once((0.0, None)).chain(sampled).collect();

    let (logits, _) = bench.prefill(&prompt).await?;
    let mut rows = Vec::new();
    for (temperature, seed) in texts {
        let choosing = Choosing { n, temperature, seed: seed.unwrap_or_default(), stop: Vec::new() };
        let chosen = bench.choose(prompt.len(), &logits, &choosing).await?;
        let (repeated_share, distinct_share) = repetition(&chosen.ids, ngram);
        let decode = |ids: &[u32]| bench.tokenizer.decode(ids);
        let repeats = find_loop(&chosen.ids).map(|(from, period)| TextLoop {
            from: from as u32,
            period: period as u32,
            text: decode(&chosen.ids[from..from + period]),
            before: decode(&chosen.ids[..from]),
        });
        let row = GreedyRow {
            temperature,
            seed,
            tokens: chosen.ids.len() as u32,
            repeated_share,
            distinct_share,
            mean_logprob: chosen.mean_logprob,
            repeats,
            text: chosen.text,
        };
        post(row.clone());
        bench.desk.advance(1);
        rows.push(row);
    }
    let by_temperature = rows.chunk_by(|a, b| a.temperature == b.temperature).map(|rows| Repetition {
        temperature: rows[0].temperature,
        texts: rows.len() as u32,
        repeated_share: mean(rows.iter().map(|row| row.repeated_share)),
        mean_logprob: mean(rows.iter().map(|row| row.mean_logprob)),
    });
    Ok(GreedySummary { by_temperature: by_temperature.collect() })
}

/// The share of n-grams that have stood in the text before, and different ones by all.
fn repetition(ids: &[u32], ngram: usize) -> (f64, f64) {
    let count = (ids.len() + 1).saturating_sub(ngram);
    if count == 0 {
        return (0.0, 1.0);
    }
    let different = ids.windows(ngram).collect::<HashSet<_>>().len();
    ((count - different) as f64 / count as f64, different as f64 / count as f64)
}

/// Where the text ends in a loop of at least three turns, and a turn's length: the shortest turn that takes up most of the
/// end.
fn find_loop(ids: &[u32]) -> Option<(usize, usize)> {
    (1..=ids.len() / 3).find_map(|period| {
        let same = (period..ids.len()).rev().take_while(|&place| ids[place] == ids[place - period]).count();
        (same >= 2 * period && same + period >= 8).then(|| (ids.len() - same - period, period))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetition_is_counted_by_hand() {
        // ab bc ca ab bc: five pairs, three of them different.
        assert_eq!(repetition(&[1, 2, 3, 1, 2, 3], 2), (0.4, 0.6));
        assert_eq!(repetition(&[1, 2, 3], 2), (0.0, 1.0));
        assert_eq!(repetition(&[1, 2], 3), (0.0, 1.0));
    }

    #[test]
    fn a_loop_is_at_least_three_turns_at_the_end() {
        assert_eq!(find_loop(&[9, 8, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1]), Some((2, 3)));
        assert_eq!(find_loop(&[9, 7, 7, 7, 7, 7, 7, 7, 7]), Some((1, 1)));
        assert_eq!(find_loop(&[1, 2, 3, 1, 2, 3, 4, 5, 6, 7]), None);
        assert_eq!(find_loop(&[7, 7, 7]), None, "too short to say");
    }
}
