//! GPT-2: configuration, weights, forward pass and published checkpoints.

mod activation;
mod attention;
pub mod checkpoint;
mod config;
mod kv_cache;
mod matrix;
pub(crate) mod memory;
mod network;
mod norm;
mod profile;
mod readers_trial;
pub mod reference;

use crate::error::{Error, ErrorKind, Result};
use crate::kernels;
use crate::model::{LanguageModel, PartTimes};
use crate::record::ReadersTrial;

pub use activation::Activation;
pub use config::Config;
use kv_cache::{KvPrecision, LayerKvCache};
pub use matrix::Precision;
use network::{Network, Workspace};
pub use readers_trial::{MIN_BYTES as TRIAL_BYTES, warm_up};
use reference::Reference;

/// Positions whose logits [`score_each`](LanguageModel::score_each) computes at a time: a multiple of the six that the
/// kernels take together.
const SCORED: usize = 12;

/// A GPT-2 model with its KV cache.
///
/// Logits do not depend on how ids are split into calls: `feed(a)` then `feed(b)` gives the same bits as `feed(a ++ b)`,
/// and row `i` of `score`, and of `score_each`, the same bits as a `feed` that ends there.
pub struct Gpt2 {
    config: Config,
    network: Network,
    cache: Vec<LayerKvCache>,
    work: Workspace,
    logits: Vec<f32>,
}

impl Gpt2 {
    /// A model with an empty KV cache, most of whose weights are in `precision`. The shapes of `network` must be those of
    /// `config`.
    fn new(config: Config, network: Network, precision: Precision) -> Self {
        let storage = KvPrecision::of_model(precision, config.head_dim());
        let block = LayerKvCache::new(config.n_head, config.head_dim(), config.n_positions, storage);
        let cache = vec![block; config.n_layer];
        Self { cache, work: Workspace::default(), logits: Vec::new(), config, network }
    }

    /// Times the parts of all following forward passes with `clock`, a monotonic clock in milliseconds.
    /// [`part_times`](LanguageModel::part_times) returns the result.
    pub fn set_clock(&mut self, clock: fn() -> f64) {
        self.work.stopwatch.set_clock(clock);
    }

    /// Measures for about 25 ms which number of readers ([`kernels::READERS`]) reads this model's weights fastest, and uses
    /// it from now on. Returns the measurements. They are empty, and nothing changes, for models of less than 48 MiB, for
    /// f32, or if the clock has a resolution of 1 ms.
    pub fn choose_readers(&self, clock: fn() -> f64) -> Vec<ReadersTrial> {
        let trial = readers_trial::run(&self.network.blocks, clock);
        kernels::set_readers(readers_trial::choice(&trial));
        trial
    }

    /// The precision of the first block's MLP, which is that of most weights.
    pub fn precision(&self) -> Precision {
        self.network.blocks.first().map_or(Precision::F32, |block| block.precision())
    }

    /// Bytes of all weight matrices; those of a tied head count once.
    pub fn weight_bytes(&self) -> u64 {
        self.network.bytes()
    }

    /// The same model with its matrices in another precision, as far as their shapes allow, and an empty KV cache. Made of
    /// the weights as they are held: what was rounded stays so.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn in_precision(&self, precision: Precision) -> Result<Self> {
        Ok(Self::new(self.config.clone(), self.network.in_precision(precision)?, precision))
    }

    /// The same model as a textbook writes it.
    pub fn reference(&self) -> Reference<'_> {
        Reference::new(&self.config, &self.network)
    }

    /// The hyperparameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Checks `ids` and reserves all the memory for a pass over them, so that the pass cannot fail half-way. Returns
    /// `scored` empty rows with the capacity for logits.
    fn prepare(&mut self, ids: &[u32], scored: usize) -> Result<Vec<Vec<f32>>> {
        self.check(ids)?;
        let (held, n) = (self.len(), ids.len());
        let Self { config, cache, work, logits, .. } = self;
        let mut reserve = || {
            cache.iter_mut().try_for_each(|block| block.reserve(n))?;
            work.reserve(config, n, held + n)?;
            memory::try_reserve(logits, scored.max(1) * config.vocab_size)?;
            let mut rows = memory::try_with_capacity(scored)?;
            for _ in 0..scored {
                rows.push(memory::try_with_capacity(config.vocab_size)?);
            }
            memory::check_headroom()?;
            Ok(rows)
        };
        reserve().map_err(|error: Error| {
            let sentence = format!("out of memory after {held} positions: {}", error.message);
            Error::new(error.kind, sentence)
        })
    }

    fn check(&self, ids: &[u32]) -> Result<()> {
        let (held, context, vocab) = (self.len(), self.config.n_positions, self.config.vocab_size);
        if ids.is_empty() {
            return Err(Error::new(ErrorKind::InvalidRequest, "no tokens were given; give at least one"));
        }
        if let Some(id) = ids.iter().find(|&&id| id as usize >= vocab) {
            return Err(Error::new(
                ErrorKind::InvalidRequest,
                format!("token {id} is not in the model's vocabulary of {vocab}; use the tokenizer of this model"),
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
        self.cache.first().map_or(0, LayerKvCache::len)
    }

    fn feed(&mut self, ids: &[u32]) -> Result<&[f32]> {
        self.prepare(ids, 0)?;
        let Self { network, cache, work, logits, .. } = self;
        network.hidden(ids, cache, work);
        network.logits(ids.len() - 1..ids.len(), work, logits);
        Ok(logits)
    }

    fn extend(&mut self, ids: &[u32]) -> Result<()> {
        self.prepare(ids, 0)?;
        self.network.hidden(ids, &mut self.cache, &mut self.work);
        Ok(())
    }

    fn score(&mut self, ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        let mut rows = self.prepare(ids, ids.len())?;
        let Self { network, cache, work, logits, config } = self;
        network.hidden(ids, cache, work);
        network.logits(0..ids.len(), work, logits);
        for (row, logits) in rows.iter_mut().zip(logits.chunks_exact(config.vocab_size)) {
            row.extend_from_slice(logits);
        }
        Ok(rows)
    }

    fn score_each(&mut self, ids: &[u32], each: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        self.prepare(ids, 0)?;
        let Self { network, cache, work, logits, config } = self;
        memory::try_reserve(logits, SCORED * config.vocab_size)?;
        network.hidden(ids, cache, work);
        for first in (0..ids.len()).step_by(SCORED) {
            let rows = first..ids.len().min(first + SCORED);
            network.logits(rows.clone(), work, logits);
            for (place, logits) in rows.zip(logits.chunks_exact(config.vocab_size)) {
                each(place, logits);
            }
        }
        Ok(())
    }

    fn truncate(&mut self, len: usize) {
        for block in &mut self.cache {
            block.truncate(len);
        }
    }

    fn part_times(&self) -> Option<PartTimes> {
        self.work.stopwatch.times()
    }
}
