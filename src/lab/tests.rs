//! Every experiment, with models whose results can be worked out by hand, and with real ones.

mod choosing;
mod inside;
mod models;
mod text;
mod times;

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use serde_json::{Value, json};

use super::*;
use crate::engine::Engine;
use crate::gpt2::checkpoint::ModelFile;
use crate::model::LanguageModel;
use crate::options::OptionRange;
use models::Clock;

/// A host that never waits, and cancels once it took some rows.
struct Desk<'a> {
    clock: &'a Clock,
    rows: RefCell<Vec<Value>>,
    progress: RefCell<Vec<(usize, usize)>>,
    cancel_after: usize,
}

impl Host for Desk<'_> {
    fn now(&self) -> f64 {
        self.clock.now()
    }

    fn turn(&self) -> Pin<Box<dyn Future<Output = Result<()>> + '_>> {
        let cancelled = self.rows.borrow().len() >= self.cancel_after;
        Box::pin(async move { if cancelled { Err(Error::new(ErrorKind::Cancelled, "cancelled")) } else { Ok(()) } })
    }

    fn progress(&self, done: usize, total: usize) {
        self.progress.borrow_mut().push((done, total));
    }
}

/// What an experiment left.
struct Left {
    rows: Vec<Value>,
    summary: Value,
    machine: Machine,
}

struct Trial<'a> {
    clock: &'a Clock,
    memory: &'a RefCell<Memory>,
    cancel_after: usize,
}

fn attempt(
    name: &str,
    options: Value,
    model: &mut dyn Subject,
    tokenizer: &Tokenizer,
    trial: Trial<'_>,
) -> Result<Left> {
    let raw = serde_json::from_value(options).unwrap();
    let desk = Desk {
        clock: trial.clock,
        rows: RefCell::default(),
        progress: RefCell::default(),
        cancel_after: trial.cancel_after,
    };
    let post = |row: Row| desk.rows.borrow_mut().push(serde_json::to_value(row).unwrap());
    let work = run(prepare(name, &raw)?, model, tokenizer, trial.memory, &desk, &post);
    let Poll::Ready(findings) = Box::pin(work).as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("{name} waits for something")
    };
    let findings = findings?;
    let progress = desk.progress.take();
    assert!(progress.is_sorted() && progress.iter().all(|(done, total)| done <= total), "{name}: {progress:?}");
    let summary = serde_json::to_value(findings.summary).unwrap();
    if let Some((done, total)) = progress.last().filter(|_| !summary.is_null()) {
        assert_eq!(done, total, "{name}");
    }
    Ok(Left { rows: desk.rows.into_inner(), summary, machine: findings.machine })
}

/// Does an experiment to its end.
fn left(name: &str, options: Value, model: &mut dyn Subject, tokenizer: &Tokenizer) -> Left {
    let trial = Trial { clock: &Clock::default(), memory: &RefCell::default(), cancel_after: usize::MAX };
    attempt(name, options, model, tokenizer, trial).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// GPT-2's tokenizer.
fn gpt2_tokenizer() -> Tokenizer {
    let read = |name| std::fs::read(format!("tests/fixtures/gpt2-tokenizer/{name}")).unwrap();
    Tokenizer::from_vocab_merges(&read("vocab.json"), &read("merges.txt")).unwrap()
}

/// A model of a few thousand random weights, with a tokenizer of 300 tokens.
fn tiny(name: &str) -> Engine {
    let read = |path: String| std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let gguf = read(format!("tests/fixtures/gguf/{name}.gguf"));
    let [vocab, merges] =
        ["vocab.json", "merges.txt"].map(|name| read(format!("tests/fixtures/tiny-tokenizer/{name}")));
    let file = |name, bytes| ModelFile { name, bytes };
    let files = [file("model.gguf", &gguf[..]), file("vocab.json", &vocab), file("merges.txt", &merges)];
    Engine::load("tiny", &files, None, &mut |_, _| {}).unwrap()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn every_default_is_accepted_by_its_own_option() {
    for spec in EXPERIMENTS {
        assert_eq!(EXPERIMENTS.iter().filter(|other| other.name == spec.name).count(), 1, "{}", spec.name);
        for option in spec.options {
            let default: Value =
                serde_json::from_str(option.default).unwrap_or_else(|error| panic!("{}: {error}", option.default));
            let raw = serde_json::from_value(json!({ option.name: default })).unwrap();
            let given = Options::from_raw(spec.options, &raw);
            assert_eq!(given.unwrap(), Options::from_raw(spec.options, &RawOptions::new()).unwrap(), "{}", option.name);
        }
    }
}

#[test]
fn wrong_names_and_values_are_refused_by_name() {
    let refusal = |name: &str, options: Value| {
        let raw = serde_json::from_value(options).unwrap();
        prepare(name, &raw).unwrap_err()
    };
    let error = refusal("niave", json!({}));
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::InvalidRequest, "there is no experiment `niave`; did you mean `naive`?")
    );
    let error = refusal("check", json!({"prmpt": "a"}));
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::UnknownOption, "there is no option `prmpt`; did you mean `prompt`?")
    );
    for (name, options) in [
        ("naive", json!({"lengths": [8, 1.5]})),
        ("naive", json!({"lengths": vec![1; 13]})),
        ("check", json!({"n": 0})),
        ("check", json!({"n": "64"})),
        ("check", json!({"prompt": 3})),
        ("hold-back", json!({"paces": [0]})),
        ("greedy", json!({"temperatures": "hot"})),
        ("naive", json!({"textbook": 1})),
    ] {
        let error = refusal(name, options.clone());
        assert_eq!(error.kind, ErrorKind::InvalidOption, "{name} {options}: {error}");
    }
}

