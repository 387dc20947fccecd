//! The generation loop, driven by models that follow a script: weights do not matter here, the order of things does.

use std::cell::Cell;
use std::sync::LazyLock;

use gpt2_web::generate::{CancelToken, Generation, Progress};
use gpt2_web::model::{LanguageModel, ScriptedModel};
use gpt2_web::record::{Identity, Record, Stop, StopReason};
use gpt2_web::settings::Settings;
use gpt2_web::text::Tokenizer;
use gpt2_web::{Error, ErrorKind, Result};
use proptest::prelude::*;

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let read = |name| std::fs::read(format!("tests/fixtures/gpt2-tokenizer/{name}")).unwrap();
    Tokenizer::from_vocab_merges(&read("vocab.json"), &read("merges.txt")).unwrap()
});

/// The token of each single byte.
static BYTE_TOKENS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let of = |byte: u8| (0..256).find(|&id| TOKENIZER.bytes(id) == Some(&[byte])).unwrap();
    (0..=255).map(of).collect()
});

const VOCAB: usize = 50257;
const EOS: u32 = 50256;

fn bytewise(text: &[u8]) -> Vec<u32> {
    text.iter().map(|&byte| BYTE_TOKENS[byte as usize]).collect()
}

fn ids(text: &str) -> Vec<u32> {
    TOKENIZER.encode(text, false).unwrap()
}

fn greedy() -> Settings {
    Settings { temperature: 0.0, top_p: 1.0, max_tokens: 1000, top_logprobs: 2, ..Settings::default() }
}

fn stopping(stop: &[&str]) -> Settings {
    Settings { stop: stop.iter().map(|&text| text.to_owned()).collect(), ..greedy() }
}

fn identity() -> Identity {
    Identity {
        model: "scripted".into(),
        model_sha256: None,
        tokenizer_sha256: TOKENIZER.sha256().to_owned(),
        precision: "f32".into(),
        kernel: "scalar".into(),
        readers: 4,
        readers_trial: Vec::new(),
    }
}

/// How a run ended that did not fail.
fn end_of(record: &Record) -> &Stop {
    record.stop.as_ref().unwrap()
}

/// A run to its end: the deltas as they came, and the record.
fn run(model: &mut (impl LanguageModel + ?Sized), prompt: &str, settings: Settings) -> (Vec<String>, Record) {
    run_with(model, prompt, settings, &|| 0.0, CancelToken::default())
}

fn run_with(
    model: &mut (impl LanguageModel + ?Sized),
    prompt: &str,
    settings: Settings,
    clock: &dyn Fn() -> f64,
    cancel: CancelToken,
) -> (Vec<String>, Record) {
    let mut generation = Generation::new(model, &TOKENIZER, prompt, settings, clock, cancel).unwrap();
    let mut deltas = Vec::new();
    let mut ends = 0;
    while let Some(progress) = generation.advance().unwrap() {
        assert_eq!(ends, 0, "nothing follows the end");
        match progress {
            Progress::Prefill { done, total, .. } => assert!(done <= total),
            Progress::Step(record) => deltas.push(record.text),
            Progress::End { text, .. } => {
                ends += 1;
                deltas.push(text);
            }
        }
    }
    assert_eq!(ends, 1, "exactly one end");
    assert_eq!(generation.advance().unwrap(), None);
    let record = generation.into_record(identity());
    assert_eq!(deltas.concat(), record.text, "deltas join to the text");
    assert_eq!(record.steps.len(), record.token_ids.len(), "one record a token");
    (deltas, record)
}

/// The run of a script after the prompt `Once`.
fn scripted(script: Vec<u32>, settings: Settings) -> (Vec<String>, Record) {
    run(&mut ScriptedModel::new(VOCAB, 1024, 1, script), "Once", settings)
}

fn ends_with(mut script: Vec<u32>, last: u32) -> Vec<u32> {
    script.push(last);
    script
}

// --- stop reasons ---

#[test]
fn eos_ends_the_run_and_is_neither_decoded_nor_emitted() {
    let (deltas, record) = scripted(ends_with(ids(" a king"), EOS), greedy());
    assert_eq!(deltas, [" a", " king", "", ""]);
    assert_eq!(end_of(&record).reason, StopReason::Eos);
    assert_eq!(end_of(&record).finish_reason, "stop");
    assert_eq!(record.token_ids.last(), Some(&EOS));
    assert!(record.steps[2].bytes.is_empty());
}

