//! A tokenizer out of its specification, each part checked.

use std::collections::HashSet;
use std::fmt;

use sha2::{Digest, Sha256};
use tokenizers::models::bpe::{BPE, Vocab};

use crate::error::Result;

use super::added::{AddedToken, AddedTokens};
use super::alphabet::{self, spelled_bytes};
use super::ends::Ends;
use super::spec::{TokenizerSpec, Unknown};
use super::{END_OF_TEXT, Tokenizer, bad, quoted};

impl Tokenizer {
    /// From the parts that a file holds.
    ///
    /// # Errors
    /// [`ErrorKind::BadTokenizer`](crate::error::ErrorKind::BadTokenizer) if a token appears twice, the merges are
    /// not of bytes, there are none, a merge is malformed, appears twice, or makes or needs something that is no
    /// token, or an added token, the named end-of-text token or one to put around prompts is no token.
    pub fn from_spec(spec: TokenizerSpec) -> Result<Self> {
        let TokenizerSpec { tokens, merges, lines, unknown, mut added, eos, .. } = spec;
        let TokenizerSpec { ends, before, after, add_prefix_space, pre_tokenize, mut notices, .. } = spec;
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
                return Err(bad(format!("the token {token:?} appears twice in the vocabulary, as {other} and {id}")));
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
                return Err(bad(format!("the added token {id} is empty or appears twice: {content:?}")));
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
            return Err(bad(format!("{source} is {merge:?}, which is a duplicate")));
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
