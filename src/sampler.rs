//! Logits -> token id. The random number, the "coin", is an argument.
//!
//! The filters and their order are Hugging Face's: repetition penalty, temperature, top-k, top-p, min-p, and then one
//! renormalisation. After penalty and temperature every filter keeps a beginning of one and the same ranking (higher
//! score first, lower id first among equals), so each is a cut in that ranking and together they are the tightest of
//! the cuts. No cut needs the ranking sorted: it is found by selection, in time linear in the vocabulary.
//!
//! Sums are in `f64`. All cuts treat equal scores alike except top-p, which keeps the lower ids of those it must divide.

mod coin;
mod exp;
mod nucleus;

pub use coin::Coin;

use std::cmp::Ordering;

use crate::error::{Error, ErrorKind, Result};
use crate::settings::Settings;
use exp::exp;
use nucleus::Nucleus;

/// A token that was drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// Its id.
    pub id: u32,
    /// Natural logarithm of its probability in the model's own distribution: the softmax of the logits as they came.
    pub logprob: f64,
    /// The same in the distribution it was drawn from, after penalty, temperature and filters; 0 when greedy.
    pub filtered_logprob: f64,
}

/// A token that could have been drawn, judged before any filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Its id.
    pub id: u32,
    /// As in [`Choice`].
    pub logprob: f64,
    /// As in [`Choice`]; `None` where a filter removed the token.
    pub filtered_logprob: Option<f64>,
}

/// Draws tokens. Holds the settings, the tokens seen so far, and buffers that every step uses again.
///
/// ```
/// use gpt2_web::sampler::{Coin, Sampler};
/// use gpt2_web::settings::Settings;
///
/// let mut sampler = Sampler::new(&Settings { temperature: 0.7, top_k: 2, ..Settings::default() });
/// let mut coin = Coin::new(7);
/// let choice = sampler.sample(&[0.5, 3.0, -1.0, 2.0], coin.flip())?;
/// assert!([1, 3].contains(&choice.id));
/// sampler.observe(choice.id);
/// # Ok::<(), gpt2_web::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sampler {
    temperature: f64,
    top_k: usize,
    top_p: f64,
    /// Natural logarithm of min-p.
    log_min_p: f64,
    repetition_penalty: f64,
    top_logprobs: usize,
    /// Tokens of prompt and output, each once, in the order of their ids.
    seen: Vec<u32>,
    /// Logarithm of each token's weight: its distance to the best logit after penalty, divided by the temperature. At
    /// most 0; minus infinity is impossible.
    scores: Vec<f64>,
    /// `exp(score)` of the tokens that are kept, 0 for the others.
    weights: Vec<f64>,
    kept: Cut,
    /// Sum of the weights, at least 1: the best token's is always kept.
    total: f64,
    /// The largest logit, and the logarithm of the sum of `exp(logit - best)`.
    best: f64,
    log_sum: f64,
    /// The ids of the largest logits, with these, best first.
    top: Vec<(u32, f32)>,
    top_k_scores: Vec<f64>,
    nucleus: Nucleus,
}

impl Sampler {
    /// A sampler for `settings`, which must have been checked as [`Settings::from_raw`] does; nothing is seen yet.
    pub fn new(settings: &Settings) -> Self {
        Self {
            temperature: settings.temperature,
            top_k: settings.top_k as usize,
            top_p: settings.top_p,
            log_min_p: settings.min_p.ln(),
            repetition_penalty: settings.repetition_penalty,
            top_logprobs: settings.top_logprobs as usize,
            seen: Vec::new(),
            scores: Vec::new(),
            weights: Vec::new(),
            kept: Cut::NONE,
            total: 1.0,
            best: 0.0,
            log_sum: 0.0,
            top: Vec::new(),
            top_k_scores: Vec::new(),
            nucleus: Nucleus::default(),
        }
    }

    /// Tells the repetition penalty about a token of the prompt or the output. One seen before changes nothing.
    pub fn observe(&mut self, id: u32) {
        if let Err(at) = self.seen.binary_search(&id) {
            self.seen.insert(at, id);
        }
    }

