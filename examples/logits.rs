//! What a checkpoint computes, as JSON, to compare it with another implementation:
//!
//! ```sh
//! cargo run --release --example logits -- PATH --ids 1,2,3 [--precision f32|q8_0|q4_0] [--greedy N]
//! ```
//!
//! PATH is the folder of a checkpoint or a GGUF file. The object has the fields of the `expected.json` files in
//! `tests/fixtures`: `argmax`, the best id after each of the ids; `last_logits`, the logits after the last; `nll`, the
//! negative log likelihood of all ids but the first, summed, in nats; and `greedy`, N ids that continue the first eight
//! of the ids (all of them, if there are fewer), whether or not the end-of-text token is among them.

use std::path::PathBuf;
use std::process::ExitCode;

use gpt2_web::gpt2::checkpoint::Options;
use gpt2_web::gpt2::{Gpt2, Precision};
use gpt2_web::model::LanguageModel;
use gpt2_web::{Error, ErrorKind, Result};
use serde::Serialize;

mod disk;

const USAGE: &str = "usage: logits PATH --ids 1,2,3 [--precision f32|q8_0|q4_0] [--greedy N]";

/// Ids that the greedy continuation starts from.
const GREEDY_FROM: usize = 8;

struct Arguments {
    path: PathBuf,
    ids: Vec<u32>,
    precision: Option<Precision>,
    greedy: usize,
}

#[derive(Serialize)]
struct Output {
    argmax: Vec<u32>,
    last_logits: Vec<f32>,
    nll: f64,
    greedy: Vec<u32>,
}

fn main() -> ExitCode {
    let arguments = match arguments(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(sentence) => {
            eprintln!("{sentence}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let json = run(&arguments).and_then(|output| {
        serde_json::to_string(&output).map_err(|error| Error::new(ErrorKind::Engine, error.to_string()))
    });
    match json {
        Ok(json) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments(mut given: impl Iterator<Item = String>) -> std::result::Result<Arguments, String> {
    let (mut path, mut ids, mut precision, mut greedy) = (None, None, None, 0);
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--ids" => {
                let list = value()?;
                let number = |id: &str| id.trim().parse::<u32>().map_err(|_| format!("`{id}` in --ids is no token id"));
                ids = Some(list.split(',').map(number).collect::<std::result::Result<Vec<_>, _>>()?);
            }
            "--precision" => {
                precision = Some(value()?.parse::<Precision>().map_err(|error| error.to_string())?);
            }
            "--greedy" => {
                let number = value()?;
                greedy = number.parse().map_err(|_| format!("`{number}` after --greedy is no number of tokens"))?;
            }
            option if option.starts_with('-') => return Err(format!("there is no option {option}")),
            _ if path.is_some() => return Err(format!("there is one path too many: {argument}")),
            _ => path = Some(PathBuf::from(argument)),
        }
    }
    let path = path.ok_or("there is no path; give the folder of a checkpoint or a GGUF file")?;
    let ids = ids.ok_or("there are no ids; give some with --ids 1,2,3")?;
    Ok(Arguments { path, ids, precision, greedy })
}

fn run(Arguments { path, ids, precision, greedy }: &Arguments) -> Result<Output> {
    let files = disk::Files::at(path)?;
    let mut loader =
        files.loader(Options { precision: *precision, memory_limit: u64::MAX, held: 0, fingerprint: false })?;
    files.stream(&mut loader)?;
    let loaded = loader.finish()?;
    for notice in &loaded.notices {
        eprintln!("note: {notice}");
    }
    let mut model = loaded.model;
    let scores = model.score(ids)?;
    if scores.iter().flatten().any(|logit| !logit.is_finite()) {
        return Err(Error::new(ErrorKind::NonFinite, "the model's logits are not all finite; is the file damaged?"));
    }
    let nll = scores.iter().zip(&ids[1..]).map(|(logits, &id)| surprise(logits, id)).sum();
    let argmax = scores.iter().map(|logits| best(logits)).collect();
    let last_logits = scores.into_iter().next_back().unwrap_or_default();
    Ok(Output { argmax, last_logits, nll, greedy: continued(&mut model, ids, *greedy)? })
}

/// `count` ids, each the best after those before it.
fn continued(model: &mut Gpt2, ids: &[u32], count: usize) -> Result<Vec<u32>> {
    let mut new = ids[..ids.len().min(GREEDY_FROM)].to_vec();
    let mut greedy = Vec::with_capacity(count);
    model.truncate(0);
    for _ in 0..count {
        let next = best(model.feed(&new)?);
        greedy.push(next);
        new = vec![next];
    }
    Ok(greedy)
}

/// The id with the greatest logit, the first of them if there are several.
fn best(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = id;
        }
    }
    best as u32
}

/// `-ln p(id)` under the softmax of `logits`.
fn surprise(logits: &[f32], id: u32) -> f64 {
    let greatest = f64::from(logits[best(logits) as usize]);
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - greatest).exp()).sum();
    greatest + sum.ln() - f64::from(logits[id as usize])
}
