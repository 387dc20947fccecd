//! What a file is, from its first bytes; its name proves nothing.

use super::header::MAX_HEADER_BYTES;
use super::refusal::Refusal;
use super::{Format, foreign};
use crate::error::{Error, ErrorKind, Result};

/// The format of the weights file `name`.
///
/// # Errors
/// `DamagedModel` if it is empty, `NotAModel` if it is something else; the sentence says what.
pub(super) fn format(name: &str, bytes: &[u8]) -> Result<Format, Refusal> {
    // Before the others: it begins with a number, which may be that of a pickle or a gzip archive.
    if is_safetensors(bytes) {
        return Ok(Format::Safetensors);
    }
    if let Some(refusal) = foreign::refusal(name, bytes) {
        return Err(refusal);
    }
    if is_gguf(bytes) {
        return Ok(Format::Gguf);
    }
    let damaged = |how: &str| Refusal {
        error: Error::new(ErrorKind::DamagedModel, format!("{name} {how}; download it again")),
        is_model: true,
    };
    let lower = name.to_ascii_lowercase();
    Err(if !(lower.ends_with(".safetensors") || lower.ends_with(".gguf")) {
        foreign::unknown(name)
    } else if bytes.iter().all(|&byte| byte == 0) {
        damaged("begins with nothing but zeros: its download did not come to its end")
    } else if let Some(text) = beginning_of_text(bytes) {
        damaged(&format!("is a text that begins with {text:?}, perhaps a server's error, and no weights file"))
    } else {
        let format = if lower.ends_with(".gguf") { Format::Gguf } else { Format::Safetensors };
        damaged(&format!("does not begin as a {} file does", format.name()))
    })
}

/// Whether this is a GGUF file.
pub(super) fn is_gguf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"GGUF")
}

/// Whether this is what macOS puts beside each file on a disk of another system, under its name after `._`.
pub(super) fn is_apple_double(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\0\x05\x16\x07")
}

/// A safetensors file is the length of a JSON object, then the object. What comes after eight bytes of any other file may
/// be a brace as well, so the length must be one, or the object must be one of tensors.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((length, json)) = bytes.split_first_chunk() else { return false };
    let plausible = (2..=MAX_HEADER_BYTES).contains(&u64::from_le_bytes(*length));
    let tensors = [&b"__metadata__"[..], b"\"dtype\"", b"\"data_offsets\""];
    json.first() == Some(&b'{')
        && (plausible || tensors.iter().any(|key| json.windows(key.len()).any(|window| window == *key)))
}

/// The first words of a text; none if these bytes are none.
fn beginning_of_text(bytes: &[u8]) -> Option<String> {
    let head = &bytes[..bytes.len().min(60)];
    let valid = head.utf8_chunks().next()?.valid();
    let is_text = !valid.is_empty()
        && valid.len() + 3 >= head.len()
        && !valid.chars().any(|c| c.is_control() && !c.is_whitespace());
    is_text.then(|| valid.trim().to_owned())
}
