//! GPT-2's byte-level BPE, on the `tokenizers` crate.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use sha2::{Digest, Sha256};
use tokenizers::Model;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::utils::SysRegex;

use crate::error::{Error, ErrorKind, Result};

/// How GPT-2's one special token is written. It is found in a vocabulary by this content, never by its id.
pub const END_OF_TEXT: &str = "<|endoftext|>";

/// The pattern by which GPT-2 cuts text into words before the BPE, but for white space:
/// its `\s+(?!\S)|\s+` is `\s+` here, and [`words`] does what the look-ahead did.
/// From <https://github.com/openai/gpt-2/blob/master/src/encoder.py>.
static WORD: LazyLock<SysRegex> = LazyLock::new(|| {
    SysRegex::new(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+").expect("a constant pattern")
});

/// The character that stands for each byte in the spelling of a token: the byte's own where it is printable Latin-1,
/// and else the next from U+0100 on (`bytes_to_unicode` in GPT-2's `encoder.py`).
static ALPHABET: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut others = '\u{100}'..;
    std::array::from_fn(|byte| match byte as u8 {
        printable @ (b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF) => printable as char,
        _ => others.next().expect("there are far more characters than bytes"),
    })
});

/// The inverse of [`ALPHABET`], by code point; its last character is U+0143.
static BYTES: LazyLock<[Option<u8>; 0x144]> = LazyLock::new(|| {
    let mut bytes = [None; 0x144];
    for (byte, &character) in ALPHABET.iter().enumerate() {
        bytes[character as usize] = Some(byte as u8);
    }
    bytes
});

/// Text <-> token ids, and id -> bytes.
pub struct Tokenizer {
    bpe: BPE,
    /// The bytes of all tokens, one after the other.
    bytes: Vec<u8>,
    /// Where each token's bytes end; they begin where those of the token before end.
    ends: Vec<usize>,
    eos: Option<u32>,
    sha256: String,
}

impl Tokenizer {
    /// From the contents of `vocab.json` (token -> id) and `merges.txt` (one merge on each line, best first, after a
    /// line `#version: ...`), as OpenAI and Hugging Face publish them.
    ///
    /// # Errors
    /// [`ErrorKind::BadTokenizer`] if a file is not of this form, or as [`from_tokens_merges`](Self::from_tokens_merges).
    pub fn from_vocab_merges(vocab_json: &[u8], merges_txt: &[u8]) -> Result<Self> {
        let vocab: HashMap<String, u32> = serde_json::from_slice(vocab_json)
            .map_err(|error| bad(format!("vocab.json is not a JSON object of tokens and ids: {error}")))?;
        let count = vocab.len();
        let mut tokens = vec![None; count];
        for (token, id) in vocab {
            let place = tokens.get_mut(id as usize).ok_or_else(|| {
                bad(format!(
                    "vocab.json gives {token:?} the id {id}, but the ids of {count} tokens end at {}",
                    count - 1
                ))
            })?;
            if let Some(other) = place {
                return Err(bad(format!("vocab.json gives the id {id} twice, to {other:?} and to {token:?}")));
            }
            *place = Some(token);
        }
        // `count` ids below `count`, none twice: none is missing.
        let tokens = tokens.into_iter().flatten().collect();

        let merges = std::str::from_utf8(merges_txt)
            .map_err(|error| bad(format!("merges.txt is not UTF-8 from byte {} on", error.valid_up_to())))?;
        let lines = (1..).zip(merges.lines()).filter(|&(number, line)| number > 1 || !line.starts_with("#version"));
        Self::build(tokens, lines.map(|(number, line)| (Source::Line(number), line)))
    }

    /// From the token spellings in the order of their ids and the merges (`"a b"`, best first), as a GGUF file holds
    /// them.
    ///
    /// # Errors
    /// [`ErrorKind::BadTokenizer`] if a token stands there twice, one of the 256 characters that stand for bytes is
    /// missing, there are no merges, or a merge is malformed, stands there twice, or makes or needs something that is
    /// no token.
    pub fn from_tokens_merges(tokens: Vec<String>, merges: &[String]) -> Result<Self> {
        Self::build(tokens, (0..).zip(merges).map(|(index, merge)| (Source::Index(index), merge.as_str())))
    }