    /// Draws a token by `logits` (one for each id; minus infinity for one that must not be drawn) and `coin` in [0, 1).
    ///
    /// The coin walks the kept tokens in the order of their ids: it chooses the first at which their probabilities add
    /// up to more than `coin`. At temperature 0 the best token after the penalty is the only one kept, of equals the
    /// one with the lowest id.
    ///
    /// # Errors
    /// [`ErrorKind::NonFinite`] if a logit is NaN or plus infinity (names the first), or all are minus infinity.
    pub fn sample(&mut self, logits: &[f32], coin: f64) -> Result<Choice> {
        debug_assert!((0.0..1.0).contains(&coin), "the coin shows {coin}");
        self.scores.clear();
        self.scores.extend(logits.iter().map(|&logit| f64::from(logit)));
        self.best = largest(&self.scores)?;
        // The probability of a token is exp(logit - best) / sum: no overflow, and at least one term is 1.
        self.weights.clear();
        self.weights.extend(self.scores.iter().map(|logit| exp(logit - self.best)));
        self.log_sum = sum(&self.weights).ln();
        top(logits, self.top_logprobs, &mut self.top);

        self.score();
        self.filter();
        let id = self.draw(coin);
        let index = id as usize;
        Ok(Choice { id, logprob: self.logprob(logits[index]), filtered_logprob: self.scores[index] - self.total.ln() })
    }

    /// The likeliest tokens of the step just sampled, before any filter, best first, of equals the lowest id first: as
    /// many as `top_logprobs` says, fewer if fewer are possible.
    pub fn candidates(&self) -> impl ExactSizeIterator<Item = Candidate> + '_ {
        self.top.iter().map(|&(id, logit)| Candidate {
            id,
            logprob: self.logprob(logit),
            filtered_logprob: self.filtered_logprob(id),
        })
    }

    /// Natural logarithm of the probability that `id` had to be drawn in the step just sampled; `None` if a filter
    /// removed it or there is no such token.
    pub fn filtered_logprob(&self, id: u32) -> Option<f64> {
        let score = *self.scores.get(id as usize)?;
        self.kept.keeps(id, score).then_some(score - self.total.ln())
    }

    fn logprob(&self, logit: f32) -> f64 {
        f64::from(logit) - self.best - self.log_sum
    }

    /// Penalty and temperature: makes the logits in `scores` scores.
    fn score(&mut self) {
        let Self { scores, repetition_penalty: penalty, .. } = self;
        for &id in &self.seen {
            // An id past the logits has nothing to penalise.
            let Some(score) = scores.get_mut(id as usize).filter(|score| score.is_finite()) else { continue };
            let penalised = if *score < 0.0 { *score * *penalty } else { *score / *penalty };
            // The penalty may be any positive number, but must not make a finite logit infinite.
            *score = penalised.clamp(f64::MIN, f64::MAX);
        }
        let best = max(scores);
        // Greedy needs no temperature: only the best is kept.
        let temperature = if self.temperature == 0.0 { 1.0 } else { self.temperature };
        for score in scores {
            // The difference first: 0 divided by any temperature is 0. Adding 0 makes -0 and 0 the same to `total_cmp`.
            *score = (*score - best) / temperature + 0.0;
        }
    }

    /// Top-k, top-p, min-p, and the weights of what they leave.
    fn filter(&mut self) {
        let Self { scores, weights, kept, .. } = self;
        *kept = Cut::NONE;
        weights.clear();
        if self.temperature == 0.0 {
            let best = scores.iter().position(|&score| score == 0.0).expect("the best score is 0");
            *kept = Cut { score: 0.0, last_id: best as u32 };
            weights.resize(scores.len(), 0.0);
            weights[best] = 1.0;
        } else {
            weights.extend(scores.iter().map(|&score| exp(score)));
            if (1..scores.len()).contains(&self.top_k) {
                self.top_k_scores.clone_from(scores);
                let (_, &mut kth, _) = self.top_k_scores.select_nth_unstable_by(self.top_k - 1, |a, b| b.total_cmp(a));
                kept.tighten(Cut::at(kth), scores, weights);
            }
            if self.top_p < 1.0 {
                kept.tighten(self.nucleus.cut(self.top_p, scores, weights), scores, weights);
            }
            kept.tighten(Cut::at(self.log_min_p), scores, weights);
        }
        self.total = sum(weights);
    }

    fn draw(&self, coin: f64) -> u32 {
        let target = coin * self.total;
        let mut sum = 0.0;
        let mut chosen = 0;
        for (id, &weight) in (0..).zip(&self.weights) {
            if weight > 0.0 {
                chosen = id;
                sum += weight;
                if sum > target {
                    break;
                }
            }
        }
        // Rounding may leave `sum` at `target` at the end: then it is the last token that can be drawn.
        chosen
    }
}

