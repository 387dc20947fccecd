//! The filters of the sampler, one after the other, in the order and with the meaning of `sampler.rs`; but here each says
//! what it removed.

use serde::Serialize;

use super::distribution;
use crate::settings::Settings;

/// A filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// Temperature 0 keeps only the most likely token.
    Temperature,
    /// The k most likely tokens.
    TopK,
    /// The fewest of the most likely tokens whose probabilities add up to p.
    TopP,
    /// Tokens with at least a share of the best one's probability.
    MinP,
}

/// A distribution with its filters applied.
pub struct Filtered {
    /// The logits after the repetition penalty.
    pub penalised: Vec<f32>,
    /// Probabilities after penalty and temperature, before any filter.
    pub tempered: Vec<f64>,
    /// The filter that removed each token; `None` if it is kept.
    pub removed_by: Vec<Option<Filter>>,
    /// Probabilities after all filters.
    pub kept: Vec<f64>,
    /// For each filter that removed something, how many tokens, and their probability before it, as a share of what was
    /// left then.
    pub removed: Vec<(Filter, u32, f64)>,
}

/// Applies the filters of `settings` to `logits`, where `seen` are the tokens that the penalty concerns.
pub fn apply(settings: &Settings, seen: &[u32], logits: &[f32]) -> Filtered {
    let penalised = penalise(settings.repetition_penalty, seen, logits);
    let tempered = distribution::softmax(&penalised, settings.temperature);
    let ranking = distribution::top(&penalised, penalised.len());
    let mut removed_by = vec![None; penalised.len()];
    let mut removed = Vec::new();
    let mut left: Vec<u32> = ranking;
    let mut cut = |left: &mut Vec<u32>, filter: Filter, keep: &dyn Fn(usize, u32, f64) -> bool| {
        // `before` is the probability of all tokens above, as a share of what is left.
        let total: f64 = left.iter().map(|&id| tempered[id as usize]).sum();
        let (mut above, mut count, mut mass) = (0.0, 0, 0.0);
        let mut place = 0;
        left.retain(|&id| {
            let share = tempered[id as usize] / total;
            let kept = keep(place, id, above);
            place += 1;
            above += share;
            if !kept {
                removed_by[id as usize] = Some(filter);
                count += 1;
                mass += share;
            }
            kept
        });
        if count > 0 {
            removed.push((filter, count, mass));
        }
    };
    if settings.temperature == 0.0 {
        cut(&mut left, Filter::Temperature, &|place, _, _| place == 0);
    } else {
        let k = settings.top_k as usize;
        if k > 0 && k < left.len() {
            // Tokens as good as the k-th are kept too.
            let least = penalised[left[k - 1] as usize];
            cut(&mut left, Filter::TopK, &|_, id, _| penalised[id as usize] >= least);
        }
        if settings.top_p < 1.0 {
            cut(&mut left, Filter::TopP, &|_, _, above| above < settings.top_p);
        }
        if settings.min_p > 0.0 {
            let best = left.first().map_or(0.0, |&id| tempered[id as usize]);
            cut(&mut left, Filter::MinP, &|_, id, _| tempered[id as usize] >= settings.min_p * best);
        }
    }
    let total: f64 = left.iter().map(|&id| tempered[id as usize]).sum();
    let mut kept = vec![0.0; tempered.len()];
    for id in left {
        kept[id as usize] = tempered[id as usize] / total;
    }
    Filtered { penalised, tempered, removed_by, kept, removed }
}

/// Divides the positive and multiplies the negative logits of the tokens in `seen`, each once.
fn penalise(penalty: f64, seen: &[u32], logits: &[f32]) -> Vec<f32> {
    let mut logits = logits.to_vec();
    let mut seen = seen.to_vec();
    seen.sort_unstable();
    seen.dedup();
    for id in seen {
        if let Some(logit) = logits.get_mut(id as usize).filter(|logit| logit.is_finite()) {
            let exact = f64::from(*logit);
            let penalised = if exact < 0.0 { exact * penalty } else { exact / penalty };
            *logit = penalised.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
        }
    }
    logits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sampler::Sampler;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// The sampler itself is the oracle. A token at the edge of top-p or min-p may fall on either side, by rounding.
        #[test]
        fn what_is_kept_is_what_the_sampler_keeps(
            logits in prop::collection::vec(-12.0..12f32, 1..80),
            temperature in prop::sample::select(&[0.0, 0.3, 1.0, 2.0]),
            top_k in 0..20u32, top_p in 0.05..=1.0f64, min_p in prop::sample::select(&[0.0, 0.01, 0.2, 1.0]),
            repetition_penalty in prop::sample::select(&[0.8, 1.0, 1.3]),
            seen in prop::collection::vec(0..80u32, 0..8),
        ) {
            let settings = Settings { temperature, top_k, top_p, min_p, repetition_penalty, ..Settings::default() };
            let mut sampler = Sampler::new(&settings);
            seen.iter().for_each(|&id| sampler.observe(id));
            sampler.sample(&logits, 0.5).unwrap();
            let filtered = apply(&settings, &seen, &logits);
            prop_assert!((filtered.kept.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let of_sampler = |id: usize| sampler.filtered_logprob(id as u32).map_or(0.0, f64::exp);
            let differ = (0..logits.len()).filter(|&id| (of_sampler(id) > 0.0) != (filtered.kept[id] > 0.0)).count();
            prop_assert!(differ <= 1, "{differ} differ");
            if differ == 0 {
                for id in 0..logits.len() {
                    prop_assert!((of_sampler(id) - filtered.kept[id]).abs() < 1e-5);
                    prop_assert_eq!(filtered.removed_by[id].is_none(), filtered.kept[id] > 0.0);
                }
            }
        }
    }

    #[test]
    fn each_filter_says_what_it_removed() {
        // Probabilities 1/2, 1/4, 1/8, 1/16, 1/16.
        let two = 2f32.ln();
        let logits = [4.0, 3.0, 2.0, 1.0, 1.0].map(|power: f32| power * two);
        let with = |settings| apply(&settings, &[], &logits);
        let plain = Settings { temperature: 1.0, top_p: 1.0, ..Settings::default() };
        assert!(with(plain.clone()).removed.is_empty());

        let near = |removed: &[(Filter, u32, f64)], right: &[(Filter, u32, f64)]| {
            assert_eq!(removed.len(), right.len());
            for ((filter, count, mass), right) in removed.iter().zip(right) {
                assert!((*filter, *count) == (right.0, right.1) && (mass - right.2).abs() < 1e-6, "{removed:?}");
            }
        };
        near(&with(Settings { top_k: 2, ..plain.clone() }).removed, &[(Filter::TopK, 3, 0.25)]);
        // The fourth and the fifth are as good, so top-k of 4 keeps both.
        near(&with(Settings { top_k: 4, ..plain.clone() }).removed, &[]);
        let top_p = with(Settings { top_k: 2, top_p: 0.6, ..plain.clone() });
        // Of the two that are left the first has two thirds.
        near(&top_p.removed, &[(Filter::TopK, 3, 0.25), (Filter::TopP, 1, 1.0 / 3.0)]);
        assert_eq!(top_p.removed_by[1], Some(Filter::TopP));
        near(&with(Settings { min_p: 0.3, ..plain.clone() }).removed, &[(Filter::MinP, 3, 0.25)]);
        let greedy = with(Settings { temperature: 0.0, ..plain });
        assert_eq!((greedy.kept[0], greedy.removed[0].1), (1.0, 4));
    }
}
