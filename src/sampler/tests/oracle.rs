//! The sampler by its definition: everything sorted, every sum in the order of the ranking, nothing skipped.

use crate::sampler::weigher::Weigher;
use crate::settings::Settings;

/// The ids kept, ascending, with their weights.
///
/// Weights are the sampler's own `f32`, so that what top-p keeps is the same to the token; whether they are right is
/// for [`exact`] to say.
pub(super) fn kept(settings: &Settings, history: &[u32], logits: &[f32]) -> Vec<(u32, f64)> {
    let logits = penalised(settings, history, logits);
    let logit = |id: u32| logits[id as usize];
    let mut ranking: Vec<u32> = (0..logits.len() as u32).filter(|&id| logit(id).is_finite()).collect();
    ranking.sort_by(|&a, &b| logit(b).partial_cmp(&logit(a)).unwrap());
    let best = logit(ranking[0]);
    if settings.temperature == 0.0 {
        return vec![(ranking[0], 1.0)];
    }
    let score = |id: u32| (f64::from(logit(id)) - f64::from(best)) / settings.temperature;
    ranking.retain(|&id| score(id).is_finite());
    let weigher = Weigher::new(settings.temperature, best);
    let weight = |id: u32| f64::from(weigher.weight(logit(id)));
    let top_k = settings.top_k as usize;
    if top_k > 0 && top_k <= ranking.len() {
        let kth = logit(ranking[top_k - 1]);
        ranking.retain(|&id| logit(id) >= kth);
    }
    if settings.top_p < 1.0 {
        let total: f64 = ranking.iter().map(|&id| weight(id)).sum();
        let mut before = 0.0;
        ranking.retain(|&id| {
            let keep = before < settings.top_p * total;
            before += weight(id);
            keep
        });
    }
    ranking.retain(|&id| score(id) >= settings.min_p.ln());
    ranking.sort_unstable();
    ranking.into_iter().map(|id| (id, weight(id))).collect()
}

/// Logarithms of the probabilities of `ids` where these are all that is kept, with the standard library's functions.
pub(super) fn exact(settings: &Settings, history: &[u32], logits: &[f32], ids: &[u32]) -> Vec<f64> {
    let logits = penalised(settings, history, logits);
    let temperature = if settings.temperature == 0.0 { 1.0 } else { settings.temperature };
    let scores: Vec<f64> = ids.iter().map(|&id| f64::from(logits[id as usize]) / temperature).collect();
    log_softmax(&scores)
}

/// Logarithms of the probabilities.
pub(super) fn log_softmax(logits: &[f64]) -> Vec<f64> {
    let best = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|&logit| (logit - best).exp()).sum();
    logits.iter().map(|&logit| logit - best - sum.ln()).collect()
}

/// The first token at which the weights, in the order of ids, add up to more than the u's part of them.
pub(super) fn walk(weights: &[(u32, f64)], u: f64) -> u32 {
    let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let mut sum = 0.0;
    let reached = weights.iter().find(|(_, weight)| {
        sum += weight;
        sum > u * total
    });
    reached.expect("a u shows less than 1").0
}

fn penalised(settings: &Settings, history: &[u32], logits: &[f32]) -> Vec<f32> {
    let penalty = settings.repetition_penalty;
    let mut logits = logits.to_vec();
    for (id, logit) in logits.iter_mut().enumerate() {
        if history.contains(&(id as u32)) && logit.is_finite() {
            let exact = f64::from(*logit);
            let penalised = if exact < 0.0 { exact * penalty } else { exact / penalty };
            *logit = (penalised as f32).clamp(f32::MIN, f32::MAX);
        }
    }
    logits
}
