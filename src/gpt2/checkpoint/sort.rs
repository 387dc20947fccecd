//! Which of the files a user gave are what, by their names and first bytes.

use super::{Format, sniff};
use crate::error::{Error, ErrorKind, Result};

/// As much of a file's beginning as [`sort`] looks at.
pub const HEAD_BYTES: usize = 512;

/// Files that belong to a model and are no weights. They are small: read them whole.
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

/// The beginning of a file.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Its name, with or without folders before it.
    pub name: &'a str,
    /// Its size in bytes, if known.
    pub size: Option<u64>,
    /// Its first [`HEAD_BYTES`], or all of it if it has fewer.
    pub bytes: &'a [u8],
}

/// A file that goes through a [`Loader`](super::Loader).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Its name without folders.
    pub name: String,
    /// Its size in bytes, if known.
    pub size: Option<u64>,
    /// It is a GGUF file beside other weights, and only lends its tokenizer.
    pub tokenizer_only: bool,
}

/// What the files are, by their places in the list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sorted {
    /// To be read whole: configuration, index, tokenizer.
    pub companions: Vec<usize>,
    /// To be streamed, in this order: the weights, and perhaps a GGUF file for its tokenizer.
    pub streams: Vec<(usize, Stream)>,
    /// Of no use for a GPT-2: a README, the same weights in another format.
    pub ignored: Vec<usize>,
}

/// Finds the weights among `files`: one GGUF file, or one or more safetensors files. A GGUF file beside safetensors
/// weights lends its tokenizer. The content decides, not the name; but a file that is called `.safetensors` or `.gguf`
/// must be one.
///
/// # Errors
/// `NotAModel` if there are no weights, or a file is something else that is named; `UnsupportedModel` for several GGUF
/// files; `DamagedModel` for an empty file.
pub fn sort(files: &[Head<'_>]) -> Result<Sorted> {
    let mut sorted = Sorted::default();
    let (mut gguf, mut safetensors, mut refused) = (Vec::new(), Vec::new(), None);
    for (place, file) in files.iter().enumerate() {
        let name = base_name(file.name);
        if COMPANIONS.contains(&name) || name.ends_with(".safetensors.index.json") {
            sorted.companions.push(place);
            continue;
        }
        let lower = name.to_ascii_lowercase();
        match sniff::format(name, file.bytes) {
            Ok(Format::Gguf) => gguf.push(place),
            Ok(Format::Safetensors) => safetensors.push(place),
            Err(error) if lower.ends_with(".safetensors") || lower.ends_with(".gguf") => return Err(error),
            Err(error) => {
                refused.get_or_insert(error);
                sorted.ignored.push(place);
            }
        }
    }
    let (weights, lender) = if safetensors.is_empty() { (gguf, None) } else { (safetensors, gguf.first().copied()) };
    let stream = |place: usize, tokenizer_only| {
        let Head { name, size, .. } = files[place];
        (place, Stream { name: base_name(name).to_owned(), size, tokenizer_only })
    };
    match weights.as_slice() {
        [] => {
            return Err(refused.unwrap_or_else(|| {
                Error::new(ErrorKind::NotAModel, "there is no weights file; give a .gguf or a .safetensors file")
            }));
        }
        [first, second, ..] if sniff::is_gguf(files[*first].bytes) => {
            return Err(Error::new(
                ErrorKind::UnsupportedModel,
                format!(
                    "there are two GGUF files, {} and {}; give one that holds the whole model",
                    base_name(files[*first].name),
                    base_name(files[*second].name)
                ),
            ));
        }
        _ => {}
    }
    sorted.streams = weights.into_iter().map(|place| stream(place, false)).collect();
    sorted.streams.extend(lender.map(|place| stream(place, true)));
    Ok(sorted)
}

/// A file's name without folders.
pub(super) fn base_name(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAFETENSORS: &[u8] = b"\x02\0\0\0\0\0\0\0{}";

    fn sorted(files: &[(&str, &[u8])]) -> Result<Sorted> {
        let heads: Vec<_> = files.iter().map(|&(name, bytes)| Head { name, size: None, bytes }).collect();
        sort(&heads)
    }

    /// Places of the streams, and whether they only lend a tokenizer.
    fn streams(files: &[(&str, &[u8])]) -> Vec<(usize, bool)> {
        let streams = sorted(files).unwrap().streams;
        streams.into_iter().map(|(place, stream)| (place, stream.tokenizer_only)).collect()
    }

    #[test]
    fn the_folder_of_a_repository_has_one_model() {
        let files: &[(&str, &[u8])] = &[
            ("gpt2/README.md", b"# GPT-2"),
            ("gpt2/config.json", b"{}"),
            ("gpt2/model.safetensors", SAFETENSORS),
            ("gpt2/pytorch_model.bin", b"PK\x03\x04"),
            ("gpt2/vocab.json", b"{}"),
            ("gpt2/tf_model.h5", b"\x89HDF"),
        ];
        let got = sorted(files).unwrap();
        assert_eq!((got.companions, got.ignored), (vec![1, 4], vec![0, 3, 5]));
        assert_eq!(streams(files), [(2, false)]);
    }

    #[test]
    fn a_gguf_file_is_the_model_or_lends_its_tokenizer() {
        assert_eq!(streams(&[("a", b"GGUF")]), [(0, false)]);
        let both: &[(&str, &[u8])] = &[("a.gguf", b"GGUF"), ("x", SAFETENSORS), ("y", SAFETENSORS)];
        assert_eq!(streams(both), [(1, false), (2, false), (0, true)]);
    }

    #[test]
    fn what_is_no_model_is_named() {
        for (files, says) in [
            (&[][..], "no weights file"),
            (&[("vocab.json", &b"{}"[..])], "no weights file"),
            (&[("a.bin", b"PK\x03\x04"), ("b", b"")], "a.bin is a ZIP"),
            (&[("x", SAFETENSORS), ("y.safetensors", b"<html>")], "y.safetensors is an HTML page"),
            (&[("a.gguf", b"GGUF"), ("b.gguf", b"GGUF")], "a.gguf and b.gguf"),
        ] {
            let error = sorted(files).unwrap_err();
            assert!(error.message.contains(says), "{error}");
        }
    }
}
