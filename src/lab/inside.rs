//! Inside: where each head looks, and what each layer would have said, by the textbook model.

use serde::Serialize;

use super::bench::Bench;
use super::distribution::{Chance, Piece};
use super::spec::{ExperimentSpec, IDS, TALE, prompt};
use super::stats::mean;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{OptionRange, OptionSpec};

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "inside",
    question: "Where does it look?",
    options: &[
        prompt(TALE),
        IDS,
        OptionSpec {
            name: "candidates",
            range: OptionRange::Integer { min: 1, max: 20 },
            default: "5",
            help: "Tokens that each layer would have said, best first.",
        },
    ],
};

/// The most tokens to look at. Each has a row for every head, and a row for every layer.
const MOST_TOKENS: usize = 128;

/// A row of one of the two tables.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
#[serde(untagged)]
pub enum InsideRow {
    /// Where one query looks.
    Attention(Attention),
    /// What a layer would have said.
    Lens(Lens),
}

/// Where one query looks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Attention {
    /// The block, from 1.
    pub layer: u32,
    /// The head, from 1.
    pub head: u32,
    /// The position that asks, from 0.
    pub query: u32,
    /// How much it takes from each position up to itself, rounded to five decimals. They add up to 1.
    pub weights: Vec<f64>,
}

/// What a layer would have said: the last layer norm and the head, applied to the residual stream after it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Lens {
    /// Blocks before it: 0 are the embeddings, the last is the model's own answer.
    pub layer: u32,
    /// The position, from 0.
    pub position: u32,
    /// The text of the token it would have chosen next.
    pub token: String,
    /// Its id.
    pub token_id: u32,
    /// Its probability there.
    pub probability: f64,
    /// The most likely tokens there, best first.
    pub candidates: Vec<Chance>,
}

/// How much a head takes from the first token.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Sink {
    /// The block, from 1.
    pub layer: u32,
    /// The head, from 1.
    pub head: u32,
    /// The mean weight of the first token, over all queries after it.
    pub share: f64,
}

/// What the rows say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct InsideSummary {
    /// The tokens.
    pub tokens: Vec<Piece>,
    /// Blocks.
    pub layers: u32,
    /// Heads of a block.
    pub heads: u32,
    /// For each position the first layer from which on every layer would have chosen the model's own answer.
    pub decided_at: Vec<u32>,
    /// For each head how much it takes from the first token; empty for a single token.
    pub sinks: Vec<Sink>,
    /// The mean of these.
    pub sink_share: Option<f64>,
    /// Milliseconds that the textbook model took.
    pub ms: f64,
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(InsideRow)) -> Result<InsideSummary> {
    let ids = bench.prompt(1)?;
    if ids.len() > MOST_TOKENS {
        let sentence =
            format!("the text has {} tokens, of at most {MOST_TOKENS} that can be shown; shorten it", ids.len());
        return Err(Error::new(ErrorKind::InvalidOption, sentence));
    }
    let Some(model) = bench.model.gpt2() else {
        return Err(Error::new(ErrorKind::InvalidOption, "this model cannot be looked into"));
    };
    let (n, config) = (ids.len(), model.config());
    let most = bench.options.count("candidates");
    bench.desk.expect(2 * config.n_layer);
    let (mut ms, mut sinks) = (0.0, Vec::new());
    let mut before = bench.desk.now();
    let mut pass = model.reference().begin(&ids)?;
    let mut hidden = pass.hidden()?;
    let mut layer = 0;
    while let Some(block) = pass.next()? {
        layer += 1;
        hidden.extend(block.hidden);
        ms += bench.desk.now() - before;
        for (head, weights) in (1..).zip(block.attention.chunks_exact(n * n)) {
            let rows = weights.chunks_exact(n).enumerate().map(|(query, weights)| Attention {
                layer,
                head,
                query: query as u32,
                weights: weights[..=query].iter().map(|&weight| (f64::from(weight) * 1e5).round() / 1e5).collect(),
            });
            let rows: Vec<_> = rows.collect();
            if n > 1 {
                sinks.push(Sink { layer, head, share: mean(rows[1..].iter().map(|row| row.weights[0])) });
            }
            rows.into_iter().for_each(|row| post(InsideRow::Attention(row)));
        }
        bench.desk.advance(1);
        bench.desk.turn().await?;
        before = bench.desk.now();
    }

    // Every layer and position at once, so that the head is dequantised once.
    let mut lens = vec![Best::new(most); (config.n_layer + 1) * n];
    let mut parts = model.reference().logits(&hidden)?;
    let known = bench.tokenizer.len();
    while let Some(part) = parts.next()? {
        for (best, logits) in lens.iter_mut().zip(part.rows) {
            best.take(part.first, &logits, known, bench.tokenizer.holes());
        }
        ms += bench.desk.now() - before;
        bench.desk.turn().await?;
        before = bench.desk.now();
    }
    for (place, best) in lens.iter().enumerate() {
        let candidates = best.candidates(|id| bench.piece(id));
        let first = &candidates[0];
        post(InsideRow::Lens(Lens {
            layer: (place / n) as u32,
            position: (place % n) as u32,
            token: first.piece.text.clone(),
            token_id: first.piece.token_id,
            probability: first.probability,
            candidates,
        }));
    }
    bench.desk.advance(config.n_layer);
    let chosen = |layer: usize, position: usize| lens[layer * n + position].top[0].0;
    let decided = |position: usize| {
        let last = chosen(config.n_layer, position);
        (0..=config.n_layer).rev().take_while(|&layer| chosen(layer, position) == last).last().unwrap_or_default()
            as u32
    };
    Ok(InsideSummary {
        tokens: ids.iter().map(|&id| bench.piece(id)).collect(),
        layers: config.n_layer as u32,
        heads: config.n_head as u32,
        decided_at: (0..n).map(decided).collect(),
        sink_share: (!sinks.is_empty()).then(|| mean(sinks.iter().map(|sink| sink.share))),
        sinks,
        ms,
    })
}

