//! The files a user gives -> everything a generation needs.

use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::checkpoint::{self, HeaderReader, Loaded, ModelFile, gguf};
use crate::gpt2::{Gpt2, Precision};
use crate::kernels;
use crate::model::LanguageModel;
use crate::record::Identity;
use crate::text::{AddedToken, END_OF_TEXT, Parts, Tokenizer};

/// A model, its tokenizer, and what a record says of both.
#[derive(Debug)]
pub struct Engine {
    /// The model.
    pub model: Gpt2,
    /// The tokenizer that belongs to it.
    pub tokenizer: Tokenizer,
    /// What both are. The SHA-256 of the model is absent where the loader was told to leave it out.
    pub identity: Identity,
    /// Number of weights; those of a tied head count once.
    pub parameters: usize,
    /// What a user should know of how it was loaded.
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
    /// [`ErrorKind::BadTokenizer`] if there is no tokenizer, or one with more tokens than the model has ids.
    pub fn new(name: &str, loaded: Loaded, tokenizer_files: &[ModelFile<'_>]) -> Result<Self> {
        let tokenizer = match loaded.tokenizer {
            Some(inside) => from_gguf(inside)?,
            None => from_files(tokenizer_files)?,
        };
        let vocab_size = loaded.model.vocab_size();
        if tokenizer.len() > vocab_size {
            let known = tokenizer.len();
            return Err(Error::new(
                ErrorKind::BadTokenizer,
                format!(
                    "the tokenizer has {known} tokens but the model only {vocab_size}; give the tokenizer of this model"
                ),
            ));
        }
        let identity = Identity {
            model: name.to_owned(),
            model_sha256: loaded.sha256,
            tokenizer_sha256: tokenizer.sha256().to_owned(),
            precision: loaded.precision.name().to_owned(),
            kernel: kernel(loaded.precision).to_owned(),
        };
        Ok(Self { model: loaded.model, tokenizer, identity, parameters: loaded.parameters, notices: loaded.notices })
    }
}

/// The instruction set of the products of a model most of whose weights are in `precision`.
fn kernel(precision: Precision) -> &'static str {
    match precision {
        Precision::F32 => kernels::BUILT_IN.name,
        Precision::Q8_0 | Precision::Q4_0 => kernels::active().name,
    }
}

