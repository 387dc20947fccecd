//! What a GGUF file says of its tokenizer.

/// The tokenizer a GGUF file holds: GPT-2's byte-level BPE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokenizer {
    /// The tokens in the order of their ids, in the byte-level spelling (`Ġ` for a space).
    pub tokens: Vec<String>,
    /// The merges, best first: two tokens with a space between them.
    pub merges: Vec<String>,
    /// The id of the token that begins a text.
    pub bos: Option<u32>,
    /// The id of the end-of-text token.
    pub eos: Option<u32>,
    /// Other ids that end a text, each with the key that names it.
    pub ends: Vec<(&'static str, u32)>,
    /// Whether [`bos`](Self::bos) stands before each prompt.
    pub add_bos: bool,
    /// Whether [`eos`](Self::eos) stands after each prompt.
    pub add_eos: bool,
    /// The ids of control tokens, which text only means where special tokens are asked for.
    pub control: Vec<u32>,
    /// The ids of tokens that were added to the vocabulary, and stand for their spelling wherever it occurs.
    pub user_defined: Vec<u32>,
    /// The ids that were given to no token, and have a name that llama.cpp's converter made up.
    pub unused: Vec<u32>,
    /// Whether text that does not begin with a space is given one.
    pub add_space_prefix: bool,
    /// What was ignored, for people.
    pub notices: Vec<String>,
}
