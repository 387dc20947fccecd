//! GPT-2: configuration, weights, forward pass and published checkpoints.

mod attention;
mod cache;
pub mod checkpoint;
mod config;
mod linear;
mod matrix_builder;
mod memory;
mod network;
mod panels;

use crate::error::{Error, ErrorKind, Result};
use crate::model::LanguageModel;

use cache::BlockCache;
pub use config::Config;
pub use linear::Precision;
use network::Network;

/// A GPT-2 with the keys and values of the positions it has processed.
///
/// Logits do not depend on how ids were divided into calls: `feed(a)` then `feed(b)` gives the bits of `feed(a ++ b)`,
/// and row `i` of `score` those of a `feed` that ends there.
pub struct Gpt2 {
    config: Config,
    network: Network,
    cache: Vec<BlockCache>,
    logits: Vec<f32>,
}

impl Gpt2 {
    /// A model that has processed nothing yet; `network` has the shapes `config` says.
    fn new(config: Config, network: Network) -> Self {
        let block = BlockCache::new(config.n_head, config.head_dim(), config.n_positions);
        Self { cache: vec![block; config.n_layer], logits: Vec::new(), config, network }
    }

    /// The hyperparameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn check(&self, ids: &[u32]) -> Result<()> {
        let (held, context, vocab) = (self.len(), self.config.n_positions, self.config.vocab_size);
        if ids.is_empty() {
            return Err(Error::new(ErrorKind::InvalidRequest, "there are no tokens to process; give at least one"));
        }
        if let Some(id) = ids.iter().find(|&&id| id as usize >= vocab) {
            return Err(Error::new(
                ErrorKind::InvalidRequest,
                format!(
                    "token {id} is not in this model's vocabulary of {vocab}; use the tokenizer that belongs to it"
                ),
            ));
        }
        if ids.len() > context - held {
            return Err(Error::new(
                ErrorKind::PromptTooLong,
                format!("{} tokens do not fit after {held} in a context of {context}; shorten the text", ids.len()),
            ));
        }
        Ok(())
    }

    /// Runs `pass` on the hidden states of `ids`; forgets them again if anything fails.
    fn process<T>(
        &mut self,
        ids: &[u32],
        pass: impl FnOnce(&Network, candle_core::Tensor) -> candle_core::Result<T>,
    ) -> Result<T> {
        self.check(ids)?;
        let held = self.len();
        let result = self.network.hidden(ids, &mut self.cache).and_then(|hidden| pass(&self.network, hidden));
        if result.is_err() {
            self.truncate(held);
        }
        Ok(result?)
    }
}

impl std::fmt::Debug for Gpt2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpt2").field("config", &self.config).field("len", &self.len()).finish_non_exhaustive()
    }
}

impl LanguageModel for Gpt2 {
    fn vocab_size(&self) -> usize {
        self.config.vocab_size
    }

    fn context_length(&self) -> usize {
        self.config.n_positions
    }

    fn len(&self) -> usize {
        self.cache.first().map_or(0, BlockCache::len)
    }

    fn feed(&mut self, ids: &[u32]) -> Result<&[f32]> {
        self.logits = self.process(ids, |network, hidden| {
            let last = hidden.narrow(0, hidden.dim(0)? - 1, 1)?;
            network.logits(&last)?.squeeze(0)?.to_vec1()
        })?;
        Ok(&self.logits)
    }

    fn score(&mut self, ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        self.process(ids, |network, hidden| network.logits(&hidden)?.to_vec2())
    }

    fn truncate(&mut self, len: usize) {
        for block in &mut self.cache {
            block.truncate(len);
        }
    }
}