    fn build<'a>(tokens: Vec<String>, merges: impl Iterator<Item = (Source, &'a str)>) -> Result<Self> {
        let mut digest = Digester::default();
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(tokens.len()));
        digest.count(tokens.len());
        for token in &tokens {
            digest.text(token);
            spelled_bytes(token, &mut bytes);
            ends.push(bytes.len());
        }

        let mut vocab = Vocab::with_capacity(tokens.len());
        for (id, token) in (0..).zip(tokens) {
            if let Some(other) = vocab.get(&token) {
                return Err(bad(format!("the token {token:?} stands in the vocabulary twice, as {other} and {id}")));
            }
            vocab.insert(token, id);
        }
        for (byte, character) in ALPHABET.iter().enumerate() {
            if !vocab.contains_key(character.encode_utf8(&mut [0; 4]) as &str) {
                return Err(bad(format!(
                    "the vocabulary has no token {character:?} for the byte 0x{byte:02X}: it is not a byte-level BPE"
                )));
            }
        }

        let (mut pairs, mut seen) = (Vec::new(), HashSet::new());
        let mut result = String::new();
        for (source, merge) in merges {
            let (left, right) = merge
                .split_once(' ')
                .filter(|(left, right)| !left.is_empty() && !right.is_empty() && !right.contains(' '))
                .ok_or_else(|| bad(format!("{source} is {merge:?}, not two tokens with one space between")))?;
            result.clear();
            result.extend([left, right]);
            if let Some(missing) = [left, right, &result].into_iter().find(|&part| !vocab.contains_key(part)) {
                return Err(bad(format!("{source} is {merge:?}, but {missing:?} is not in the vocabulary")));
            }
            if !seen.insert(merge) {
                return Err(bad(format!("{source} is {merge:?}, which stands there before")));
            }
            digest.text(merge);
            pairs.push((left.to_owned(), right.to_owned()));
        }
        if pairs.is_empty() {
            return Err(bad("there are no merges: merges.txt (or the list in the GGUF file) is empty".to_owned()));
        }

        let eos = vocab.get(END_OF_TEXT).copied();
        // No cache of words: it would outlive the tokenizer, and saves little.
        let bpe = BPE::builder()
            .vocab_and_merges(vocab, pairs)
            .cache_capacity(0)
            .build()
            .map_err(|error| bad(format!("the tokenizer library refused vocabulary and merges: {error}")))?;
        Ok(Self { bpe, bytes, ends, eos, sha256: digest.finish() })
    }

    /// The ids of `text`.
    ///
    /// A typed `<|endoftext|>` is the ordinary tokens of its characters, unless `parse_special`: then it is the special
    /// token, where the vocabulary has it. Takes time linear in the text, up to a logarithm in its longest word.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] if the library fails, which is not known to happen.
    pub fn encode(&self, text: &str, parse_special: bool) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        match self.eos.filter(|_| parse_special) {
            Some(eos) => {
                for (index, part) in text.split(END_OF_TEXT).enumerate() {
                    if index > 0 {
                        ids.push(eos);
                    }
                    self.encode_ordinary(part, &mut ids)?;
                }
            }
            None => self.encode_ordinary(text, &mut ids)?,
        }
        Ok(ids)
    }

    fn encode_ordinary(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let mut spelling = String::new();
        for word in words(text) {
            spelling.clear();
            spelling.extend(word.bytes().map(|byte| ALPHABET[usize::from(byte)]));
            let tokens = self.bpe.tokenize(&spelling).map_err(|error| {
                Error::new(ErrorKind::Engine, format!("the tokenizer library failed on {word:?}: {error}"))
            })?;
            ids.extend(tokens.into_iter().map(|token| token.id));
        }
        Ok(())
    }

    /// The bytes of a token; `None` if there is no token `id`.
    ///
    /// Those of the end-of-text token, and of any other that is not spelled in the byte alphabet, are its spelling.
    pub fn bytes(&self, id: u32) -> Option<&[u8]> {
        Some(&self.bytes[self.range(id)?])
    }

    fn range(&self, id: u32) -> Option<Range<usize>> {
        let id = id as usize;
        let end = *self.ends.get(id)?;
        Some(if id == 0 { 0 } else { self.ends[id - 1] }..end)
    }

    /// The text of `ids`: U+FFFD stands for each maximal invalid part of their bytes, and for an id that is no token.
    pub fn decode(&self, ids: &[u32]) -> String {
        // 0xFF is invalid wherever it stands.
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| self.bytes(id).unwrap_or(&[0xFF])).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The id of the end-of-text token, if the vocabulary has it.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Number of tokens; ids are below it.
    #[expect(clippy::len_without_is_empty, reason = "a tokenizer holds at least the 256 bytes")]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// SHA-256, in hexadecimal, over: the number of tokens; the tokens in the order of their ids; the merges (`"a b"`),
    /// best first. Each token and merge is its length in bytes and then its UTF-8; numbers are eight bytes, least
    /// first. So it is the same whatever kind of file they came from.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("len", &self.len())
            .field("eos", &self.eos)
            .field("sha256", &self.sha256)
            .finish_non_exhaustive()
    }
}

/// Cuts `text` into the words that the BPE sees apart, none of them empty.
///
/// Where a run of white space ends before something else, GPT-2's pattern leaves the last of it to what follows: a
/// look-ahead after a repetition. `fancy-regex`, which alone among pure Rust engines has look-ahead, keeps a way back
/// for each character of the run, gives up at a million of them, and `SysRegex` then ends the search as if the text
/// were over. Without look-ahead the pattern runs on a finite automaton, in linear time at any length.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        // The alternatives cover every character, so the first match begins where `rest` does.
        let (_, mut end) = WORD.find_iter(rest).next()?;
        if end < rest.len() {
            let mut from_end = rest[..end].char_indices().rev();
            if let Some((last, _)) = from_end.next().filter(|&(last, c)| last > 0 && c.is_whitespace()) {
                end = last;
            }
        }
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

/// Appends the bytes that `token` spells: through the byte alphabet, or its own UTF-8 if it is not written in that.
fn spelled_bytes(token: &str, bytes: &mut Vec<u8>) {
    let before = bytes.len();
    for character in token.chars() {
        match BYTES.get(character as usize).copied().flatten() {
            Some(byte) => bytes.push(byte),
            None => {
                bytes.truncate(before);
                bytes.extend_from_slice(token.as_bytes());
                return;
            }
        }
    }
}

/// Where a merge stands.
enum Source {
    /// On this line of merges.txt, counted from 1.
    Line(usize),
    /// At this place of a list, counted from 0.
    Index(usize),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number} of merges.txt"),
            Self::Index(index) => write!(f, "merge {index} of the list"),
        }
    }
}

/// The canonical form under [`Tokenizer::sha256`].
#[derive(Default)]
struct Digester(Sha256);

impl Digester {
    fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.update(text);
    }

    fn finish(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn bad(message: String) -> Error {
    Error::new(ErrorKind::BadTokenizer, message)
}

#[cfg(test)]
pub(crate) mod tests;
