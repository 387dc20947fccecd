//! Recognises a file by its first bytes, not by its name.

use super::header::MAX_HEADER_BYTES;
use super::refusal::Refusal;
use super::{Format, foreign};
use crate::error::{Error, ErrorKind, Result};

/// The format of the weights file `name`.
///
/// # Errors
/// `DamagedModel` if it is empty, `NotAModel` if it is something else; the sentence says what.
pub(super) fn format(name: &str, bytes: &[u8]) -> Result<Format, Refusal> {
    // First, because its length field may look like a pickle or a gzip archive.
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
        damaged("begins with zeros only: its download is incomplete")
    } else if let Some(text) = beginning_of_text(bytes) {
        damaged(&format!("is a text that begins with {text:?}, perhaps a server's error, and no weights file"))
    } else {
        let format = if lower.ends_with(".gguf") { Format::Gguf } else { Format::Safetensors };
        damaged(&format!("has no valid {} header; it may be incomplete", format.name()))
    })
}

/// Whether this is a GGUF file.
pub(super) fn is_gguf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"GGUF")
}

/// Whether this is an AppleDouble file (`._NAME`), which macOS adds to each file on a foreign disk.
pub(super) fn is_apple_double(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\0\x05\x16\x07")
}

/// A safetensors file is the length of a JSON object, then the object. Other files may also have a brace after eight bytes,
/// so the length must be plausible, or the object must describe tensors.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((length, json)) = bytes.split_first_chunk() else { return false };
    let plausible = (2..=MAX_HEADER_BYTES).contains(&u64::from_le_bytes(*length));
    let tensors = [&b"__metadata__"[..], b"\"dtype\"", b"\"data_offsets\""];
    json.first() == Some(&b'{')
        && (plausible || tensors.iter().any(|key| json.windows(key.len()).any(|window| window == *key)))
}

/// The first words of a text; none if the bytes are not text.
fn beginning_of_text(bytes: &[u8]) -> Option<String> {
    let head = &bytes[..bytes.len().min(60)];
    let valid = head.utf8_chunks().next()?.valid();
    let is_text = !valid.is_empty()
        && valid.len() + 3 >= head.len()
        && !valid.chars().any(|c| c.is_control() && !c.is_whitespace());
    is_text.then(|| valid.trim().to_owned())
}
