//! The files of a user, as far as they are known before they are read.

/// As much of a file's beginning as [`classify`](super::classify()) looks at.
pub const SNIFF_BYTES: usize = 4096;

/// The beginning of a file.
#[derive(Debug, Clone, Copy)]
pub struct FilePrefix<'a> {
    /// Its name, with or without folders before it.
    pub name: &'a str,
    /// Its size in bytes, if known.
    pub size: Option<u64>,
    /// Its first [`SNIFF_BYTES`], or all of it if it has fewer.
    pub bytes: &'a [u8],
}

/// A file that goes through a [`Loader`](super::Loader).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightsFile {
    /// Its name without folders.
    pub name: String,
    /// Its size in bytes, if known.
    pub size: Option<u64>,
    /// It is a GGUF file beside other weights, and only lends its tokenizer.
    pub tokenizer_only: bool,
}
