//! GPT-2 in the browser.
pub mod engine;
pub mod error;
pub mod generate;
pub mod gpt2;
pub mod model;
pub mod record;
pub mod sampler;
pub mod settings;
pub mod text;
pub mod web;

pub use error::{Error, ErrorKind, Result};
