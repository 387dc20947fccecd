//! Output lengths: how long texts get, and what a cap saves.

use serde::Serialize;

use super::bench::Bench;
use super::choosing::Choosing;
use super::spec::{ExperimentSpec, SEED, n, prompt, temperature};
use super::stats::quantile;
use crate::error::Result;
use crate::options::{OptionRange, OptionSpec};
use crate::record::StopReason;

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "lengths",
    question: "How long do texts get?",
    options: &[
        prompt(r#""and they lived happily""#),
        OptionSpec {
            name: "runs",
            range: OptionRange::Integer { min: 2, max: 500 },
            default: "40",
            help: "How many texts to generate.",
        },
        OptionSpec { help: "Most tokens of a text.", ..n("192", 1024) },
        OptionSpec {
            name: "stop",
            range: OptionRange::Strings { most: 16 },
            default: r#"["\n\n"]"#,
            help: "Strings that end a text, besides the end-of-text token.",
        },
        temperature("1"),
        SEED,
    ],
};

/// One text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct LengthsRow {
    /// The text, from 0.
    pub run: u32,
    /// Its seed.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(type = "number"))]
    pub seed: u64,
    /// Its tokens, the one that ended it included.
    pub tokens: u32,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// The text.
    pub text: String,
}

/// What the rows say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct LengthsSummary {
    /// Percentiles of the lengths: 50, 95 and 99. Texts that reached the limit would have been longer.
    pub percentiles: [f64; 3],
    /// Texts that reached the limit.
    pub limited: u32,
    /// The share of all steps that the longest 1 % of the texts took, at least one text.
    pub longest_1_share: f64,
    /// The same of the longest 10 %.
    pub longest_10_share: f64,
    /// What a smaller limit would save.
    pub caps: Vec<Cap>,
    /// The chance to end at each step if it were always the same: ends by steps. The lengths then have a geometric
    /// distribution. This is its maximum likelihood estimate, for which texts that reached the limit count as not ended.
    pub hazard: f64,
    /// The median of that distribution; null if no text ended.
    pub fitted_median: Option<f64>,
}

/// A smaller limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Cap {
    /// The limit in tokens.
    pub tokens: u32,
    /// The share of texts that it cuts.
    pub cut_share: f64,
    /// The share of steps that it saves.
    pub saved_share: f64,
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(LengthsRow)) -> Result<LengthsSummary> {
    let [n, runs] = ["n", "runs"].map(|name| bench.options.count(name));
    let (temperature, stop) = (bench.options.number("temperature"), bench.options.texts("stop"));
    let first = bench.options.number("seed") as u64;
    let prompt = bench.encode(bench.options.text("prompt"), n)?;
    bench.desk.expect(runs);
    let (logits, _) = bench.prefill(&prompt).await?;
    let mut rows = Vec::new();
    for run in 0..runs {
        let seed = first + run as u64;
        let chosen =
            bench.choose(prompt.len(), &logits, &Choosing { n, temperature, seed, stop: stop.clone() }).await?;
        let row = LengthsRow {
            run: run as u32,
            seed,
            tokens: chosen.ids.len() as u32,
            stop_reason: chosen.reason,
            text: chosen.text,
        };
        post(row.clone());
        bench.desk.advance(1);
        rows.push(row);
    }
    let lengths: Vec<_> = rows.iter().map(|row| (row.tokens, row.stop_reason)).collect();
    Ok(summarise(&lengths, n as u32))
}

fn summarise(texts: &[(u32, StopReason)], n: u32) -> LengthsSummary {
    let mut lengths: Vec<f64> = texts.iter().map(|(tokens, _)| f64::from(*tokens)).collect();
    lengths.sort_by(|a, b| b.total_cmp(a));
    let steps: f64 = lengths.iter().sum();
    let longest = |share: f64| {
        let texts = ((lengths.len() as f64 * share).round() as usize).max(1);
        lengths[..texts].iter().sum::<f64>() / steps
    };
    let ended = texts.iter().filter(|(_, why)| matches!(why, StopReason::Eos | StopReason::StopString)).count();
    let caps = (1..8).map(|eighth| (n * eighth).div_ceil(8)).map(|tokens| {
        let cap = f64::from(tokens);
        Cap {
            tokens,
            cut_share: lengths.iter().filter(|&&length| length > cap).count() as f64 / lengths.len() as f64,
            saved_share: lengths.iter().map(|length| (length - cap).max(0.0)).sum::<f64>() / steps,
        }
    });
    let hazard = ended as f64 / steps;
    LengthsSummary {
        percentiles: [0.5, 0.95, 0.99].map(|share| quantile(&lengths, share)),
        limited: (texts.len() - ended) as u32,
        longest_1_share: longest(0.01),
        longest_10_share: longest(0.1),
        caps: caps.collect(),
        hazard,
        // (1 - h)^m = 1/2
        fitted_median: (hazard > 0.0 && hazard < 1.0).then(|| 0.5f64.ln() / (-hazard).ln_1p()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_summarised_by_hand() {
        use StopReason::{Eos, MaxTokens, StopString};
        let summary = summarise(&[(2, Eos), (4, StopString), (8, MaxTokens), (6, Eos)], 8);
        assert_eq!(summary.percentiles[0], 5.0);
        assert_eq!((summary.limited, summary.longest_1_share, summary.longest_10_share), (1, 0.4, 0.4));
        // Three ends in twenty steps.
        assert_eq!(summary.hazard, 0.15);
        assert!((summary.fitted_median.unwrap() - 4.265).abs() < 1e-3);
        // A limit of 4 cuts two texts, and saves 4 + 2 of 20 steps.
        let cap = summary.caps.iter().find(|cap| cap.tokens == 4).unwrap();
        assert_eq!((cap.cut_share, cap.saved_share), (0.5, 0.3));
    }
}
