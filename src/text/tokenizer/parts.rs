//! A tokenizer out of its parts, each checked.

use std::collections::{HashMap, HashSet};
use std::fmt;

use sha2::{Digest, Sha256};
use tokenizers::models::bpe::{BPE, Vocab};

use crate::error::Result;

use super::added::{AddedToken, AddedTokens};
use super::{ALPHABET, END_OF_TEXT, Tokenizer, bad, spelled_bytes};

/// What a tokenizer is made of, whatever files it stood in. The default is GPT-2's, but for vocabulary and merges.
#[derive(Debug, Clone)]
pub struct Parts {
    /// All tokens in the order of their ids, in the byte-level spelling (`Ġ` for a space); added tokens as they are
    /// written.
    pub tokens: Vec<String>,
    /// The merges, best first: two tokens with a space between them.
    pub merges: Vec<String>,
    /// The line of merges.txt on which the first merge stands, for messages; `None` if they were a list.
    pub first_line: Option<usize>,
    /// Those of the tokens that are matched in the text itself. The end-of-text token is one of them without being
    /// named here.
    pub added: Vec<AddedToken>,
    /// How the end-of-text token is written; [`END_OF_TEXT`] if `None`.
    pub eos: Option<String>,
    /// Whether text that does not begin with a space is given one.
    pub add_prefix_space: bool,
    /// Whether text is cut by GPT-2's pattern before the merges; if not, they go across words.
    pub split_words: bool,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            merges: Vec::new(),
            first_line: None,
            added: Vec::new(),
            eos: None,
            add_prefix_space: false,
            split_words: true,
        }
    }
}

impl Tokenizer {
    /// From the parts that a file holds.
    ///
    /// # Errors
    /// [`ErrorKind::BadTokenizer`](crate::error::ErrorKind::BadTokenizer) if a token stands there twice, one of the 256
    /// characters that stand for bytes is missing, there are no merges, a merge is malformed, stands there twice, or
    /// makes or needs something that is no token, or an added token or the named end-of-text token is no token.
    pub fn from_parts(parts: Parts) -> Result<Self> {
        let Parts { tokens, merges, first_line, mut added, eos, add_prefix_space, split_words } = parts;
        let mut digest = Digester::default();
        digest.count(tokens.len());
        let mut vocab = Vocab::with_capacity(tokens.len());
        for (id, token) in (0..).zip(&tokens) {
            digest.text(token);
            if let Some(other) = vocab.insert(token.clone(), id) {
                return Err(bad(format!("the token {token:?} stands in the vocabulary twice, as {other} and {id}")));
            }
        }
        for (byte, character) in ALPHABET.iter().enumerate() {
            if !vocab.contains_key(character.encode_utf8(&mut [0; 4]) as &str) {
                return Err(bad(format!(
                    "the vocabulary has no token {character:?} for the byte 0x{byte:02X}: it is not a byte-level BPE"
                )));
            }
        }
        let pairs = pairs(&merges, first_line, &vocab, &mut digest)?;

        let eos = match eos {
            None => vocab.get(END_OF_TEXT).map(|&id| (id, END_OF_TEXT.to_owned())),
            Some(named) => match vocab.get(&named) {
                Some(&id) => Some((id, named)),
                None => return Err(bad(format!("the end-of-text token {named:?} is not in the vocabulary"))),
            },
        };
        if let Some((_, content)) = &eos
            && !added.iter().any(|token| &token.content == content)
        {
            added.push(AddedToken::special(content.clone()));
        }
        if add_prefix_space {
            digest.text("add_prefix_space");
        }
        if !split_words {
            digest.text("no_regex");
        }
        if let Some((_, content)) = eos.as_ref().filter(|(_, content)| content != END_OF_TEXT) {
            digest.text("eos");
            digest.text(content);
        }

        let mut literal = HashSet::new();
        let mut added_ids = Vec::with_capacity(added.len());
        for token in added {
            let content = &token.content;
            let id = *vocab
                .get(content)
                .ok_or_else(|| bad(format!("the added token {content:?} is not in the vocabulary")))?;
            if content.is_empty() || !literal.insert(id) {
                return Err(bad(format!("the added token {id} is empty or stands there twice: {content:?}")));
            }
            added_ids.push((token, id));
        }
        added_ids.sort_unstable_by_key(|&(_, id)| id);
        for (token, _) in added_ids.iter().filter(|(token, _)| !token.is_plain_eos()) {
            digest.text(&token.properties());
            digest.text(&token.content);
        }
        let added = AddedTokens::new(added_ids)?;

        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(tokens.len()));
        for (id, token) in (0..).zip(&tokens) {
            if literal.contains(&id) {
                bytes.extend_from_slice(token.as_bytes());
            } else {
                spelled_bytes(token, &mut bytes);
            }
            ends.push(bytes.len());
        }

