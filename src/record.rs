//! What a run leaves behind: its stop reason, its steps, and the record that reproduces it.

use serde::Serialize;

use crate::settings::Settings;

/// Why a run ended. If several reasons apply in one step, the first in this list wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model chose an end-of-text token.
    Eos,
    /// The generated text reached a stop string; the text is cut before it.
    StopString,
    /// The limit on tokens is reached.
    MaxTokens,
    /// Every position of the context is used: the last token cannot be processed.
    ContextFull,
    /// The run was cancelled.
    Cancelled,
    /// The time limit is reached.
    Timeout,
}

impl StopReason {
    /// The OpenAI spelling: `stop`, `length` or `abort`.
    pub fn finish_reason(self) -> &'static str {
        match self {
            Self::Eos | Self::StopString => "stop",
            Self::MaxTokens | Self::ContextFull => "length",
            Self::Cancelled | Self::Timeout => "abort",
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Stop {
    /// The reason.
    pub reason: StopReason,
    /// The OpenAI spelling of the reason: `stop`, `length` or `abort`.
    pub finish_reason: &'static str,
    /// Which stop string was reached, for [`StopReason::StopString`].
    pub stop_string: Option<String>,
    /// Which end-of-text token was chosen, for [`StopReason::Eos`].
    pub eos_token_id: Option<u32>,
}

impl Stop {
    /// The end for `reason`.
    pub fn because(reason: StopReason) -> Self {
        Self { reason, finish_reason: reason.finish_reason(), stop_string: None, eos_token_id: None }
    }

    /// The end at the stop string `text`.
    pub fn at(text: &str) -> Self {
        Self { stop_string: Some(text.to_owned()), ..Self::because(StopReason::StopString) }
    }
}

/// A token that could have been chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Alternative {
    /// The token's id.
    pub id: u32,
    /// The token's text; incomplete characters are U+FFFD.
    pub text: String,
    /// Natural logarithm of its probability in the model's own distribution, before any filter.
    pub logprob: f64,
    /// The same in the distribution the token was drawn from; null if a filter removed it.
    pub filtered_logprob: Option<f64>,
}

/// One step: a token, and what it cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct StepRecord {
    /// Number of the step in the run, from 0.
    pub step: u32,
    /// The token that was chosen.
    pub token_id: u32,
    /// Its bytes; none for the end-of-text token.
    pub bytes: Vec<u8>,
    /// The text that became safe to show in this step; may be empty, may hold text of earlier tokens.
    pub text: String,
    /// Natural logarithm of the token's probability in the model's own distribution, before any filter.
    pub logprob: f64,
    /// The same in the distribution it was drawn from, after the filters.
    pub filtered_logprob: f64,
    /// The most likely tokens before any filter, best first.
    pub alternatives: Vec<Alternative>,
    /// Positions the model has processed since the run began, the prompt's included.
    pub positions_processed: u32,
    /// The position the token takes when it is processed, counted from 0. The last token of a full context has none
    /// left: this is then the context's length.
    pub position: u32,
    /// Time of the pass that gave the logits for this token; 0 in the first step, whose logits the prefill gave.
    pub forward_ms: f64,
    /// Time to choose the token.
    pub sample_ms: f64,
}

/// Where the time from one token to the next goes: means over the decode steps, in milliseconds, that add up to the time
/// from the first token to the last. The prefill is not part of it.
///
/// A page's clock ticks every tenth of a millisecond, or every millisecond, and many parts are shorter. A part then reads
/// as 0 most of the time and as a whole tick in proportion to its length: a mean over many steps is right, a mean over a
/// few is a guess.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Profile {
    /// Steps that were measured. The first token costs none: its logits come from the prefill.
    pub steps: u32,
    /// Rows of tokens and positions.
    pub embedding_ms: f64,
    /// In all blocks: the first layer norm, queries, keys and values, attention and its output projection.
    pub attention_ms: f64,
    /// In all blocks: the second layer norm and the MLP.
    pub mlp_ms: f64,
    /// The last layer norm and the logits.
    pub lm_head_ms: f64,
    /// Choosing the token.
    pub sampling_ms: f64,
    /// Delivering the token: in a worker, building and posting its messages.
    pub messages_ms: f64,
    /// Everything else: bytes to text, stop strings, and what the caller does between two steps. In a worker that is one
    /// turn of its message queue.
    pub other_ms: f64,
}

/// Which model and tokenizer a run used.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Identity {
    /// What the model is called.
    pub model: String,
    /// SHA-256 of the weights, in hexadecimal; null if it is not known yet or cannot be known.
    pub model_sha256: Option<String>,
    /// SHA-256 over the tokenizer's tokens and merges, in hexadecimal.
    pub tokenizer_sha256: String,
    /// `f32`, `q8_0` or `q4_0`.
    pub precision: String,
    /// The instruction set the products ran on: `relaxed-simd`, `simd128` or `scalar`.
    pub kernel: String,
    /// How many places of a matrix a step reads at a time. The text does not depend on it.
    pub readers: usize,
    /// The trial after the load that chose `readers`; empty if there was none.
    pub readers_trial: Vec<ReadersTrial>,
}

/// The speed of a number of readers in the trial after a load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct ReadersTrial {
    /// Number of readers.
    pub readers: usize,
    /// Gigabytes (10⁹ bytes) of weights that one row of activations was multiplied with in a second.
    pub gb_s: f64,
}

/// Everything needed to reproduce a run, and what happened in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Record {
    /// Version of this crate.
    pub gpt2_web: String,
    /// Which model and tokenizer ran.
    pub identity: Identity,
    /// The settings in effect.
    pub settings: Settings,
    /// The prompt as it was given.
    pub prompt: String,
    /// The prompt as the model saw it; the end-of-text token alone for an empty prompt.
    pub prompt_ids: Vec<u32>,
    /// Whether the prompt was empty, so that the run started from the end-of-text token.
    pub started_from_eos: bool,
    /// The text that was emitted: all deltas joined.
    pub text: String,
    /// Every token that was chosen, the end-of-text token included.
    pub token_ids: Vec<u32>,
    /// One record per token.
    pub steps: Vec<StepRecord>,
    /// Positions the model processed.
    pub positions_processed: u32,
    /// Time of the passes over the prompt.
    pub prefill_ms: f64,
    /// Time from the end of the prefill to the last token.
    pub decode_ms: f64,
    /// Time from the beginning of the run to the first token.
    pub time_to_first_token_ms: Option<f64>,
    /// Tokens after the first, divided by the time from the first to the last.
    pub tokens_per_second: Option<f64>,
    /// Where the time from the first token to the last went; null if the model does not measure itself, no step followed
    /// the first token, or the clock did not tick.
    pub profile: Option<Profile>,
    /// Why it ended; null for a run that failed.
    pub stop: Option<Stop>,
}
