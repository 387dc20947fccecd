//! The programs in `examples/`, as a user runs them. Cargo builds them with all the tests; for this file alone, run
//! `cargo build --examples` first.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn run(example: &str, arguments: &[&str]) -> Output {
    let tests = std::env::current_exe().unwrap();
    let program: PathBuf = tests.parent().unwrap().parent().unwrap().join("examples").join(example);
    let mut command = Command::new(&program);
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.output().unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

fn said(output: &Output) -> String {
    [output.stdout.as_slice(), &output.stderr].iter().map(|bytes| String::from_utf8_lossy(bytes)).collect()
}

/// Every model with its reference results: path, expected.json, whether they were computed with the same numbers.
fn fixtures() -> Vec<(String, Value)> {
    let read = |path: String| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let entries = |folder: &str| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let folders = entries("tests/fixtures/checkpoints").map(|folder| folder.display().to_string());
    let files = entries("tests/fixtures/gguf").map(|file| file.display().to_string());
    let folders = folders.map(|folder| (folder.clone(), read(format!("{folder}/expected.json"))));
    let files = files.filter_map(|file| {
        let expected = read(format!("{}.expected.json", file.strip_suffix(".gguf")?));
        Some((file, expected))
    });
    folders.chain(files).collect()
}

#[test]
fn logits_are_those_of_the_reference() {
    let fixtures = fixtures();
    assert_eq!(fixtures.len(), 16);
    for (path, expected) in fixtures {
        let ids: Vec<_> = expected["input_ids"].as_array().unwrap().iter().map(Value::to_string).collect();
        let output = run("logits", &[&path, "--ids", &ids.join(","), "--precision", "f32", "--greedy", "32"]);
        let got: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{path}: {}", said(&output)));
        assert_eq!(got.as_object().unwrap().len(), 4, "{path}");
        assert_eq!(got["argmax"], expected["argmax"], "{path}");
        assert_eq!(got["greedy"].as_array().unwrap().len(), 32, "{path}");
        // Two of the files are without.
        assert!(expected["greedy"].is_null() || got["greedy"] == expected["greedy"], "{path}");
        let numbers = |value: &Value| value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect::<Vec<_>>();
        let (logits, wanted) = (numbers(&got["last_logits"]), numbers(&expected["last_logits"]));
        assert!(
            logits.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 2e-4) && logits.len() == wanted.len(),
            "{path}"
        );
        let (nll, wanted) = (got["nll"].as_f64().unwrap(), expected["nll"].as_f64().unwrap());
        assert!((nll / wanted - 1.0).abs() < 1e-4, "{path}: {nll} and {wanted}");

        let output = run("logits", &[&path, "--ids", &ids.join(",")]);
        let got: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{path}: {}", said(&output)));
        assert!((got["nll"].as_f64().unwrap() / wanted - 1.0).abs() < 0.01, "{path}");
        assert_eq!(got["greedy"], serde_json::json!([]));
    }
}

#[test]
fn what_cannot_be_run_gets_a_sentence() {
    let folder = "tests/fixtures/checkpoints/plain-f32";
    for (arguments, code, says) in [
        (&[][..], 2, "no path"),
        (&[folder], 2, "no ids"),
        (&[folder, "--ids"], 2, "--ids needs a value"),
        (&[folder, "--ids", "1,x"], 2, "`x` in --ids"),
        (&[folder, "--ids", "1", "--precision", "q3"], 2, "`q3`"),
        (&[folder, "--ids", "1", "--greedy", "-1"], 2, "`-1`"),
        (&[folder, "--ids", "1", "--gredy", "1"], 2, "--gredy"),
        (&["nowhere", "--ids", "1"], 1, "nowhere cannot be read"),
        (&["Cargo.toml", "--ids", "1"], 1, "not a model file"),
        (&["tests/fixtures/tiny-tokenizer", "--ids", "1"], 1, "no weights file"),
        (&[folder, "--ids", "300"], 1, "token 300"),
        (&[folder, "--ids", "1", "--greedy", "100"], 1, "context of 64"),
    ] {
        let output = run("logits", arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(says) && output.stdout.is_empty(), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn inspect_shows_what_is_there_and_what_is_wrong() {
    let output = run("inspect", &["www/models/fairy-12m-q8_0.gguf"]);
    assert!(output.status.success(), "{}", said(&output));
    for part in [
        "GGUF",
        "token_embd.weight",
        "Q8_0",
        "tokenizer inside: 50257 tokens",
        "n_embd",
        "memory needed in q4_0",
        "loads: yes, in q8_0",
    ] {
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
    // A folder without a tokenizer has everything but that, and 300 ids are too few to lend it GPT-2's.
    let output = run("inspect", &["tests/fixtures/checkpoints/sharded-f32"]);
    assert_eq!(output.status.code(), Some(1));
    for part in ["model-00002-of-00002.safetensors: safetensors", "[32, 96]", "memory needed in f32", "bad_tokenizer"] {
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
    for (path, code, says) in [("Cargo.toml", 1, "not_a_model"), ("nowhere", 2, "no file nowhere")] {
        let output = run("inspect", &[path]);
        assert_eq!(output.status.code(), Some(code));
        assert!(said(&output).contains(says), "{}", said(&output));
    }
}