#[test]
fn generated_text_that_spells_the_end_of_text_token_is_text() {
    let spelled = ids("<|endoftext|>");
    assert_eq!(spelled.len(), 7);
    let (_, record) = scripted(ends_with(spelled, EOS), greedy());
    assert_eq!(record.text, "<|endoftext|>");
    assert_eq!(end_of(&record).reason, StopReason::Eos);
}

#[test]
fn a_stop_string_across_tokens_leaves_none_of_its_letters() {
    let script = ["abc", "DEF", "G", "HI", "J", " never"].iter().flat_map(|text| ids(text)).collect();
    let (_, record) = scripted(script, stopping(&["DEFGHIJ"]));
    assert_eq!(record.text, "abc");
    assert_eq!(end_of(&record).reason, StopReason::StopString);
    assert_eq!(end_of(&record).stop_string.as_deref(), Some("DEFGHIJ"));
}

#[test]
fn text_before_a_stop_string_inside_one_token_is_emitted() {
    let question = (0..VOCAB as u32).find(|&id| TOKENIZER.bytes(id) == Some(b"?\n"));
    let script = question.map_or_else(|| bytewise(b"?\n"), |id| vec![id]);
    let (_, record) = scripted(script, stopping(&["\n"]));
    assert_eq!((record.text.as_str(), end_of(&record).reason), ("?", StopReason::StopString));
    let classes = ids(" classes");
    assert_eq!(classes.len(), 1);
    let (_, record) = scripted(classes.clone(), stopping(&["class"]));
    assert_eq!(record.text, " ");
    assert_eq!(record.token_ids, classes, "the cut token still counts as generated");
}

#[test]
fn the_same_stop_text_by_two_tokenisations_stops_both_times() {
    for script in [ids(" the end."), bytewise(b" the end.")] {
        let (_, record) = scripted(ends_with(script, EOS), stopping(&["the end"]));
        assert_eq!((record.text.as_str(), end_of(&record).reason), (" ", StopReason::StopString));
    }
}

#[test]
fn a_stop_string_in_the_prompt_does_not_count() {
    for prompt in ["The end", "The en"] {
        let settings = stopping(&["end"]);
        let mut model = ScriptedModel::new(VOCAB, 64, ids(prompt).len(), ends_with(ids("d of it"), EOS));
        let (_, record) = run(&mut model, prompt, settings);
        assert_eq!((record.text.as_str(), end_of(&record).reason), ("d of it", StopReason::Eos));
    }
}

#[test]
fn max_tokens_counts_tokens() {
    let (_, record) = scripted(ids(" one two three four five"), Settings { max_tokens: 3, ..greedy() });
    assert_eq!((record.text.as_str(), end_of(&record).reason), (" one two three", StopReason::MaxTokens));
    assert_eq!(end_of(&record).finish_reason, "length");
    assert_eq!(record.token_ids.len(), 3);
    assert_eq!(record.positions_processed, 3, "the last token is never processed");
}

#[test]
fn the_context_is_used_to_its_last_position() {
    for prompt_len in [1, 1023, 1024] {
        let prompt = " a".repeat(prompt_len);
        let mut model = ScriptedModel::new(VOCAB, 1024, prompt_len, ids(" b").repeat(1024));
        let (_, record) = run(&mut model, &prompt, Settings { max_tokens: 5000, ..greedy() });
        assert_eq!(record.prompt_ids.len(), prompt_len);
        assert_eq!(end_of(&record).reason, StopReason::ContextFull);
        assert_eq!(record.positions_processed, 1024);
        assert_eq!(record.token_ids.len(), 1024 - prompt_len + 1, "the last token has no position any more");
    }
}

#[test]
fn a_prompt_beyond_the_context_is_refused_with_both_numbers() {
    for prompt_len in [1025, 5000] {
        let mut model = ScriptedModel::new(VOCAB, 1024, prompt_len, vec![]);
        let prompt = " a".repeat(prompt_len);
        let error =
            Generation::new(&mut model, &TOKENIZER, &prompt, greedy(), &|| 0.0, CancelToken::default()).err().unwrap();
        assert_eq!(error.kind, ErrorKind::PromptTooLong);
        assert!(error.message.contains(&prompt_len.to_string()) && error.message.contains("1024"), "{error}");
    }
}

