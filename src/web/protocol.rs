//! Every message between the page and the worker, both directions, one enum each.
//!
//! This file is the wire format: the page's TypeScript types are generated from it. Every message carries the `id` of
//! its request, which the page must not use twice. A request ends with exactly one `ready` (for a load), `unloaded`,
//! `done`, `experiment_done`, `pong` or `error`, and nothing follows it but the one `hashed` of a load.
//!
//! What the worker posts is one event, or an array of several in their order.

use serde::Serialize;

use crate::error::{Error, ErrorKind};
use crate::lab::{ExperimentSpec, Findings, Row};
use crate::options::{OptionSpec, RawOptions};
use crate::record::{Identity, Record, StepRecord, Stop};
use crate::settings::Settings;

/// A browser object that is not plain data.
#[cfg(target_arch = "wasm32")]
pub type Handle = wasm_bindgen::JsValue;
/// A browser object that is not plain data.
#[cfg(not(target_arch = "wasm32"))]
pub type Handle = ();

/// One of the files that make up a model, with its contents: a `Blob` (a `File` is one), or a stream of bytes.
#[derive(Debug)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct ModelFile {
    /// The file's name.
    pub name: String,
    /// The contents, if they can be read more than once.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(optional, type = "Blob"))]
    pub blob: Option<Handle>,
    /// The contents, if they can be read only once: a download. It is cancelled if the load does not need it.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(optional, type = "ReadableStream<Uint8Array>"))]
    pub stream: Option<Handle>,
    /// Bytes of the stream, if known.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(optional, as = "Option<f64>"))]
    pub size: Option<f64>,
}

/// Page -> worker. `message.rs` makes them of what the page posts.
#[derive(Debug)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
#[cfg_attr(all(test, not(target_arch = "wasm32")), ts(export, tag = "type", rename_all = "snake_case"))]
pub enum Request {
    /// Replaces the model. Answered with `progress` and then `ready` or `error`; after an error the model loaded before
    /// is still there.
    Load {
        /// Chosen by the page; every answer carries it.
        id: u32,
        /// What the page calls the model; stands in the record.
        name: String,
        /// The weights, with `config.json` and the tokenizer's files where the format needs them.
        files: Vec<ModelFile>,
        /// `f32`, `q8_0` or `q4_0`; what the file holds when absent.
        #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(optional, as = "Option<_>"))]
        precision: Option<String>,
        /// SHA-256 that the weights must have, in hexadecimal; another one is a `damaged_model` error.
        #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(optional, as = "Option<_>"))]
        sha256: Option<String>,
    },
    /// Continues a prompt. Answered with `start`, any number of `prefill`, `delta` and `step`, and then `done` or
    /// `error`. While one runs, another is answered with a `busy` error.
    Generate {
        /// Chosen by the page; every answer carries it.
        id: u32,
        /// The text to continue.
        prompt: String,
        /// Names, ranges and defaults: [`OPTIONS`](crate::settings::OPTIONS).
        #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(optional, type = "Record<string, unknown>"))]
        options: RawOptions,
        /// Cancelled before it was sent: the run starts and ends without a token.
        #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(optional, as = "Option<_>"))]
        cancelled: bool,
    },
    /// Does an experiment. Answered with any number of `experiment_progress` and `row`, and then `experiment_done` or `error`. While it
    /// runs, another request is answered with a `busy` error.
    Experiment {
        /// Chosen by the page; every answer carries it.
        id: u32,
        /// One of [`EXPERIMENTS`](crate::lab::EXPERIMENTS).
        name: String,
        /// Names, ranges and defaults: those of the experiment.
        #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(optional, type = "Record<string, unknown>"))]
        options: RawOptions,
        /// Cancelled before it was sent: it ends without a row.
        #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(optional, as = "Option<_>"))]
        cancelled: bool,
    },
    /// Ends the request `id` at its next step. Does nothing if it has ended or never began.
    Cancel {
        /// The request to end.
        id: u32,
    },
    /// Frees the model. Answered with `unloaded`.
    Unload {
        /// Chosen by the page; the answer carries it.
        id: u32,
    },
    /// Asks whether the worker still answers. Answered with `pong` at once, whatever else runs.
    Ping {
        /// Chosen by the page; the answer carries it.
        id: u32,
    },
    /// Answers `needs_tokenizer`: the load `id` continues with the tokenizer in `file`. Without one, send `cancel`.
    ProvideTokenizer {
        /// Id of the load.
        id: u32,
        /// A GGUF file; only its tokenizer is used.
        file: ModelFile,
    },
}

/// A stage of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The weights are read; counted in bytes of their files.
    Read,
    /// The weights are quantised as they are read; counted in bytes of their files.
    Quantise,
}

/// Facts about a loaded model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct ModelInfo {
    /// The name the page gave.
    pub name: String,
    /// SHA-256 of the weights, in hexadecimal, if the load needed it. Otherwise it is computed while no request runs, and
    /// `hashed` reports it.
    pub sha256: Option<String>,
    /// `f32`, `q8_0` or `q4_0`: what most weights are held in.
    pub precision: String,
    /// Number of weights.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(type = "number"))]
    pub parameters: u64,
    /// Number of transformer blocks.
    pub n_layer: u32,
    /// Attention heads per block.
    pub n_head: u32,
    /// Width of the hidden state.
    pub n_embd: u32,
    /// Number of positions the model can process.
    pub context_length: u32,
    /// Number of token ids.
    pub vocab_size: u32,
}

