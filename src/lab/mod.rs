//! The lab: experiments over the seam [`LanguageModel`], each of which makes the rows of a table.
//!
//! An experiment is an async function over a [`Bench`]: the model, the tokenizer, the options, and a way to post rows, to
//! say how far it is, and to let waiting messages have their turn. It draws nothing and knows no browser. Natively a
//! [`Host`] that never waits runs it to its end in one poll.
//!
//! Rows and summaries are typed, and the page's types come from them. Every number that is a time has `_ms` in its name.

mod bench;
mod cancel;
mod check;
mod choosing;
mod distribution;
mod eos;
mod filters;
mod greedy;
mod hold_back;
mod inside;
mod latency;
mod lengths;
mod naive;
mod one_word;
mod precision;
mod sampled_check;
mod sampling;
mod spec;
mod stats;
mod sweep;
mod tokens;
mod trace;

use std::cell::RefCell;
use std::pin::Pin;

use serde::Serialize;

pub use bench::Machine;
pub use spec::{ExperimentSpec, Options};

use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::Gpt2;
use crate::model::{LanguageModel, ScriptedModel};
use crate::options::{RawOptions, nearest};
use crate::text::Tokenizer;
use bench::{Bench, Desk};

/// Every experiment, in the order of the page.
pub const EXPERIMENTS: &[ExperimentSpec] = &[
    naive::SPEC,
    check::SPEC,
    sampled_check::SPEC,
    eos::SPEC,
    sweep::SPEC,
    latency::SPEC,
    tokens::SPEC,
    hold_back::SPEC,
    cancel::SPEC,
    one_word::SPEC,
    precision::SPEC,
    greedy::SPEC,
    trace::SPEC,
    lengths::SPEC,
    sampling::SPEC,
    inside::SPEC,
];

/// A model that experiments can be done with.
pub trait Subject: LanguageModel {
    /// The model as GPT-2, whose inside can be looked into.
    fn gpt2(&self) -> Option<&Gpt2> {
        None
    }
}

impl Subject for ScriptedModel {}

impl Subject for Gpt2 {
    fn gpt2(&self) -> Option<&Gpt2> {
        Some(self)
    }
}

/// What one experiment leaves to the next with the same model.
#[derive(Debug, Default)]
pub struct Memory {
    /// The ids of a prefix, and the logits after it: the sampling bench looks at these again and again.
    pub(crate) logits: Option<(Vec<u32>, Vec<f32>)>,
}

/// What runs an experiment.
pub trait Host {
    /// Milliseconds from any fixed moment; never runs backwards.
    fn now(&self) -> f64;

    /// Lets waiting messages be handled.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`] once the experiment was cancelled.
    fn turn(&self) -> Pin<Box<dyn Future<Output = Result<()>> + '_>>;

    /// Takes the next row.
    fn row(&self, row: Row);

    /// Takes how far the experiment is, in units of its own.
    fn progress(&self, done: usize, total: usize);
}

macro_rules! findings {
    ($($experiment:ident: $row:ident, $summary:ident;)*) => {
        $(pub use $experiment::{$row, $summary};)*

        /// A row of the table of an experiment.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
        #[serde(untagged)]
        pub enum Row {
            $(#[doc = concat!("Of the experiment in `", stringify!($experiment), ".rs`.")]
            $row($row),)*
            /// Of `inside.rs`: what a layer would have said.
            Lens(Lens),
        }

        /// What an experiment says of all its rows.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
        #[serde(untagged)]
        pub enum Summary {
            $(#[doc = concat!("Of the experiment in `", stringify!($experiment), ".rs`.")]
            $summary($summary),)*
        }

        $(impl From<$row> for Row {
            fn from(row: $row) -> Self {
                Self::$row(row)
            }
        }

        impl From<$summary> for Summary {
            fn from(summary: $summary) -> Self {
                Self::$summary(summary)
            }
        })*
    };
}

