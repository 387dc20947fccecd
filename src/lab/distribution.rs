//! What logits say of the next token.

use serde::Serialize;

use crate::text::Tokenizer;

/// A token and its text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Piece {
    /// Its id.
    pub token_id: u32,
    /// Its text; incomplete characters are U+FFFD.
    pub text: String,
}

/// A token and its probability.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Chance {
    /// The token.
    #[serde(flatten)]
    pub piece: Piece,
    /// Its probability.
    pub probability: f64,
}

/// Takes away the logits of ids that are no tokens, as generation does: they are never chosen.
pub fn mask(logits: &mut Vec<f32>, tokenizer: &Tokenizer) {
    logits.truncate(tokenizer.len());
    for &hole in tokenizer.holes() {
        if let Some(logit) = logits.get_mut(hole as usize) {
            *logit = f32::NEG_INFINITY;
        }
    }
}

/// The same without changing `logits`: `buffer` holds the changed ones, where something must change.
pub fn only_tokens<'a>(logits: &'a [f32], tokenizer: &Tokenizer, buffer: &'a mut Vec<f32>) -> &'a [f32] {
    if tokenizer.holes().is_empty() {
        return &logits[..logits.len().min(tokenizer.len())];
    }
    buffer.clear();
    buffer.extend_from_slice(logits);
    mask(buffer, tokenizer);
    buffer
}

/// The greatest logit and its id; of equals, the lowest id.
pub fn best(logits: &[f32]) -> (u32, f32) {
    (0..).zip(logits).fold((0, f32::NEG_INFINITY), |best, (id, &logit)| if logit > best.1 { (id, logit) } else { best })
}

/// How many tokens are more likely than `id`, plus 1.
pub fn rank(logits: &[f32], id: u32) -> u32 {
    let logit = logits[id as usize];
    1 + (0..).zip(logits).filter(|&(other, &than)| than > logit || than == logit && other < id).count() as u32
}

/// The ids of the `most` greatest logits, best first.
pub fn top(logits: &[f32], most: usize) -> Vec<u32> {
    let better = |&a: &u32, &b: &u32| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b));
    let mut ids: Vec<u32> = (0..logits.len() as u32).filter(|&id| logits[id as usize] > f32::NEG_INFINITY).collect();
    if most < ids.len() {
        ids.select_nth_unstable_by(most, better);
        ids.truncate(most);
    }
    ids.sort_unstable_by(better);
    ids
}

/// The softmax of `logits / temperature`; at temperature 0, all on the best.
pub fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
    let (id, best) = best(logits);
    if temperature == 0.0 {
        return (0..).zip(logits).map(|(other, _)| if other == id { 1.0 } else { 0.0 }).collect();
    }
    let weight = |&logit: &f32| ((f64::from(logit) - f64::from(best)) / temperature).exp();
    let mut weights: Vec<f64> = logits.iter().map(weight).collect();
    let sum: f64 = weights.iter().sum();
    for weight in &mut weights {
        *weight /= sum;
    }
    weights
}

/// The natural logarithm of the probability of `id`.
pub fn logprob(logits: &[f32], id: u32) -> f64 {
    let best = f64::from(best(logits).1);
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - best).exp()).sum();
    f64::from(logits[id as usize]) - best - sum.ln()
}

/// The entropy of probabilities, in bits.
pub fn entropy_bits(probabilities: impl IntoIterator<Item = f64>) -> f64 {
    // `0.0 +`, because an empty sum of floats is -0.
    0.0 + probabilities.into_iter().filter(|&p| p > 0.0).map(|p| -p * p.log2()).sum::<f64>()
}

/// The Kullback-Leibler divergence of `q` from `p`, in nats: what is lost by believing `q` where `p` holds.
pub fn divergence(p: &[f64], q: &[f64]) -> f64 {
    // What underflowed in `q` counts as the least number there is.
    let term = |(&p, &q): (&f64, &f64)| if p > 0.0 { p * (p / q.max(f64::MIN_POSITIVE)).ln() } else { 0.0 };
    p.iter().zip(q).map(term).sum()
}

/// The first token, in the order of ids, at which the probabilities add up to more than `u`.
pub fn draw(probabilities: &[f64], u: f64) -> u32 {
    let mut sum = 0.0;
    let reached = (0..).zip(probabilities).find(|&(_, &probability)| {
        sum += probability;
        sum > u
    });
    // Rounding may leave the sum below `u`: then it is the last token that can be drawn.
    let last = || probabilities.iter().rposition(|&probability| probability > 0.0).unwrap_or_default() as u32;
    reached.map_or_else(last, |(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: f32 = std::f32::consts::LN_2;

    #[test]
    fn probabilities_are_those_of_the_softmax() {
        // exp: 4, 2, 1, 1 of 8.
        let logits = [2.0 * HALF, HALF, 0.0, 0.0];
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-7, "{a} for {b}");
        softmax(&logits, 1.0).iter().zip([0.5, 0.25, 0.125, 0.125]).for_each(|(&got, right)| near(got, right));
        assert_eq!(softmax(&logits, 0.0), [1.0, 0.0, 0.0, 0.0]);
        near(logprob(&logits, 1), 0.25f64.ln());
        near(entropy_bits(softmax(&logits, 1.0)), 1.75);
        assert_eq!(entropy_bits([1.0, 0.0]), 0.0);
        near(divergence(&[0.5, 0.5], &[0.25, 0.75]), 0.5 * 2f64.ln() + 0.5 * (2.0f64 / 3.0).ln());
    }

    #[test]
    fn the_best_of_equals_is_the_first() {
        let logits = [1.0, 3.0, f32::NEG_INFINITY, 3.0];
        assert_eq!(best(&logits), (1, 3.0));
        assert_eq!(top(&logits, 2), [1, 3]);
        assert_eq!(top(&logits, 9), [1, 3, 0]);
        assert_eq!([1, 3, 0].map(|id| rank(&logits, id)), [1, 2, 3]);
    }

    #[test]
    fn the_draw_walks_the_ids() {
        let probabilities = [0.25, 0.0, 0.5, 0.25];
        assert_eq!([0.0, 0.24, 0.25, 0.74, 0.75, 0.999].map(|u| draw(&probabilities, u)), [0, 0, 2, 2, 3, 3]);
        assert_eq!(draw(&[0.5, 0.4999, 0.0], 0.999_99), 1);
    }
}
