//! Token ids <-> text.
//!
//! A token of GPT-2 is a string of bytes, and neither a character nor a word: one token may hold half a character, and
//! a character may take four of them.

mod decoder;
mod tokenizer;

pub use decoder::IncrementalDecoder;
pub use tokenizer::{END_OF_TEXT, Tokenizer};