/// The greatest logits of one row that comes in parts, and the sum that makes them probabilities.
#[derive(Clone)]
struct Best {
    most: usize,
    /// Ids and logits, greatest first, of equals the lowest id first.
    top: Vec<(u32, f32)>,
    /// The sum of `exp(logit - greatest)`.
    sum: f64,
}

impl Best {
    fn new(most: usize) -> Self {
        Self { most, top: Vec::with_capacity(most + 1), sum: 0.0 }
    }

    /// Takes the logits of the ids from `first` on, if they are tokens.
    fn take(&mut self, first: u32, logits: &[f32], known: usize, holes: &[u32]) {
        for (id, &logit) in (first..).zip(logits).take_while(|(id, _)| (*id as usize) < known) {
            if !holes.is_empty() && holes.binary_search(&id).is_ok() {
                continue;
            }
            let greatest = self.top.first().map_or(f32::NEG_INFINITY, |top| top.1);
            if logit > greatest {
                self.sum = self.sum * f64::from(greatest - logit).exp() + 1.0;
            } else {
                self.sum += f64::from(logit - greatest).exp();
            }
            if self.top.len() < self.most || logit > self.top[self.top.len() - 1].1 {
                let place = self.top.partition_point(|&(_, other)| other >= logit);
                self.top.insert(place, (id, logit));
                self.top.truncate(self.most);
            }
        }
    }

    fn candidates(&self, piece: impl Fn(u32) -> Piece) -> Vec<Chance> {
        let greatest = self.top.first().map_or(0.0, |top| top.1);
        let probability = |logit: f32| f64::from(logit - greatest).exp() / self.sum;
        self.top.iter().map(|&(id, logit)| Chance { piece: piece(id), probability: probability(logit) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::distribution::{softmax, top};

    #[test]
    fn the_best_of_parts_are_the_best_of_all() {
        let logits: Vec<f32> = (0..100).map(|place| ((place * 37) % 50) as f32 / 7.0).collect();
        let mut best = Best::new(7);
        for (part, logits) in logits.chunks(23).enumerate() {
            best.take(23 * part as u32, logits, 90, &[44]);
        }
        let mut right = logits[..90].to_vec();
        right[44] = f32::NEG_INFINITY;
        let probabilities = softmax(&right, 1.0);
        let candidates = best.candidates(|token_id| Piece { token_id, text: String::new() });
        assert_eq!(candidates.iter().map(|chance| chance.piece.token_id).collect::<Vec<_>>(), top(&right, 7));
        for chance in candidates {
            assert!((chance.probability - probabilities[chance.piece.token_id as usize]).abs() < 1e-6);
        }
    }
}
