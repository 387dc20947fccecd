//! Where the time of a step goes, by a clock that ticks whenever it is read.

use std::cell::Cell;

use gpt2_web::engine::Engine;
use gpt2_web::generate::{CancelToken, Generation, Progress};
use gpt2_web::gpt2::checkpoint::ModelFile;
use gpt2_web::model::{LanguageModel, PartTimes};
use gpt2_web::record::Record;
use gpt2_web::settings::Settings;

use crate::fixture;

/// Layers of the fixture.
const LAYERS: f64 = 2.0;

thread_local!(static TICKS: Cell<u32> = const { Cell::new(0) });

fn tick() -> f64 {
    TICKS.set(TICKS.get() + 1);
    f64::from(TICKS.get())
}

fn engine() -> Engine {
    let file = fixture::bytes("tests/fixtures/gguf/f32.gguf");
    Engine::load("tiny", &[ModelFile { name: "tiny.gguf", bytes: &file }], None, &mut |_, _| {}).unwrap()
}

/// A run of `max_tokens` tokens; handing on each step takes `hand_on` readings of the clock.
fn run(engine: &mut Engine, prompt: &str, max_tokens: u32, clock: &dyn Fn() -> f64, hand_on: u32) -> Record {
    let settings = Settings { temperature: 0.0, top_p: 1.0, max_tokens, ..Settings::default() };
    let Engine { model, tokenizer, identity, .. } = engine;
    let mut generation = Generation::new(model, tokenizer, prompt, settings, clock, CancelToken::default()).unwrap();
    while let Some(progress) = generation.advance().unwrap() {
        if let Progress::Step(_) = progress {
            let before = clock();
            let after = (0..hand_on).fold(before, |_, _| clock());
            generation.note_delivery_ms(after - before);
        }
    }
    let record = generation.into_record(identity.clone());
    assert_eq!(record.token_ids.len(), max_tokens as usize, "the fixture writes on");
    record
}

#[test]
fn the_parts_of_a_step_add_up_and_the_prefill_is_not_among_them() {
    let mut engine = engine();
    engine.model.set_clock(tick);
    for (prompt, max_tokens, hand_on) in [("a", 2, 0), ("a", 20, 5), ("the king and the fox and the moon", 9, 3)] {
        let record = run(&mut engine, prompt, max_tokens, &tick, hand_on);
        let profile = record.profile.unwrap();
        assert_eq!(profile.steps, max_tokens - 1);
        assert_eq!((profile.embedding_ms, profile.lm_head_ms, profile.sampling_ms), (1.0, 1.0, 1.0));
        assert_eq!((profile.attention_ms, profile.mlp_ms), (LAYERS, LAYERS));
        assert_eq!(profile.messages_ms, f64::from(hand_on));
        let parts = [profile.embedding_ms, profile.attention_ms, profile.mlp_ms, profile.lm_head_ms];
        let sum = parts.iter().sum::<f64>() + profile.sampling_ms + profile.messages_ms + profile.other_ms;
        assert!(profile.other_ms > 0.0, "{profile:?}");
        assert!((sum - 1000.0 / record.tokens_per_second.unwrap()).abs() < 1e-9, "{profile:?}");
    }
}

#[test]
fn a_model_tells_the_times_of_all_its_passes() {
    let mut engine = engine();
    assert_eq!(engine.model.part_times(), None);
    engine.model.set_clock(tick);
    assert_eq!(engine.model.part_times(), Some(PartTimes::default()));
    engine.model.feed(&[1, 2, 3]).unwrap();
    engine.model.score(&[4, 5]).unwrap();
    let twice = PartTimes { embedding: 2.0, attention: 2.0 * LAYERS, mlp: 2.0 * LAYERS, lm_head: 2.0 };
    assert_eq!(engine.model.part_times(), Some(twice));
}

#[test]
fn what_was_not_measured_is_absent() {
    let mut engine = engine();
    assert_eq!(run(&mut engine, "a", 5, &tick, 1).profile, None, "a model without a clock");
    engine.model.set_clock(tick);
    assert_eq!(run(&mut engine, "a", 1, &tick, 1).profile, None, "no step after the first token");
    engine.model.set_clock(|| 0.0);
    assert_eq!(run(&mut engine, "a", 5, &|| 0.0, 1).profile, None, "a clock that stands still");
}
