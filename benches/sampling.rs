//! The cost of sampling a token, natively: `cargo bench --bench sampling --profile quick`.
//!
//! There are two distributions of logits. A trained model gives a broad hump with a thin tail of likely tokens. Random
//! weights, which the benchmarks of a whole step use, give flat logits, so that a nucleus contains most of the vocabulary.

use criterion::{Criterion, criterion_group, criterion_main};
use gpt2_web::sampler::{Sampler, UniformRng};
use gpt2_web::settings::Settings;

const VOCABULARY: u32 = 50257;

fn sampling(criterion: &mut Criterion) {
    let mut rng = UniformRng::new(1);
    let trained = logits(&mut rng, 2.2, 0.002);
    let flat = logits(&mut rng, 0.6, 0.0);
    let every_filter =
        Settings { top_k: 50, min_p: 0.02, repetition_penalty: 1.1, top_logprobs: 5, ..Settings::default() };
    for (name, settings) in [
        ("greedy", Settings { temperature: 0.0, ..Settings::default() }),
        ("default", Settings::default()),
        ("every filter", every_filter.clone()),
        ("every filter, top-k 5000", Settings { top_k: 5000, ..every_filter }),
        ("temperature 100", Settings { temperature: 100.0, ..Settings::default() }),
    ] {
        let mut sampler = Sampler::new(&settings);
        (0..500).for_each(|_| sampler.observe((rng.next_f64() * f64::from(VOCABULARY)) as u32));
        let mut group = criterion.benchmark_group(name);
        for (shape, logits) in [("trained", &trained), ("flat", &flat)] {
            group.bench_function(shape, |bencher| {
                bencher.iter(|| sampler.sample(logits, rng.next_f64()).expect("all logits are finite"));
            });
        }
    }
}

/// Normally distributed logits with this standard deviation; a fraction `likely` of them is about six higher.
fn logits(rng: &mut UniformRng, deviation: f64, likely: f64) -> Vec<f32> {
    let logit = |_| {
        let rest = deviation * normal(rng) - 80.0;
        let logit = if rng.next_f64() < likely { rest + 6.0 + 2.0 * normal(rng) } else { rest };
        logit as f32
    };
    (0..VOCABULARY).map(logit).collect()
}

fn normal(rng: &mut UniformRng) -> f64 {
    (0..12).map(|_| rng.next_f64()).sum::<f64>() - 6.0
}

criterion_group!(benches, sampling);
criterion_main!(benches);
