//! What a tokenizer is made of, whatever files it comes from.

use std::collections::HashMap;

use crate::error::Result;

use super::added::AddedToken;
use super::bad;

/// The ids a vocabulary with holes may have: a file of a few bytes must not ask for the memory of more.
const MAX_IDS: usize = 1 << 20;

/// What a tokenizer is made of. The default is GPT-2's, without vocabulary and merges.
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
    /// Ids that end a text as well, each list with what names it. A notice names those that are not tokens.
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

/// Puts the tokens of `name` in the order of their ids.
///
/// # Errors
/// `BadTokenizer` if an id appears twice, or is larger than any vocabulary needs.
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
