//! A tokenizer out of its parts, each checked.

use std::collections::{HashMap, HashSet};
use std::fmt;

use sha2::{Digest, Sha256};
use tokenizers::models::bpe::{BPE, Vocab};

use crate::error::Result;

use super::added::{AddedToken, AddedTokens};
use super::alphabet::{self, spelled_bytes};
use super::ends::Ends;
use super::{END_OF_TEXT, Tokenizer, bad, quoted};

/// The ids a vocabulary with holes may have: a file of a few bytes must not ask for the memory of more.
const MAX_IDS: usize = 1 << 20;

/// What a tokenizer is made of, whatever files it stood in. The default is GPT-2's, but for vocabulary and merges.
#[derive(Debug, Clone)]
pub struct TokenizerSpec {
    /// All tokens in the order of their ids, in the byte-level spelling (`Ġ` for a space); added tokens as they are
    /// written; `None` for an id that was not given to a token.
    pub tokens: Vec<Option<String>>,
    /// The merges, best first: two tokens with a space between them.
    pub merges: Vec<String>,
    /// Whether the merges are the lines of merges.txt from the first on. Then those that are empty are no merges.
    pub lines: bool,
    /// What stands for a byte that has no token; without it a prompt with such a byte is refused.
    pub unknown: Option<Unknown>,
    /// Those of the tokens that are matched in the text itself. The end-of-text token is one of them without being
    /// named here.
    pub added: Vec<AddedToken>,
    /// How the end-of-text token is written; [`END_OF_TEXT`] if `None`.
    pub eos: Option<String>,
    /// Ids that end a text as well, each list with what names it. Those that are no tokens are told in a notice.
    pub ends: Vec<Named>,
    /// Ids to put before each prompt.
    pub before: Vec<u32>,
    /// Ids to put after each prompt.
    pub after: Vec<u32>,
    /// Whether text that does not begin with a space is given one.
    pub add_prefix_space: bool,
    /// Whether text is cut by GPT-2's pattern before the merges; if not, they go across words.
    pub pre_tokenize: bool,
    /// What a user should know of how the files were read.
    pub notices: Vec<String>,
}

/// Ids that a file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The ids.
    pub ids: Vec<u32>,
    /// What names them, for messages: a file, or a field of one.
    pub by: String,
}

/// The token that stands for what has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// How it is written.
    pub content: String,
    /// Whether one stands for several that follow one another.
    pub fuse: bool,
}

impl Default for TokenizerSpec {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            merges: Vec::new(),
            lines: false,
            unknown: None,
            added: Vec::new(),
            eos: None,
            ends: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            add_prefix_space: false,
            pre_tokenize: true,
            notices: Vec::new(),
        }
    }
}

