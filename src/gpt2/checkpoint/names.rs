//! File names: as published, and as browsers and systems change them.

use crate::foreign_tokenizer;

/// Files that belong to a model and are no weights, under the names they are published with. They are small.
const COMPANIONS: [&str; 11] = [
    "config.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.json",
    // As OpenAI named vocab.json and merges.txt.
    "encoder.json",
    "vocab.bpe",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
    "preprocessor_config.json",
];

/// What the name of an index of several weights files ends in.
const INDEX: &str = ".safetensors.index.json";

/// A file's name without folders.
pub(super) fn base_name(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or_default()
}

/// The folder a file is in, by its name.
pub(super) fn folder(name: &str) -> &str {
    name.strip_suffix(base_name(name)).unwrap_or_default()
}

/// The name a file was published with: without folders and what follows an address, in small letters, and without what
/// browsers and systems add to a copy.
pub(super) fn published(name: &str) -> String {
    let name = base_name(name).split(['?', '#']).next().unwrap_or_default().to_lowercase();
    let name = name.strip_prefix("copy of ").unwrap_or(&name);
    // Where a system hides endings, what was saved as text got a second one.
    let name = match name.strip_suffix(".txt") {
        Some(rest) if rest.ends_with(".json") || rest.ends_with(".txt") => rest,
        _ => name,
    };
    match name.rsplit_once('.') {
        Some((stem, ending)) => format!("{}.{ending}", original(stem)),
        None => original(name).to_owned(),
    }
}

/// A name without the marks of a copy, of which the copy of a copy has several.
fn original(stem: &str) -> &str {
    let mut stem = stem;
    loop {
        let shorter = without_mark(stem);
        if shorter == stem {
            return stem;
        }
        stem = shorter;
    }
}

/// A name without the mark of a copy: `x (1)`, `x(1)`, `x - Copy`, `x - Copy (2)`, `x copy`, `x copy 2`, `x (copy)`,
/// `x (another copy)`.
fn without_mark(stem: &str) -> &str {
    let copy_word = |words: &str| {
        let last = words.rsplit(' ').next().unwrap_or_default();
        ["copy", "kopie", "copie", "copia"].contains(&last) && words.split(' ').count() <= 2
    };
    let digits = |text: &str| !text.is_empty() && text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut stem = stem;
    if let Some((rest, inside)) = stem.strip_suffix(')').and_then(|rest| rest.rsplit_once('('))
        && !rest.trim_end().is_empty()
        && (digits(inside) || copy_word(inside) || inside.strip_prefix("copy ").is_some_and(digits))
    {
        stem = rest.trim_end();
    }
    if let Some((rest, number)) = stem.rsplit_once(' ')
        && digits(number)
        && rest.ends_with(" copy")
    {
        stem = rest;
    }
    match stem.rsplit_once(' ') {
        Some((rest, word)) if copy_word(word) => rest.strip_suffix(" -").unwrap_or(rest),
        _ => stem,
    }
}

/// The name under which a file belongs to a model, if by its name it does.
pub(super) fn companion(name: &str) -> Option<String> {
    let published = published(name);
    let known = |name: &str| COMPANIONS.contains(&name) || name.ends_with(INDEX);
    if known(&published) {
        return Some(published);
    }
    // Safari calls a second download `config-2.json`, and iCloud `config 2.json`; others write `config_2.json` and
    // `config[2].json`.
    let (stem, ending) = published.rsplit_once('.')?;
    let stem = stem.strip_suffix(']').unwrap_or(stem);
    let (stem, number) = stem.rsplit_once(['-', ' ', '_', '['])?;
    let original = format!("{}.{ending}", original(stem));
    (number.len() == 1 && number.parse::<u8>().is_ok() && known(&original)).then_some(original)
}

/// Whether this is the name of an index of several weights files.
pub(super) fn is_index(name: &str) -> bool {
    name.ends_with(INDEX)
}

/// What kind of tokenizer a file holds, if by its name that is none GPT-2 can have.
pub(super) fn foreign_tokenizer(name: &str) -> Option<&'static str> {
    foreign_tokenizer::kind(&published(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_the_name_of_what_they_are_copies_of() {
        for copy in [
            "tokenizer.json",
            "my/folder/tokenizer.json",
            "my\\tokenizer.json",
            "Tokenizer.JSON",
            "tokenizer (1).json",
            "tokenizer(1).json",
            "tokenizer (12).json",
            "tokenizer - Copy.json",
            "tokenizer - Copy (2).json",
            "tokenizer - Kopie.json",
            "tokenizer copy.json",
            "tokenizer copy 2.json",
            "tokenizer (copy).json",
            "tokenizer (another copy).json",
            "tokenizer (3rd copy).json",
            "tokenizer (copy 1).json",
            "Copy of tokenizer.json",
            "tokenizer-1.json",
            "tokenizer 2.json",
            "tokenizer_1.json",
            "tokenizer[1].json",
            "tokenizer (1) (1).json",
            "tokenizer(1)(1).json",
            "tokenizer (1) copy.json",
            "tokenizer.json.txt",
            "tokenizer.json?download=true",
        ] {
            assert_eq!(companion(copy).as_deref(), Some("tokenizer.json"), "{copy}");
        }
        assert_eq!(companion("merges (1).txt").as_deref(), Some("merges.txt"));
        assert_eq!(companion("merges.txt.txt").as_deref(), Some("merges.txt"));
        let index = companion("a/model.safetensors.index (1).json");
        assert_eq!(index.as_deref(), Some("model.safetensors.index.json"));
        assert_eq!(published("a/Model (2).safetensors"), "model.safetensors");
        assert_eq!(published("model-00001-of-00002.safetensors"), "model-00001-of-00002.safetensors");
    }

    #[test]
    fn other_names_are_those_of_no_companion() {
        for name in [
            "",
            "(1)",
            "my_config.json",
            "config.json.bak",
            "adapter_config.json",
            "config (old).json",
            "tokenizer-12.json",
            "photocopy.json",
            "copy.json",
            "notes.txt",
            "config",
        ] {
            assert_eq!(companion(name), None, "{name}");
        }
    }

    #[test]
    fn tokenizers_of_other_kinds_are_known() {
        assert!(foreign_tokenizer("a/vocab (1).txt").unwrap().contains("WordPiece"));
        assert!(foreign_tokenizer("spiece.model").unwrap().contains("SentencePiece"));
        assert!(foreign_tokenizer("qwen.tiktoken").unwrap().contains("tiktoken"));
        assert_eq!(foreign_tokenizer("vocab.json"), None);
    }
}
