//! What a file is, from its first bytes; its name proves nothing.

use crate::error::{Error, ErrorKind, Result};

use super::Format;

/// First bytes of files that are taken for models, and what to call them.
const FOREIGN: &[(&[u8], &str)] = &[
    (b"PK\x03\x04", "a ZIP archive (PyTorch's pytorch_model.bin is one)"),
    (b"\x80\x02", "a Python pickle (an old PyTorch file)"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\x89HDF", "an HDF5 file (TensorFlow's tf_model.h5)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"version https://git-lfs", "a Git LFS pointer, which only says where the file is"),
    (b"ggml", "a file of an old llama.cpp, before GGUF"),
    (b"tjgg", "a file of an old llama.cpp, before GGUF"),
    (b"fmgg", "a file of an old llama.cpp, before GGUF"),
    (b"lmgg", "a file of an old llama.cpp, before GGUF"),
];

/// The format of the weights file `name`.
///
/// # Errors
/// `DamagedModel` if it is empty, `NotAModel` if it is something else; the sentence says what.
pub(super) fn format(name: &str, bytes: &[u8]) -> Result<Format> {
    refuse_foreign(name, bytes)?;
    if is_gguf(bytes) {
        return Ok(Format::Gguf);
    }
    // A safetensors file is the length of a JSON object, then the object.
    match bytes.get(8..) {
        Some(json) if json.first() == Some(&b'{') => Ok(Format::Safetensors),
        _ if name.ends_with(".safetensors") => Err(Error::new(
            ErrorKind::DamagedModel,
            format!("{name} does not begin as a safetensors file does; download it again"),
        )),
        _ => Err(not_a_model(name, "of no known kind")),
    }
}

/// Whether this is a GGUF file.
pub(super) fn is_gguf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"GGUF")
}

/// Refuses what is plainly another kind of file.
pub(super) fn refuse_foreign(name: &str, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Err(Error::new(ErrorKind::DamagedModel, format!("{name} is empty; download it again")));
    }
    if let Some((_, what)) = FOREIGN.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Err(not_a_model(name, what));
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let begins = |with: &[u8]| text.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with));
    if begins(b"<!doctype") || begins(b"<html") || begins(b"<head") || begins(b"<?xml") {
        return Err(not_a_model(name, "an HTML page (perhaps an error or a login page)"));
    }
    // ONNX is a protobuf: field 1 (the version, a small number), then field 2 (the producer) or 7 (the graph).
    if let [0x08, 1..=32, 0x12 | 0x3a, ..] = bytes {
        return Err(not_a_model(name, "an ONNX file"));
    }
    Ok(())
}

fn not_a_model(name: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::NotAModel,
        format!("{name} is {what}; give a GGUF file, or a safetensors file with its config.json"),
    )
}
