//! The user's files before they are read.

/// Number of first bytes that [`classify`](super::classify()) looks at.
pub const SNIFF_BYTES: usize = 4096;

/// The beginning of a file.
#[derive(Debug, Clone, Copy)]
pub struct FilePrefix<'a> {
    /// Its name, with or without folders before it.
    pub name: &'a str,
    /// Its size in bytes, if known.
    pub size: Option<u64>,
    /// Its first [`SNIFF_BYTES`], or all bytes of a shorter file.
    pub bytes: &'a [u8],
}

/// A file that goes through a [`Loader`](super::Loader).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightsFile {
    /// Its name without folders.
    pub name: String,
    /// Its size in bytes, if known.
    pub size: Option<u64>,
    /// It is a GGUF file of which only the tokenizer is used.
    pub tokenizer_only: bool,
}
