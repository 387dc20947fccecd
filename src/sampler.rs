//! Logits -> token id. The random number is an argument, `u`. `sampler/tests/oracle.rs` is the readable version: it sorts,
//! where this selects.
//!
//! The filters and their order are Hugging Face's: repetition penalty, temperature, top-k, top-p, min-p, and then one
//! renormalisation. After the penalty every filter keeps a beginning of one and the same ranking (higher logit first,
//! lower id first among equals), so each is a cut in that ranking and together they are the tightest of the cuts. No cut
//! needs the ranking sorted: it is found by selection, in time linear in the vocabulary. All cuts treat equal logits
//! alike except top-p, which keeps the lower ids of those it must divide.
//!
//! Logits after the penalty and the weights of tokens are `f32`, sums are `f64`. All come from additions, products,
//! quotients and comparisons in one fixed order, so the same logits and the same `u` give the same token, and the same numbers
//! with it, on every machine and in every build.

mod chunked_logits;
mod cut;
mod ranking;
mod uniform;
mod weigher;

pub use uniform::UniformRng;

use std::f32::consts::LOG2_E;

use crate::error::{Error, ErrorKind, Result};
use crate::settings::Settings;
use chunked_logits::{CHUNK, ChunkedLogits};
use cut::Cut;
use libm::log as ln;
use ranking::Ranking;
use weigher::Weigher;

/// A token that was drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// Its id.
    pub id: u32,
    /// Natural logarithm of its probability in the model's own distribution, the softmax of the logits as they came, to
    /// an absolute error of 2e-6.
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
/// use gpt2_web::sampler::{Sampler, UniformRng};
/// use gpt2_web::settings::Settings;
///
/// let mut sampler = Sampler::new(&Settings { temperature: 0.7, top_k: 2, ..Settings::default() });
/// let mut rng = UniformRng::new(7);
/// let choice = sampler.sample(&[0.5, 3.0, -1.0, 2.0], rng.next_f64())?;
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
    /// The logits after the penalty.
    chunks: ChunkedLogits,
    /// Weights of the tokens in every chunk that `sums` has a sum for; 0 for those that are not kept.
    weights: Vec<[f32; CHUNK]>,
    /// Sum of the weights in each chunk; 0 where none is kept.
    sums: Vec<f64>,
    /// Sum of the sums, in their order. At least 1: the best token's weight is.
    total: f64,
    kept: Cut,
    /// The largest logit as they came, and the logarithm of the sum of `exp(logit - best)`.
    best: f64,
    log_sum: f64,
    /// The ids of the largest logits, with these, best first.
    top: Vec<(u32, f32)>,
    /// The maxima of the chunks, to select from.
    maxima: Vec<f32>,
    ranking: Ranking,
}

impl Sampler {
    /// A sampler for `settings`, which must have been checked as [`Settings::from_raw`] does; nothing is seen yet.
    pub fn new(settings: &Settings) -> Self {
        Self {
            temperature: settings.temperature,
            top_k: settings.top_k as usize,
            top_p: settings.top_p,
            log_min_p: ln(settings.min_p),
            repetition_penalty: settings.repetition_penalty,
            top_logprobs: settings.top_logprobs as usize,
            seen: Vec::new(),
            chunks: ChunkedLogits::default(),
            weights: Vec::new(),
            sums: Vec::new(),
            total: 1.0,
            kept: Cut::NONE,
            best: 0.0,
            log_sum: 0.0,
            top: Vec::new(),
            maxima: Vec::new(),
            ranking: Ranking::default(),
        }
    }

    /// Tells the repetition penalty about a token of the prompt or the output. One seen before changes nothing.
    pub fn observe(&mut self, id: u32) {
        if let Err(at) = self.seen.binary_search(&id) {
            self.seen.insert(at, id);
        }
    }

    /// Draws a token by `logits` (one for each id; minus infinity for one that must not be drawn) and `u` in [0, 1).
    ///
    /// The kept tokens are walked in the order of their ids: the first is chosen at which their probabilities add
    /// up to more than `u`. At temperature 0 the best token after the penalty is the only one kept, of equals the
    /// one with the lowest id.
    ///
    /// # Errors
    /// [`ErrorKind::NonFinite`] if a logit is NaN or plus infinity (names the first), or all are minus infinity.
    pub fn sample(&mut self, logits: &[f32], u: f64) -> Result<Choice> {
        debug_assert!((0.0..1.0).contains(&u), "u is {u}");
        let best = self.chunks.fill(logits).ok_or_else(|| damaged(logits))?;
        self.best = f64::from(best);
        self.log_sum = ln(Weigher::new(1.0, best).sum(self.chunks.all()));
        self.chunks.top(self.top_logprobs, &mut self.top);

        self.penalise();
        let id = if self.temperature == 0.0 {
            self.keep_best()
        } else {
            self.filter();
            self.draw(u)
        };
        let filtered_logprob = self.filtered_logprob(id).expect("a token that is not kept has no weight");
        Ok(Choice { id, logprob: self.logprob(logits[id as usize]), filtered_logprob })
    }

