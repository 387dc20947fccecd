//! Token ids <-> text.
//!
//! A token of GPT-2 is a string of bytes, and neither a character nor a word: one token may hold half a character, and
//! a character may take four of them. So generated text passes three stations, each independent of how the one before
//! it cut its output:
//!
//! 1. [`Tokenizer::bytes`] turns an id into bytes;
//! 2. [`IncrementalDecoder`] turns bytes into text that never ends inside a character;
//! 3. [`StopStrings`] holds back text that may turn out to be a stop string, and finds the one that ends the run.

mod decoder;
mod stop;
mod tokenizer;

pub use decoder::IncrementalDecoder;
pub use stop::StopStrings;
pub use tokenizer::{AddedToken, END_OF_TEXT, Named, Tokenizer, TokenizerSpec, Unknown, warm_up};