/// A place in the ranking: tokens up to it are kept.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// Lowest score kept.
    score: f64,
    /// Of the tokens with exactly this score, the last one kept.
    last_id: u32,
}

impl Cut {
    /// Keeps every token that is possible.
    const NONE: Self = Self { score: f64::MIN, last_id: u32::MAX };

    /// Keeps all tokens with at least this score.
    fn at(score: f64) -> Self {
        Self { score, last_id: u32::MAX }
    }

    fn keeps(self, id: u32, score: f64) -> bool {
        score > self.score || (score == self.score && id <= self.last_id)
    }

    /// Keeps what both keep, and takes the weight of the others.
    fn tighten(&mut self, other: Self, scores: &[f64], weights: &mut [f64]) {
        match other.score.total_cmp(&self.score) {
            Ordering::Less => return,
            Ordering::Equal => self.last_id = self.last_id.min(other.last_id),
            Ordering::Greater => *self = other,
        }
        for ((id, &score), weight) in (0..).zip(scores).zip(weights) {
            *weight = if self.keeps(id, score) { *weight } else { 0.0 };
        }
    }
}

/// The largest logit, which is finite.
fn largest(logits: &[f64]) -> Result<f64> {
    // Sums of `f32` do not overflow in `f64`, so this one is NaN or plus infinity only where a logit is.
    let sum = sum(logits);
    if sum.is_nan() || sum == f64::INFINITY {
        let first = logits.iter().enumerate().find(|(_, logit)| logit.is_nan() || **logit == f64::INFINITY);
        let (id, logit) = first.expect("a finite sum otherwise");
        return Err(Error::new(
            ErrorKind::NonFinite,
            format!(
                "the model's logit for token {id} is {logit}: its weights are damaged, or left the range of numbers"
            ),
        ));
    }
    let best = max(logits);
    if best == f64::NEG_INFINITY {
        return Err(Error::new(
            ErrorKind::NonFinite,
            format!("all {} logits of the model are minus infinity, so no token can be drawn", logits.len()),
        ));
    }
    Ok(best)
}

fn sum(values: &[f64]) -> f64 {
    fold(values, 0.0, |sum, value| sum + value)
}

/// The largest of `values`, none of which is NaN; minus infinity if there are none.
fn max(values: &[f64]) -> f64 {
    fold(values, f64::NEG_INFINITY, |most, value| if value > most { value } else { most })
}

/// Folds in eight lanes that do not wait for one another, and then those.
fn fold(values: &[f64], start: f64, join: impl Fn(f64, f64) -> f64) -> f64 {
    let (groups, rest) = values.as_chunks::<8>();
    let mut lanes = [start; 8];
    for group in groups {
        for (lane, &value) in lanes.iter_mut().zip(group) {
            *lane = join(*lane, value);
        }
    }
    lanes.iter().chain(rest).fold(start, |all, &value| join(all, value))
}

/// The `n` largest logits and their ids, best first, of equals the lowest id first; impossible tokens are left out.
fn top(logits: &[f32], n: usize, top: &mut Vec<(u32, f32)>) {
    top.clear();
    let mut least = f32::NEG_INFINITY;
    for (id, &logit) in (0..).zip(logits) {
        if logit <= least || n == 0 {
            continue;
        }
        if top.len() == n {
            top.pop();
        }
        let at = top.partition_point(|&(_, other)| other >= logit);
        top.insert(at, (id, logit));
        if top.len() == n {
            least = top[n - 1].1;
        }
    }
}

#[cfg(test)]
mod tests;
