//! GPT-2 in the browser, on the CPU, with no server.
//!
//! The parts, from the bottom up; each knows only those above it in this list:
//!
//! - [`error`]: one error type, a kind for programs and a sentence for people
//! - [`options`]: options as a page gives them, checked against a table
//! - [`settings`]: the options of a run, their ranges and defaults
//! - [`record`]: what a run leaves behind
//! - [`model`]: [`LanguageModel`](model::LanguageModel), the seam between the loop and whatever computes logits
//! - [`text`]: tokens, incremental decoding, stop strings
//! - [`sampler`]: logits to a token
//! - [`generate`]: the loop
//! - [`kernels`]: products of rounded numbers in exact integers, on the vector instructions there are
//! - [`gpt2`]: GPT-2, and the published files it is loaded from
//! - [`engine`]: a user's files to model and tokenizer
//! - [`lab`]: experiments with a model, each a table
//! - [`web`]: the browser: messages, and the worker that speaks them
//!
//! # A run
//!
//! A model that follows a script shows the loop without weights:
//!
//! ```
//! use gpt2_web::generate::{CancelToken, Generation, Progress};
//! use gpt2_web::model::ScriptedModel;
//! use gpt2_web::settings::Settings;
//! use gpt2_web::text::Tokenizer;
//!
//! let read = |name| std::fs::read(format!("tests/fixtures/gpt2-tokenizer/{name}"));
//! let tokenizer = Tokenizer::from_vocab_merges(&read("vocab.json")?, &read("merges.txt")?)?;
//!
//! let story = tokenizer.encode(" upon a time. The end.", false)?;
//! let mut model = ScriptedModel::new(tokenizer.len(), 1024, 1, story);
//! let settings = Settings { temperature: 0.0, stop: vec![" The end".into()], ..Settings::default() };
//!
//! let clock = || 0.0;
//! let mut run = Generation::new(&mut model, &tokenizer, "Once", settings, &clock, CancelToken::default())?;
//! let mut text = String::new();
//! while let Some(progress) = run.advance()? {
//!     match progress {
//!         Progress::Prefill { .. } => {}
//!         Progress::Step(step) => text.push_str(&step.text),
//!         Progress::End { text: rest, stop } => {
//!             text.push_str(&rest);
//!             assert_eq!(stop.stop_string.as_deref(), Some(" The end"));
//!         }
//!     }
//! }
//! assert_eq!(text, " upon a time.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The embedded model
//!
//! ```no_run
//! use gpt2_web::engine::Engine;
//! use gpt2_web::gpt2::checkpoint::ModelFile;
//! use gpt2_web::model::LanguageModel;
//!
//! let bytes = std::fs::read("www/models/fairy-12m-q8_0.gguf")?;
//! let file = ModelFile { name: "fairy-12m-q8_0.gguf", bytes: &bytes };
//! let mut engine = Engine::load("fairy-12m", &[file], None, &mut |_, _| {})?;
//! let ids = engine.tokenizer.encode("Once upon a time", false)?;
//! let logits = engine.model.feed(&ids)?;
//! assert_eq!(logits.len(), engine.tokenizer.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod engine;
pub mod error;
mod foreign_tokenizer;
pub mod generate;
pub mod gpt2;
mod json;
pub mod kernels;
pub mod lab;
pub mod model;
pub mod options;
pub mod record;
pub mod sampler;
pub mod settings;
pub mod text;
pub mod web;

pub use error::{Error, ErrorKind, Result};
