mod oracle;

use candle_core::{Device, Tensor};
use candle_transformers::generation::{LogitsProcessor, Sampling};
use proptest::prelude::*;
use serde::Deserialize;

use super::*;

/// No filter at all.
fn plain() -> Settings {
    Settings { temperature: 1.0, top_p: 1.0, top_logprobs: 0, ..Settings::default() }
}

fn sampler(settings: &Settings, history: &[u32]) -> Sampler {
    let mut sampler = Sampler::new(settings);
    history.iter().for_each(|&id| sampler.observe(id));
    sampler
}

/// The ids that can be drawn, with their probabilities.
fn distribution(settings: &Settings, history: &[u32], logits: &[f32]) -> Vec<(u32, f64)> {
    let mut sampler = sampler(settings, history);
    sampler.sample(logits, 0.0).unwrap();
    (0..logits.len() as u32).filter_map(|id| Some((id, sampler.filtered_logprob(id)?.exp()))).collect()
}

fn kept(settings: &Settings, logits: &[f32]) -> Vec<u32> {
    distribution(settings, &[], logits).into_iter().map(|(id, _)| id).collect()
}

#[derive(Deserialize)]
struct Fixture {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    logits: Vec<Option<f32>>,
    history: Vec<u32>,
    options: Options,
    kept: Vec<u32>,
    probabilities: Vec<f64>,
    tied: bool,
}

#[derive(Deserialize)]
struct Options {
    repetition_penalty: f64,
    temperature: f64,
    top_k: u32,
    top_p: f64,
    min_p: f64,
}

/// Hugging Face computes in f32 and the file has eight digits: they agree to 1e-6.
#[test]
fn the_published_cases_leave_the_same_distribution() {
    let fixture: Fixture = serde_json::from_slice(include_bytes!("../../tests/fixtures/sampling.json")).unwrap();
    assert_eq!(fixture.cases.len(), 80);
    for (number, case) in fixture.cases.iter().enumerate() {
        let Options { repetition_penalty, temperature, top_k, top_p, min_p } = case.options;
        let settings = Settings { repetition_penalty, temperature, top_k, top_p, min_p, ..plain() };
        let logits: Vec<f32> = case.logits.iter().map(|logit| logit.unwrap_or(f32::NEG_INFINITY)).collect();
        let (mut ids, mut ours): (Vec<u32>, Vec<f64>) =
            distribution(&settings, &case.history, &logits).into_iter().unzip();
        let (mut kept, mut theirs) = (case.kept.clone(), case.probabilities.clone());
        if case.tied {
            // Which of several equal tokens survive a cut is open; how many, and their probabilities, is not.
            ours.sort_by(f64::total_cmp);
            theirs.sort_by(f64::total_cmp);
            (ids, kept) = (vec![ids.len() as u32], vec![kept.len() as u32]);
        }
        assert_eq!(ids, kept, "case {number}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert!((ours - theirs).abs() < 1e-6, "case {number}: {ours} and {theirs}");
        }
    }
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    oracle::log_softmax(&logits.iter().map(|&logit| f64::from(logit)).collect::<Vec<_>>())
}

fn any_settings() -> impl Strategy<Value = Settings> {
    (
        prop_oneof![Just(0.0), Just(1.0), 0.05..3.0],
        prop_oneof![Just(0), Just(1), 0..50u32, Just(u32::MAX)],
        prop_oneof![Just(1.0), 0.001..1.0, Just(0.999_999)],
        prop_oneof![Just(0.0), Just(1.0), 0.0..1.0],
        prop_oneof![Just(1.0), 0.5..2.0],
        0..8u32,
    )
        .prop_map(|(temperature, top_k, top_p, min_p, repetition_penalty, top_logprobs)| Settings {
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            top_logprobs,
            ..Settings::default()
        })
}

