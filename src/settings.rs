//! The options of a run: one table of names, ranges and defaults, and their validation.
//!
//! Names follow the OpenAI / Hugging Face spelling. A value outside its range is refused, never changed; an unknown
//! name is refused with the nearest known one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// The largest seed: the largest integer a JavaScript number holds exactly.
pub const MAX_SEED: u64 = (1 << 53) - 1;

/// What one option accepts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OptionRange {
    /// A whole number in `min..=max`.
    Integer {
        /// Smallest accepted value.
        #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(type = "number"))]
        min: u64,
        /// Largest accepted value.
        #[cfg_attr(all(test, not(target_arch = "wasm32")), ts(type = "number"))]
        max: u64,
    },
    /// A finite number in `min..=max`, or above `min` where `open` is set.
    Number {
        /// Smallest value.
        min: f64,
        /// Largest accepted value; absent where there is none.
        max: Option<f64>,
        /// Whether `min` itself is excluded.
        open: bool,
    },
    /// A list of non-empty strings, or one string.
    Strings {
        /// Maximum number of strings.
        most: u32,
    },
    /// True or false.
    Flag,
}

/// One row of [`OPTIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct OptionSpec {
    /// The name on the wire.
    pub name: &'static str,
    /// What it accepts.
    pub range: OptionRange,
    /// The value used when it is not given, as JSON; empty where the default is "none" (or, for the seed, random).
    pub default: &'static str,
    /// One sentence for a person.
    pub help: &'static str,
}

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
    OptionSpec {
        name: "top_k",
        range: OptionRange::Integer { min: 0, max: u32::MAX as u64 },
        default: "0",
        help: "Samples from the k most likely tokens. 0 = off.",
    },
    OptionSpec {
        name: "top_p",
        range: OptionRange::Number { min: 0.0, max: Some(1.0), open: true },
        default: "0.95",
        help: "Samples from the fewest top tokens whose probabilities add up to this. 1 = off.",
    },
    OptionSpec {
        name: "min_p",
        range: OptionRange::Number { min: 0.0, max: Some(1.0), open: false },
        default: "0",
        help: "Drops tokens below this fraction of the top token's probability. 0 = off.",
    },
    OptionSpec {
        name: "repetition_penalty",
        range: OptionRange::Number { min: 0.0, max: None, open: true },
        default: "1",
        help: "Makes tokens already in the prompt or output less likely. 1 = off.",
    },
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

/// An option's value before it is checked.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum OptionValue {
    /// Null: as if it were not given, where not giving it means something.
    Null(()),
    /// True or false.
    Flag(bool),
    /// Any number, NaN and infinities included.
    Number(f64),
    /// One string.
    String(String),
    /// Several strings.
    Strings(Vec<String>),
    /// Anything else (an object, a mixed list): refused by name.
    Other(serde::de::IgnoredAny),
}

/// Options as they came from outside.
pub type RawOptions = BTreeMap<String, OptionValue>;

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
    /// [`ErrorKind::UnknownOption`] for a name not in the table, [`ErrorKind::InvalidOption`] for a value that is of
    /// another type or outside the range.
    pub fn from_raw(raw: &RawOptions, seed: u64) -> Result<Self> {
        let mut settings = Self { seed, ..Self::default() };
        for (name, value) in raw {
            let spec = OPTIONS.iter().find(|spec| spec.name == name).ok_or_else(|| unknown(name))?;
            let given = Given { spec, value };
            // The record's settings hold null for what was not given; they can be used again as they are.
            if *value == OptionValue::Null(()) && spec.default.is_empty() {
                continue;
            }
            match spec.name {
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

/// The refusal of an unknown option, with the nearest name that exists.
fn unknown(name: &str) -> Error {
    let nearest = OPTIONS
        .iter()
        .max_by(|a, b| strsim::jaro_winkler(name, a.name).total_cmp(&strsim::jaro_winkler(name, b.name)))
        .map_or("max_tokens", |spec| spec.name);
    Error::new(ErrorKind::UnknownOption, format!("there is no option `{name}`; did you mean `{nearest}`?"))
}

/// A value together with the row it is checked against.
struct Given<'a> {
    spec: &'a OptionSpec,
    value: &'a OptionValue,
}

impl Given<'_> {
    fn refuse(&self, wanted: &str) -> Error {
        let got = match self.value {
            OptionValue::Null(()) => "null".to_owned(),
            OptionValue::Flag(flag) => flag.to_string(),
            OptionValue::Number(number) => number.to_string(),
            OptionValue::String(text) => format!("the text {text:?}"),
            OptionValue::Strings(list) => format!("the list {list:?}"),
            OptionValue::Other(_) => {
                "something that is neither a number, a text, a list of texts nor true or false".to_owned()
            }
        };
        Error::new(ErrorKind::InvalidOption, format!("`{}` must be {wanted}; got {got}", self.spec.name))
    }

    fn integer(&self) -> Result<u64> {
        let OptionRange::Integer { min, max } = self.spec.range else { return Err(self.refuse("a whole number")) };
        let wanted = if max > u64::from(u32::MAX) {
            format!("a whole number from {min} to 2^53 - 1")
        } else {
            format!("a whole number from {min} to {max}")
        };
        match *self.value {
            OptionValue::Number(n) if n.fract() == 0.0 && n >= min as f64 && n <= max as f64 => Ok(n as u64),
            _ => Err(self.refuse(&wanted)),
        }
    }

    fn number(&self) -> Result<f64> {
        let OptionRange::Number { min, max, open } = self.spec.range else { return Err(self.refuse("a number")) };
        let wanted = match (max, open) {
            (Some(max), true) => format!("a number above {min} and at most {max}"),
            (Some(max), false) => format!("a number from {min} to {max}"),
            (None, true) => format!("a finite number above {min}"),
            (None, false) => format!("a finite number of at least {min}"),
        };
        match *self.value {
            OptionValue::Number(n)
                if n.is_finite() && (if open { n > min } else { n >= min }) && max.is_none_or(|max| n <= max) =>
            {
                Ok(n)
            }
            _ => Err(self.refuse(&wanted)),
        }
    }

    fn strings(&self) -> Result<Vec<String>> {
        let OptionRange::Strings { most } = self.spec.range else { return Err(self.refuse("a list of texts")) };
        let list = match self.value {
            OptionValue::String(text) => std::slice::from_ref(text),
            OptionValue::Strings(list) => list.as_slice(),
            _ => return Err(self.refuse("a text or a list of texts")),
        };
        if list.iter().any(String::is_empty) {
            return Err(
                self.refuse("made of texts that are not empty (an empty one would stop before the first token)")
            );
        }
        if list.len() > most as usize {
            return Err(self.refuse(&format!("at most {most} texts")));
        }
        Ok(list.to_vec())
    }

    fn flag(&self) -> Result<bool> {
        match self.value {
            OptionValue::Flag(flag) => Ok(*flag),
            _ => Err(self.refuse("true or false")),
        }
    }
}

#[cfg(test)]
mod tests;
