//! What the configuration and the headers read so far say about the model, and the checks between them.

use std::collections::{BTreeMap, BTreeSet};

use super::budget::{self, TensorMeta};
use super::header::Header;
use super::index::Index;
use super::plan::{self, Plan};
use super::tensors::TensorId;
use super::{Format, ModelFile, WeightsFile, foreign, gguf};
use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::{Config, Precision};

/// How to load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The precision of matrices; `None` is that of the file, as [`load`](super::load) describes. A matrix whose rows are
    /// not a multiple of 32 stays in f32, with a notice.
    pub precision: Option<Precision>,
    /// Limit in bytes for the model and its KV cache, beside a model in use. The default is the address space of 32-bit
    /// WebAssembly.
    pub memory_limit: u64,
    /// Bytes of a model in use, which could be freed.
    pub held: u64,
    /// Whether to compute the SHA-256 of the weights during loading (the default). It takes longer than the rest of the
    /// loading; it can be computed later from the files with a [`WeightsHash`](super::WeightsHash).
    pub fingerprint: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { precision: None, memory_limit: 1 << 32, held: 0, fingerprint: true }
    }
}

/// The model, as far as `config.json` and the headers read so far describe it.
pub(super) struct KnownModel {
    pub options: Options,
    pub config: Option<Config>,
    index: Option<Index>,
    pub streams: Vec<WeightsFile>,
    /// The names of the streams.
    pub names: Vec<String>,
    /// Streams whose header was read.
    opened: BTreeSet<usize>,
    /// Numbers of the parts of a split GGUF file whose header was read.
    parts: Vec<u64>,
    pub format: Option<Format>,
    pub found: BTreeMap<TensorId, TensorMeta>,
    pub tokenizer: Option<gguf::Tokenizer>,
    pub notices: Vec<String>,
    /// Bytes that the model needs, according to the headers read so far.
    pub needed: u64,
    /// Tensors that do not belong to GPT-2 and are skipped.
    pub left_out: Vec<String>,
}

impl KnownModel {
    /// Reads the small files among `companions`.
    ///
    /// # Errors
    /// As [`Loader::new`](super::Loader::new).
    pub fn new(companions: &[ModelFile<'_>], streams: Vec<WeightsFile>, options: Options) -> Result<Self> {
        let config = companions.iter().find(|file| file.base_name() == "config.json");
        let index = companions.iter().find(|file| file.base_name().ends_with(".safetensors.index.json"));
        for file in config.into_iter().chain(index) {
            foreign::refuse(file.base_name(), file.bytes)?;
        }
        let index = index.map(Index::read).transpose()?;
        if let Some(index) = &index {
            index.check_files(
                streams.iter().filter(|stream| !stream.tokenizer_only).map(|stream| stream.name.as_str()),
            )?;
        }
        Ok(Self {
            options,
            config: config.map(|file| Config::from_json(file.bytes)).transpose()?,
            index,
            names: streams.iter().map(|stream| stream.name.clone()).collect(),
            streams,
            opened: BTreeSet::new(),
            parts: Vec::new(),
            format: None,
            found: BTreeMap::new(),
            tokenizer: None,
            notices: Vec::new(),
            needed: 0,
            left_out: Vec::new(),
        })
    }

    /// The streams that hold weights.
    pub fn weights(&self) -> impl Iterator<Item = &WeightsFile> {
        self.streams.iter().filter(|stream| !stream.tokenizer_only)
    }

    /// As [`Loader::memory_needed`](super::Loader::memory_needed).
    pub fn memory_needed(&self, precision: Option<Precision>) -> Option<u64> {
        let config = self.config.as_ref()?;
        let any = self.found.values().next()?;
        let all = plan::all(&self.found, config).map(|id| {
            let expected = || TensorMeta { shape: id.shape(config), dtype: any.dtype, file: 0 };
            (id, self.found.get(&id).cloned().unwrap_or_else(expected))
        });
        let turns = self.format?.names().inputs_first;
        Some(budget::needed(&all.collect(), Some(config), precision, turns))
    }

    /// Checks the header of stream number `file` against everything known of the model, adds it, and plans how its
    /// tensors are read.
    ///
    /// # Errors
    /// `UnsupportedModel`, `MissingTensor`, `UnexpectedTensor`, `WrongShape`, `DamagedModel`, `BadTokenizer` or
    /// `OutOfMemory`.
    pub fn add_header(&mut self, file: usize, header: Header) -> Result<Plan> {
        let name = &self.names[file];
        let several = self.weights().count();
        if let Some(other) = self.format.replace(header.format)
            && (other != header.format || (header.format == Format::Gguf && header.part.is_none()))
        {
            return Err(Error::new(
                ErrorKind::UnsupportedModel,
                format!(
                    "{name} is one weights file too many; give one GGUF file, or the safetensors files of one model"
                ),
            ));
        }
        if let Some(part) = header.part {
            self.parts.push(part.number);
            if several == self.parts.len() || several as u64 != part.count {
                part.check(name, &self.parts)?;
            }
        }
        if let Some(config) = &header.config {
            self.config = Some(config.clone()?);
        }
        if let Some(index) = &self.index {
            index.check_tensors(name, header.tensors.iter().map(|tensor| tensor.name.as_str()))?;
        }
        // The first part may not know the shape of what is in another.
        let config = self.config.as_ref().filter(|_| header.part.is_none());
        let plan = plan::plan(&header, file, &self.names, config, &mut self.found, &mut self.left_out)?;
        self.opened.insert(file);
        let names = header.format.names();
        if let Some(tokenizer) = header.tokenizer? {
            self.tokenizer = Some(tokenizer);
        }
        if self.opened.len() == several {
            let config = match self.config.take() {
                Some(config) if header.part.is_some() => plan::join(config, &self.found, names)?,
                Some(config) => config,
                None => {
                    let (config, notice) = plan::infer(&self.found, names)?;
                    self.notices.push(notice);
                    config
                }
            };
            plan::check_complete(&self.found, &config, names)?;
            self.config = Some(config);
            gguf::check_vocabulary(self.tokenizer.as_ref(), self.config.as_ref())?;
        }
        let precision = self.options.precision;
        let known = budget::needed(&self.found, None, precision, names.inputs_first);
        let Options { memory_limit, held, .. } = self.options;
        self.needed = self.memory_needed(precision).unwrap_or(known);
        budget::check(self.needed, memory_limit, held)?;
        Ok(plan)
    }
}