#[test]
fn a_prompt_of_megabytes_is_refused_without_being_encoded() {
    let mut model = ScriptedModel::new(VOCAB, 1024, 1, vec![]);
    let prompt = "a".repeat(50 << 20);
    let error =
        Generation::new(&mut model, &TOKENIZER, &prompt, greedy(), &|| 0.0, CancelToken::default()).err().unwrap();
    assert_eq!(error.kind, ErrorKind::PromptTooLong);
    assert!(error.message.contains("at least 409600 tokens"), "{error}");
}

#[test]
fn earlier_reasons_win_within_one_step() {
    // The third token is EOS, the last one allowed, the last that fits, and late.
    let late = Cell::new(0.0);
    let mut model = Hooked::new(ScriptedModel::new(VOCAB, 3, 1, ends_with(ids(" a b"), EOS)), |_, len, _| {
        late.set(if len == 3 { 1e9 } else { 0.0 });
    });
    let settings = Settings { max_tokens: 3, timeout_ms: Some(10.0), ..greedy() };
    let (_, record) = run_with(&mut model, "Once", settings, &|| late.get(), CancelToken::default());
    assert_eq!(end_of(&record).reason, StopReason::Eos);
    // A stop string before max_tokens, max_tokens before the context's end, the context's end before a cancel.
    let limits = |max_tokens, stop: &[&str]| Settings { max_tokens, ..stopping(stop) };
    for (settings, reason) in [
        (limits(3, &["c"]), StopReason::StopString),
        (limits(3, &["x"]), StopReason::MaxTokens),
        (limits(4, &["x"]), StopReason::ContextFull),
    ] {
        let cancel = CancelToken::default();
        let token = cancel.clone();
        let mut model = Hooked::new(ScriptedModel::new(VOCAB, 3, 1, ids(" a b c d")), move |_, len, _| {
            if len == 3 {
                token.cancel();
            }
        });
        let (_, record) = run_with(&mut model, "Once", settings, &|| 0.0, cancel);
        assert_eq!(end_of(&record).reason, reason);
    }
}

#[test]
fn a_cancel_during_the_last_pass_comes_before_the_timeout() {
    let cancel = CancelToken::default();
    let (token, late) = (cancel.clone(), Cell::new(0.0));
    let mut model = Hooked::new(ScriptedModel::new(VOCAB, 100, 1, ids(" a b c d")), |_, len, _| {
        if len == 3 {
            token.cancel();
            late.set(1e9);
        }
    });
    let settings = Settings { timeout_ms: Some(10.0), ..greedy() };
    let (_, record) = run_with(&mut model, "Once", settings, &|| late.get(), cancel);
    assert_eq!(end_of(&record).reason, StopReason::Cancelled);
    assert_eq!(end_of(&record).finish_reason, "abort");
    assert_eq!(record.text, " a b c", "the step that was under way is kept");
}

#[test]
fn the_timeout_runs_by_the_given_clock() {
    let now = Cell::new(0.0);
    let mut model = Hooked::new(ScriptedModel::new(VOCAB, 100, 1, ids(" a b c d e f")), |_, _, _| {
        now.set(now.get() + 10.0);
    });
    let settings = Settings { timeout_ms: Some(35.0), ..greedy() };
    let (_, record) = run_with(&mut model, "Once", settings, &|| now.get(), CancelToken::default());
    assert_eq!(end_of(&record).reason, StopReason::Timeout);
    assert_eq!(record.token_ids.len(), 4, "one pass of prefill and three of decode take 40 ms");
    assert_eq!((record.prefill_ms, record.decode_ms), (10.0, 30.0));
    assert_eq!(record.time_to_first_token_ms, Some(10.0));
    assert_eq!(record.tokens_per_second, Some(100.0));
    assert_eq!(record.profile, None, "a script has no parts to measure");
    assert_eq!(record.steps.iter().map(|step| step.forward_ms).collect::<Vec<_>>(), [0.0, 10.0, 10.0, 10.0]);
}

// --- cancel ---

