//! Strings -> token ids, as JSON: to compare a tokenizer with another implementation.
//!
//! ```sh
//! echo '["Hello world", " Hello"]' > texts.json
//! cargo run --release --example tokens -- texts.json
//! # [[15496,995],[18435]]
//! ```

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gpt2_web::engine;
use gpt2_web::gpt2::checkpoint::ModelFile;
use gpt2_web::text::Tokenizer;

const USAGE: &str = "\
Usage: tokens [--tokenizer PATH] [--parse-special] FILE

Reads a JSON array of strings from FILE (`-` is the standard input) and prints a JSON array with the ids of each.

  --tokenizer PATH   a tokenizer.json, a GGUF file, or a folder with tokenizer.json, with vocab.json and merges.txt, or
                     else with one GGUF file. Without it: GPT-2's, from this crate's test fixtures.
  --parse-special    read special tokens such as <|endoftext|> in the strings as tokens, not as text";

/// GPT-2's own vocab.json and merges.txt.
const GPT2: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/gpt2-tokenizer");

/// What a folder of a checkpoint may say about its tokenizer.
const TOKENIZER_FILES: [&str; 6] = [
    "tokenizer.json",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
];

struct Arguments {
    tokenizer: String,
    parse_special: bool,
    file: String,
}

fn main() -> ExitCode {
    let arguments = match arguments(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("error: {wrong}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// `None` if only help was asked for.
fn arguments(mut given: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let (mut tokenizer, mut parse_special, mut file) = (None, false, None);
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "-h" | "--help" => return Ok(None),
            "--parse-special" => parse_special = true,
            "--tokenizer" => tokenizer = Some(given.next().ok_or("--tokenizer needs a path")?),
            option if option.starts_with('-') && option != "-" => return Err(format!("unknown option {option}")),
            _ if file.is_some() => return Err(format!("one FILE, please: what is {argument}?")),
            _ => file = Some(argument),
        }
    }
    let file = file.ok_or("no FILE was given")?;
    Ok(Some(Arguments { tokenizer: tokenizer.unwrap_or_else(|| GPT2.to_owned()), parse_special, file }))
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let ids = serde_json::to_string(&encode(arguments)?)?;
    Ok(writeln!(std::io::stdout(), "{ids}")?)
}

fn encode(arguments: &Arguments) -> Result<Vec<Vec<u32>>, Box<dyn Error>> {
    let path = &arguments.tokenizer;
    let tokenizer = tokenizer(Path::new(path)).map_err(|error| format!("{path}: {error}"))?;
    let file = &arguments.file;
    let text = match file.as_str() {
        "-" => std::io::read_to_string(std::io::stdin()),
        path => std::fs::read_to_string(path),
    };
    let text = text.map_err(|error| format!("{file}: {error}"))?;
    let texts: Vec<String> =
        serde_json::from_str(&text).map_err(|error| format!("{file} is not a JSON array of strings: {error}"))?;
    let ids = texts.iter().map(|text| tokenizer.prompt(text, arguments.parse_special));
    Ok(ids.collect::<Result<_, _>>()?)
}

fn tokenizer(path: &Path) -> Result<Tokenizer, Box<dyn Error>> {
    let files = if path.is_dir() {
        let read = |path: PathBuf| Ok((path.to_string_lossy().into_owned(), std::fs::read(&path)?));
        folder(path)?.into_iter().map(read).collect::<std::io::Result<Vec<_>>>()?
    } else {
        // A file that stands alone, whatever it is called.
        vec![("tokenizer.json".to_owned(), std::fs::read(path)?)]
    };
    let files: Vec<_> = files.iter().map(|(name, bytes)| ModelFile { name, bytes }).collect();
    Ok(engine::tokenizer(&files)?)
}

/// The files of a folder that say what the tokenizer is.
fn folder(path: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let (mut files, mut gguf) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "gguf") {
            gguf.push(path);
        } else if path.file_name().is_some_and(|name| TOKENIZER_FILES.iter().any(|file| name == *file)) {
            files.push(path);
        }
    }
    let complete = files.iter().any(|path| path.ends_with("tokenizer.json") || path.ends_with("vocab.json"));
    match gguf.len() {
        _ if complete => Ok(files),
        1 => Ok(gguf),
        0 => Ok(files),
        several => Err(format!("there are {several} GGUF files here; name one of them").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(path: &str) -> String {
        format!("{}/tests/fixtures/{path}", env!("CARGO_MANIFEST_DIR"))
    }

    fn given(line: &[&str]) -> Result<Vec<Vec<u32>>, String> {
        let arguments = arguments(line.iter().map(|&argument| argument.to_owned()))?.ok_or("help")?;
        encode(&arguments).map_err(|error| error.to_string())
    }

    /// The published encodings, in a file that holds only their strings, and their ids.
    fn published() -> (PathBuf, Vec<Vec<u32>>) {
        let published = std::fs::read(fixture("gpt2-encodings.json")).unwrap();
        let published: Vec<serde_json::Value> = serde_json::from_slice(&published).unwrap();
        let texts: Vec<_> = published.iter().map(|case| case["text"].as_str().unwrap()).collect();
        let file = std::env::temp_dir().join(format!("gpt2-web-tokens-{}.json", std::process::id()));
        std::fs::write(&file, serde_json::to_vec(&texts).unwrap()).unwrap();
        let ids = published.iter().map(|case| serde_json::from_value(case["ids"].clone()).unwrap());
        (file, ids.collect())
    }

    #[test]
    fn the_published_strings_get_their_ids_from_every_form() {
        let (file, ids) = published();
        let path = file.to_str().unwrap();
        assert_eq!(given(&[path]).unwrap(), ids);
        assert_eq!(given(&["--tokenizer", &fixture("gpt2-tokenizer"), path]).unwrap(), ids);
        let forms = ["tiny-tokenizer", "tiny-tokenizer/tokenizer.json", "gguf/f32.gguf"].map(fixture);
        let [folder, json, gguf] = forms.map(|form| given(&["--tokenizer", &form, path]).unwrap());
        assert_eq!(folder, json);
        assert_eq!(folder, gguf);
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn what_is_wrong_is_said() {
        let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
        for (line, says) in [
            (&[][..], "no FILE"),
            (&["--tokenizer"], "needs a path"),
            (&["--token", "a"], "unknown option --token"),
            (&["a", "b"], "what is b?"),
            (&["--help"], "help"),
            (&["/nowhere"], "/nowhere"),
            (&[readme], "not a JSON array of strings"),
            (&["--tokenizer", "/nowhere", readme], "/nowhere"),
            (&["--tokenizer", readme, readme], "expected value"),
            (&["--tokenizer", &fixture("gguf"), readme], "7 GGUF files"),
            (&["--tokenizer", &fixture("checkpoints/plain-f32"), readme], "there is no vocab.json"),
        ] {
            let error = given(line).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
