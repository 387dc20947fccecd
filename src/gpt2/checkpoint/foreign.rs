//! Files that are taken for models and cannot be read: what they are, and what to do instead.

use super::names::published;
use super::refusal::Refusal;
use crate::error::{Error, ErrorKind, Result};

/// What a file is, and what to do instead of giving it.
struct Kind {
    what: &'static str,
    /// What to do; the usual advice if there is nothing better.
    advice: Option<&'static str>,
    is_model: bool,
}

const fn model(what: &'static str, advice: Option<&'static str>) -> Kind {
    Kind { what, advice, is_model: true }
}

const fn other(what: &'static str) -> Kind {
    Kind { what, advice: None, is_model: false }
}

const FROM_TORCH: Option<&str> = Some(
    "it is not read, because a pickle can run any code; convert it in Python with \
     `AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(OTHER, safe_serialization=True)`, and give the \
     model.safetensors and config.json this writes",
);
const FROM_TENSORFLOW: Option<&str> = Some(
    "convert it in Python with `AutoModelForCausalLM.from_pretrained(FOLDER, from_tf=True)` and `save_pretrained(OTHER, \
     safe_serialization=True)`, and give the model.safetensors and config.json this writes",
);
const FROM_FLAX: Option<&str> = Some(
    "convert it in Python with `AutoModelForCausalLM.from_pretrained(FOLDER, from_flax=True)` and `save_pretrained(OTHER, \
     safe_serialization=True)`, and give the model.safetensors and config.json this writes",
);
const ORIGINAL: Option<&str> = Some(
    "it was made from another file for another program; give the model.safetensors and config.json it was made from, or a \
     GGUF file",
);

/// First bytes of files, and what these are.
const MAGIC: [(&[u8], Kind); 31] = [
    // The number at the beginning of what old versions of `torch.save` wrote.
    (
        b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
        model("an old PyTorch file (a Python pickle)", FROM_TORCH),
    ),
    (b"\x80\x02", model("a Python pickle (an old PyTorch file is one)", FROM_TORCH)),
    (b"\x80\x03", model("a Python pickle", FROM_TORCH)),
    (b"\x80\x04", model("a Python pickle", FROM_TORCH)),
    (b"\x80\x05", model("a Python pickle", FROM_TORCH)),
    (b"\x89HDF", model("an HDF5 file (TensorFlow's tf_model.h5 is one)", FROM_TENSORFLOW)),
    (b"\x93NUMPY", model("a NumPy array (.npy)", None)),
    (b"\xc6\xd7\x34\x01", model("a checkpoint of llm.c", ORIGINAL)),
    (b"ggml", model("a file of an old llama.cpp, before GGUF", None)),
    (b"tjgg", model("a file of an old llama.cpp, before GGUF", None)),
    (b"fmgg", model("a file of an old llama.cpp, before GGUF", None)),
    (b"lmgg", model("a file of an old llama.cpp, before GGUF", None)),
    (b"algg", model("a LoRA adapter of an old llama.cpp, before GGUF", None)),
    (b"24ka", model("a checkpoint of llama2.c", ORIGINAL)),
    (b"MZqFpD", model("a llamafile (a program with a model in it)", ORIGINAL)),
    (
        b"version https://git-lfs",
        Kind {
            what: "a Git LFS pointer, which only says where the file is",
            advice: Some("download the file itself, or run `git lfs pull`"),
            is_model: true,
        },
    ),
    (b"\x1f\x8b", other("a gzip archive")),
    (b"BZh", other("a bzip2 archive")),
    (b"\xfd7zXZ", other("an xz archive")),
    (b"\x28\xb5\x2f\xfd", other("a zstd archive")),
    (b"7z\xbc\xaf", other("a 7z archive")),
    (b"Rar!", other("a RAR archive")),
    (b"%PDF", other("a PDF document")),
    (b"\x89PNG", other("a picture")),
    (b"\xff\xd8\xff", other("a picture")),
    (b"GIF8", other("a picture")),
    (b"\x7fELF", other("a program")),
    (b"MZ", other("a program")),
    (b"SQLite", other("a database")),
    (b"model_checkpoint_path:", model("the list of a TensorFlow checkpoint's files", FROM_TENSORFLOW)),
    (b"PAR1", other("a Parquet table")),
];

/// The refusal of a file that is recognised as something other than weights.
pub(super) fn refusal(name: &str, bytes: &[u8]) -> Option<Refusal> {
    if bytes.is_empty() {
        let error = Error::new(
            ErrorKind::DamagedModel,
            format!("{name} is empty; download it again, or, where it is a link to another file, give that file"),
        );
        return Some(Refusal { error, is_model: false });
    }
    let Kind { what, advice, is_model } = kind(name, bytes)?;
    Some(Refusal { error: not_a_model(name, what, advice), is_model })
}

/// The refusal of an unknown file.
pub(super) fn unknown(name: &str) -> Refusal {
    Refusal { error: not_a_model(name, "not a model file", None), is_model: false }
}

