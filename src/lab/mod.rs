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
mod host;
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

use serde::Serialize;

pub use bench::Machine;
pub use host::{Host, Memory, Subject};
pub use spec::{ExperimentSpec, Options};

use crate::error::{Error, ErrorKind, Result};
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
    inside: InsideRow, InsideSummary;
}
pub use inside::{Attention, Lens};

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

/// Does an experiment that was [prepared](prepare), and hands its rows to `post` as they come. Those that came before it was
/// cancelled are right as they are. What the model held is forgotten.
///
/// # Errors
/// Whatever the model reports; [`ErrorKind::InvalidOption`] for options that do not fit this model.
pub async fn run(
    (spec, options): (&'static ExperimentSpec, Options),
    model: &mut dyn Subject,
    tokenizer: &Tokenizer,
    memory: &RefCell<Memory>,
    host: &dyn Host,
    post: &dyn Fn(Row),
) -> Result<Findings> {
    let desk = Desk::new(host);
    let mut bench = Bench { model, tokenizer, options, desk: &desk, memory };
    let outcome = match desk.turn().await {
        Ok(()) => experiment(spec.name, &mut bench, post).await,
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
async fn experiment(name: &str, bench: &mut Bench<'_>, post: &dyn Fn(Row)) -> Result<Summary> {
    match name {
        "naive" => naive::run(bench, &|row| post(row.into())).await.map(Summary::from),
        "check" => check::run(bench, &|row| post(row.into())).await.map(Summary::from),
        "sampled-check" => sampled_check::run(bench, &|row| post(row.into())).await.map(Summary::from),
        "eos" => eos::run(bench, &|row| post(row.into())).await.map(Summary::from),
        "sweep" => sweep::run(bench, &|row| post(row.into())).await.map(Summary::from),
        "latency" => latency::run(bench, &|row| post(row.into())).await.map(Summary::from),
        "tokens" => tokens::run(bench, &|row| post(row.into())).await.map(Summary::from),
        "hold-back" => hold_back::run(bench, &|row| post(row.into())).await.map(Summary::from),
        "cancel" => cancel::run(bench, &|row| post(row.into())).await.map(Summary::from),
        "one-word" => one_word::run(bench, &|row| post(row.into())).await.map(Summary::from),
        "precision" => precision::run(bench, &|row| post(row.into())).await.map(Summary::from),
        "greedy" => greedy::run(bench, &|row| post(row.into())).await.map(Summary::from),
        "trace" => trace::run(bench, &|row| post(row.into())).await.map(Summary::from),
        "lengths" => lengths::run(bench, &|row| post(row.into())).await.map(Summary::from),
        "sampling" => sampling::run(bench, &|row| post(row.into())).await.map(Summary::from),
        "inside" => inside::run(bench, &|row| post(row.into())).await.map(Summary::from),
        other => unreachable!("{other} is in EXPERIMENTS but cannot be run"),
    }
}

#[cfg(test)]
mod tests;
