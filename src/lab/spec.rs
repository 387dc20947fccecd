//! What an experiment is called, what it asks, and which options it takes.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Result;
use crate::options::{Given, OptionRange, OptionSpec, OptionValue, RawOptions};
use crate::settings::MAX_SEED;

/// An experiment of the lab.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct ExperimentSpec {
    /// The name on the wire, in links and on the command line.
    pub name: &'static str,
    /// The question it answers.
    pub question: &'static str,
    /// The options it takes.
    pub options: &'static [OptionSpec],
}

/// The options of an experiment, checked, every default filled in. An option that was not given and has no default is
/// null.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct Options(Map<String, Value>);

impl Options {
    /// Checks each option against its row in `specs`.
    ///
    /// # Errors
    /// As [`Given::new`], and as its methods.
    pub fn from_raw(specs: &'static [OptionSpec], raw: &RawOptions) -> Result<Self> {
        let mut options = Map::new();
        for spec in specs {
            // An option without a default is null.
            let default: OptionValue = serde_json::from_str(spec.default).unwrap_or(OptionValue::Null(()));
            options.insert(spec.name.to_owned(), checked(&Given::new(specs, spec.name, &default)?)?);
        }
        for (name, value) in raw {
            options.insert(name.clone(), checked(&Given::new(specs, name, value)?)?);
        }
        Ok(Self(options))
    }

    /// A number.
    pub fn number(&self, name: &str) -> f64 {
        self.optional_number(name).unwrap_or_default()
    }

    /// A number that need not be given.
    pub fn optional_number(&self, name: &str) -> Option<f64> {
        self.get(name).as_f64()
    }

    /// A whole number.
    pub fn count(&self, name: &str) -> usize {
        self.number(name) as usize
    }

    /// Several numbers.
    pub fn numbers(&self, name: &str) -> Vec<f64> {
        self.list(name).iter().filter_map(Value::as_f64).collect()
    }

    /// Several whole numbers.
    pub fn counts(&self, name: &str) -> Vec<usize> {
        self.numbers(name).into_iter().map(|number| number as usize).collect()
    }

    /// A text.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).as_str().unwrap_or_default()
    }

    /// Several texts.
    pub fn texts(&self, name: &str) -> Vec<String> {
        self.list(name).iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    }

    /// True or false.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).as_bool().unwrap_or_default()
    }

    fn get(&self, name: &str) -> &Value {
        debug_assert!(self.0.contains_key(name), "the experiment has no option {name}");
        self.0.get(name).unwrap_or(&Value::Null)
    }

    fn list(&self, name: &str) -> &[Value] {
        self.get(name).as_array().map_or(&[], Vec::as_slice)
    }
}

/// A value as JSON, if it is within the range of its option.
fn checked(given: &Given<'_>) -> Result<Value> {
    if given.is_absent() {
        return Ok(Value::Null);
    }
    Ok(match given.spec().range {
        OptionRange::Integer { .. } => given.integer()?.into(),
        OptionRange::Number { .. } => given.number()?.into(),
        OptionRange::Strings { .. } => given.strings()?.into(),
        OptionRange::Numbers { whole: true, .. } => {
            given.numbers()?.into_iter().map(|number| number as i64).collect::<Vec<_>>().into()
        }
        OptionRange::Numbers { whole: false, .. } => given.numbers()?.into(),
        OptionRange::Text => given.text()?.into(),
        OptionRange::Flag => given.flag()?.into(),
    })
}

/// The text that a model continues.
pub const fn prompt(default: &'static str) -> OptionSpec {
    OptionSpec { name: "prompt", range: OptionRange::Text, default, help: "The text to continue." }
}

/// How the fairy tale of the embedded model begins; as JSON.
pub const TALE: &str = "\"Once upon a time there was a king who\"";

/// Ids in place of a prompt: what a run left behind.
pub const IDS: OptionSpec = OptionSpec {
    name: "ids",
    range: OptionRange::Numbers { min: 0.0, max: u32::MAX as f64, whole: true, most: 4096 },
    default: "[]",
    help: "Token ids to use instead of the prompt.",
};

/// How many tokens to generate.
pub const fn n(default: &'static str, max: u64) -> OptionSpec {
    OptionSpec { name: "n", range: OptionRange::Integer { min: 1, max }, default, help: "Tokens to generate." }
}

/// How often to measure.
pub const fn repeats(default: &'static str) -> OptionSpec {
    OptionSpec {
        name: "repeats",
        range: OptionRange::Integer { min: 1, max: 20 },
        default,
        help: "How often to measure; the median is shown.",
    }
}

/// The temperature of a distribution.
pub const fn temperature(default: &'static str) -> OptionSpec {
    OptionSpec {
        name: "temperature",
        range: OptionRange::Number { min: 0.0, max: None, open: false },
        default,
        help: "Divides the logits. 0: always the most likely token.",
    }
}

/// Where the random numbers begin.
pub const SEED: OptionSpec = OptionSpec {
    name: "seed",
    range: OptionRange::Integer { min: 0, max: MAX_SEED },
    default: "1",
    help: "Start of the random numbers.",
};

/// Several texts.
pub const fn texts(name: &'static str, default: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, range: OptionRange::Strings { most: 64 }, default, help }
}