/// Refuses what plainly is another kind of file than the JSON that `name` should be.
pub(super) fn refuse(name: &str, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Err(Error::new(ErrorKind::DamagedModel, format!("{name} is empty; download it again")));
    }
    kind(name, bytes).map_or(Ok(()), |Kind { what, advice, .. }| {
        let advice = advice.unwrap_or("download it again");
        Err(Error::new(ErrorKind::NotAModel, format!("{name} is {what}; {advice}")))
    })
}

fn kind(name: &str, bytes: &[u8]) -> Option<Kind> {
    if let Some((_, Kind { what, advice, is_model })) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Some(Kind { what, advice: *advice, is_model: *is_model });
    }
    if bytes.starts_with(b"PK\x03\x04") {
        return Some(zip(name, bytes));
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let begins = |with: &[u8]| text.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with));
    if begins(b"<!doctype") || begins(b"<html") || begins(b"<head") || begins(b"<?xml") {
        return Some(other("an HTML page (perhaps an error or a login page)"));
    }
    // Protobufs are alike at their beginning; these have names of their own.
    if let Some(kind) = by_name(name) {
        return Some(kind);
    }
    match bytes {
        // A FlatBuffer has its kind after four bytes.
        [_, _, _, _, b'T', b'F', b'L', b'3', ..] => Some(model("a TensorFlow Lite file", ORIGINAL)),
        [_, _, _, _, b'O', b'R', b'T', b'M', ..] => Some(model("a model of ONNX Runtime", ORIGINAL)),
        // ONNX is a protobuf: field 1 (the version, a small number), then one of those that may follow.
        [0x08, 1..=32, 0x12 | 0x1a | 0x22 | 0x3a | 0x42, ..] => Some(model("an ONNX file", ORIGINAL)),
        _ if is_msgpack(bytes) => Some(model("a MessagePack file (Flax's flax_model.msgpack is one)", FROM_FLAX)),
        _ if is_imatrix(bytes) => Some(model(
            "an importance matrix, which llama.cpp quantises with",
            Some("it holds no model; give the model's own GGUF file"),
        )),
        // The version, and the length and text of what CTranslate2 calls the kind of model.
        [1..=16, 0, 0, 0, _, 0, b'T', b'r', b'a', b'n', b's', ..] => Some(model("a model of CTranslate2", ORIGINAL)),
        _ => None,
    }
}

/// What a ZIP archive is, by the first file in it and its name.
fn zip(name: &str, bytes: &[u8]) -> Kind {
    let length = bytes.get(26..28).map_or(0, |length| usize::from(u16::from_le_bytes([length[0], length[1]])));
    let first = bytes.get(30..30 + length).unwrap_or_default();
    let ends = |with: &[u8]| first.ends_with(with);
    let of_torch = [".bin", ".pt", ".pth", ".ckpt", ".ot"].iter().any(|ending| published(name).ends_with(ending));
    if ends(b".pkl") || of_torch {
        model("a PyTorch file (a Python pickle in a ZIP archive)", FROM_TORCH)
    } else if ends(b".npy") {
        model("an archive of NumPy arrays (.npz), as MLX writes", None)
    } else if ends(b".weights.h5") || first == b"metadata.json" {
        model("a Keras file", ORIGINAL)
    } else {
        Kind {
            what: "a ZIP archive",
            advice: Some("if a model is in it, unpack it and give its files"),
            is_model: false,
        }
    }
}

/// A map of a few keys, the first of them a short text.
fn is_msgpack(bytes: &[u8]) -> bool {
    let [0x81..=0x8f, length @ 0xa1..=0xbf, key @ ..] = bytes else { return false };
    let key = key.get(..usize::from(length - 0xa0));
    key.is_some_and(|key| key.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_'))
}

/// The older form of llama.cpp's importance matrix: how many entries, then length and name of the first tensor.
fn is_imatrix(bytes: &[u8]) -> bool {
    let number = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
    let (Some(1..=100_000), Some(length @ 1..=128)) = (number(0), number(4)) else { return false };
    bytes.get(8..8 + length).is_some_and(|name| name.ends_with(b".weight"))
}

/// Files whose contents say less than their names.
fn by_name(name: &str) -> Option<Kind> {
    let name = published(name);
    let ends = |ending: &str| name.ends_with(ending);
    if name.contains(".ckpt.data-") || ends(".ckpt.index") || ends(".ckpt.meta") {
        Some(model("a part of a TensorFlow checkpoint", FROM_TENSORFLOW))
    } else if ends("saved_model.pb") {
        Some(model("a TensorFlow SavedModel", FROM_TENSORFLOW))
    } else if ends(".mlmodel") {
        Some(model("a Core ML model", ORIGINAL))
    } else if ends(".crdownload") || ends(".part") || ends(".incomplete") {
        Some(other("an incomplete download"))
    } else {
        None
    }
}

fn not_a_model(name: &str, what: &str, advice: Option<&str>) -> Error {
    let advice = advice.unwrap_or("give a GGUF file, or a safetensors file with its config.json");
    Error::new(ErrorKind::NotAModel, format!("{name} is {what}; {advice}"))
}
