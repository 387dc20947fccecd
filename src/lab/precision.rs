//! Precision: what 8 and 4 bits cost.

use serde::Serialize;

use super::bench::Bench;
use super::distribution;
use super::spec::{ExperimentSpec, n, texts};
use super::stats::mean;
use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::Precision;
use crate::options::{OptionRange, OptionSpec};

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "precision",
    question: "What do 8 bits cost?",
    options: &[
        texts(
            "prompts",
            r#"["Once upon a time there was a king who", "In a little house by the wood there lived an old woman, and", "The youngest of the three sisters took the golden key and", "Far away, where the sea is as blue as", "The fox said to the crow that", "A soldier came along the high road one day, and", "When winter came, the bird sat upon the tree and", "The old man gave him a purse full of gold and"]"#,
            "Prompts to continue greedily.",
        ),
        n("48", 512),
        OptionSpec {
            name: "text",
            range: OptionRange::Text,
            default: r#""There was once a poor woodcutter who lived with his wife and his two children at the edge of a great forest. They had little to eat, and when a famine came over the land, he could no longer give them their daily bread. One night, as he lay in bed and could not sleep for trouble, he sighed and said to his wife: What is to become of us? How can we feed our children, when we have nothing left for ourselves?""#,
            help: "A text to judge, of at most 256 tokens.",
        },
    ],
};

/// The most tokens of the text: the logits of each are held, to be compared.
const MOST_TOKENS: usize = 256;

/// One precision.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct PrecisionRow {
    /// `f32`, `q8_0` or `q4_0`.
    pub precision: &'static str,
    /// Whether these are the weights as they are loaded. The others were made of them, for this experiment.
    pub loaded: bool,
    /// Bytes of the weights.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(type = "number"))]
    pub weight_bytes: u64,
    /// The perplexity of the text: `exp` of the mean negative log-probability of its tokens.
    pub perplexity: f64,
    /// The mean divergence of its next-token distributions from those of f32, in nats.
    pub mean_divergence: f64,
    /// The share of positions at which it has the same most likely token as f32.
    pub same_best_share: f64,
    /// For each prompt the first output token that differs from that of f32, from 1; null if none does.
    pub first_differences: Vec<Option<u32>>,
    /// The share of prompts whose output is still that of f32 after 0, 1, 2, … tokens.
    pub surviving: Vec<f64>,
    /// The chance to differ at each token if it were always the same: differences by tokens that were still the same. The
    /// surviving share is then `(1 - e)^n`.
    pub e: f64,
    /// Milliseconds for each output token.
    pub step_ms: f64,
}

/// What the rows say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct PrecisionSummary {
    /// Tokens of the text.
    pub tokens: u32,
    /// Precisions that did not fit into memory beside the model.
    pub left_out: Vec<&'static str>,
}

