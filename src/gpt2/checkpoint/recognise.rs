//! Recognises companions by content, for files with unknown names, as in the caches of Hugging Face and Ollama.

use super::given::FilePrefix;
use super::names::published;

/// Minimum number of tokens in the first bytes of a vocabulary.
const SOME_TOKENS: usize = 20;

/// The published name of a file whose own name is unknown, by its content.
pub(super) fn companion(file: &FilePrefix<'_>) -> Option<String> {
    let name = published(file.name);
    let says_nothing = |ending: &str| ending.len() > 8 || ending.bytes().all(|byte| byte.is_ascii_digit());
    if name.rsplit_once('.').is_some_and(|(_, ending)| !says_nothing(ending)) {
        return None;
    }
    let text = file.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file.bytes);
    if text.starts_with(b"#version") {
        return Some("merges.txt".into());
    }
    let fields = Fields::of(text)?;
    let has = |name: &str| fields.named.iter().any(|(field, _)| field == name);
    let known = if has("weight_map") {
        "model.safetensors.index.json"
    } else if has("added_tokens") || (has("model") && has("version")) {
        "tokenizer.json"
    } else if has("peft_type") {
        return None;
    } else if has("tokenizer_class") || has("model_max_length") || has("added_tokens_decoder") {
        "tokenizer_config.json"
    } else if has("model_type") || has("n_embd") || has("architectures") {
        "config.json"
    } else if has("_from_model_config") || has("transformers_version") {
        "generation_config.json"
    } else if fields.all_numbers() && fields.named.len() >= SOME_TOKENS {
        "vocab.json"
    } else if has("bos_token") || has("eos_token") {
        "special_tokens_map.json"
    } else {
        return None;
    };
    Some(known.into())
}

/// The fields at the beginning of a JSON object: each name and the first byte of its value.
struct Fields {
    named: Vec<(String, u8)>,
}

impl Fields {
    /// None if the bytes do not begin like a JSON object.
    fn of(text: &[u8]) -> Option<Self> {
        if text.trim_ascii_start().first() != Some(&b'{') {
            return None;
        }
        let (mut named, mut depth, mut at) = (Vec::new(), 0usize, 0);
        // The string that ended last, and whether a colon follows it on the outermost level.
        let (mut last, mut wants_value) = (None, false);
        while let Some(&byte) = text.get(at) {
            if wants_value && !byte.is_ascii_whitespace() {
                named.extend(last.take().map(|name| (name, byte)));
                wants_value = false;
            }
            match byte {
                b'"' => {
                    let Some(length) = string_length(&text[at + 1..]) else { break };
                    let string = &text[at + 1..at + 1 + length];
                    last = (depth == 1).then(|| String::from_utf8_lossy(string).into_owned());
                    at += length + 1;
                }
                b':' if depth == 1 => wants_value = last.is_some(),
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            at += 1;
        }
        Some(Self { named })
    }

    fn all_numbers(&self) -> bool {
        self.named.iter().all(|(_, value)| value.is_ascii_digit())
    }
}

/// The bytes before the quotation mark that ends a string.
fn string_length(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    text.iter().position(|&byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recognised(name: &str, text: &[u8]) -> Option<String> {
        companion(&FilePrefix { name, size: None, bytes: text })
    }

    #[test]
    fn files_of_a_cache_are_known_by_what_they_hold() {
        let vocab: Vec<_> = (0..30).map(|id| format!(r#""t{id}": {id}"#)).collect();
        let vocab = format!("{{{}, ", vocab.join(", "));
        for (text, known) in [
            (r##"{"activation_function": "gelu", "x": {"peft_type": 1}, "model_type": "gpt2""##, "config.json"),
            (r##"{"version": "1.0", "truncation": null, "added_tokens": [{"id": 50256"##, "tokenizer.json"),
            (r##"{"version":"1.0","model": {"type": "BPE""##, "tokenizer.json"),
            (&vocab, "vocab.json"),
            ("#version: 0.2\n\u{120} t", "merges.txt"),
            (r##"{"model_max_length": 1024}"##, "tokenizer_config.json"),
            (r##"{"_from_model_config": true, "eos_token_id": 1}"##, "generation_config.json"),
            (r##"{"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}"##, "special_tokens_map.json"),
            (r##"{"metadata": {"total_size": 1}, "weight_map": {"wte.weight": ""##, "model.safetensors.index.json"),
        ] {
            for name in ["607a30d783dfa663caf39e06633721c8d4cfcd7e", "blobs/sha256-0aef14", "x/download"] {
                assert_eq!(recognised(name, text.as_bytes()).as_deref(), Some(known), "{name}: {text}");
            }
            assert_eq!(recognised("other.json", text.as_bytes()), None, "its name says what it is");
        }
    }

    #[test]
    fn other_files_are_not_guessed_at() {
        for text in [
            "",
            "{",
            "{}",
            "[1, 2]",
            "hello",
            r##"{"peft_type": "LORA", "r": 8}"##,
            r##"{"<pad>": 50257}"##,
            r##"{"a": {"model_type": "gpt2"}}"##,
            "{\"model_type\\",
            "\x02\0\0\0\0\0\0\0{\"model_type\": 1}",
        ] {
            assert_eq!(recognised("0a1b2c", text.as_bytes()), None, "{text}");
        }
    }
}
