//! Tokens that are matched in the text itself, before it is cut into words.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde::Deserialize;
use tokenizers::utils::SysRegex;

use crate::error::Result;

use super::{END_OF_TEXT, bad};

/// A token that stands for its own spelling, wherever that occurs in a text. The fields are those of Hugging Face's
/// files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AddedToken {
    /// How it is written.
    pub content: String,
    /// Whether it is only looked for where no letter, digit or other part of a word touches it.
    #[serde(default)]
    pub single_word: bool,
    /// Whether it takes the white space before it.
    #[serde(default)]
    pub lstrip: bool,
    /// Whether it takes the white space after it.
    #[serde(default)]
    pub rstrip: bool,
    /// Whether it is looked for only in what lies between those that are not.
    #[serde(default)]
    pub normalized: bool,
    /// Whether it is ordinary text unless special tokens are asked for.
    #[serde(default)]
    pub special: bool,
}

impl AddedToken {
    /// A special token that leaves the white space around it alone.
    pub fn special(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: false,
            special: true,
        }
    }

    /// Whether this is what a vocabulary with [`END_OF_TEXT`] means without saying so.
    pub(super) fn is_plain_eos(&self) -> bool {
        *self == Self { normalized: self.normalized, ..Self::special(END_OF_TEXT) }
    }

    /// The properties in one word, for the tokenizer's identity.
    pub(super) fn properties(&self) -> String {
        let named = [
            (self.single_word, "single_word"),
            (self.lstrip, "lstrip"),
            (self.rstrip, "rstrip"),
            (self.normalized, "normalized"),
            (self.special, "special"),
        ];
        named.into_iter().filter(|(on, _)| *on).fold("added".to_owned(), |all, (_, name)| all + "_" + name)
    }
}

/// A part of a text.
pub(super) enum Piece<'a> {
    /// An added token, by its id.
    Token(u32),
    /// What lies between two of them; not empty.
    Text(&'a str),
}

/// Finds added tokens as Hugging Face's library does: of those that begin at one place the longest, and those with
/// `normalized` only between the others.
pub(super) struct AddedTokens {
    levels: Vec<Level>,
}

struct Level {
    finder: AhoCorasick,
    /// Each pattern of `finder` and its id.
    tokens: Vec<(AddedToken, u32)>,
}

impl AddedTokens {
    /// `tokens`, none of them empty, with their ids.
    pub(super) fn new(tokens: Vec<(AddedToken, u32)>) -> Result<Self> {
        let (last, first): (Vec<_>, Vec<_>) = tokens.into_iter().partition(|(token, _)| token.normalized);
        let levels = [first, last].into_iter().filter(|tokens| !tokens.is_empty()).map(|tokens| {
            let finder = AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                // In memory linear in the patterns, which a file may make as long as itself.
                .kind(Some(AhoCorasickKind::ContiguousNFA))
                .build(tokens.iter().map(|(token, _)| &token.content))
                .map_err(|error| bad(format!("the added tokens cannot be searched for: {error}")))?;
            Ok(Level { finder, tokens })
        });
        Ok(Self { levels: levels.collect::<Result<_>>()? })
    }

    /// Whether one of them strips white space next to it, so that one token may represent text of any length.
    pub(super) fn strip(&self) -> bool {
        self.levels.iter().flat_map(|level| &level.tokens).any(|(token, _)| token.lstrip || token.rstrip)
    }

    /// Calls `each` with the pieces of `text` in their order. Special tokens are text unless `parse_special`.
    pub(super) fn split<'a>(
        &self,
        text: &'a str,
        parse_special: bool,
        each: &mut impl FnMut(Piece<'a>) -> Result<()>,
    ) -> Result<()> {
        split(&self.levels, text, parse_special, each)
    }
}

fn split<'a>(
    levels: &[Level],
    text: &'a str,
    parse_special: bool,
    each: &mut impl FnMut(Piece<'a>) -> Result<()>,
) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let Some((level, rest)) = levels.split_first() else { return each(Piece::Text(text)) };
    let mut done = 0;
    for found in level.finder.find_iter(text) {
        let (token, id) = &level.tokens[found.pattern().as_usize()];
        let (left, after) = (&text[..found.start()], &text[found.end()..]);
        if (token.special && !parse_special)
            || (token.single_word && (left.chars().next_back().is_some_and(in_word) || after.chars().next().is_some_and(in_word)))
            // Inside what the token before it stripped there is nothing left to find.
            || found.start() < done
        {
            continue;
        }
        let before = &left[done..];
        let before = if token.lstrip { before.trim_end() } else { before };
        split(rest, before, parse_special, each)?;
        each(Piece::Token(*id))?;
        done = if token.rstrip { text.len() - after.trim_start().len() } else { found.end() };
    }
    split(rest, &text[done..], parse_special, each)
}

/// Whether the character is one of `\w`: a letter, a mark, a digit, a connector.
fn in_word(character: char) -> bool {
    static IN_WORD: LazyLock<SysRegex> = LazyLock::new(|| SysRegex::new(r"\w").expect("a constant pattern"));
    IN_WORD.find_iter(character.encode_utf8(&mut [0; 4])).next().is_some()
}