#[test]
fn a_cancel_is_heard_before_the_first_token_in_prefill_and_twice() {
    let prompt = " a".repeat(100);
    for after_chunks in [0, 1, 2] {
        let mut model = ScriptedModel::new(VOCAB, 1024, 100, ids(" b"));
        let cancel = CancelToken::default();
        let now = Cell::new(0.0);
        let clock = || {
            now.set(now.get() + 20.0);
            now.get()
        };
        let mut generation =
            Generation::new(&mut model, &TOKENIZER, &prompt, greedy(), &clock, cancel.clone()).unwrap();
        for _ in 0..after_chunks {
            assert!(matches!(generation.advance().unwrap(), Some(Progress::Prefill { .. })));
        }
        cancel.cancel();
        cancel.cancel();
        let Some(Progress::End { text, stop }) = generation.advance().unwrap() else { panic!("not the end") };
        assert_eq!((text.as_str(), stop.reason), ("", StopReason::Cancelled));
        assert_eq!(generation.advance().unwrap(), None);
        let record = generation.into_record(identity());
        assert_eq!((record.token_ids.len(), record.time_to_first_token_ms), (0, None));
        assert!(record.positions_processed < 100);
    }
}

#[test]
fn a_cancel_after_the_end_changes_nothing() {
    let mut model = ScriptedModel::new(VOCAB, 64, 1, vec![EOS]);
    let cancel = CancelToken::default();
    let mut generation = Generation::new(&mut model, &TOKENIZER, "Once", greedy(), &|| 0.0, cancel.clone()).unwrap();
    while generation.advance().unwrap().is_some() {}
    cancel.cancel();
    assert_eq!(generation.advance().unwrap(), None);
    assert_eq!(end_of(&generation.into_record(identity())).reason, StopReason::Eos);
}

#[test]
fn held_text_is_flushed_whatever_ends_the_run() {
    let held = ids(" the e");
    for (settings, reason) in [
        (stopping(&["the end"]), StopReason::Eos),
        (Settings { max_tokens: held.len() as u32, ..stopping(&["the end"]) }, StopReason::MaxTokens),
    ] {
        let (_, record) = scripted(ends_with(held.clone(), EOS), settings);
        assert_eq!((record.text.as_str(), end_of(&record).reason), (" the e", reason));
    }
    // Between two steps the flushed text is a delta of its own.
    let cancel = CancelToken::default();
    let mut model = ScriptedModel::new(VOCAB, 64, 1, ids(" the end"));
    let mut generation =
        Generation::new(&mut model, &TOKENIZER, "Once", stopping(&[" the end"]), &|| 0.0, cancel.clone()).unwrap();
    for _ in 0..2 {
        generation.advance().unwrap();
    }
    cancel.cancel();
    let Some(Progress::End { text, .. }) = generation.advance().unwrap() else { panic!("not the end") };
    assert_eq!(text, " the");
    assert_eq!(generation.into_record(identity()).text, " the");
}

// --- text ---

#[test]
fn characters_cut_by_tokens_come_out_whole_and_every_step_has_its_record() {
    let text = "👋🏽é漢";
    let (deltas, record) = scripted(ends_with(bytewise(text.as_bytes()), EOS), greedy());
    assert_eq!(record.text, text);
    assert!(deltas.iter().all(|delta| !delta.contains('\u{FFFD}')));
    assert_eq!(record.steps.len(), text.len() + 1);
    assert_eq!(deltas.iter().filter(|delta| !delta.is_empty()).count(), text.chars().count());
}

#[test]
fn an_incomplete_character_at_the_end_becomes_one_replacement_character() {
    let script = bytewise("a👋".as_bytes());
    let (_, record) = scripted(script, Settings { max_tokens: 3, ..greedy() });
    assert_eq!((record.text.as_str(), end_of(&record).reason), ("a\u{FFFD}", StopReason::MaxTokens));
}

#[test]
fn an_invalid_byte_does_not_hold_up_what_follows() {
    let script: Vec<u32> = bytewise(&[0xFF]).into_iter().chain(ids(" a").repeat(50)).chain([EOS]).collect();
    let (deltas, record) = scripted(script, greedy());
    assert_eq!(deltas[0], "\u{FFFD}");
    assert!(deltas[1..51].iter().all(|delta| delta == " a"));
    assert_eq!(record.text, format!("\u{FFFD}{}", " a".repeat(50)));
}

#[test]
fn punctuation_and_leading_spaces_come_at_their_own_steps() {
    let script: Vec<u32> = [" a", "!", ",", " b"].iter().flat_map(|text| ids(text)).chain(ids("…")).collect();
    let (deltas, _) = scripted(script.into_iter().chain([EOS]).collect(), greedy());
    assert_eq!(&deltas[..4], [" a", "!", ",", " b"]);
    assert_eq!(deltas.concat(), " a!, b…");
}

