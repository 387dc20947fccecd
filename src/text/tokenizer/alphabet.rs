//! The characters in which tokens are spelled, one for each byte.

use std::collections::HashSet;
use std::sync::LazyLock;

use tokenizers::models::bpe::Vocab;

use crate::error::Result;

use super::spec::Unknown;
use super::{bad, quoted};

/// The character that stands for each byte in the spelling of a token: its own if it is printable Latin-1,
/// and else the next from U+0100 on (`bytes_to_unicode` in GPT-2's `encoder.py`).
pub(super) static ALPHABET: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut others = '\u{100}'..;
    std::array::from_fn(|byte| match byte as u8 {
        printable @ (b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF) => printable as char,
        _ => others.next().expect("there are far more characters than bytes"),
    })
});

/// The inverse of [`ALPHABET`], by code point; its last character is U+0143.
static BYTES: LazyLock<[Option<u8>; 0x144]> = LazyLock::new(|| {
    let mut bytes = [None; 0x144];
    for (byte, &character) in ALPHABET.iter().enumerate() {
        bytes[character as usize] = Some(byte as u8);
    }
    bytes
});

/// The byte that `character` stands for.
fn byte(character: char) -> Option<u8> {
    BYTES.get(character as usize).copied().flatten()
}

/// Appends the bytes that `token` spells: through the byte alphabet, or its own UTF-8 if it is not written in that.
pub(super) fn spelled_bytes(token: &str, bytes: &mut Vec<u8>) {
    let before = bytes.len();
    for character in token.chars() {
        match byte(character) {
            Some(byte) => bytes.push(byte),
            None => {
                bytes.truncate(before);
                bytes.extend_from_slice(token.as_bytes());
                return;
            }
        }
    }
}

/// The bytes without a token, in their order. A tokenizer whose training did not begin with all 256 has none for those
/// that its texts did not hold.
///
/// # Errors
/// `BadTokenizer` if the vocabulary is not one of bytes: none is there, or the merges join something else.
pub(super) fn missing(vocab: &Vocab, merges: &[(String, String)]) -> Result<Vec<u8>> {
    let absent = |byte: &u8| !vocab.contains_key(ALPHABET[usize::from(*byte)].encode_utf8(&mut [0; 4]) as &str);
    let missing: Vec<u8> = (0..=255).filter(absent).collect();
    if missing.len() == 256 {
        return Err(bad("the vocabulary has no token for any byte: it is not a byte-level BPE".into()));
    }
    if !missing.is_empty() {
        // With all bytes there the merges may hold what they like. Without some, only they tell this kind of tokenizer
        // from those that mark the ends of words, or take characters for what cannot be divided.
        let made: HashSet<String> = merges.iter().map(|(left, right)| format!("{left}{right}")).collect();
        let is_byte = |part: &str| {
            let mut characters = part.chars();
            characters.next().is_some_and(|first| byte(first).is_some()) && characters.next().is_none()
        };
        let mut parts = merges.iter().flat_map(|(left, right)| [left, right]);
        if let Some(part) = parts.find(|part| !is_byte(part) && !made.contains(*part)) {
            return Err(bad(format!(
                "the vocabulary has no token for {} of the 256 bytes, and a merge joins {part:?}, which is no byte and \
                 made by no merge: it is not a byte-level BPE",
                missing.len()
            )));
        }
    }
    Ok(missing)
}

/// What a user should know of bytes without a token.
pub(super) fn notice(missing: &[u8], unknown: Option<&Unknown>) -> Option<String> {
    let shown = missing.iter().find(|byte| byte.is_ascii_graphic() || **byte == b' ').or(missing.first())?;
    let what = match unknown {
        Some(unknown) => format!("{} stands for them", quoted(&unknown.content)),
        None => "a prompt that holds one is refused".to_owned(),
    };
    Some(format!("the tokenizer has no token for {} of the 256 bytes, such as {}: {what}", missing.len(), name(*shown)))
}

/// A byte for people.
pub(super) fn name(byte: u8) -> String {
    match byte {
        b' '..=b'~' => format!("0x{byte:02X} ({:?})", char::from(byte)),
        _ => format!("0x{byte:02X}"),
    }
}