/// Worker -> page.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS), ts(export))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// Progress of a load. `done` never decreases within a stage and never exceeds `total`.
    Progress {
        /// Id of the load.
        id: u32,
        /// The current stage.
        stage: Stage,
        /// Bytes done.
        done: f64,
        /// Bytes in all; null if unknown.
        total: Option<f64>,
    },
    /// A load succeeded.
    Ready {
        /// Id of the load.
        id: u32,
        /// The model.
        model: ModelInfo,
        /// The options `generate` takes.
        options: Vec<OptionSpec>,
        /// The experiments there are, with their options.
        experiments: Vec<ExperimentSpec>,
        /// What the user should know: guesses, and matrices that are not held in the requested precision.
        notices: Vec<String>,
        /// Duration in milliseconds, by the worker's clock.
        load_ms: f64,
        /// Bytes of the worker's memory, which never shrinks. After the first load this is the peak.
        memory_bytes: f64,
    },
    /// A load found weights but no tokenizer. It waits for `provide_tokenizer` or `cancel`.
    NeedsTokenizer {
        /// Id of the load.
        id: u32,
    },
    /// The SHA-256 of the weights is known, or cannot be known. Posted at most once, after the `ready` of a load that did
    /// not include it, while no request runs; not for a model that was replaced.
    Hashed {
        /// Id of the load.
        id: u32,
        /// In hexadecimal, as in later records; null if the files could not be read again.
        model_sha256: Option<String>,
        /// Why it is null, as a sentence.
        notice: Option<String>,
    },
    /// The answer to a `ping`.
    Pong {
        /// Id of the `ping`.
        id: u32,
    },
    /// The model was freed.
    Unloaded {
        /// Id of the request.
        id: u32,
    },
    /// A generation starts: the prompt was accepted.
    Start {
        /// Id of the generation.
        id: u32,
        /// The settings in effect, with every default and the seed.
        settings: Settings,
        /// The prompt as the model sees it.
        prompt_ids: Vec<u32>,
    },
    /// A chunk of the prompt was processed.
    Prefill {
        /// Id of the generation.
        id: u32,
        /// Positions processed so far.
        done: u32,
        /// Positions of the prompt.
        total: u32,
        /// Milliseconds of this chunk's pass.
        chunk_ms: f64,
    },
    /// Text to show: whole characters, nothing that a stop string could still take back.
    Delta {
        /// Id of the generation.
        id: u32,
        /// Never empty.
        text: String,
        /// When it was posted, in milliseconds since the epoch by the worker's high-resolution clock
        /// (`performance.timeOrigin + performance.now()`).
        posted_at: f64,
    },
    /// A token was chosen. Follows the `delta` of the same step, if there is one.
    Step {
        /// Id of the generation.
        id: u32,
        /// The step.
        #[serde(flatten)]
        record: StepRecord,
    },
    /// Progress of an experiment. `done` never decreases and never exceeds `total`.
    ExperimentProgress {
        /// Id of the experiment.
        id: u32,
        /// Units of its own that are done.
        done: u32,
        /// Units in all.
        total: u32,
    },
    /// The next row of an experiment's table.
    Row {
        /// Id of the experiment.
        id: u32,
        /// The row.
        row: Row,
    },
    /// An experiment ended. If it was cancelled, its summary is null, and the rows so far are right as they are.
    ExperimentDone {
        /// Id of the experiment.
        id: u32,
        /// Its name.
        name: String,
        /// Version of this crate.
        gpt2_web: String,
        /// Which model and tokenizer it was done with.
        identity: Identity,
        /// Options, machine and summary.
        findings: Box<Findings>,
    },
    /// A generation ended.
    Done {
        /// Id of the generation.
        id: u32,
        /// Why it ended.
        stop: Stop,
        /// The record of the run.
        record: Box<Record>,
    },
    /// A request failed. After the kind `panic` the worker no longer answers.
    Error {
        /// Id of the request; null if the message had none.
        id: Option<u32>,
        /// For programs.
        kind: ErrorKind,
        /// For people: what was wrong and what to do.
        message: String,
        /// The record of a generation that failed after its `start`; its `stop` is null.
        record: Option<Box<Record>>,
        /// For a load that is `out_of_memory`: the model would fit if the current one were freed first.
        fits_alone: bool,
    },
}

impl Event {
    /// `error` as the end of request `id`.
    pub fn error(id: Option<u32>, error: Error) -> Self {
        let Error { kind, message, fits_alone } = error;
        Self::Error { id, kind, message, record: None, fits_alone }
    }

    /// `error` as the end of the generation `id`, which left `record` behind.
    pub fn failed(id: u32, error: Error, record: Record) -> Self {
        let Error { kind, message, fits_alone } = error;
        Self::Error { id: Some(id), kind, message, record: Some(Box::new(record)), fits_alone }
    }
}
