//! GPT-2: configuration, weights, forward pass and published checkpoints.

mod config;

pub use config::Config;
