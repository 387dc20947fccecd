//! Every message between the page and the worker, both directions, one enum each.
//!
//! This file is the wire format: the page's TypeScript types are generated from it. Every message carries the `id` of
//! its request, which the page must not use twice. A request ends with exactly one `ready` (for a load), `unloaded`,
//! `done`, `pong` or `error`, and nothing follows it but the one `hashed` of a load.
//!
//! What the worker posts is one event, or an array of several in their order.

use serde::Serialize;

use crate::error::{Error, ErrorKind};
use crate::record::{Record, StepRecord, Stop};
use crate::settings::{OptionSpec, RawOptions, Settings};

/// A value that is no plain data and only exists in a browser.
#[cfg(target_arch = "wasm32")]
pub type Handle = wasm_bindgen::JsValue;
/// A value that is no plain data and only exists in a browser.
#[cfg(not(target_arch = "wasm32"))]
pub type Handle = ();

/// One of the files that make up a model, with its contents: a `Blob` (a `File` is one), or a stream of bytes.
#[derive(Debug)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct ModelFile {
    /// The file's name: its ending says what it is.
    pub name: String,
    /// The contents, where they can be read at will.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(optional, type = "Blob"))]
    pub blob: Option<Handle>,
    /// The contents, where they can be read once: a download. It is cancelled when the load ends without it.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(optional, type = "ReadableStream<Uint8Array>"))]
    pub stream: Option<Handle>,
    /// How many bytes the stream will bring, where that is known.
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
        /// The end was asked for before the request was sent: the run begins and ends without a token.
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
    /// Asks whether the worker still answers. Answered with `pong` at once, whatever else runs; ends nothing.
    Ping {
        /// Chosen by the page; the answer carries it.
        id: u32,
    },
    /// Answers `needs_tokenizer`: the load `id` goes on with the tokenizer inside `file`. Who has none sends `cancel`.
    ProvideTokenizer {
        /// Of the load.
        id: u32,
        /// A GGUF file; nothing but its tokenizer is used.
        file: ModelFile,
    },
}

/// What a load is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The weights are read; counted in bytes of their files.
    Read,
    /// As they are read, the weights are rounded to fewer bits; counted in bytes of their files.
    Quantise,
}

/// What is known of a loaded model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct ModelInfo {
    /// What the page called it.
    pub name: String,
    /// SHA-256 of the weights, in hexadecimal, where it was needed for the load. Else it is computed while the model
    /// waits for requests, and told by `hashed`.
    pub sha256: Option<String>,
    /// `f32`, `q8_0` or `q4_0`: what most weights are held in.
    pub precision: String,
    /// Number of weights.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(type = "number"))]
    pub parameters: u64,
    /// Layers.
    pub n_layer: u32,
    /// Attention heads.
    pub n_head: u32,
    /// Width.
    pub n_embd: u32,
    /// Most positions.
    pub context_length: u32,
    /// Vocabulary.
    pub vocab_size: u32,
}

/// Worker -> page.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS), ts(export))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A load went on. `done` never falls within a stage and never passes `total`.
    Progress {
        /// Of the load.
        id: u32,
        /// What is being done.
        stage: Stage,
        /// So much of it.
        done: f64,
        /// Of so much; absent where it is not known.
        total: Option<f64>,
    },
    /// A load ended well.
    Ready {
        /// Of the load.
        id: u32,
        /// What was loaded.
        model: ModelInfo,
        /// The options `generate` takes.
        options: Vec<OptionSpec>,
        /// What a user should know: guesses made, and matrices that are not held as was asked.
        notices: Vec<String>,
        /// How long it took, by the worker's clock.
        load_ms: f64,
        /// Bytes of memory the worker has taken since it began. It never gives any back, so after the first load this
        /// is the most that was needed at once.
        memory_bytes: f64,
    },
    /// A load found weights and no tokenizer, and waits for a `provide_tokenizer` or a `cancel`.
    NeedsTokenizer {
        /// Of the load.
        id: u32,
    },
    /// The SHA-256 of the weights is known now, or never will be. Comes at most once after the `ready` of a load that
    /// did not tell it, while nothing else runs, and not for a model that is gone.
    Hashed {
        /// Of the load.
        id: u32,
        /// In hexadecimal, as records have it from now on; absent where the files could not be read again.
        model_sha256: Option<String>,
        /// For people: why it is absent.
        notice: Option<String>,
    },
    /// The worker answers.
    Pong {
        /// Of the `ping`.
        id: u32,
    },
    /// The model is gone.
    Unloaded {
        /// Of the request.
        id: u32,
    },
    /// A generation began: the prompt was accepted.
    Start {
        /// Of the generation.
        id: u32,
        /// The settings in effect, with every default and the seed.
        settings: Settings,
        /// The prompt as the model sees it.
        prompt_ids: Vec<u32>,
    },
    /// A chunk of the prompt was processed.
    Prefill {
        /// Of the generation.
        id: u32,
        /// Positions processed so far.
        done: u32,
        /// Positions of the prompt.
        total: u32,
        /// Time of this chunk's pass.
        chunk_ms: f64,
    },
    /// Text to show: whole characters, nothing that a stop string could still take back.
    Delta {
        /// Of the generation.
        id: u32,
        /// Never empty.
        text: String,
        /// When it was posted, in milliseconds since the epoch by the worker's high-resolution clock
        /// (`performance.timeOrigin + performance.now()`).
        posted_at: f64,
    },
    /// One token was chosen. Follows the `delta` of the same step, where there is one.
    Step {
        /// Of the generation.
        id: u32,
        /// What happened.
        #[serde(flatten)]
        record: StepRecord,
    },
    /// A generation ended well.
    Done {
        /// Of the generation.
        id: u32,
        /// Why it ended.
        stop: Stop,
        /// Everything that happened.
        record: Box<Record>,
    },
    /// A request failed. After the kind `panic` the worker answers nothing any more.
    Error {
        /// Of the request; absent where the message carried none.
        id: Option<u32>,
        /// For programs.
        kind: ErrorKind,
        /// For people: what was wrong and what to do.
        message: String,
        /// What a generation left behind that failed after its `start`: everything up to there, with no `stop`.
        record: Option<Box<Record>>,
        /// Of a load that is `out_of_memory`: the model would fit if the one in use were freed first.
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
