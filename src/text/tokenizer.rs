//! GPT-2's byte-level BPE, on the `tokenizers` crate.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use tokenizers::Model;
use tokenizers::models::bpe::BPE;
use tokenizers::utils::SysRegex;

use crate::error::{Error, ErrorKind, Result};

pub use added::AddedToken;
use added::{AddedTokens, Piece};
pub use parts::Parts;

mod added;
mod files;
mod json;
mod parts;

/// How GPT-2's one special token is written. It is found in a vocabulary by this content, never by its id.
pub const END_OF_TEXT: &str = "<|endoftext|>";

/// The pattern by which GPT-2 cuts text into words before the BPE, but for white space:
/// its `\s+(?!\S)|\s+` is `\s+` here, and [`words`] does what the look-ahead did.
/// From <https://github.com/openai/gpt-2/blob/master/src/encoder.py>.
static WORD: LazyLock<SysRegex> = LazyLock::new(|| {
    SysRegex::new(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+").expect("a constant pattern")
});

/// Compiles the pattern by which text is cut into words: tens of milliseconds that the first text would wait for.
pub fn prepare() {
    LazyLock::force(&WORD);
}

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
    added: AddedTokens,
    /// Whether text that does not begin with a space is given one.
    add_prefix_space: bool,
    /// Whether text is cut by [`words`] before the merges.
    split_words: bool,
    eos: Option<u32>,
    sha256: String,
}

impl Tokenizer {
    /// From the contents of `vocab.json` (token -> id) and `merges.txt` (one merge on each line, best first, after a
    /// line `#version: ...`), as OpenAI and Hugging Face publish them.
    ///
    /// # Errors
    /// [`ErrorKind::BadTokenizer`] if a file is not of this form, or as [`from_parts`](Self::from_parts).
    pub fn from_vocab_merges(vocab_json: &[u8], merges_txt: &[u8]) -> Result<Self> {
        Self::from_parts(files::vocab_merges(vocab_json, merges_txt)?)
    }

    /// From the token spellings in the order of their ids and the merges (`"a b"`, best first), as a GGUF file holds
    /// them.
    ///
    /// # Errors
    /// As [`from_parts`](Self::from_parts).
    pub fn from_tokens_merges(tokens: Vec<String>, merges: &[String]) -> Result<Self> {
        Self::from_parts(Parts { tokens, merges: merges.to_vec(), ..Parts::default() })
    }

    /// The ids of `text`.
    ///
    /// A typed `<|endoftext|>`, or another special token of the vocabulary, is the ordinary tokens of its characters,
    /// unless `parse_special`: then it is the special token. Takes time linear in the text, up to a logarithm in its
    /// longest word.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] if the library fails, which is not known to happen.
    pub fn encode(&self, text: &str, parse_special: bool) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        self.added.split(text, parse_special, &mut |piece| match piece {
            Piece::Token(id) => {
                ids.push(id);
                Ok(())
            }
            Piece::Text(text) => self.encode_ordinary(text, &mut ids),
        })?;
        Ok(ids)
    }

    /// Appends the ids of `text`, in which no added token stands and which is not empty.
    fn encode_ordinary(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let text = match self.add_prefix_space && !text.starts_with(' ') {
            true => Cow::Owned(format!(" {text}")),
            false => Cow::Borrowed(text),
        };
        if self.split_words {
            words(&text).try_for_each(|word| self.encode_word(word, ids))
        } else {
            self.encode_word(&text, ids)
        }
    }

    fn encode_word(&self, word: &str, ids: &mut Vec<u32>) -> Result<()> {
        let spelling: String = word.bytes().map(|byte| ALPHABET[usize::from(byte)]).collect();
        let tokens = self.bpe.tokenize(&spelling).map_err(|error| {
            Error::new(ErrorKind::Engine, format!("the tokenizer library failed on {word:?}: {error}"))
        })?;
        ids.extend(tokens.into_iter().map(|token| token.id));
        Ok(())
    }

    /// The bytes of a token; `None` if there is no token `id`.
    ///
    /// Those of the end-of-text token, of any other added token, and of one that is not spelled in the byte alphabet,
    /// are its spelling.
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

    /// Bytes of the longest token: a text of over `n` times as many has over `n` tokens.
    pub fn longest(&self) -> usize {
        (0..self.len() as u32).filter_map(|id| self.range(id)).map(|range| range.len()).max().unwrap_or(1)
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
    /// first. So it is the same whatever kind of file they came from. What sets a tokenizer apart from GPT-2's follows
    /// as further texts, where there is anything: `add_prefix_space`, `no_regex`, `eos` and how it is written if that is
    /// not `<|endoftext|>`, and for each other added token, in the order of ids, its properties and its content.
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

/// A refusal. What it quotes from a file may be as long as the file: past a length it is cut.
fn bad(mut message: String) -> Error {
    const LONGEST: usize = 400;
    if let Some((end, _)) = message.char_indices().nth(LONGEST) {
        message.truncate(end);
        message.push('…');
    }
    Error::new(ErrorKind::BadTokenizer, message)
}

#[cfg(test)]
mod file_tests;
#[cfg(test)]
pub(crate) mod tests;
