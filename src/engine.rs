//! The files a user gives -> everything a generation needs.

use crate::error::Result;
use crate::gpt2::checkpoint::{self, HeaderReader, Loaded, ModelFile, gguf};
use crate::gpt2::{Gpt2, Precision};
use crate::kernels;
use crate::model::LanguageModel;
use crate::record::Identity;
use crate::text::{AddedToken, END_OF_TEXT, Named, Tokenizer, TokenizerSpec};

/// A model, its tokenizer, and what a record says of both.
#[derive(Debug)]
pub struct Engine {
    /// The model.
    pub model: Gpt2,
    /// The tokenizer that belongs to it.
    pub tokenizer: Tokenizer,
    /// What a record says of both. The SHA-256 of the model is missing if the loader was told to leave it out.
    pub identity: Identity,
    /// Number of weights; those of a tied head count once.
    pub parameters: usize,
    /// Notices about the load.
    pub notices: Vec<String>,
}

impl Engine {
    /// Loads the model that `files` hold, and calls it `name` in records.
    ///
    /// # Errors
    /// As [`checkpoint::load`] and [`Engine::new`].
    pub fn load(
        name: &str,
        files: &[ModelFile<'_>],
        precision: Option<Precision>,
        progress: &mut checkpoint::Progress<'_>,
    ) -> Result<Self> {
        Self::new(name, checkpoint::load(files, precision, progress)?, files)
    }

    /// Joins a model that was loaded with its tokenizer, and calls it `name` in records.
    ///
    /// The tokenizer is the one inside a GGUF file (which may stand beside safetensors weights just for that), or the
    /// one among `tokenizer_files` ([`Tokenizer::from_files`]).
    ///
    /// # Errors
    /// [`ErrorKind::BadTokenizer`](crate::error::ErrorKind::BadTokenizer) if there is no tokenizer, or one with more
    /// tokens than the model has ids.
    pub fn new(name: &str, loaded: Loaded, tokenizer_files: &[ModelFile<'_>]) -> Result<Self> {
        let mut tokenizer = match loaded.tokenizer {
            Some(inside) => from_gguf(inside, tokenizer_files)?,
            None => from_files(tokenizer_files)?,
        };
        tokenizer.limit(loaded.model.vocab_size())?;
        let mut notices = loaded.notices;
        notices.extend_from_slice(tokenizer.notices());
        let identity = Identity {
            model: name.to_owned(),
            model_sha256: loaded.sha256,
            tokenizer_sha256: tokenizer.sha256().to_owned(),
            precision: loaded.precision.name().to_owned(),
            kernel: kernel(loaded.precision).to_owned(),
            readers: readers(loaded.precision),
            readers_trial: Vec::new(),
        };
        Ok(Self { model: loaded.model, tokenizer, identity, parameters: loaded.parameters, notices })
    }

    /// [`Gpt2::choose_readers`], which records will tell of.
    pub fn choose_readers(&mut self, precision: Precision, clock: fn() -> f64) {
        self.identity.readers_trial = self.model.choose_readers(clock);
        self.identity.readers = readers(precision);
    }
}

/// In how many places at a time a model most of whose weights are in `precision` is read.
fn readers(precision: Precision) -> usize {
    match precision {
        Precision::F32 => kernels::f32_panels::READERS,
        Precision::Q8_0 | Precision::Q4_0 => kernels::readers(),
    }
}

/// The instruction set of the products of a model most of whose weights are in `precision`.
fn kernel(precision: Precision) -> &'static str {
    match precision {
        Precision::F32 => kernels::BUILT_IN.name,
        Precision::Q8_0 | Precision::Q4_0 => kernels::selected().name,
    }
}

/// The tokenizer alone that `files` hold: inside the first GGUF file, or else as [`Tokenizer::from_files`] finds it.
///
/// # Errors
/// As [`Tokenizer::from_files`] and [`HeaderReader::push`].
pub fn tokenizer(files: &[ModelFile<'_>]) -> Result<Tokenizer> {
    match files.iter().find(|file| file.bytes.starts_with(b"GGUF")) {
        Some(file) => from_gguf(inside(file)?, files),
        None => from_files(files),
    }
}

/// The tokenizer that is known to be inside a GGUF file.
fn inside(file: &ModelFile<'_>) -> Result<gguf::Tokenizer> {
    let mut reader = HeaderReader::new(file.base_name(), Some(file.bytes.len() as u64));
    let header = match reader.push(&mut &*file.bytes)? {
        Some(header) => header,
        None => reader.end()?,
    };
    header.tokenizer?.ok_or_else(|| gguf::no_tokenizer(file.base_name()))
}

fn from_files(files: &[ModelFile<'_>]) -> Result<Tokenizer> {
    Tokenizer::from_files(&named(files))
}

fn named<'a>(files: &[ModelFile<'a>]) -> Vec<(&'a str, &'a [u8])> {
    files.iter().map(|file| (file.name, file.bytes)).collect()
}

/// The tokenizer inside a GGUF file; the files beside it may name more tokens that end a text.
fn from_gguf(inside: gguf::Tokenizer, beside: &[ModelFile<'_>]) -> Result<Tokenizer> {
    let gguf::Tokenizer { tokens, merges, control, user_defined, unused, add_space_prefix, .. } = inside;
    let gguf::Tokenizer { bos, eos, ends, add_bos, add_eos, notices, .. } = inside;
    let added = |ids: Vec<u32>, special| {
        let spelled = ids.into_iter().filter_map(|id| tokens.get(id as usize));
        spelled.map(move |content| AddedToken { special, ..AddedToken::special(content) }).collect::<Vec<_>>()
    };
    let added = [added(control, true), added(user_defined, false)].concat();
    // The one that an empty prompt starts from is found by its content where it has the usual one: the id is wrong in
    // some files. A text ends at either.
    let usual = (0..).zip(&tokens).find(|(_, token)| *token == END_OF_TEXT).map(|(id, _)| id);
    let ends = eos.map(|id| (gguf::EOS, id)).into_iter().chain(ends);
    let ends = ends.map(|(key, id)| Named { ids: vec![id], by: format!("`{key}`") }).collect();
    let [bos, eos] = [bos, eos].map(|id| id.filter(|id| !unused.contains(id)));
    let named_eos = eos.filter(|_| usual.is_none()).and_then(|id| tokens.get(id as usize).cloned());
    let mut tokens: Vec<_> = tokens.into_iter().map(Some).collect();
    for id in unused {
        tokens[id as usize] = None;
    }
    let mut parts = TokenizerSpec {
        tokens,
        merges,
        added,
        eos: named_eos,
        ends,
        add_prefix_space: add_space_prefix,
        notices,
        ..TokenizerSpec::default()
    };
    if add_bos {
        parts.put_before(bos.or(usual), "`tokenizer.ggml.add_bos_token`");
    }
    if add_eos {
        parts.put_after(eos.or(usual), "`tokenizer.ggml.add_eos_token`");
    }
    parts.read_ends(&named(beside));
    Tokenizer::from_spec(parts)
}

#[cfg(test)]
mod tests;