// --- prompt and record ---

#[test]
fn an_empty_prompt_starts_from_the_end_of_text_token_and_says_so() {
    let (_, record) = run(&mut ScriptedModel::new(VOCAB, 64, 1, ends_with(ids("Once"), EOS)), "", greedy());
    assert_eq!((record.prompt_ids.as_slice(), record.started_from_eos), (&[EOS][..], true));
    assert_eq!(record.text, "Once");
    for prompt in [" ", "\n"] {
        let (_, record) = run(&mut ScriptedModel::new(VOCAB, 64, 1, vec![EOS]), prompt, greedy());
        assert_eq!((record.prompt.as_str(), record.started_from_eos), (prompt, false));
    }
}

#[test]
fn a_typed_end_of_text_is_seven_tokens_unless_asked_for() {
    for (parse_special, expected) in [(false, 7), (true, 1)] {
        let settings = Settings { parse_special, ..greedy() };
        let mut model = ScriptedModel::new(VOCAB, 64, expected, vec![EOS]);
        let (_, record) = run(&mut model, "<|endoftext|>", settings);
        assert_eq!(record.prompt_ids.len(), expected);
        assert!(!record.started_from_eos);
    }
}

#[test]
fn steps_say_where_the_token_stands_and_what_else_it_could_have_been() {
    let script = ids(" one two");
    let mut model = ScriptedModel::new(VOCAB, 64, 3, ends_with(script.clone(), EOS));
    let (_, record) = run(&mut model, " a b c", greedy());
    let places: Vec<_> = record.steps.iter().map(|s| (s.step, s.position, s.positions_processed)).collect();
    assert_eq!(places, [(0, 3, 3), (1, 4, 4), (2, 5, 5)]);
    for (step, &id) in record.steps.iter().zip(&script) {
        assert_eq!(step.token_id, id);
        assert_eq!(step.alternatives.len(), 2);
        assert_eq!(step.alternatives[0].id, id);
        assert_eq!(step.alternatives[0].text, TOKENIZER.decode(&[id]));
        let others = (VOCAB - 1) as f64;
        let expected = -(1.0 + others * (-f64::from(ScriptedModel::LOGIT)).exp()).ln();
        assert!((step.logprob - expected).abs() < 1e-9, "{} {expected}", step.logprob);
        assert_eq!(step.filtered_logprob, 0.0, "greedy leaves one token");
        assert_eq!(step.alternatives[1].filtered_logprob, None);
    }
}

#[test]
fn the_same_seed_draws_the_same_text_also_after_a_cancelled_run() {
    let settings = |seed| Settings { temperature: 1.0, top_p: 1.0, max_tokens: 20, seed, ..Settings::default() };
    // After the script no token is preferred: every draw is the seed's.
    let mut model = ScriptedModel::new(VOCAB, 1024, 1, vec![]);
    let (_, first) = run(&mut model, "Once", settings(7));
    let cancel = CancelToken::default();
    let mut generation = Generation::new(&mut model, &TOKENIZER, "Once", settings(3), &|| 0.0, cancel.clone()).unwrap();
    for _ in 0..5 {
        generation.advance().unwrap();
    }
    cancel.cancel();
    generation.advance().unwrap();
    drop(generation);
    let (_, again) = run(&mut model, "Once", settings(7));
    assert_eq!(first, again);
    let (_, other) = run(&mut model, "Once", settings(8));
    assert_ne!(first.token_ids, other.token_ids);
}

#[test]
fn two_thousand_steps_are_two_thousand_records() {
    let script = ids(" a").repeat(2000);
    let settings = Settings { max_tokens: 2000, ..stopping(&[" aab"]) };
    let (_, record) = run(&mut ScriptedModel::new(VOCAB, 4096, 1, script), "Once", settings);
    assert_eq!(record.steps.len(), 2000);
    assert_eq!(record.text, " a".repeat(2000));
}

// --- failures ---