impl Tokenizer {
    /// From the parts that a file holds.
    ///
    /// # Errors
    /// [`ErrorKind::BadTokenizer`](crate::error::ErrorKind::BadTokenizer) if a token stands there twice, the merges are
    /// not of bytes, there are none, a merge is malformed, stands there twice, or makes or needs something that is no
    /// token, or an added token, the named end-of-text token or one to put around prompts is no token.
    pub fn from_spec(parts: TokenizerSpec) -> Result<Self> {
        let TokenizerSpec { tokens, merges, lines, unknown, mut added, eos, .. } = parts;
        let TokenizerSpec { ends, before, after, add_prefix_space, pre_tokenize, mut notices, .. } = parts;
        let mut digest = Digester::default();
        digest.count(tokens.len());
        let mut vocab = Vocab::with_capacity(tokens.len());
        let mut holes = Vec::new();
        for (id, token) in (0..).zip(&tokens) {
            let Some(token) = token else {
                digest.text(&hole(id));
                holes.push(id);
                continue;
            };
            digest.text(token);
            if let Some(other) = vocab.insert(token.clone(), id) {
                return Err(bad(format!("the token {token:?} stands in the vocabulary twice, as {other} and {id}")));
            }
        }
        if let Some(first) = holes.first() {
            notices.push(match holes.len() {
                1 => format!("the id {first} of the vocabulary has no token: it is never chosen"),
                count => {
                    format!("{count} ids of the vocabulary have no token, the first is {first}: they are never chosen")
                }
            });
        }
        let pairs = pairs(&merges, lines, &vocab, &mut digest)?;
        let missing = alphabet::missing(&vocab, &pairs)?;
        let unknown = unknown.filter(|unknown| !missing.is_empty() && vocab.contains_key(&unknown.content));
        notices.extend(alphabet::notice(&missing, unknown.as_ref()));

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
        if !pre_tokenize {
            digest.text("no_regex");
        }
        if let Some(Unknown { content, fuse }) = &unknown {
            digest.text(if *fuse { "fuse_unk" } else { "unk" });
            digest.text(content);
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

        let (mut bytes, mut bounds) = (Vec::new(), Vec::with_capacity(tokens.len()));
        let mut base = 0;
        for (id, token) in (0..).zip(&tokens) {
            match token {
                Some(token) if literal.contains(&id) => bytes.extend_from_slice(token.as_bytes()),
                Some(token) => {
                    spelled_bytes(token, &mut bytes);
                    base = bounds.len() + 1;
                }
                None => {}
            }
            bounds.push(bytes.len());
        }
        let written = |id: u32| tokens.get(id as usize).and_then(Option::as_deref);
        for (ids, place) in [(&before, "before"), (&after, "after")] {
            let spelled = ids.iter().map(|&id| {
                let absent = || bad(format!("the id {id} is to be put {place} each prompt, but it is no token"));
                written(id).map(quoted).ok_or_else(absent)
            });
            let spelled = spelled.collect::<Result<Vec<_>>>()?;
            if !spelled.is_empty() {
                let tokens = spelled.join(" ");
                notices.push(format!("{tokens} is put {place} each prompt, as the tokenizer's files ask"));
            }
        }
        let known = [eos.as_ref().map(|&(id, _)| id), vocab.get(END_OF_TEXT).copied()];
        let ends = Ends::new(known, &ends, &written, &literal, &mut notices);

        // No cache of words: it would outlive the tokenizer, and saves little.
        let mut bpe = BPE::builder().vocab_and_merges(vocab, pairs).cache_capacity(0);
        let fuses = unknown.as_ref().is_some_and(|unknown| unknown.fuse);
        let refused = if unknown.is_some() { Vec::new() } else { missing.clone() };
        if let Some(unknown) = unknown {
            bpe = bpe.unk_token(unknown.content).fuse_unk(unknown.fuse);
        }
        let bpe = bpe
            .build()
            .map_err(|error| bad(format!("the tokenizer library refused vocabulary and merges: {error}")))?;
        Ok(Self {
            bpe,
            bytes,
            rows: bounds.len(),
            bounds,
            holes,
            base,
            refused,
            fused: if fuses { missing } else { Vec::new() },
            added,
            add_prefix_space,
            pre_tokenize,
            before,
            after,
            ends,
            notices,
            sha256: digest.finish(),
        })
    }
}

/// How llama.cpp's converter names an id without a token.
pub(super) fn hole(id: u32) -> String {
    format!("[PAD{id}]")
}

/// The merges as pairs of tokens, each found in `vocab` with what it makes.
fn pairs(merges: &[String], lines: bool, vocab: &Vocab, digest: &mut Digester) -> Result<Vec<(String, String)>> {
    // A merge is known by its tokens' ids, which are quicker to look up than its text.
    let (mut pairs, mut seen) = (Vec::with_capacity(merges.len()), HashSet::with_capacity(merges.len()));
    let mut result = String::new();
    for (index, merge) in merges.iter().enumerate() {
        if lines && merge.is_empty() {
            continue;
        }
        let source = if lines { Source::Line(index + 1) } else { Source::Index(index) };
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
/// `BadTokenizer` if an id stands there twice, or is larger than any vocabulary needs.
pub(super) fn in_order(tokens: HashMap<String, u32>, name: &str) -> Result<Vec<Option<String>>> {
    let largest = tokens.iter().max_by_key(|&(_, id)| id);
    let mut places = match largest {
        None => Vec::new(),
        Some((token, &id)) => {
            check_id(id, token, tokens.len(), name)?;
            vec![None; id as usize + 1]
        }
    };
    for (token, id) in tokens {
        match &mut places[id as usize] {
            Some(other) => {
                return Err(bad(format!("{name} gives the id {id} twice, to {other:?} and to {token:?}")));
            }
            place => *place = Some(token),
        }
    }
    Ok(places)
}

/// Refuses an id that would leave more holes than any vocabulary has: `count` tokens have a place already.
pub(super) fn check_id(id: u32, token: &str, count: usize, name: &str) -> Result<()> {
    if id as usize >= MAX_IDS.max(count) {
        return Err(bad(format!("{name} gives {token:?} the id {id}, but has only {count} tokens")));
    }
    Ok(())
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