        // No cache of words: it would outlive the tokenizer, and saves little.
        let bpe = BPE::builder()
            .vocab_and_merges(vocab, pairs)
            .cache_capacity(0)
            .build()
            .map_err(|error| bad(format!("the tokenizer library refused vocabulary and merges: {error}")))?;
        let (eos, sha256) = (eos.map(|(id, _)| id), digest.finish());
        Ok(Self { bpe, bytes, ends, added, add_prefix_space, split_words, eos, sha256 })
    }
}

/// The merges as pairs of tokens, each found in `vocab` with what it makes.
fn pairs(
    merges: &[String],
    first_line: Option<usize>,
    vocab: &Vocab,
    digest: &mut Digester,
) -> Result<Vec<(String, String)>> {
    // A merge is known by its tokens' ids, which are quicker to look up than its text.
    let (mut pairs, mut seen) = (Vec::with_capacity(merges.len()), HashSet::with_capacity(merges.len()));
    let mut result = String::new();
    for (index, merge) in merges.iter().enumerate() {
        let source = match first_line {
            Some(first) => Source::Line(first + index),
            None => Source::Index(index),
        };
        let (left, right) = merge
            .split_once(' ')
            .filter(|(left, right)| !left.is_empty() && !right.is_empty() && !right.contains(' '))
            .ok_or_else(|| bad(format!("{source} is {merge:?}, not two tokens with one space between")))?;
        result.clear();
        result.extend([left, right]);
        let known = |part: &str| {
            let missing = || bad(format!("{source} is {merge:?}, but {part:?} is not in the vocabulary"));
            vocab.get(part).copied().ok_or_else(missing)
        };
        let ids = (known(left)?, known(right)?);
        known(&result)?;
        if !seen.insert(ids) {
            return Err(bad(format!("{source} is {merge:?}, which stands there before")));
        }
        digest.text(merge);
        pairs.push((left.to_owned(), right.to_owned()));
    }
    if pairs.is_empty() {
        return Err(
            bad("there are no merges: merges.txt (or the list in the model or tokenizer file) is empty".into()),
        );
    }
    Ok(pairs)
}

/// Puts the tokens of `name` in the order of their ids.
///
/// # Errors
/// `BadTokenizer` if an id stands there twice, or one below the largest is missing.
pub(super) fn in_order(tokens: HashMap<String, u32>, name: &str) -> Result<Vec<String>> {
    let count = tokens.len();
    let mut places = vec![None; count];
    for (token, id) in tokens {
        let place = places.get_mut(id as usize).ok_or_else(|| {
            bad(format!("{name} gives {token:?} the id {id}, but the ids of {count} tokens end at {}", count - 1))
        })?;
        if let Some(other) = place {
            return Err(bad(format!("{name} gives the id {id} twice, to {other:?} and to {token:?}")));
        }
        *place = Some(token);
    }
    // `count` ids below `count`, none twice: none is missing.
    Ok(places.into_iter().flatten().collect())
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

/// The canonical form under [`Tokenizer::sha256`]. It is a megabyte, of a hundred thousand texts: hashed at once, that
/// takes half of the time.
#[derive(Default)]
struct Digester(Vec<u8>);

impl Digester {
    fn count(&mut self, count: usize) {
        self.0.extend_from_slice(&(count as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn finish(self) -> String {
        Sha256::digest(self.0).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
