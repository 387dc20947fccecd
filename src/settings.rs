//! The options of a run: one table of names, ranges and defaults. Names follow the OpenAI / Hugging Face spelling.

use serde::Serialize;

use crate::error::Result;
use crate::options::{Given, OptionRange, OptionSpec, RawOptions};

/// The largest seed: the largest integer a JavaScript number holds exactly.
pub const MAX_SEED: u64 = (1 << 53) - 1;

/// Tokens kept by rank.
pub const TOP_K: OptionSpec = OptionSpec {
    name: "top_k",
    range: OptionRange::Integer { min: 0, max: u32::MAX as u64 },
    default: "0",
    help: "Samples from the k most likely tokens. 0 = off.",
};

/// Probability mass kept.
pub const TOP_P: OptionSpec = OptionSpec {
    name: "top_p",
    range: OptionRange::Number { min: 0.0, max: Some(1.0), open: true },
    default: "0.95",
    help: "Samples from the fewest top tokens whose probabilities add up to this. 1 = off.",
};

/// Least probability relative to the best token.
pub const MIN_P: OptionSpec = OptionSpec {
    name: "min_p",
    range: OptionRange::Number { min: 0.0, max: Some(1.0), open: false },
    default: "0",
    help: "Drops tokens below this fraction of the top token's probability. 0 = off.",
};

/// The penalty on tokens seen.
pub const REPETITION_PENALTY: OptionSpec = OptionSpec {
    name: "repetition_penalty",
    range: OptionRange::Number { min: 0.0, max: None, open: true },
    default: "1",
    help: "Makes tokens already in the prompt or output less likely. 1 = off.",
};

/// Every option of a run. The page draws its controls from the same rows.
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "max_tokens",
        range: OptionRange::Integer { min: 1, max: u32::MAX as u64 },
        default: "128",
        help: "Maximum number of tokens to generate.",
    },
    OptionSpec {
        name: "temperature",
        range: OptionRange::Number { min: 0.0, max: None, open: false },
        default: "0.8",
        help: "Divides the logits. Below 1: safer, more repetitive. Above 1: more varied. 0: always the most likely token.",
    },
    TOP_K,
    TOP_P,
    MIN_P,
    REPETITION_PENALTY,
    OptionSpec {
        name: "seed",
        range: OptionRange::Integer { min: 0, max: MAX_SEED },
        default: "",
        help: "Same seed and settings, same text. Leave empty for a random seed; it is recorded.",
    },
    OptionSpec {
        name: "stop",
        range: OptionRange::Strings { most: 16 },
        default: "[]",
        help: "Generation stops at the first of these; the string itself is left out.",
    },
    OptionSpec {
        name: "timeout_ms",
        range: OptionRange::Number { min: 0.0, max: None, open: true },
        default: "",
        help: "Stops after this many milliseconds.",
    },
    OptionSpec {
        name: "top_logprobs",
        range: OptionRange::Integer { min: 0, max: 20 },
        default: "6",
        help: "How many top tokens to record at each step.",
    },
    OptionSpec {
        name: "parse_special",
        range: OptionRange::Flag,
        default: "false",
        help: "Treats <|endoftext|> in the prompt as the single special token, not as text (seven tokens).",
    },
];

/// The settings a run really uses: every default filled in, every value checked. Part of the record.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Settings {
    /// The most tokens to generate, at least 1.
    pub max_tokens: u32,
    /// Divides the logits; 0 is greedy.
    pub temperature: f64,
    /// Tokens kept by rank; 0 is off.
    pub top_k: u32,
    /// Probability mass kept, in (0, 1]; 1 is off.
    pub top_p: f64,
    /// Least probability relative to the best token, in [0, 1]; 0 is off.
    pub min_p: f64,
    /// Divides positive and multiplies negative logits of tokens seen; 1 is off.
    pub repetition_penalty: f64,
    /// Start of the random numbers, at most 2^53 - 1.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(type = "number"))]
    pub seed: u64,
    /// Strings that end the run.
    pub stop: Vec<String>,
    /// Time limit of the run in milliseconds.
    pub timeout_ms: Option<f64>,
    /// Alternatives recorded with each step.
    pub top_logprobs: u32,
    /// Whether `<|endoftext|>` in the prompt is the special token.
    pub parse_special: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_tokens: 128,
            temperature: 0.8,
            top_k: 0,
            top_p: 0.95,
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: 0,
            stop: Vec::new(),
            timeout_ms: None,
            top_logprobs: 6,
            parse_special: false,
        }
    }
}

impl Settings {
    /// Checks every option against [`OPTIONS`] and fills in the defaults; `seed` is used where none was given.
    ///
    /// # Errors
    /// As [`Given::new`], and as its methods for a value of another type or outside the range.
    pub fn from_raw(raw: &RawOptions, seed: u64) -> Result<Self> {
        let mut settings = Self { seed, ..Self::default() };
        for (name, value) in raw {
            let given = Given::new(OPTIONS, name, value)?;
            if given.is_absent() {
                continue;
            }
            match given.spec().name {
                "max_tokens" => settings.max_tokens = given.integer()? as u32,
                "temperature" => settings.temperature = given.number()?,
                "top_k" => settings.top_k = given.integer()? as u32,
                "top_p" => settings.top_p = given.number()?,
                "min_p" => settings.min_p = given.number()?,
                "repetition_penalty" => settings.repetition_penalty = given.number()?,
                "seed" => settings.seed = given.integer()?,
                "stop" => settings.stop = given.strings()?,
                "timeout_ms" => settings.timeout_ms = Some(given.number()?),
                "top_logprobs" => settings.top_logprobs = given.integer()? as u32,
                "parse_special" => settings.parse_special = given.flag()?,
                other => unreachable!("{other} is in OPTIONS but has no field"),
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests;
