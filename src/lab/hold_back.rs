//! Hold-back: how long text waits because it could become a stop string.

use std::collections::VecDeque;

use serde::Serialize;

use super::bench::Bench;
use super::distribution;
use super::spec::{ExperimentSpec, SEED, TALE, n, prompt, temperature, texts};
use super::stats::mean;
use crate::error::Result;
use crate::options::{OptionRange, OptionSpec};
use crate::sampler::UniformRng;
use crate::text::{IncrementalDecoder, StopStrings};

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "hold-back",
    question: "What does a stop string hold back?",
    options: &[
        prompt(TALE),
        texts("stop", r#"[". The end", " and they lived happily"]"#, "Stop strings."),
        n("128", 1024),
        OptionSpec {
            name: "paces",
            range: OptionRange::Numbers { min: 0.1, max: 10_000.0, whole: false, most: 6 },
            default: "[4, 50]",
            help: "Slower paces to imagine, in tokens per second.",
        },
        temperature("0.7"),
        SEED,
    ],
};

/// Text that came out in one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct HoldBackRow {
    /// The step it came out at, from 0; the number of steps for what came out at the end.
    pub step: u32,
    /// The text.
    pub text: String,
    /// Its characters.
    pub characters: u32,
    /// How many of them had waited for a later step.
    pub held_characters: u32,
    /// How many steps the first of them had waited.
    pub delay_steps: u32,
    /// How many milliseconds it had waited.
    pub delay_ms: f64,
    /// How many milliseconds it would have waited at each of the slower paces.
    pub paced_ms: Vec<f64>,
}

/// What the rows say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct HoldBackSummary {
    /// The text, up to a stop string.
    pub text: String,
    /// Steps.
    pub steps: u32,
    /// The stop string that ended the run.
    pub stop_string: Option<String>,
    /// Characters of the text.
    pub characters: u32,
    /// How many of them waited.
    pub held_characters: u32,
    /// The longest wait, in steps.
    pub max_delay_steps: u32,
    /// The longest wait, in milliseconds.
    pub max_delay_ms: f64,
    /// The mean wait of a character, in milliseconds.
    pub mean_delay_ms: f64,
    /// The longest wait at each of the slower paces, in milliseconds.
    pub max_paced_ms: Vec<f64>,
}

/// Follows characters from the step that completes them to the step that lets them out.
#[derive(Default)]
struct Waiting {
    /// Step and time of each character that is not out yet.
    characters: VecDeque<(usize, f64)>,
    rows: Vec<HoldBackRow>,
    /// Steps and milliseconds that each character waited.
    delays: Vec<(usize, f64)>,
}

impl Waiting {
    fn came(&mut self, text: &str, step: usize, now: f64) {
        self.characters.extend(text.chars().map(|_| (step, now)));
    }

    fn went(&mut self, text: &str, step: usize, now: f64, paces: &[f64]) {
        let characters = text.chars().count();
        if characters == 0 {
            return;
        }
        let waited = self.characters.drain(..characters.min(self.characters.len()));
        let delays: Vec<_> = waited.map(|(came, at)| (step - came, now - at)).collect();
        // The first came first, so it waited longest.
        let (delay_steps, delay_ms) = delays.first().copied().unwrap_or_default();
        self.rows.push(HoldBackRow {
            step: step as u32,
            text: text.to_owned(),
            characters: characters as u32,
            held_characters: delays.iter().filter(|(steps, _)| *steps > 0).count() as u32,
            delay_steps: delay_steps as u32,
            delay_ms,
            paced_ms: paces.iter().map(|pace| 1000.0 * delay_steps as f64 / pace).collect(),
        });
        self.delays.extend(delays);
    }
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(HoldBackRow)) -> Result<HoldBackSummary> {
    let (n, temperature) = (bench.options.count("n"), bench.options.number("temperature"));
    let (stop, paces) = (bench.options.texts("stop"), bench.options.numbers("paces"));
    let prompt = bench.encode(bench.options.text("prompt"), n)?;
    let mut random = UniformRng::new(bench.options.number("seed") as u64);
    let (mut decoder, mut stops) = (IncrementalDecoder::default(), StopStrings::new(stop.clone()));
    let (mut waiting, mut text, mut reached) = (Waiting::default(), String::new(), None);
    bench.desk.expect(n);
    bench.warm_up(&prompt).await?;
    bench.desk.probe();

    let (mut logits, _) = bench.prefill(&prompt).await?;
    let mut steps = 0;
    while steps < n && reached.is_none() {
        let id = distribution::draw(&distribution::softmax(&logits, temperature), random.next_f64());
        if bench.tokenizer.ends(id) {
            break;
        }
        let (mut decoded, mut out) = (String::new(), String::new());
        decoder.push(bench.tokenizer.bytes(id).unwrap_or_default(), &mut decoded);
        waiting.came(&decoded, steps, bench.desk.now());
        reached = stops.push(&decoded, &mut out);
        waiting.went(&out, steps, bench.desk.now(), &paces);
        text.push_str(&out);
        steps += 1;
        post_last(post, &waiting, &out);
        bench.desk.advance(1);
        if steps < n && reached.is_none() {
            logits = bench.step(id).await?.0;
        }
    }
    if reached.is_none() {
        let (mut decoded, mut out) = (String::new(), String::new());
        decoder.finish(&mut decoded);
        waiting.came(&decoded, steps, bench.desk.now());
        reached = stops.push(&decoded, &mut out).or_else(|| stops.finish(&mut out));
        waiting.went(&out, steps, bench.desk.now(), &paces);
        text.push_str(&out);
        post_last(post, &waiting, &out);
    }
    bench.desk.probe();
    Ok(summarise(&waiting, text, steps, reached.map(|index| stop[index].clone()), &paces))
}

/// Posts the row that `out` has just made, if it made one.
fn post_last(post: &dyn Fn(HoldBackRow), waiting: &Waiting, out: &str) {
    if let Some(row) = waiting.rows.last().filter(|_| !out.is_empty()) {
        post(row.clone());
    }
}

fn summarise(
    waiting: &Waiting,
    text: String,
    steps: usize,
    stop_string: Option<String>,
    paces: &[f64],
) -> HoldBackSummary {
    let max_delay_steps = waiting.delays.iter().map(|(steps, _)| *steps).max().unwrap_or_default();
    HoldBackSummary {
        characters: text.chars().count() as u32,
        text,
        steps: steps as u32,
        stop_string,
        held_characters: waiting.delays.iter().filter(|(steps, _)| *steps > 0).count() as u32,
        max_delay_steps: max_delay_steps as u32,
        max_delay_ms: waiting.delays.iter().map(|(_, ms)| *ms).fold(0.0, f64::max),
        mean_delay_ms: mean(waiting.delays.iter().map(|(_, ms)| *ms)),
        max_paced_ms: paces.iter().map(|pace| 1000.0 * max_delay_steps as f64 / pace).collect(),
    }
}