/// Logits spread as a model's, with ties and impossible tokens; at least one is possible.
fn any_logits() -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![
        4 => -12.0..12.0f32,
        1 => -2.0..2.0f32,
        1 => prop::sample::select(&[0.0, -0.0, 1.0, -1.0, 0.5][..]),
        1 => Just(f32::NEG_INFINITY),
    ];
    (prop::collection::vec(logit, 1..120), -12.0..12.0f32).prop_map(|(mut logits, one)| {
        let middle = logits.len() / 2;
        logits[middle] = one;
        logits
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn equals_the_definition_by_sorting(
        settings in any_settings(),
        logits in any_logits(),
        history in prop::collection::vec(0..130u32, 0..20),
        numbers in prop::collection::vec(0.0..1.0f64, 1..6),
    ) {
        let mut sampler = sampler(&settings, &history);
        let expected = oracle::kept(&settings, &history, &logits);
        let expected_ids: Vec<u32> = expected.iter().map(|&(id, _)| id).collect();
        let exact = oracle::exact(&settings, &history, &logits, &expected_ids);
        let raw = log_softmax(&logits);
        for u in numbers {
            let choice = sampler.sample(&logits, u).unwrap();
            prop_assert_eq!(choice.id, oracle::walk(&expected, u));
            prop_assert!((choice.logprob - raw[choice.id as usize]).abs() < 1e-6);
            prop_assert_eq!(Some(choice.filtered_logprob), sampler.filtered_logprob(choice.id));
            let ids: Vec<u32> =
                (0..logits.len() as u32 + 40).filter(|&id| sampler.filtered_logprob(id).is_some()).collect();
            prop_assert_eq!(&ids, &expected_ids);
            for (&id, exact) in ids.iter().zip(&exact) {
                prop_assert!((sampler.filtered_logprob(id).unwrap() - exact).abs() < 1e-6);
            }

            let mut ids: Vec<u32> = (0..logits.len() as u32).filter(|&id| logits[id as usize].is_finite()).collect();
            ids.sort_by(|&a, &b| logits[b as usize].partial_cmp(&logits[a as usize]).unwrap());
            ids.truncate(settings.top_logprobs as usize);
            let candidates: Vec<Candidate> = sampler.candidates().collect();
            prop_assert!(candidates.iter().map(|candidate| candidate.id).eq(ids));
            for candidate in candidates {
                prop_assert!((candidate.logprob - raw[candidate.id as usize]).abs() < 1e-6);
                prop_assert_eq!(candidate.filtered_logprob, sampler.filtered_logprob(candidate.id));
            }
        }
    }
}

/// Logits of a real vocabulary's size, or of a size around that of chunks: flat, all equal, peaked, plateaus, more than
/// one at either end of the range of numbers, mostly impossible.
fn large_logits(n: usize) -> Vec<Vec<f32>> {
    let mut rng = UniformRng::new(3);
    let mut random = |scale: f64, power: i32| -> Vec<f32> {
        (0..n).map(|_| ((rng.next_f64() - 0.5).powi(power) * scale) as f32).collect()
    };
    let each = |logit: &dyn Fn(usize) -> f32| (0..n).map(logit).collect();
    let mut far = random(20.0, 1);
    (far[0], far[n / 2], far[n - 1]) = (-1e30, 25.0, f32::MIN);
    vec![
        random(1e-6, 1),
        random(1.0, 1),
        random(30.0, 1),
        random(300.0, 1),
        random(3000.0, 5),
        far,
        vec![0.5; n],
        each(&|id| if id % 3 == 0 { 1.0 } else { 0.0 }),
        each(&|id| (id % 7) as f32 * -1.5),
        each(&|id| if id % 41 == 40 || id + 1 == n { (id % 9) as f32 } else { f32::NEG_INFINITY }),
        each(&|id| -(1.001f32.powi(-(id as i32)))),
        each(&|id| if id + 1 == n { f32::MAX } else { f32::MIN }),
    ]
}

#[test]
fn equals_the_definition_on_large_vocabularies_and_adversarial_logits() {
    let on = Settings { temperature: 0.8, top_k: 50, top_p: 0.95, min_p: 0.02, repetition_penalty: 1.1, ..plain() };
    let mut all = vec![on.clone(), Settings::default(), Settings { top_k: 5000, ..on.clone() }];
    all.extend([1e-3, 0.3, 2.0, 100.0].map(|temperature| Settings { temperature, ..Settings::default() }));
    all.extend([1e-9, 0.1, 0.9, 0.999, 1.0 - 1e-9].map(|top_p| Settings { top_p, ..plain() }));
    all.extend([1, 7, 1570, 1571, 1572, 50256].map(|top_k| Settings { top_k, ..plain() }));
    all.extend([1e-12, 0.5, 1.0].map(|min_p| Settings { min_p, top_p: 0.99, repetition_penalty: 0.5, ..plain() }));
    let history: Vec<u32> = (0..500).map(|index| index * index % 50257).collect();
    for n in [1, 31, 32, 33, 300, 50257] {
        for (shape, logits) in large_logits(n).iter().enumerate() {
            for settings in &all {
                let mut sampler = sampler(settings, &history);
                let expected = oracle::kept(settings, &history, logits);
                for u in [0.0, 0.37, 0.999_3] {
                    let choice = sampler.sample(logits, u).unwrap();
                    assert_eq!(choice.id, oracle::walk(&expected, u), "{n}, {shape}, {u}, {settings:?}");
                }
                let ids: Vec<u32> = (0..n as u32).filter(|&id| sampler.filtered_logprob(id).is_some()).collect();
                let expected: Vec<u32> = expected.iter().map(|&(id, _)| id).collect();
                assert!(ids == expected, "{n}, {shape}, {settings:?}: {} and {}", ids.len(), expected.len());
                let exact = oracle::exact(settings, &history, logits, &ids);
                let ours = ids.iter().map(|&id| sampler.filtered_logprob(id).unwrap());
                for (ours, exact) in ours.zip(exact) {
                    let error = (ours - exact).abs() / exact.abs().max(1.0);
                    assert!(error < 2e-6, "{n}, {shape}, {settings:?}: {ours} and {exact}");
                }
            }
        }
    }
}

#[test]
fn logprobs_are_those_of_the_model_on_large_vocabularies() {
    let mut sampler = Sampler::new(&Settings { top_logprobs: 20, ..Settings::default() });
    for (shape, logits) in large_logits(50257).iter().enumerate() {
        let expected = log_softmax(logits);
        let choice = sampler.sample(logits, 0.9).unwrap();
        let chosen = (choice.id, choice.logprob);
        for (id, logprob) in sampler.candidates().map(|candidate| (candidate.id, candidate.logprob)).chain([chosen]) {
            let error = (logprob - expected[id as usize]).abs();
            assert!(error < 1e-6, "{shape}, {id}: off by {error}");
        }
    }
}

#[test]
fn candle_draws_with_the_same_frequencies() {
    let logits = [1.5f32, -0.5, 2.0, 0.3, 1.9, -3.0, 0.0, 1.2];
    let tensor = Tensor::new(&logits, &Device::Cpu).unwrap();
    let temperature = 0.8;
    let draws = 40_000;
    for (theirs, ours) in [
        (Sampling::ArgMax, Settings { temperature: 0.0, ..plain() }),
        (Sampling::All { temperature }, Settings { temperature, ..plain() }),
        (Sampling::TopK { k: 3, temperature }, Settings { temperature, top_k: 3, ..plain() }),
        (Sampling::TopP { p: 0.7, temperature }, Settings { temperature, top_p: 0.7, ..plain() }),
    ] {
        let mut processor = LogitsProcessor::from_sampling(11, theirs.clone());
        let (mut sampler, mut rng) = (Sampler::new(&ours), UniformRng::new(11));
        let mut counts = [[0.0f64; 2]; 8];
        for _ in 0..draws {
            counts[processor.sample(&tensor).unwrap() as usize][0] += 1.0;
            counts[sampler.sample(&logits, rng.next_f64()).unwrap().id as usize][1] += 1.0;
        }
        for (id, [theirs_count, ours_count]) in counts.into_iter().enumerate() {
            let probability = sampler.filtered_logprob(id as u32).map_or(0.0, f64::exp);
            // Five standard deviations of a binomial count.
            let tolerance = 5.0 * (f64::from(draws) * probability * (1.0 - probability)).sqrt();
            for count in [theirs_count, ours_count] {
                let expected = f64::from(draws) * probability;
                assert!((count - expected).abs() <= tolerance, "{theirs:?}, {id}: {count} and {expected}");
            }
        }
    }
}

#[test]
fn the_penalty_makes_tokens_seen_less_likely_whatever_the_sign_and_once() {
    let settings = Settings { repetition_penalty: 2.0, ..plain() };
    let logits = [2.0, -2.0, 0.0, 1.0];
    let once = distribution(&settings, &[0, 1, 2], &logits);
    let expected = distribution(&plain(), &[], &[1.0, -4.0, 0.0, 1.0]);
    assert_eq!(once, expected);
    assert_eq!(distribution(&settings, &[0, 1, 2, 1, 0, 0, 1, 1], &logits), once);
    // An id past the logits has nothing to penalise.
    assert_eq!(distribution(&settings, &[2, 1, 0, 4, u32::MAX], &logits), once);
}

#[test]
fn temperature_0_takes_the_first_of_the_best_after_the_penalty() {
    let greedy = Settings { temperature: 0.0, repetition_penalty: 4.0, top_logprobs: 3, ..plain() };
    let mut sampler = sampler(&greedy, &[1]);
    for u in [0.0, 0.5, 1.0 - f64::EPSILON / 2.0] {
        let choice = sampler.sample(&[1.0, 3.0, 2.0, 2.0], u).unwrap();
        assert_eq!((choice.id, choice.filtered_logprob), (2, 0.0));
        assert!((choice.logprob - log_softmax(&[1.0, 3.0, 2.0, 2.0])[2]).abs() < 1e-6);
        let candidates: Vec<_> = sampler.candidates().map(|c| (c.id, c.filtered_logprob)).collect();
        assert_eq!(candidates, [(1, None), (2, Some(0.0)), (3, None)]);
    }
}

#[test]
fn extreme_settings_give_no_nan() {
    let logits = [f32::MAX, f32::MIN, 3.0, -2.0, 0.0, -0.0, f32::MIN_POSITIVE, f32::NEG_INFINITY];
    for temperature in [0.0, 5e-324, 1e-9, 1.0, f64::MAX] {
        for repetition_penalty in [5e-324, 1e-9, 1.0, f64::MAX] {
            for history in [&[][..], &[0, 1, 2, 3, 4, 5, 6, 7]] {
                for top_p in [5e-324, 0.5, 1.0 - f64::EPSILON, 1.0] {
                    let settings =
                        Settings { temperature, repetition_penalty, top_p, top_logprobs: 20, ..Settings::default() };
                    let mut sampler = sampler(&settings, history);
                    for u in [0.0, 0.3, 1.0 - f64::EPSILON / 2.0] {
                        let choice = sampler.sample(&logits, u).unwrap();
                        assert!(choice.id < 7 && choice.logprob.is_finite() && choice.filtered_logprob.is_finite());
                        assert!(sampler.candidates().len() == 7);
                        assert!(sampler.candidates().all(|c| c.logprob.is_finite()));
                        assert!(sampler.candidates().all(|c| c.filtered_logprob.is_none_or(f64::is_finite)));
                    }
                }
            }
        }
    }
    let cold = Settings { temperature: 1e-9, ..plain() };
    assert_eq!(Sampler::new(&cold).sample(&[1.0, 2.0, 1.5], 0.99).unwrap().id, 1);
}

#[test]
fn values_that_switch_a_filter_off() {
    let logits = [0.1, 2.0, -1.0, 2.0, 0.7];
    let all = vec![0, 1, 2, 3, 4];
    for top_k in [0, 5, 6, u32::MAX] {
        assert_eq!(kept(&Settings { top_k, ..plain() }, &logits), all);
    }
    for min_p in [0.0, 1e-300] {
        assert_eq!(kept(&Settings { min_p, ..plain() }, &logits), all);
    }
    // The top-p cut after the last token is no cut, and its draw the very same.
    let (mut off, mut on) = (Sampler::new(&plain()), Sampler::new(&Settings { top_p: 1.0 - f64::EPSILON, ..plain() }));
    let mut rng = UniformRng::new(5);
    for _ in 0..1000 {
        let u = rng.next_f64();
        assert_eq!(off.sample(&logits, u).unwrap(), on.sample(&logits, u).unwrap());
    }
}

#[test]
fn values_that_keep_only_the_best() {
    let logits = [0.1, 2.0, -1.0, 1.9, 0.7];
    for settings in
        [Settings { top_k: 1, ..plain() }, Settings { min_p: 1.0, ..plain() }, Settings { top_p: 1e-6, ..plain() }]
    {
        assert_eq!(distribution(&settings, &[], &logits), [(1, 1.0)]);
    }
    // Top-k and min-p cannot tell equals apart; top-p takes the first.
    let tied = [0.0, 2.0, -0.0, 2.0];
    assert_eq!(kept(&Settings { top_k: 1, ..plain() }, &tied), [1, 3]);
    assert_eq!(kept(&Settings { min_p: 1.0, ..plain() }, &tied), [1, 3]);
    assert_eq!(kept(&Settings { top_p: 1e-6, ..plain() }, &tied), [1]);
    assert_eq!(kept(&Settings { top_k: 3, ..plain() }, &tied), [0, 1, 2, 3], "0 and -0 are equal");
    // Among the best, where the lanes of the maximum meet 0 before -0.
    let mut signs = [-1.0; 16];
    (signs[1], signs[8]) = (-0.0, 0.0);
    assert_eq!(kept(&Settings { top_p: 1e-6, ..plain() }, &signs), [1], "0 and -0 are equal");
    assert_eq!(kept(&Settings { top_k: 2, ..plain() }, &[f32::NEG_INFINITY, 1.0, f32::NEG_INFINITY]), [1]);
}

/// A token is kept if those before it have less than top-p, not if they have just as much.
#[test]
fn top_p_at_the_edge_of_a_token() {
    for (top_p, expected) in [(0.25, 1), (0.25 + 1e-9, 2), (0.5, 2), (0.75, 3), (0.75 + 1e-9, 4)] {
        assert_eq!(kept(&Settings { top_p, ..plain() }, &[1.5; 4]).len(), expected, "{top_p}");
    }
}

#[test]
fn the_ends_of_the_coin() {
    let mut sampler = Sampler::new(&plain());
    let logits = [f32::NEG_INFINITY, 0.0, 0.0, f32::NEG_INFINITY];
    assert_eq!(sampler.sample(&logits, 0.0).unwrap().id, 1);
    assert_eq!(sampler.sample(&logits, 0.5).unwrap().id, 2);
    assert_eq!(sampler.sample(&logits, 1.0 - f64::EPSILON / 2.0).unwrap().id, 2);
    assert_eq!(sampler.sample(&[3.0], 1.0 - f64::EPSILON / 2.0).unwrap().id, 0);

    // Where rounding takes the walk to its end, it is still at a token that can be drawn.
    let mut rng = UniformRng::new(2);
    for _ in 0..2000 {
        let mut logits: Vec<f32> = (0..50).map(|_| rng.next_f64() as f32).collect();
        logits.extend([f32::NEG_INFINITY; 3]);
        assert!(sampler.sample(&logits, 1.0 - f64::EPSILON / 2.0).unwrap().id < 50);
    }
}

#[test]
fn damaged_logits_are_an_error_that_names_the_first() {
    for temperature in [0.0, 1.0] {
        let mut sampler = Sampler::new(&Settings { temperature, ..Settings::default() });
        for (logits, says) in [
            (&[1.0, f32::NAN, f32::INFINITY][..], "token 1 is NaN"),
            (&[1.0, 2.0, f32::INFINITY, f32::NAN], "token 2 is inf"),
            (&[f32::NEG_INFINITY, f32::INFINITY, 1.0], "token 1 is inf"),
            (&[1.0, f32::INFINITY, 1.0], "token 1 is inf"),
            (&[f32::NEG_INFINITY; 3], "all 3 logits"),
            (&[], "all 0 logits"),
        ] {
            let error = sampler.sample(logits, 0.5).unwrap_err();
            assert_eq!(error.kind, ErrorKind::NonFinite);
            assert!(error.message.contains(says), "{error}");
        }
        assert_eq!(sampler.sample(&[f32::NEG_INFINITY, 1.0], 0.5).unwrap().id, 1, "works after an error");
    }
}

#[test]
fn steps_allocate_nothing_new() {
    let settings = Settings { top_k: 20, top_p: 0.9, repetition_penalty: 1.2, ..Settings::default() };
    let mut sampler = sampler(&settings, &[1, 2, 3]);
    let mut rng = UniformRng::new(1);
    let mut logits = |scale: f64| -> Vec<f32> { (0..1000).map(|_| (rng.next_f64() * scale) as f32).collect() };
    let buffers = |sampler: &Sampler| {
        [
            sampler.chunks.all().as_ptr() as usize,
            sampler.chunks.maxima().as_ptr() as usize,
            sampler.weights.as_ptr() as usize,
            sampler.sums.as_ptr() as usize,
            sampler.maxima.as_ptr() as usize,
            sampler.top.as_ptr() as usize,
        ]
    };
    sampler.sample(&logits(1.0), 0.5).unwrap();
    let before = buffers(&sampler);
    for _ in 0..50 {
        sampler.sample(&logits(20.0), 0.5).unwrap();
    }
    assert_eq!(buffers(&sampler), before);
}