/// What a precision made of prompts and text.
struct Outcome {
    outputs: Vec<Vec<u32>>,
    /// Logits after each token of the text but the last.
    logits: Vec<Vec<f32>>,
    step_ms: f64,
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(PrecisionRow)) -> Result<PrecisionSummary> {
    let prompts = bench.options.texts("prompts");
    let n = bench.options.count("n");
    let prompts: Vec<_> = prompts.iter().map(|text| bench.encode(text, n)).collect::<Result<_>>()?;
    let text = bench.encode(bench.options.text("text"), 1)?;
    if !(2..=MOST_TOKENS).contains(&text.len()) {
        let sentence = format!("`text` must have from 2 to {MOST_TOKENS} tokens; it has {}", text.len());
        return Err(Error::new(ErrorKind::InvalidOption, sentence));
    }
    let Some(loaded) = bench.model.gpt2().map(|model| model.precision()) else {
        return Err(Error::new(ErrorKind::InvalidOption, "this model has no precision to change"));
    };
    bench.desk.expect(Precision::ALL.len() * (prompts.len() + 1));
    bench.desk.probe();
    let (mut reference, mut left_out): (Option<Outcome>, Vec<&'static str>) = (None, Vec::new());
    // One after the other: beside the model there is at most one more.
    for precision in Precision::ALL {
        let made = match bench.model.gpt2() {
            Some(model) if precision != loaded => match model.in_precision(precision) {
                Ok(made) => Some(made),
                Err(error) if error.kind == ErrorKind::OutOfMemory => {
                    left_out.push(precision.name());
                    continue;
                }
                Err(error) => return Err(error),
            },
            _ => None,
        };
        let (outcome, weight_bytes) = match made {
            Some(mut made) => {
                let mut other = Bench {
                    model: &mut made,
                    tokenizer: bench.tokenizer,
                    options: bench.options.clone(),
                    desk: bench.desk,
                    memory: bench.memory,
                };
                let outcome = measure(&mut other, &prompts, n, &text).await?;
                (outcome, made.weight_bytes())
            }
            None => {
                let outcome = measure(bench, &prompts, n, &text).await?;
                (outcome, bench.model.gpt2().map_or(0, |model| model.weight_bytes()))
            }
        };
        let row = compare(reference.as_ref().unwrap_or(&outcome), &outcome, &text, n);
        post(PrecisionRow { precision: precision.name(), loaded: precision == loaded, weight_bytes, ..row });
        reference.get_or_insert(outcome);
    }
    bench.desk.probe();
    Ok(PrecisionSummary { tokens: text.len() as u32, left_out })
}

async fn measure(bench: &mut Bench<'_>, prompts: &[Vec<u32>], n: usize, text: &[u32]) -> Result<Outcome> {
    let (mut outputs, mut ms, mut steps) = (Vec::new(), 0.0, 0);
    for prompt in prompts {
        let produced = bench.produce(prompt, n).await?;
        ms += produced.step_ms[1..].iter().sum::<f64>();
        steps += n - 1;
        outputs.push(produced.ids);
        bench.desk.advance(1);
    }
    let step_ms = ms / steps as f64;
    let mut logits = Vec::with_capacity(text.len());
    bench.score(&text[..text.len() - 1], step_ms, |_, row| logits.push(row.to_vec())).await?;
    bench.desk.advance(1);
    Ok(Outcome { outputs, logits, step_ms })
}

/// `outcome` beside that of f32.
fn compare(reference: &Outcome, outcome: &Outcome, text: &[u32], n: usize) -> PrecisionRow {
    let first = |(a, b): (&Vec<u32>, &Vec<u32>)| {
        let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        (same < n).then_some(same as u32 + 1)
    };
    let first_differences: Vec<_> = reference.outputs.iter().zip(&outcome.outputs).map(first).collect();
    let pairs = || reference.logits.iter().zip(&outcome.logits);
    let divergence = |(p, q): (&Vec<f32>, &Vec<f32>)| {
        distribution::divergence(&distribution::softmax(p, 1.0), &distribution::softmax(q, 1.0))
    };
    let same_best = pairs().filter(|(a, b)| distribution::best(a).0 == distribution::best(b).0).count();
    let nll = outcome.logits.iter().zip(&text[1..]).map(|(logits, &next)| -distribution::logprob(logits, next));
    let (surviving, e) = survival(&first_differences, n);
    PrecisionRow {
        precision: "",
        loaded: false,
        weight_bytes: 0,
        perplexity: mean(nll).exp(),
        mean_divergence: mean(pairs().map(divergence)),
        same_best_share: same_best as f64 / (text.len() - 1) as f64,
        first_differences,
        surviving,
        e,
        step_ms: outcome.step_ms,
    }
}

/// The share still the same after each number of tokens, and the chance to differ at one.
fn survival(first_differences: &[Option<u32>], n: usize) -> (Vec<f64>, f64) {
    let texts = first_differences.len() as f64;
    let same_after = |tokens: usize| {
        first_differences.iter().filter(|first| first.is_none_or(|first| first as usize > tokens)).count() as f64
            / texts
    };
    let differed = first_differences.iter().flatten().count() as f64;
    let tokens: f64 = first_differences.iter().map(|first| first.map_or(n as f64, f64::from)).sum();
    ((0..=n).map(same_after).collect(), differed / tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survival_is_counted_by_hand() {
        let (surviving, e) = survival(&[Some(1), Some(3), None, None], 4);
        assert_eq!(surviving, [1.0, 0.75, 0.75, 0.5, 0.5]);
        // Two differences in 1 + 3 + 4 + 4 tokens.
        assert!((e - 1.0 / 6.0).abs() < 1e-12);
        assert_eq!(survival(&[None], 2), (vec![1.0; 3], 0.0));
    }

    #[test]
    fn a_reference_beside_itself_is_the_same() {
        let outcome = Outcome { outputs: vec![vec![1, 2]], logits: vec![vec![0.0, 1.0, 0.0]; 2], step_ms: 1.0 };
        let row = compare(&outcome, &outcome, &[0, 1, 1], 2);
        assert_eq!((row.mean_divergence, row.same_best_share, row.e), (0.0, 1.0, 0.0));
        // Both next tokens have e / (e + 2).
        let e = std::f64::consts::E;
        assert!((row.perplexity - (e + 2.0) / e).abs() < 1e-6, "{}", row.perplexity);
    }
}