#[test]
fn logits_that_are_no_numbers_end_the_run_with_an_error() {
    for bad in [f32::NAN, f32::INFINITY] {
        let mut model = Hooked::new(ScriptedModel::new(VOCAB, 64, 1, ids(" a b c")), |_, len, logits| {
            if len >= 3 {
                logits[17] = bad;
            }
        });
        let mut generation =
            Generation::new(&mut model, &TOKENIZER, "Once", greedy(), &|| 0.0, CancelToken::default()).unwrap();
        let error = loop {
            match generation.advance() {
                Ok(progress) => assert!(progress.is_some(), "ended without an error"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind, ErrorKind::NonFinite);
        assert_eq!(generation.advance().unwrap(), None, "nothing follows an error");
    }
}

#[test]
fn ids_beyond_the_tokenizer_are_never_chosen() {
    let script = vec![VOCAB as u32 + 5; 3];
    let settings = Settings { max_tokens: 3, ..greedy() };
    let (_, record) = run(&mut ScriptedModel::new(VOCAB + 10, 64, 1, script), "Once", settings);
    assert!(record.token_ids.iter().all(|&id| (id as usize) < VOCAB));
    let alternatives = record.steps.iter().flat_map(|step| &step.alternatives);
    assert!(alternatives.into_iter().all(|alternative| (alternative.id as usize) < VOCAB));
}

// --- prefill ---

#[test]
fn chunks_follow_the_clock_and_never_stall() {
    // 5 ms a position, so twenty fit; but no chunk is over 16 times the one before, and large ones are a multiple of six.
    let now = Cell::new(0.0);
    let sizes = std::cell::RefCell::new(Vec::new());
    let mut model = Hooked::new(ScriptedModel::new(VOCAB, 1024, 45, vec![EOS]), |positions, _, _| {
        sizes.borrow_mut().push(positions);
        now.set(now.get() + 5.0 * positions as f64);
    });
    run_with(&mut model, &" a".repeat(45), greedy(), &|| now.get(), CancelToken::default());
    assert_eq!(*sizes.borrow(), [1, 12, 18, 14]);
    // A clock that stands still, and a model slower than a chunk may be: that gets the time of two positions.
    let pairs: Vec<usize> = [1].into_iter().chain([2; 22]).collect();
    for (ms, expected) in [(0.0, vec![1, 12, 32]), (80.0, pairs)] {
        let now = Cell::new(0.0);
        let sizes = std::cell::RefCell::new(Vec::new());
        let mut model = Hooked::new(ScriptedModel::new(VOCAB, 1024, 45, vec![EOS]), |positions, _, _| {
            sizes.borrow_mut().push(positions);
            now.set(now.get() + ms * positions as f64);
        });
        run_with(&mut model, &" a".repeat(45), greedy(), &|| now.get(), CancelToken::default());
        assert_eq!(*sizes.borrow(), expected);
    }
}

// --- invariants ---

/// Scripts of real bytes, whole words and nonsense ids.
fn script() -> impl Strategy<Value = Vec<u32>> {
    let token = prop_oneof![
        4 => (0u8..=255).prop_map(|byte| BYTE_TOKENS[byte as usize]),
        3 => prop::sample::select("ab.\né漢👋".as_bytes().to_vec()).prop_map(|byte| BYTE_TOKENS[byte as usize]),
        2 => 0..VOCAB as u32,
    ];
    prop::collection::vec(token, 0..40)
}

/// What a run was that fails is not lost: the text, the steps, and no reason to stop.
#[test]
fn a_run_that_fails_leaves_what_it_wrote() {
    let script = bytewise(b"one two");
    for (prompt, stops, after, text) in [
        ("ab", &[][..], 2, "o"),
        ("ab", &[], 6, "one t"),
        // Held back, because it could still become a stop string: it comes out in the end.
        ("ab", &["ne two three"], 6, "one t"),
        // In the prefill.
        ("abcd", &[], 1, ""),
    ] {
        let prompt_len = ids(prompt).len();
        let error = Error::new(ErrorKind::OutOfMemory, "no room");
        let after = after + prompt_len - 2;
        let mut model = ScriptedModel::new(VOCAB, 100, prompt_len, script.clone()).failing_after(after, error.clone());
        let clock = || 0.0;
        let mut generation =
            Generation::new(&mut model, &TOKENIZER, prompt, stopping(stops), &clock, CancelToken::default()).unwrap();
        let mut deltas = String::new();
        let failure = loop {
            match generation.advance() {
                Ok(Some(Progress::Step(step))) => deltas.push_str(&step.text),
                Ok(Some(Progress::Prefill { .. })) => {}
                Ok(other) => panic!("{other:?}"),
                Err(error) => break error,
            }
        };
        assert_eq!(failure, error);
        assert_eq!(generation.advance().unwrap(), None, "it is over");
        deltas.push_str(&generation.fail());
        let record = generation.into_record(identity());
        assert_eq!((record.text.as_str(), &record.stop), (text, &None));
        assert_eq!(deltas, text);
        assert_eq!((record.steps.len(), record.token_ids.len()), (text.len(), text.len()));
        assert_eq!(record.prompt, prompt);
    }
}

#[test]
fn the_end_of_text_token_that_ended_a_run_is_told() {
    let mut model = ScriptedModel::new(VOCAB, 100, 1, vec![ids("a")[0], EOS]);
    let (_, record) = run(&mut model, "b", greedy());
    assert_eq!(end_of(&record).eos_token_id, Some(EOS));
    let mut model = ScriptedModel::new(VOCAB, 100, 1, vec![ids("a")[0], EOS]);
    let (_, record) = run(&mut model, "b", Settings { max_tokens: 1, ..greedy() });
    assert_eq!(end_of(&record).eos_token_id, None);
}

proptest! {
    #[test]
    fn the_text_is_the_decoded_ids_cut_at_the_stop(
        script in script(),
        stop in prop::collection::vec("[ab.\né漢]{1,3}", 0..3),
        max_tokens in 1u32..45,
    ) {
        let settings = Settings { max_tokens, stop: stop.clone(), ..greedy() };
        let script = ends_with(script, EOS);
        let (deltas, record) = scripted(script.clone(), settings);
        let mut bytes = Vec::new();
        for &id in record.token_ids.iter().filter(|&&id| id != EOS) {
            bytes.extend_from_slice(TOKENIZER.bytes(id).unwrap());
        }
        let decoded = String::from_utf8_lossy(&bytes).into_owned();
        let found = stop.iter().filter_map(|stop| decoded.find(stop.as_str())).min();
        match found {
            Some(at) => {
                prop_assert_eq!(end_of(&record).reason, StopReason::StopString);
                prop_assert_eq!(&record.text, &decoded[..at]);
            }
            None => prop_assert_eq!(&record.text, &decoded),
        }
        prop_assert_eq!(deltas.concat(), record.text);
        prop_assert!(record.token_ids.len() <= max_tokens as usize);
        prop_assert!(script.starts_with(&record.token_ids));
    }

    #[test]
    fn the_run_does_not_depend_on_how_the_prompt_was_chunked(pace in prop::collection::vec(0.0f64..40.0, 1..20)) {
        let prompt = " a b".repeat(30);
        let script = ends_with(ids(" once upon a time"), EOS);
        let (_, calm) = run(&mut ScriptedModel::new(VOCAB, 1024, 60, script.clone()), &prompt, greedy());
        let (now, chunk) = (Cell::new(0.0), Cell::new(0));
        let mut model = Hooked::new(ScriptedModel::new(VOCAB, 1024, 60, script), |_, _, _| {
            now.set(now.get() + pace[chunk.get() % pace.len()]);
            chunk.set(chunk.get() + 1);
        });
        let (_, paced) = run_with(&mut model, &prompt, greedy(), &|| now.get(), CancelToken::default());
        prop_assert_eq!(calm.token_ids, paced.token_ids);
        prop_assert_eq!(calm.text, paced.text);
        prop_assert_eq!(calm.positions_processed, paced.positions_processed);
    }
}

// --- a model with a twist ---

/// Calls a hook with the size of each pass, the positions held after it, and its logits.
struct Hooked<F> {
    inner: ScriptedModel,
    hook: F,
    logits: Vec<f32>,
}

impl<F: FnMut(usize, usize, &mut [f32])> Hooked<F> {
    fn new(inner: ScriptedModel, hook: F) -> Self {
        Self { inner, hook, logits: Vec::new() }
    }
}

impl<F: FnMut(usize, usize, &mut [f32])> LanguageModel for Hooked<F> {
    fn vocab_size(&self) -> usize {
        self.inner.vocab_size()
    }
    fn context_length(&self) -> usize {
        self.inner.context_length()
    }
    fn len(&self) -> usize {
        self.inner.len()
    }
    fn feed(&mut self, ids: &[u32]) -> Result<&[f32]> {
        self.logits = self.inner.feed(ids)?.to_vec();
        (self.hook)(ids.len(), self.inner.len(), &mut self.logits);
        Ok(&self.logits)
    }
    fn score(&mut self, ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        self.inner.score(ids)
    }
    fn truncate(&mut self, len: usize) {
        self.inner.truncate(len);
    }
}