/// The tokenizer alone that `files` hold: inside the first GGUF file, or else as [`Tokenizer::from_files`] finds it.
///
/// # Errors
/// As [`Tokenizer::from_files`] and [`HeaderReader::push`].
pub fn tokenizer(files: &[ModelFile<'_>]) -> Result<Tokenizer> {
    match files.iter().find(|file| file.bytes.starts_with(b"GGUF")) {
        Some(file) => from_gguf(inside(file)?),
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
    let files: Vec<_> = files.iter().map(|file| (file.name, file.bytes)).collect();
    Tokenizer::from_files(&files)
}

fn from_gguf(inside: gguf::Tokenizer) -> Result<Tokenizer> {
    let gguf::Tokenizer { tokens, merges, eos, control, user_defined, add_space_prefix } = inside;
    let added = |ids: Vec<u32>, special| {
        let spelled = ids.into_iter().filter_map(|id| tokens.get(id as usize));
        spelled.map(move |content| AddedToken { special, ..AddedToken::special(content) }).collect::<Vec<_>>()
    };
    let added = [added(control, true), added(user_defined, false)].concat();
    // By its content, where it has the usual one: the id is wrong in some files.
    let named = eos.filter(|_| !tokens.iter().any(|token| token == END_OF_TEXT));
    let eos = named.and_then(|id| tokens.get(id as usize).cloned());
    Tokenizer::from_parts(Parts { tokens, merges, added, eos, add_prefix_space: add_space_prefix, ..Parts::default() })
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn fixture(path: &str) -> Vec<u8> {
        std::fs::read(format!("tests/fixtures/{path}")).unwrap()
    }

    fn sha256(bytes: &[u8]) -> String {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn load(files: &[(&str, &str)]) -> Result<Engine> {
        let files: Vec<_> = files.iter().map(|(name, path)| (*name, fixture(path))).collect();
        let files: Vec<_> = files.iter().map(|(name, bytes)| ModelFile { name, bytes }).collect();
        Engine::load("tiny", &files, None, &mut |_, _| {})
    }

    const WEIGHTS: (&str, &str) = ("model.safetensors", "checkpoints/plain-f32/model.safetensors");
    const CONFIG: (&str, &str) = ("config.json", "checkpoints/plain-f32/config.json");
    const VOCAB: (&str, &str) = ("vocab.json", "tiny-tokenizer/vocab.json");
    const MERGES: (&str, &str) = ("merges.txt", "tiny-tokenizer/merges.txt");
    const GGUF: (&str, &str) = ("tiny.gguf", "gguf/f32.gguf");

    #[test]
    fn a_tokenizer_comes_from_either_kind_of_file_and_is_the_same() {
        let files = load(&[WEIGHTS, CONFIG, VOCAB, MERGES]).unwrap();
        let donated = load(&[GGUF, WEIGHTS, CONFIG]).unwrap();
        let inside = load(&[GGUF]).unwrap();
        assert_eq!(files.identity.tokenizer_sha256, inside.identity.tokenizer_sha256);
        assert_eq!(files.identity, donated.identity);
        assert_ne!(files.identity.model_sha256, inside.identity.model_sha256);
    }

    #[test]
    fn the_lists_of_a_gguf_file_are_heeded() {
        let bytes = std::fs::read("fuzz/seeds/tokenizer/gguf").unwrap();
        let spaced = tokenizer(&[ModelFile { name: "padded.gguf", bytes: &bytes }]).unwrap();
        let plain = load(&[GGUF]).unwrap().tokenizer;
        assert_eq!(spaced.encode("the", false).unwrap(), plain.encode(" the", false).unwrap());
        assert_eq!((spaced.len(), spaced.eos()), (300, Some(299)));
        // Written for a vocabulary of 302: the last two are no tokens.
        assert!(spaced.bytes(300).is_none());

        let fixture = fixture(GGUF.1);
        let mut inside = super::inside(&ModelFile { name: "tiny.gguf", bytes: &fixture }).unwrap();
        inside.tokens.extend(["<pad>".to_owned(), "  é".to_owned()]);
        inside.control.push(300);
        inside.user_defined.push(301);
        let more = from_gguf(inside.clone()).unwrap();
        assert_eq!(more.encode("<pad>  é", true).unwrap(), [300, 301]);
        assert_eq!(more.encode("  é", false).unwrap(), [301]);
        assert!(!more.encode("<pad>", false).unwrap().contains(&300));
        assert_eq!(more.decode(&[300, 301]), "<pad>  é");

        inside.eos = Some(7);
        assert_eq!(from_gguf(inside.clone()).unwrap().eos(), Some(299), "by content");
        inside.tokens[299] = "</s>".to_owned();
        inside.eos = Some(299);
        inside.control = vec![299];
        let named = from_gguf(inside).unwrap();
        assert_eq!((named.eos(), named.encode("</s>", true).unwrap()), (Some(299), vec![299]));
    }

    #[test]
    fn the_identity_is_the_weights_files_own() {
        let engine = load(&[CONFIG, WEIGHTS, VOCAB, MERGES]).unwrap();
        assert_eq!(engine.identity.model_sha256, Some(sha256(&fixture(WEIGHTS.1))));
        assert_eq!((engine.identity.model.as_str(), engine.identity.precision.as_str()), ("tiny", "f32"));
    }

    #[test]
    fn what_is_missing_is_named() {
        for (files, missing) in [
            (&[WEIGHTS, CONFIG][..], "vocab.json"),
            (&[WEIGHTS, CONFIG, VOCAB], "merges.txt"),
            (&[WEIGHTS, VOCAB, MERGES], "config.json"),
            (&[VOCAB, MERGES, CONFIG], "weights"),
        ] {
            let error = load(files).unwrap_err();
            assert!(error.message.contains(missing), "{error}");
        }
    }

    #[test]
    fn a_larger_tokenizer_than_the_model_is_refused_with_both_sizes() {
        let vocab = ("vocab.json", "gpt2-tokenizer/vocab.json");
        let merges = ("merges.txt", "gpt2-tokenizer/merges.txt");
        let error = load(&[WEIGHTS, CONFIG, vocab, merges]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadTokenizer);
        assert!(error.message.contains("50257") && error.message.contains("300"), "{error}");
    }
}
