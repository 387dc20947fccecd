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
use alphabet::ALPHABET;
use ends::Ends;
pub use spec::{Named, TokenizerSpec, Unknown};

mod added;
mod alphabet;
mod build;
mod ends;
mod files;
mod json;
mod spec;

/// How GPT-2's one special token is written. It is found in a vocabulary by this content, never by its id.
pub const END_OF_TEXT: &str = "<|endoftext|>";

/// The pattern by which GPT-2 cuts text into words before the BPE, except for white space:
/// its `\s+(?!\S)|\s+` is `\s+` here, and [`pre_tokenize`] does what the look-ahead did.
/// From <https://github.com/openai/gpt-2/blob/master/src/encoder.py>.
static WORD: LazyLock<SysRegex> = LazyLock::new(|| {
    SysRegex::new(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+").expect("a constant pattern")
});

/// Compiles the pattern that cuts text into words: otherwise the first text would wait tens of milliseconds for it.
pub fn warm_up() {
    LazyLock::force(&WORD);
}

/// Text <-> token ids, and id -> bytes.
pub struct Tokenizer {
    bpe: BPE,
    /// The bytes of all tokens, concatenated.
    bytes: Vec<u8>,
    /// Where each token's bytes end; they begin where the previous token's end.
    bounds: Vec<usize>,
    /// Ids without a token, ascending.
    holes: Vec<u32>,
    /// One more than the id of the last token that is ordinary text.
    base: usize,
    /// Number of ids that the model knows.
    rows: usize,
    /// Bytes without a token, which a prompt may not contain.
    refused: Vec<u8>,
    /// Bytes that become one token if several follow each other.
    fused: Vec<u8>,
    added: AddedTokens,
    /// Whether a space is put before text that does not begin with one.
    add_prefix_space: bool,
    /// Whether text is cut by [`pre_tokenize`] before the merges.
    pre_tokenize: bool,
    /// Ids before and after each prompt.
    before: Vec<u32>,
    after: Vec<u32>,
    ends: Ends,
    notices: Vec<String>,
    sha256: String,
}

impl Tokenizer {
    /// From the contents of `vocab.json` (token -> id) and `merges.txt` (one merge on each line, best first, after a
    /// line `#version: ...`), as OpenAI and Hugging Face publish them.
    ///
    /// # Errors
    /// [`ErrorKind::BadTokenizer`] if a file is not of this form, or as [`from_spec`](Self::from_spec).
    pub fn from_vocab_merges(vocab_json: &[u8], merges_txt: &[u8]) -> Result<Self> {
        Self::from_spec(files::vocab_merges(vocab_json, merges_txt)?)
    }

    /// From the token spellings in the order of their ids and the merges (`"a b"`, best first), as a GGUF file holds
    /// them.
    ///
    /// # Errors
    /// As [`from_spec`](Self::from_spec).
    pub fn from_tokens_merges(tokens: Vec<String>, merges: &[String]) -> Result<Self> {
        let tokens = tokens.into_iter().map(Some).collect();
        Self::from_spec(TokenizerSpec { tokens, merges: merges.to_vec(), ..TokenizerSpec::default() })
    }

    /// Holds the tokenizer against a model that knows the ids below `rows`. Tokens that were added beyond them are never
    /// chosen, and refused in a prompt; that is how a model looks whose embedding was not resized for a padding token
    /// that only its training used.
    ///
    /// # Errors
    /// [`ErrorKind::BadTokenizer`] if ordinary tokens are beyond them: it is another model's tokenizer.
    pub fn limit(&mut self, rows: usize) -> Result<()> {
        let known = self.len();
        if self.base > rows {
            return Err(bad(format!(
                "the tokenizer has {known} tokens but the model only {rows}; give the tokenizer of this model"
            )));
        }
        if known > rows {
            let beyond: Vec<_> = (rows as u32..known as u32).filter(|&id| self.bytes(id).is_some()).collect();
            if let Some(&first) = beyond.first() {
                let (count, token) = (beyond.len(), quoted(&self.decode(&[first])));
                self.notices.push(match count {
                    1 => format!(
                        "the tokenizer has the token {token} that the model, with {rows} ids, does not know: it is never \
                         chosen, and refused in a prompt"
                    ),
                    _ => format!(
                        "the tokenizer has {count} tokens that the model, with {rows} ids, does not know, the first is \
                         {token}: they are never chosen, and refused in a prompt"
                    ),
                });
            }
            self.ends.limit(rows);
            for ids in [&mut self.before, &mut self.after] {
                ids.retain(|&id| (id as usize) < rows);
            }
        }
        self.rows = rows;
        Ok(())
    }

    /// The ids of a prompt: those of `text`, as of [`encode`](Self::encode), between the ones that the tokenizer's files
    /// ask to put around a text.
    ///
    /// # Errors
    /// As [`encode`](Self::encode), and [`ErrorKind::BadTokenizer`] if `text` holds a token that the model does not
    /// know.
    pub fn prompt(&self, text: &str, parse_special: bool) -> Result<Vec<u32>> {
        let ids = [&self.before[..], &self.encode(text, parse_special)?, &self.after].concat();
        match ids.iter().find(|&&id| id as usize >= self.rows) {
            None => Ok(ids),
            Some(&id) => Err(bad(format!(
                "the prompt holds the token {}, whose id {id} the model does not know: it has {} ids; leave it out of the \
                 prompt",
                quoted(&self.decode(&[id])),
                self.rows
            ))),
        }
    }

    /// A lower bound of the number of tokens in `text`, without encoding it.
    pub fn at_least(&self, text: &str) -> usize {
        let strip = self.added.strip();
        let counted = |c: char| match strip && c.is_whitespace() {
            true => 0,
            false => c.encode_utf8(&mut [0; 4]).bytes().filter(|byte| !self.fused.contains(byte)).count(),
        };
        let bytes = if strip || !self.fused.is_empty() { text.chars().map(counted).sum() } else { text.len() };
        bytes.div_ceil(self.max_token_bytes())
    }

    /// The ids of `text`.
    ///
    /// A typed `<|endoftext|>`, or another special token of the vocabulary, is the ordinary tokens of its characters,
    /// unless `parse_special`: then it is the special token. Takes time linear in the text, up to a logarithm in its
    /// longest word.
    ///
    /// # Errors
    /// [`ErrorKind::BadTokenizer`] if `text` holds a byte without a token, [`ErrorKind::Engine`] if the library fails,
    /// which is not known to happen.
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
        if self.pre_tokenize {
            pre_tokenize(&text).try_for_each(|word| self.encode_word(word, ids))
        } else {
            self.encode_word(&text, ids)
        }
    }

    fn encode_word(&self, word: &str, ids: &mut Vec<u32>) -> Result<()> {
        if !self.refused.is_empty() {
            self.refuse_bytes(word)?;
        }
        let spelling: String = word.bytes().map(|byte| ALPHABET[usize::from(byte)]).collect();
        let tokens = self.bpe.tokenize(&spelling).map_err(|error| {
            Error::new(ErrorKind::Engine, format!("the tokenizer library failed on {word:?}: {error}"))
        })?;
        ids.extend(tokens.into_iter().map(|token| token.id));
        Ok(())
    }

    /// Refuses a word with a byte that has no token.
    fn refuse_bytes(&self, word: &str) -> Result<()> {
        for character in word.chars() {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                if self.refused.binary_search(&byte).is_ok() {
                    return Err(bad(format!(
                        "the prompt holds {character:?}, and this tokenizer has no token for its byte 0x{byte:02X}; leave \
                         it out of the prompt"
                    )));
                }
            }
        }
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
        if self.holes.binary_search(&id).is_ok() {
            return None;
        }
        let id = id as usize;
        let end = *self.bounds.get(id)?;
        Some(if id == 0 { 0 } else { self.bounds[id - 1] }..end)
    }

    /// The text of `ids`: U+FFFD stands for each maximal invalid part of their bytes, and for an id that is no token.
    pub fn decode(&self, ids: &[u32]) -> String {
        // 0xFF is invalid wherever it stands.
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| self.bytes(id).unwrap_or(&[0xFF])).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Length of the longest token in bytes.
    fn max_token_bytes(&self) -> usize {
        (0..self.len() as u32).filter_map(|id| self.range(id)).map(|range| range.len()).max().unwrap_or(1)
    }

    /// The id of the end-of-text token that an empty prompt starts from, if there is one.
    pub fn eos(&self) -> Option<u32> {
        self.ends.first
    }

    /// Whether `id` ends a text: several tokens may.
    pub fn ends(&self, id: u32) -> bool {
        self.ends.contains(id)
    }

    /// The ids below [`len`](Self::len) that are no tokens, in their order: they must not be chosen.
    pub fn holes(&self) -> &[u32] {
        &self.holes
    }

    /// Notices about how the tokenizer's files were read.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Number of ids; those of all tokens are below it.
    #[expect(clippy::len_without_is_empty, reason = "a tokenizer holds at least one byte and one merge")]
    pub fn len(&self) -> usize {
        self.bounds.len()
    }

    /// SHA-256, in hexadecimal, over: the number of tokens; the tokens in the order of their ids; the merges (`"a b"`),
    /// best first. Each token and merge is its length in bytes and then its UTF-8; numbers are eight bytes, least
    /// first; an id without a token counts as `[PAD` with its number and `]`, the name llama.cpp's converter gives it.
    /// So it is the same whatever kind of file they came from. What sets a tokenizer apart from GPT-2's follows as
    /// further texts, where there is anything: `add_prefix_space`, `no_regex`, `unk` or `fuse_unk` with the token that
    /// stands for bytes without one, `eos` and how it is written if that is not `<|endoftext|>`, and for each other added
    /// token, in the order of ids, its properties and its content. What is put around prompts, and which other ids end a
    /// text, is not part of it: a record shows both.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("len", &self.len())
            .field("ends", &self.ends)
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
fn pre_tokenize(text: &str) -> impl Iterator<Item = &str> {
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

/// A refusal. What it quotes from a file may be as long as the file: past a length it is cut.
fn bad(mut message: String) -> Error {
    const LONGEST: usize = 400;
    if let Some((end, _)) = message.char_indices().nth(LONGEST) {
        message.truncate(end);
        message.push('…');
    }
    Error::new(ErrorKind::BadTokenizer, message)
}

/// A text of a file, for messages: short, whatever the file holds.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod role_tests;
#[cfg(test)]
pub(crate) mod tests;
