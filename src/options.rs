//! Options as a page gives them, and their validation against a table of names, ranges and defaults.
//!
//! A value outside its range is refused, never changed; an unknown name is refused with the nearest known one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

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
    /// A list of finite numbers in `min..=max`, or one number.
    Numbers {
        /// Smallest accepted value.
        min: f64,
        /// Largest accepted value.
        max: f64,
        /// Whether they must be whole.
        whole: bool,
        /// Maximum number of numbers.
        most: u32,
    },
    /// One text, perhaps empty.
    Text,
    /// True or false.
    Flag,
}

/// What is known of an option.
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
    /// Several strings; also the empty list.
    Strings(Vec<String>),
    /// Several numbers.
    Numbers(Vec<f64>),
    /// Anything else (an object, a mixed list): refused by name.
    Other(serde::de::IgnoredAny),
}

/// Options as they came from outside.
pub type RawOptions = BTreeMap<String, OptionValue>;

/// The one of `names` that is most like `name`.
pub fn nearest(name: &str, names: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    let likeness = |other: &str| strsim::jaro_winkler(name, other);
    names.into_iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
}

/// A value together with the row it is checked against.
pub struct Given<'a> {
    spec: &'static OptionSpec,
    value: &'a OptionValue,
}

impl<'a> Given<'a> {
    /// `value` for the option `name` of the table `specs`.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownOption`], with the nearest name that exists.
    pub fn new(specs: &'static [OptionSpec], name: &str, value: &'a OptionValue) -> Result<Self> {
        if let Some(spec) = specs.iter().find(|spec| spec.name == name) {
            return Ok(Self { spec, value });
        }
        let hint = match nearest(name, specs.iter().map(|spec| spec.name)) {
            Some(nearest) => format!("; did you mean `{nearest}`?"),
            None => "; there are none here".to_owned(),
        };
        Err(Error::new(ErrorKind::UnknownOption, format!("there is no option `{name}`{hint}")))
    }

    /// The row.
    pub fn spec(&self) -> &'static OptionSpec {
        self.spec
    }

    /// Whether it is null, where that means the same as not giving it. A record's settings hold null for what was not given
    /// and can be used again as they are.
    pub fn is_absent(&self) -> bool {
        *self.value == OptionValue::Null(()) && self.spec.default.is_empty()
    }

    fn refuse(&self, wanted: &str) -> Error {
        let got = match self.value {
            OptionValue::Null(()) => "null".to_owned(),
            OptionValue::Flag(flag) => flag.to_string(),
            OptionValue::Number(number) => number.to_string(),
            OptionValue::String(text) => format!("the text {text:?}"),
            OptionValue::Strings(list) => format!("the list {list:?}"),
            OptionValue::Numbers(list) => format!("the list {list:?}"),
            OptionValue::Other(_) => {
                "something that is neither a number, a text, a list of texts nor true or false".to_owned()
            }
        };
        Error::new(ErrorKind::InvalidOption, format!("`{}` must be {wanted}; got {got}", self.spec.name))
    }

    /// A whole number.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`], as of all of these, if it is of another type or outside its range.
    pub fn integer(&self) -> Result<u64> {
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

    /// A number.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`].
    pub fn number(&self) -> Result<f64> {
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

    /// Several texts.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`].
    pub fn strings(&self) -> Result<Vec<String>> {
        let OptionRange::Strings { most } = self.spec.range else { return Err(self.refuse("a list of texts")) };
        let list = match self.value {
            OptionValue::String(text) => std::slice::from_ref(text),
            OptionValue::Strings(list) => list.as_slice(),
            _ => return Err(self.refuse("a text or a list of texts")),
        };
        if list.iter().any(String::is_empty) {
            return Err(self.refuse("made of texts that are not empty"));
        }
        if list.len() > most as usize {
            return Err(self.refuse(&format!("at most {most} texts")));
        }
        Ok(list.to_vec())
    }

    /// Several numbers.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`].
    pub fn numbers(&self) -> Result<Vec<f64>> {
        let OptionRange::Numbers { min, max, whole, most } = self.spec.range else {
            return Err(self.refuse("a list of numbers"));
        };
        let list = match self.value {
            OptionValue::Number(number) => std::slice::from_ref(number),
            OptionValue::Numbers(list) => list.as_slice(),
            OptionValue::Strings(list) if list.is_empty() => &[],
            _ => return Err(self.refuse("a number or a list of numbers")),
        };
        let fits = |number: &f64| (min..=max).contains(number) && (!whole || number.fract() == 0.0);
        if list.len() > most as usize || !list.iter().all(fits) {
            let kind = if whole { "whole numbers" } else { "numbers" };
            return Err(self.refuse(&format!("at most {most} {kind} from {min} to {max}")));
        }
        Ok(list.to_vec())
    }

    /// One text.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`].
    pub fn text(&self) -> Result<String> {
        match self.value {
            OptionValue::String(text) => Ok(text.clone()),
            _ => Err(self.refuse("a text")),
        }
    }

    /// True or false.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`].
    pub fn flag(&self) -> Result<bool> {
        match self.value {
            OptionValue::Flag(flag) => Ok(*flag),
            _ => Err(self.refuse("true or false")),
        }
    }
}
