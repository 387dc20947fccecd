//! Classifies the user's files by their names and first bytes.

use super::given::{FilePrefix, WeightsFile};
use super::names::{self, base_name};
use super::refusal::Refusal;
use super::{Format, choose, kinds, recognise, sniff};
use crate::error::{Error, ErrorKind, Result};

/// The classes of the files, by their places in the list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Classified {
    /// To be read whole: configuration, index, tokenizer. Each with its published name (`config.json`), whatever its
    /// copy is called.
    pub companions: Vec<(usize, String)>,
    /// To be streamed, in this order: the weights, and perhaps a GGUF file for its tokenizer.
    pub weights: Vec<(usize, WeightsFile)>,
    /// Not used: a README, the same weights in another format.
    pub ignored: Vec<usize>,
    /// Choices that the user may not have meant; for
    /// [`Loader::note`](super::Loader::note).
    pub notices: Vec<String>,
    has_gguf: bool,
    foreign_tokenizer: Option<(String, &'static str)>,
}

impl Classified {
    /// Whether the files include a tokenizer, or a part of one, in any form GPT-2's can have. A GGUF file counts, although
    /// only its header tells.
    pub fn brings_tokenizer(&self) -> bool {
        self.has_gguf || self.has_tokenizer_files()
    }

    /// Whether a tokenizer, or a part of one, is in separate files.
    pub fn has_tokenizer_files(&self) -> bool {
        let forms = ["tokenizer.json", "vocab.json", "merges.txt", "encoder.json", "vocab.bpe"];
        self.companions.iter().any(|(_, name)| forms.contains(&name.as_str()))
    }

    /// A file that holds a tokenizer of another kind: its name, and what it is.
    pub fn foreign_tokenizer(&self) -> Option<(&str, &'static str)> {
        self.foreign_tokenizer.as_ref().map(|(name, what)| (name.as_str(), *what))
    }
}

