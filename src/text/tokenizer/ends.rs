//! Which tokens end a text. Several files may name one, and not all of them are right.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use crate::error::ErrorKind;
use crate::json;

use super::files::find;
use super::quoted;
use super::spec::{Named, TokenizerSpec};

/// The tokens that end a text.
#[derive(Debug)]
pub(super) struct Ends {
    /// The one that an empty prompt starts from.
    pub first: Option<u32>,
    /// All of them, in order.
    ids: Vec<u32>,
}

impl Ends {
    /// Those that are `known` from the tokenizer itself, and those `named` elsewhere that are tokens. `written` is how a
    /// token is written, and `added` are the ids of tokens that are not ordinary text.
    pub fn new<'a>(
        known: [Option<u32>; 2],
        named: &[Named],
        written: &impl Fn(u32) -> Option<&'a str>,
        added: &HashSet<u32>,
        notices: &mut Vec<String>,
    ) -> Self {
        let mut ids: Vec<u32> = known.into_iter().flatten().collect();
        for Named { ids: named, by } in named {
            let (tokens, others): (Vec<u32>, Vec<u32>) = named.iter().partition(|&&id| written(id).is_some());
            if let Some(id) = others.first() {
                notices.push(format!(
                    "{by} names the end-of-text id {id}, which is no token of this model: it is ignored"
                ));
            }
            let ordinary = tokens.iter().find(|&id| !added.contains(id) && !ids.contains(id));
            if let Some((id, token)) = ordinary.and_then(|&id| Some((id, written(id)?))) {
                let token = quoted(token);
                notices.push(format!("{by} names {id} as the end of a text, so the ordinary token {token} ends a run"));
            }
            ids.extend(tokens);
        }
        let first = ids.first().copied();
        ids.sort_unstable();
        ids.dedup();
        Self { first, ids }
    }

    pub fn contains(&self, id: u32) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// Forgets those from `rows` on: a model has no way to choose them.
    pub fn limit(&mut self, rows: usize) {
        self.ids.retain(|&id| (id as usize) < rows);
        self.first = self.first.filter(|&id| self.contains(id)).or(self.ids.first().copied());
    }
}

impl TokenizerSpec {
    /// Takes the ids that `generation_config.json` and `config.json` among `files` name as the end of a text, as
    /// transformers does. A file that cannot be read, or a value that is not an id, becomes a notice: a model can be used
    /// without.
    pub(crate) fn read_ends(&mut self, files: &[(&str, &[u8])]) {
        #[derive(Deserialize)]
        struct Options {
            #[serde(default)]
            eos_token_id: Value,
        }
        for name in ["generation_config.json", "config.json"] {
            let Some(bytes) = find(files, name) else { continue };
            let options = json::parse(ErrorKind::BadTokenizer, name, "a JSON object of options", bytes);
            let Options { eos_token_id } = match options {
                Ok(options) => options,
                Err(error) => {
                    self.notices.push(format!("no end-of-text token is taken from {name}: {error}"));
                    continue;
                }
            };
            let values = match eos_token_id {
                Value::Array(several) => several,
                one => vec![one],
            };
            let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
            let ids: Vec<u32> = values.iter().filter_map(id).collect();
            if let Some(other) = values.iter().find(|value| !value.is_null() && id(value).is_none()) {
                let other = format!("{:.40}", other.to_string());
                self.notices
                    .push(format!("`eos_token_id` of {name} holds {other}, which is no token id: it is ignored"));
            }
            if !ids.is_empty() {
                self.ends.push(Named { ids, by: name.to_owned() });
            }
        }
    }
}
