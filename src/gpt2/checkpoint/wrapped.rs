//! What training programs add to a GPT-2: prefixes of tensor names, and heads for other tasks.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::safetensors::{NAMES, is_buffer};
use crate::error::{Error, ErrorKind, Result};

/// The prefix of the transformer's tensors if it was saved with its lm_head.
const TRANSFORMER: &str = "transformer.";

/// Heads of other tasks, by the first part of their names, in addition to those that end in `_head`: of TRL, and of Hugging
/// Face's classes for sequences, tokens, questions and choices.
const HEADS: [&str; 7] = ["score", "classifier", "qa_outputs", "summary", "ilql_heads", "value", "reward"];

/// What PyTorch puts into tensor names when it wraps a part of a model: to compile it, to distribute it, or to recompute
/// activations. No name in a GPT-2 has one of these parts.
const WRAPPERS: [&str; 5] =
    ["_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module", "module"];

/// The name of a tensor without wrappers, of which each block may have one.
pub(super) fn unwrapped(tensor: &str) -> Cow<'_, str> {
    let wraps = |part: &&str| WRAPPERS.contains(part);
    if !tensor.split('.').any(|part| wraps(&part)) {
        return Cow::Borrowed(tensor);
    }
    Cow::Owned(tensor.split('.').filter(|part| !wraps(part)).collect::<Vec<_>>().join("."))
}

/// The prefix of the tensors of one file: `_orig_mod.`, `module.`, `base_model.model.`, or any other wrapping.
pub(super) struct Wrapping<'a> {
    /// Without `transformer.`, which may follow it or not.
    before: &'a str,
}

impl<'a> Wrapping<'a> {
    /// Finds the prefix of the known names.
    ///
    /// # Errors
    /// `UnexpectedTensor` if that differs: there is more than one model.
    pub fn of(tensors: impl Iterator<Item = &'a str>) -> Result<Self> {
        // For each wrapping its first tensor; the head's is that of the model around the transformer.
        let (mut trunks, mut head): (BTreeMap<&str, &str>, Option<&str>) = (BTreeMap::new(), None);
        for tensor in tensors {
            let Some((before, name)) = split(tensor) else { continue };
            if name.starts_with("lm_head.") {
                head = head.or(Some(before));
            } else if !is_buffer(name) {
                trunks.entry(before.strip_suffix(TRANSFORMER).unwrap_or(before)).or_insert(tensor);
            }
        }
        let mut tensors = trunks.iter();
        match (tensors.next(), tensors.next()) {
            (Some((_, one)), Some((_, other))) => Err(Error::new(
                ErrorKind::UnexpectedTensor,
                format!(
                    "the file holds more than one model: {one} is a tensor of one, {other} of another; give a file with \
                     one of them"
                ),
            )),
            (Some((before, _)), None) => Ok(Self { before }),
            (None, _) => Ok(Self { before: head.unwrap_or_default() }),
        }
    }

    /// The name of a tensor without the prefix.
    pub fn plain<'b>(&self, tensor: &'b str) -> &'b str {
        if let Some((before, name)) = split(tensor) {
            let own = before.strip_suffix(TRANSFORMER).unwrap_or(before) == self.before;
            // A user's class may hold the head outside the model.
            let around = name.starts_with("lm_head.") && self.before.starts_with(before);
            return if own || around { name } else { tensor };
        }
        tensor.strip_prefix(self.before).unwrap_or(tensor)
    }
}

/// The prefix of a name that a GPT-2 has, and that name.
fn split(tensor: &str) -> Option<(&str, &str)> {
    let starts = std::iter::once(0).chain(tensor.match_indices('.').map(|(at, _)| at + 1));
    let mut splits = starts.map(|at| tensor.split_at(at));
    splits.find(|(_, name)| NAMES.id(name).is_some() || is_buffer(name))
}

/// Whether a tensor belongs to a head of another task: not part of the transformer, and not needed for the next token.
/// `name` is without the prefix.
pub(super) fn is_other_head(name: &str) -> bool {
    let first = name.split('.').next().unwrap_or_default();
    first != "lm_head" && (HEADS.contains(&first) || first.ends_with("_head") || first.ends_with("_heads"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(tensors: &[&str]) -> Vec<String> {
        let wrapping = Wrapping::of(tensors.iter().copied()).unwrap();
        tensors.iter().map(|tensor| wrapping.plain(tensor).to_owned()).collect()
    }

    #[test]
    fn whatever_stands_before_all_names_is_taken_off() {
        let names = ["wte.weight", "h.0.attn.c_attn.weight", "h.11.attn.bias", "ln_f.bias"];
        for before in
            ["", "transformer.", "_orig_mod.", "module.transformer.", "_orig_mod.module.model.transformer.", "x.y.z."]
        {
            let given: Vec<_> = names.iter().map(|name| format!("{before}{name}")).collect();
            let given: Vec<_> = given.iter().map(String::as_str).collect();
            assert_eq!(plain(&given), names, "{before}");
        }
        let of_trl =
            ["pretrained_model.transformer.wte.weight", "pretrained_model.lm_head.weight", "v_head.summary.bias"];
        assert_eq!(plain(&of_trl), ["wte.weight", "lm_head.weight", "v_head.summary.bias"]);
        assert_eq!(plain(&["model.wte.weight", "lm_head.weight"]), ["wte.weight", "lm_head.weight"]);
        assert_eq!(plain(&["module.lm_head.weight"]), ["lm_head.weight"]);
        assert_eq!(plain(&["_orig_mod.wte.weight", "_orig_mod.h.0.attn.rotary"])[1], "h.0.attn.rotary");
    }

    #[test]
    fn wrappers_of_single_blocks_are_taken_out() {
        for wrapped in [
            "h.0._fsdp_wrapped_module.attn.c_attn.weight",
            "_orig_mod.h.0._checkpoint_wrapped_module.attn.c_attn.weight",
            "module._orig_mod.h.0.attn._orig_mod.c_attn.weight",
        ] {
            assert_eq!(unwrapped(wrapped), "h.0.attn.c_attn.weight");
        }
        assert_eq!(unwrapped("transformer.wte.weight"), "transformer.wte.weight");
    }

    #[test]
    fn two_models_are_not_mixed() {
        let two = ["policy.wte.weight", "reference.wte.weight"];
        let error = Wrapping::of(two.into_iter()).err().unwrap();
        assert_eq!(error.kind, ErrorKind::UnexpectedTensor);
        assert!(error.message.contains("policy.wte.weight") && error.message.contains("reference."), "{error}");
    }

    #[test]
    fn heads_of_other_tasks_are_known_and_nothing_else() {
        for name in
            ["v_head.summary.weight", "score.weight", "classifier.bias", "qa_outputs.weight", "multiple_choice_head.x"]
        {
            assert!(is_other_head(name), "{name}");
        }
        for name in ["lm_head.bias", "h.0.v_head.weight", "h.0.attn.rotary", "ln_f.gamma", "adapter.weight", ""] {
            assert!(!is_other_head(name), "{name}");
        }
    }
}