    /// The most likely tokens of the step just sampled, before any filter, best first, of equals the lowest id first: as
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
        let logit = self.chunks.get(id)?;
        let distance = f64::from(logit) - f64::from(self.chunks.best());
        // 0 divided by any temperature is 0, and temperature 0 cannot divide.
        let score = if distance == 0.0 { 0.0 } else { distance / self.temperature };
        self.kept.keeps(id, logit).then(|| score - ln(self.total))
    }

    fn logprob(&self, logit: f32) -> f64 {
        f64::from(logit) - self.best - self.log_sum
    }

    fn penalise(&mut self) {
        let penalty = self.repetition_penalty;
        if penalty != 1.0 && !self.seen.is_empty() {
            self.chunks.change(&self.seen, |logit| {
                let logit = f64::from(logit);
                let penalised = if logit < 0.0 { logit * penalty } else { logit / penalty };
                // The penalty may be any positive number, but must not make a finite logit infinite.
                penalised.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
            });
        }
    }

    /// Keeps the first of the best, and returns it.
    fn keep_best(&mut self) -> u32 {
        let best = self.chunks.best();
        let (index, chunk) = self.chunks.reaching(best).next().expect("the best is in a chunk");
        let lane = chunk.iter().position(|&logit| logit == best).expect("the best is in its chunk");
        let id = (index * CHUNK + lane) as u32;
        self.kept = Cut { logit: best, last_id: id };
        self.total = 1.0;
        id
    }

    /// Top-k, top-p, min-p, and the weights of what they leave.
    fn filter(&mut self) {
        let weigher = Weigher::new(self.temperature, self.chunks.best());
        self.kept = Cut::NONE;
        if self.top_k > 0 && self.top_k < self.chunks.len() {
            self.kept = self.kept.and(self.top_k_cut());
        }
        let with_min_p = self.kept.and(self.min_p_cut());
        if self.top_p == 1.0 {
            self.kept = with_min_p;
            self.weigh(weigher);
        } else {
            self.weigh(weigher);
            let (enough, weights) = (self.top_p * self.total, &self.weights);
            let masses = |index: usize| &weights[index];
            let top_p = self.ranking.cut(&self.chunks, with_min_p.logit, weigher.rate(), enough, masses);
            self.kept = with_min_p.and(top_p);
            self.drop_weights();
        }
    }

    fn top_k_cut(&mut self) -> Cut {
        let mut least = f32::MIN;
        if self.top_k <= self.chunks.maxima().len() {
            // So many chunks have at least this maximum, so there are as many tokens with at least this logit.
            self.maxima.clear();
            self.maxima.extend_from_slice(self.chunks.maxima());
            least = *self.maxima.select_nth_unstable_by(self.top_k - 1, |a, b| b.total_cmp(a)).1;
        }
        let kth = self.ranking.cut(&self.chunks, least, LOG2_E, self.top_k as f64, |_| &[1.0; CHUNK]);
        Cut::at(kth.logit)
    }

    fn min_p_cut(&self) -> Cut {
        // Whatever the temperature, a score that is minus infinity is not kept.
        let least = f64::from(self.chunks.best()) + self.temperature * self.log_min_p.max(f64::MIN);
        let rounded = least as f32;
        Cut::at(if f64::from(rounded) < least { rounded.next_up() } else { rounded })
    }

    /// Gives the tokens that are kept their weights; none of the cuts so far divides equal ones.
    fn weigh(&mut self, weigher: Weigher) {
        let Self { chunks, weights, sums, kept, .. } = self;
        weights.resize(chunks.all().len(), [0.0; CHUNK]);
        sums.clear();
        sums.resize(chunks.all().len(), 0.0);
        self.total = 0.0;
        for (index, chunk) in chunks.reaching(kept.logit) {
            for (weight, &logit) in weights[index].iter_mut().zip(chunk) {
                *weight = if logit >= kept.logit { weigher.weight(logit) } else { 0.0 };
            }
            sums[index] = sum(&weights[index]);
            self.total += sums[index];
        }
    }

    /// Takes the weights of tokens that are kept no more.
    fn drop_weights(&mut self) {
        let Self { chunks, weights, sums, kept, .. } = self;
        sums.fill(0.0);
        self.total = 0.0;
        for (index, chunk) in chunks.reaching(kept.logit) {
            kept.apply((index * CHUNK) as u32, chunk, &mut weights[index]);
            sums[index] = sum(&weights[index]);
            self.total += sums[index];
        }
    }

    fn draw(&self, u: f64) -> u32 {
        let target = u * self.total;
        let (mut before, mut reached) = (0.0, 0.0);
        let mut through = 0;
        for (index, &sum) in self.sums.iter().enumerate().filter(|&(_, &sum)| sum > 0.0) {
            through = index;
            before = reached;
            reached += sum;
            if reached > target {
                break;
            }
        }
        let mut chosen = 0;
        for (id, &weight) in ((through * CHUNK) as u32..).zip(&self.weights[through]) {
            if weight > 0.0 {
                chosen = id;
                before += f64::from(weight);
                if before > target {
                    break;
                }
            }
        }
        // Rounding may leave the sum at `target` at the end: then it is the last token that can be drawn.
        chosen
    }
}

/// The sum of a chunk's weights, in four lanes that do not wait for one another.
fn sum(weights: &[f32; CHUNK]) -> f64 {
    let mut lanes = [0.0; 4];
    for group in weights.as_chunks::<4>().0 {
        for (lane, &weight) in lanes.iter_mut().zip(group) {
            *lane += f64::from(weight);
        }
    }
    (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
}

/// What is wrong with logits that hold NaN, plus infinity, or nothing but minus infinity.
fn damaged(logits: &[f32]) -> Error {
    let first = logits.iter().enumerate().find(|(_, logit)| logit.is_nan() || **logit == f32::INFINITY);
    let message = match first {
        Some((id, logit)) => format!(
            "the model's logit for token {id} is {logit}: its weights are damaged, or left the range of numbers"
        ),
        None => format!("all {} logits of the model are minus infinity, so no token can be drawn", logits.len()),
    };
    Error::new(ErrorKind::NonFinite, message)
}

#[cfg(test)]
mod tests;
