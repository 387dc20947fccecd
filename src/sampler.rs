//! Logits -> token id. The random number, the "coin", is an argument.
//!
//! The filters and their order are Hugging Face's: repetition penalty, temperature, top-k, top-p, min-p, and then one
//! renormalisation. After penalty and temperature every filter keeps a beginning of one and the same ranking (higher
//! score first, lower id first among equals), so each is a cut in that ranking and together they are the tightest of
//! the cuts. No cut needs the ranking sorted: it is found by selection, in time linear in the vocabulary.
//!
//! Sums are in `f64`. All cuts treat equal scores alike except top-p, which keeps the lower ids of those it must divide.

mod coin;

pub use coin::Coin;

use std::cmp::Ordering;

use crate::error::{Error, ErrorKind, Result};
use crate::settings::Settings;

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

/// Draws tokens. Holds the settings, the tokens seen so far, and buffers: after the first step it allocates only when a
/// token is new to it.
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
        self.best = f64::from(largest(logits)?);
        // The probability of a token is exp(logit - best) / sum: no overflow, and at least one term is 1.
        self.log_sum = logits.iter().map(|&logit| (f64::from(logit) - self.best).exp()).sum::<f64>().ln();
        top(logits, self.top_logprobs, &mut self.top);

        self.score(logits);
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

    /// Penalty and temperature.
    fn score(&mut self, logits: &[f32]) {
        self.scores.clear();
        self.scores.extend(logits.iter().map(|&logit| f64::from(logit)));
        for &id in &self.seen {
            // An id past the logits has nothing to penalise.
            let Some(score) = self.scores.get_mut(id as usize).filter(|score| score.is_finite()) else { continue };
            let penalised =
                if *score < 0.0 { *score * self.repetition_penalty } else { *score / self.repetition_penalty };
            // The penalty may be any positive number, but must not make a finite logit infinite.
            *score = penalised.clamp(f64::MIN, f64::MAX);
        }
        let best = self.scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Greedy needs no temperature: only the best is kept.
        let temperature = if self.temperature == 0.0 { 1.0 } else { self.temperature };
        for score in &mut self.scores {
            // The difference first: 0 divided by any temperature is 0. Adding 0 makes -0 and 0 the same to `total_cmp`.
            *score = (*score - best) / temperature + 0.0;
        }
    }

    /// Top-k, top-p, min-p, and the weights of what they leave.
    fn filter(&mut self) {
        let scores = &self.scores;
        let mut kept = if self.temperature == 0.0 {
            let best = scores.iter().position(|&score| score == 0.0).expect("the best score is 0");
            Cut { score: 0.0, last_id: best as u32 }
        } else if (1..scores.len()).contains(&self.top_k) {
            self.top_k_scores.clone_from(scores);
            let (_, &mut kth, _) = self.top_k_scores.select_nth_unstable_by(self.top_k - 1, |a, b| b.total_cmp(a));
            Cut::NONE.tightest(Cut::at(kth))
        } else {
            Cut::NONE
        };
        self.weights.clear();
        self.weights
            .extend((0..).zip(scores).map(|(id, &score)| if kept.keeps(id, score) { score.exp() } else { 0.0 }));

        if self.top_p < 1.0 && self.temperature > 0.0 {
            kept = kept.tightest(self.nucleus.cut(self.top_p, scores, &self.weights));
        }
        kept = kept.tightest(Cut::at(self.log_min_p));
        for ((id, &score), weight) in (0..).zip(scores).zip(&mut self.weights) {
            if !kept.keeps(id, score) {
                *weight = 0.0;
            }
        }
        self.kept = kept;
        self.total = self.weights.iter().sum();
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
#[derive(Debug, Clone, Copy, PartialEq)]
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

    fn tightest(self, other: Self) -> Self {
        match self.score.total_cmp(&other.score) {
            Ordering::Less => other,
            Ordering::Equal => Self { last_id: self.last_id.min(other.last_id), ..self },
            Ordering::Greater => self,
        }
    }
}

/// The buffers of top-p.
#[derive(Debug, Clone)]
struct Nucleus {
    /// Mass of the tokens by their distance from the best.
    bins: Vec<u64>,
    /// The tokens of the bin that the cut goes through.
    tokens: Vec<Ranked>,
}

/// A token with what its rank and its mass are made of.
#[derive(Debug, Clone, Copy)]
struct Ranked {
    score: f64,
    id: u32,
    mass: u64,
}

impl Default for Nucleus {
    fn default() -> Self {
        Self { bins: vec![0; Self::BINS], tokens: Vec::new() }
    }
}

impl Nucleus {
    const BINS: usize = 1024;
    /// Bins per unit of score; the last takes all that is less than e^-32 times as likely as the best.
    const BINS_PER_UNIT: f64 = 32.0;
    /// Mass of the best token. Whole numbers add up to the same in any order, so the selection finds exactly the cut
    /// that sorting them would; those of 2^24 tokens fit into 64 bits.
    const UNIT: f64 = (1u64 << 40) as f64;

    /// The cut after the first token, in the ranking, with which the weights reach `top_p` of their sum.
    fn cut(&mut self, top_p: f64, scores: &[f64], weights: &[f64]) -> Cut {
        let mass = |weight: f64| (weight * Self::UNIT).round() as u64;
        let bin = |score: f64| ((score * -Self::BINS_PER_UNIT) as usize).min(Self::BINS - 1);
        self.bins.fill(0);
        for (&score, &weight) in scores.iter().zip(weights) {
            self.bins[bin(score)] += mass(weight);
        }
        // A token is kept if those before it have less than `enough`.
        let total = self.bins.iter().sum::<u64>();
        let enough = ((top_p * total as f64).ceil() as u64).min(total);

        let mut before = 0;
        let mut through = 0;
        while before + self.bins[through] < enough {
            before += self.bins[through];
            through += 1;
        }
        self.tokens.clear();
        let tokens = (0..).zip(scores).zip(weights).filter(|&((_, &score), _)| bin(score) == through);
        self.tokens.extend(tokens.map(|((id, &score), &weight)| Ranked { score, id, mass: mass(weight) }));

        // The first of `rest` is kept, and the last one kept is among them: halve until it is alone.
        let mut rest = &mut self.tokens[..];
        while rest.len() > 1 {
            let middle = rest.len() / 2;
            rest.select_nth_unstable_by(middle, |a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
            let with_first_half = before + rest[..middle].iter().map(|token| token.mass).sum::<u64>();
            rest = if with_first_half < enough {
                before = with_first_half;
                &mut rest[middle..]
            } else {
                &mut rest[..middle]
            };
        }
        Cut { score: rest[0].score, last_id: rest[0].id }
    }
}

/// The largest logit, which is finite.
fn largest(logits: &[f32]) -> Result<f32> {
    if let Some(id) = logits.iter().position(|&logit| logit.is_nan() || logit == f32::INFINITY) {
        return Err(Error::new(
            ErrorKind::NonFinite,
            format!(
                "the model's logit for token {id} is {}: its weights are damaged, or its numbers left their range",
                logits[id]
            ),
        ));
    }
    let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if best == f32::NEG_INFINITY {
        return Err(Error::new(
            ErrorKind::NonFinite,
            format!("all {} logits of the model are minus infinity, so no token can be drawn", logits.len()),
        ));
    }
    Ok(best)
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