findings! {
    naive: NaiveRow, NaiveSummary;
    check: CheckRow, CheckSummary;
    sampled_check: SampledCheckRow, SampledCheckSummary;
    eos: EosRow, EosSummary;
    sweep: SweepRow, SweepSummary;
    latency: LatencyRow, LatencySummary;
    tokens: TokensRow, TokensSummary;
    hold_back: HoldBackRow, HoldBackSummary;
    cancel: CancelRow, CancelSummary;
    one_word: OneWordRow, OneWordSummary;
    precision: PrecisionRow, PrecisionSummary;
    greedy: GreedyRow, GreedySummary;
    trace: TraceRow, TraceSummary;
    lengths: LengthsRow, LengthsSummary;
    sampling: SamplingRow, SamplingSummary;
    inside: Attention, InsideSummary;
}
pub use inside::Lens;

impl From<Lens> for Row {
    fn from(row: Lens) -> Self {
        Self::Lens(row)
    }
}

/// How an experiment ended, and under which conditions it ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Findings {
    /// The options in effect, with every default.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(type = "Record<string, unknown>"))]
    pub options: Options,
    /// What was noticed of clock and machine.
    pub machine: Machine,
    /// What all rows say together; null if the experiment was cancelled.
    pub summary: Option<Summary>,
}

/// Checks the options of the experiment `name`.
///
/// # Errors
/// [`ErrorKind::InvalidRequest`] if there is no such experiment, with the nearest name; or as [`Options::from_raw`].
pub fn prepare(name: &str, raw: &RawOptions) -> Result<(&'static ExperimentSpec, Options)> {
    let spec = EXPERIMENTS.iter().find(|spec| spec.name == name).ok_or_else(|| {
        let near = nearest(name, EXPERIMENTS.iter().map(|spec| spec.name)).unwrap_or_default();
        Error::new(ErrorKind::InvalidRequest, format!("there is no experiment `{name}`; did you mean `{near}`?"))
    })?;
    Ok((spec, Options::from_raw(spec.options, raw)?))
}

/// Does an experiment that was [prepared](prepare). The rows it posted before it was cancelled are right as they are. What
/// the model held is forgotten.
///
/// # Errors
/// Whatever the model reports; [`ErrorKind::InvalidOption`] for options that do not fit this model.
pub async fn run(
    (spec, options): (&'static ExperimentSpec, Options),
    model: &mut dyn Subject,
    tokenizer: &Tokenizer,
    memory: &RefCell<Memory>,
    host: &dyn Host,
) -> Result<Findings> {
    let desk = Desk::new(host);
    let mut bench = Bench { model, tokenizer, options, desk: &desk, memory };
    let outcome = match desk.turn().await {
        Ok(()) => experiment(spec.name, &mut bench).await,
        Err(error) => Err(error),
    };
    bench.model.truncate(0);
    let summary = match outcome {
        Ok(summary) => {
            desk.finish();
            Some(summary)
        }
        Err(error) if error.kind == ErrorKind::Cancelled => None,
        Err(error) => return Err(error),
    };
    Ok(Findings { options: bench.options, machine: desk.machine(), summary })
}

/// Does the experiment of that name.
async fn experiment(name: &str, bench: &mut Bench<'_>) -> Result<Summary> {
    match name {
        "naive" => naive::run(bench).await.map(Summary::from),
        "check" => check::run(bench).await.map(Summary::from),
        "sampled-check" => sampled_check::run(bench).await.map(Summary::from),
        "eos" => eos::run(bench).await.map(Summary::from),
        "sweep" => sweep::run(bench).await.map(Summary::from),
        "latency" => latency::run(bench).await.map(Summary::from),
        "tokens" => tokens::run(bench).await.map(Summary::from),
        "hold-back" => hold_back::run(bench).await.map(Summary::from),
        "cancel" => cancel::run(bench).await.map(Summary::from),
        "one-word" => one_word::run(bench).await.map(Summary::from),
        "precision" => precision::run(bench).await.map(Summary::from),
        "greedy" => greedy::run(bench).await.map(Summary::from),
        "trace" => trace::run(bench).await.map(Summary::from),
        "lengths" => lengths::run(bench).await.map(Summary::from),
        "sampling" => sampling::run(bench).await.map(Summary::from),
        "inside" => inside::run(bench).await.map(Summary::from),
        other => unreachable!("{other} is in EXPERIMENTS but cannot be run"),
    }
}

#[cfg(test)]
mod tests;