/// The page's index must have the same experiments, with the same questions; so must the document.
#[test]
fn every_list_of_experiments_agrees() {
    let page = include_str!("../../www/page/lab/questions.js");
    let document = include_str!("../../docs/lab.md");
    assert_eq!(page.matches("\n      ['").count(), EXPERIMENTS.len());
    for ExperimentSpec { name, question, .. } in EXPERIMENTS {
        assert!(page.contains(&format!("['{name}', '{question}']")), "questions.js, {name}");
        let section = format!("## {name}\n\n**{}", question.trim_end_matches('?'));
        assert!(document.contains(&section), "docs/lab.md, {name}");
    }
}

/// Whatever the model, the options beside it are the smallest.
#[test]
fn every_experiment_runs_on_a_real_model_and_can_be_cancelled() {
    let mut engine = tiny("q8_0");
    for spec in EXPERIMENTS {
        let mut options = json!({});
        for option in spec.options {
            let small = match (option.name, option.range) {
                ("n", _) => json!(6),
                ("lengths", _) => json!([2, 4]),
                ("prompt_lengths" | "output_lengths", _) => json!([2, 4, 6]),
                ("fixed_prompt" | "fixed_output", _) => json!(3),
                ("repeats" | "runs" | "seeds", _) => json!(2),
                ("prompts", _) if spec.name == "one-word" => json!(["a {b|c}"]),
                ("prompts", _) => json!(["ab", "c"]),
                ("prompt" | "text", OptionRange::Text) => json!("abc def"),
                _ => continue,
            };
            options[option.name] = small;
        }
        let whole = left(spec.name, options.clone(), &mut engine.model, &engine.tokenizer);
        assert!(!whole.rows.is_empty() && whole.summary.is_object(), "{}", spec.name);
        assert_eq!(engine.model.len(), 0, "{} leaves positions behind", spec.name);

        // The clock of this one moves on with each look, so that there is a turn between any two steps.
        for cancel_after in [0, 1] {
            let trial = Trial { clock: &Clock::ticking(10.0), memory: &RefCell::default(), cancel_after };
            let some = attempt(spec.name, options.clone(), &mut engine.model, &engine.tokenizer, trial).unwrap();
            assert!(some.summary.is_null() || some.rows.len() == whole.rows.len(), "{}", spec.name);
            // What comes from a clock differs.
            let timed = ["naive", "check", "sweep", "latency", "hold-back", "cancel", "precision"].contains(&spec.name);
            for (row, right) in some.rows.iter().zip(&whole.rows).filter(|_| !timed) {
                assert_eq!(row, right, "{}", spec.name);
            }
        }
        let again = left(spec.name, options, &mut engine.model, &engine.tokenizer);
        assert_eq!(again.rows.len(), whole.rows.len(), "{} after a cancel", spec.name);
    }
}

#[test]
fn a_text_that_does_not_fit_is_refused_with_both_numbers() {
    let mut engine = tiny("q8_0");
    let trial = Trial { clock: &Clock::default(), memory: &RefCell::default(), cancel_after: usize::MAX };
    let options = json!({"prompt": "ab", "n": 64});
    let error =
        attempt("check", options, &mut engine.model, &engine.tokenizer, trial).map(|left| left.rows).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidOption);
    assert!(error.message.contains("64") && error.message.contains("2 tokens and 64 more"), "{error}");
}

#[test]
fn a_machine_is_busy_if_the_fixed_computation_takes_unequal_times() {
    let mut engine = tiny("q8_0");
    let options = json!({"prompt": "abc", "n": 3, "repeats": 5});
    let steady = left("check", options.clone(), &mut engine.model, &engine.tokenizer).machine;
    assert_eq!(steady.timer_resolution_ms, 0.0);
    // A clock that ticks by itself, now and then by far more.
    let clock = Clock::ticking(1.0).jumping(7, 40.0);
    let trial = Trial { clock: &clock, memory: &RefCell::default(), cancel_after: usize::MAX };
    let shaken = attempt("check", options, &mut engine.model, &engine.tokenizer, trial).unwrap().machine;
    assert_eq!(shaken.timer_resolution_ms, 1.0);
    assert!(!steady.busy && shaken.busy, "{shaken:?}");
}