/// Finds the weights among `files`: one GGUF file, or one or more safetensors files. If safetensors
/// weights have no tokenizer, that of a GGUF file is used. The content decides, not the name; but a file named
/// `.safetensors` or `.gguf` must be one.
///
/// If folders hold several models, the outermost is taken, with the companions nearest to it. Originals are preferred to
/// copies.
///
/// # Errors
/// `NotAModel` if there are no weights, or a file is something else that is named; `UnsupportedModel` for several
/// models; `DamagedModel` for an empty file.
pub fn classify(files: &[FilePrefix<'_>]) -> Result<Classified> {
    let mut classified = Classified::default();
    let (mut gguf, mut safetensors, mut companions) = (Vec::new(), Vec::new(), Vec::new());
    let (mut refused, mut adapters): (Option<Refusal>, Vec<usize>) = (None, Vec::new());
    for (place, file) in files.iter().enumerate() {
        let name = base_name(file.name);
        if sniff::is_apple_double(file.bytes) {
            classified.ignored.push(place);
            continue;
        }
        if let Some(known) = names::companion(file.name).or_else(|| recognise::companion(file)) {
            companions.push((place, known));
            continue;
        }
        let foreign_tokenizer = names::foreign_tokenizer(file.name);
        if let Some(what) = foreign_tokenizer {
            classified.foreign_tokenizer.get_or_insert_with(|| (name.to_owned(), what));
        }
        let published = names::published(name);
        let must_be = published.ends_with(".safetensors") || published.ends_with(".gguf");
        match sniff::format(name, file.bytes) {
            Ok(Format::Safetensors) if kinds::is_adapter(file.bytes) => adapters.push(place),
            Ok(Format::Safetensors) => safetensors.push(place),
            Ok(Format::Gguf) => match kinds::other_gguf(name, file.bytes) {
                None => gguf.push(place),
                Some(refusal) => {
                    Refusal::keep(&mut refused, refusal);
                    classified.ignored.push(place);
                }
            },
            Err(refusal) if must_be => return Err(refusal.error),
            // A known file that has no weights.
            Err(_) if foreign_tokenizer.is_some() => classified.ignored.push(place),
            Err(refusal) => {
                Refusal::keep(&mut refused, refusal);
                classified.ignored.push(place);
            }
        }
    }
    let aside = |place: usize| base_name(files[place].name);
    let adapter = adapters.first().map(|&place| kinds::adapter(aside(place)));
    if safetensors.is_empty() && gguf.is_empty() {
        return Err(adapter.or(refused.map(|refusal| refusal.error)).unwrap_or_else(no_weights));
    }
    classified.notices.extend(adapters.iter().map(|&place| {
        format!(
            "{} is an adapter for a model and was left aside; what it was trained for is not in the text",
            aside(place)
        )
    }));
    let from_safetensors = !safetensors.is_empty();
    let candidates = if from_safetensors { &mut safetensors } else { &mut gguf };
    let mut weights = choose::weights(files, candidates, &mut classified.notices)?;
    if !from_safetensors {
        weights = choose::gguf(files, weights)?;
    }
    let home = weights.first().map_or("", |&place| names::folder(files[place].name));
    classified.companions = choose::companions(files, companions, home, &mut classified.notices);
    if from_safetensors && weights.iter().any(|&place| names::published(files[place].name) == "model.safetensors") {
        // It is complete; an index next to it belongs to the same model in several files.
        classified.companions.retain(|(_, name)| !names::is_index(name));
    }
    let has = |name: &str| classified.companions.iter().any(|(_, known)| known == name);
    let complete = has("tokenizer.json") || (has("vocab.json") && has("merges.txt"));
    // The first part of a split file has the tokenizer.
    let number = |place: &usize| kinds::part(files[*place].bytes).map_or(0, |part| part.number);
    let lender = if from_safetensors && !complete { gguf.iter().copied().min_by_key(number) } else { None };
    let used: Vec<usize> =
        weights.iter().copied().chain(lender).chain(classified.companions.iter().map(|(place, _)| *place)).collect();
    classified.ignored = (0..files.len()).filter(|place| !used.contains(place)).collect();
    classified.has_gguf = !from_safetensors || lender.is_some();
    classified.weights = choose::streams(files, &weights, lender);
    Ok(classified)
}

fn no_weights() -> Error {
    Error::new(
        ErrorKind::NotAModel,
        "there is no weights file among these (it holds no .safetensors and no .gguf file); give a .gguf or a .safetensors \
         file",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAFETENSORS: &[u8] = b"\x02\0\0\0\0\0\0\0{}";

    fn classified(files: &[(&str, &[u8])]) -> Result<Classified> {
        let prefixes: Vec<_> = files.iter().map(|&(name, bytes)| FilePrefix { name, size: None, bytes }).collect();
        classify(&prefixes)
    }

    /// Places of the streams, and whether they only lend a tokenizer.
    fn streams(files: &[(&str, &[u8])]) -> Vec<(usize, bool)> {
        let streams = classified(files).unwrap().weights;
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
        let got = classified(files).unwrap();
        assert_eq!(
            (got.companions, got.ignored),
            (vec![(1, "config.json".into()), (4, "vocab.json".into())], vec![0, 3, 5])
        );
        assert_eq!(streams(files), [(2, false)]);
    }

    #[test]
    fn the_tokenizer_beside_the_weights_comes_before_another_farther_off() {
        let files: &[(&str, &[u8])] = &[
            ("a/model.safetensors", SAFETENSORS),
            ("a/vocab.json", b"{}"),
            ("a/merges.txt", b""),
            ("b/tokenizer.json", b"{}"),
        ];
        let got = classified(files).unwrap();
        assert_eq!(got.companions, [(1, "vocab.json".into()), (2, "merges.txt".into())]);
        assert!(
            got.notices.iter().any(|notice| notice.contains("b/tokenizer.json was left aside")),
            "{:?}",
            got.notices
        );
        // Nearer or as near, tokenizer.json stays.
        for place in ["a/tokenizer.json", "tokenizer.json"] {
            let files: &[(&str, &[u8])] =
                &[("a/m.safetensors", SAFETENSORS), ("vocab.json", b"{}"), ("merges.txt", b""), (place, b"{}")];
            assert_eq!(classified(files).unwrap().companions.len(), 3);
        }
    }

    #[test]
    fn a_gguf_file_is_the_model_or_lends_its_tokenizer() {
        assert_eq!(streams(&[("a", b"GGUF")]), [(0, false)]);
        let both: &[(&str, &[u8])] = &[("a.gguf", b"GGUF"), ("x", SAFETENSORS), ("y", SAFETENSORS)];
        assert_eq!(streams(both), [(1, false), (2, false), (0, true)]);
    }

    #[test]
    fn a_brace_after_eight_bytes_makes_no_weights() {
        let files: &[(&str, &[u8])] = &[("a", SAFETENSORS), ("settings.json", b"{\"gpu\": {\"x\": 1}}")];
        assert_eq!(streams(files), [(0, false)]);
        assert_eq!(classified(files).unwrap().ignored, [1]);
    }

    #[test]
    fn what_a_mac_writes_beside_each_file_is_left_aside() {
        let beside = b"\0\x05\x16\x07\0\x02\0\0Mac OS X        ";
        let files: &[(&str, &[u8])] = &[("._m.safetensors", beside), ("m.safetensors", SAFETENSORS)];
        assert_eq!(streams(files), [(1, false)]);
        assert_eq!(streams(&[("x/m.gguf", b"GGUF"), ("__MACOSX/x/._m.gguf", beside)]), [(0, false)]);
    }

    #[test]
    fn of_a_gguf_file_in_parts_the_first_lends_its_tokenizer() {
        let [first, second] = ["mini-00001-of-00002", "mini-00002-of-00002"]
            .map(|name| std::fs::read(format!("tests/fixtures/reports/gguf-split/{name}.gguf")).unwrap());
        let head = |bytes: &[u8]| bytes[..bytes.len().min(super::super::SNIFF_BYTES)].to_vec();
        let (first, second) = (head(&first), head(&second));
        let files: &[(&str, &[u8])] = &[("a.gguf", &second), ("b.gguf", &first), ("x", SAFETENSORS)];
        assert_eq!(streams(files), [(2, false), (1, true)]);
    }

    #[test]
    fn it_is_told_whether_there_is_a_tokenizer() {
        let with = |name: &str| classified(&[("m.safetensors", SAFETENSORS), (name, b"{}")]).unwrap();
        assert!(with("x/tokenizer (1).json").brings_tokenizer());
        assert!(!with("vocab.txt").brings_tokenizer());
        assert!(with("vocab.txt").foreign_tokenizer().is_some_and(|(name, _)| name == "vocab.txt"));
        assert!(classified(&[("a", b"GGUF")]).unwrap().brings_tokenizer());
    }

    #[test]
    fn what_is_no_model_is_named() {
        for (files, says) in [
            (&[][..], "no weights file"),
            (&[("vocab.json", &b"{}"[..])], "no weights file"),
            (&[("a.bin", b"PK\x03\x04"), ("b", b"")], "a.bin is a PyTorch file"),
            (&[("x", SAFETENSORS), ("y.safetensors", b"<html>")], "y.safetensors is an HTML page"),
            (&[("vocab.txt", b"[PAD]\n"), ("config.json", b"{}")], "no weights file"),
            (&[("x/saved_model.pb", b"\x08\x01\x12\x02")], "TensorFlow SavedModel"),
            (&[("a.mlmodel", b"\x08\x04\x12\x01")], "Core ML"),
            (&[("a.safetensors", b"\x90\x05\0")], "has no valid safetensors header"),
            (&[("a.gguf", b"GGUF"), ("b.gguf", b"GGUF")], "a.gguf and b.gguf"),
        ] {
            let error = classified(files).unwrap_err();
            assert!(error.message.contains(says), "{error}");
        }
    }
}
