//! One load in the worker: what the page handed over, read piece by piece, becomes the model.

use std::rc::Rc;

use super::background_hash::BackgroundHash;
use super::call::Call;
use super::event_loop::now;
use super::protocol::{Event, ModelFile, ModelInfo, Stage};
use super::source::Source;
use super::state::Worker;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::checkpoint::{
    self, Classified, FilePrefix, Flow, HeaderReader, Loaded, Loader, Options, SNIFF_BYTES, WeightsFile, gguf,
};
use crate::gpt2::{Config, Precision, TRIAL_BYTES, warm_up};
use crate::lab::EXPERIMENTS;
use crate::model::LanguageModel;
use crate::settings::OPTIONS;

/// Tokens of GPT-2's tokenizer. A model with fewer ids has another one.
const GPT2_TOKENS: usize = 50257;

/// What a load asks of its model.
pub(super) struct LoadSpec {
    pub name: String,
    pub precision: Option<String>,
    pub sha256: Option<String>,
}

/// The files of a load, by their places in its list. Those of no more use are gone, and what was read of them with them.
struct Sources(Vec<Option<Source>>);

impl Sources {
    fn at(&mut self, place: usize) -> Result<&mut Source> {
        let source = self.0.get_mut(place).and_then(Option::as_mut);
        source.ok_or_else(|| Error::new(ErrorKind::Engine, format!("file {place} of the load was given away")))
    }
}

impl Worker {
    /// Loads a model while its files are read. What was there before stays until the new one is complete.
    pub(super) async fn load(&self, call: &Call, files: Vec<Source>, spec: LoadSpec) -> Result<Event> {
        let started = self.clock.now();
        let precision = spec.precision.as_deref().map(str::parse::<Precision>).transpose()?;
        let mut sources = Sources(files.into_iter().map(Some).collect());
        let classified = self.sort(call, &mut sources).await?;
        let mut companions = Vec::with_capacity(classified.companions.len());
        for (place, name) in &classified.companions {
            let bytes = call.unless_cancelled(sources.at(*place)?.read_all()).await??;
            companions.push((name.clone(), bytes));
            sources.0[*place] = None;
        }
        let companions: Vec<_> = companions.iter().map(|(name, bytes)| checkpoint::ModelFile { name, bytes }).collect();
        // Whoever names the SHA-256 wants no other file to be used.
        let again = match spec.sha256 {
            Some(_) => None,
            None => weights_again(&classified.weights, &sources),
        };
        let streams = classified.weights.iter().map(|(_, stream)| stream.clone()).collect();
        let held = self.held.get();
        let options = Options {
            precision,
            fingerprint: again.is_none(),
            memory_limit: self.memory_limit.saturating_sub(held),
            held,
        };
        let mut loader = Loader::new(&companions, streams, options)?;
        loader.note(&classified.notices);
        let lent = match classified.brings_tokenizer() {
            true => None,
            false => Some(self.borrow_tokenizer(call, vocab_size(&companions), &classified).await?),
        };
        let mut loaded = self.read_weights(call, loader, &classified.weights, &mut sources, precision).await?;
        let sha256 = loaded.sha256.clone();
        if let (Some(is), Some(should)) = (&sha256, &spec.sha256)
            && !is.eq_ignore_ascii_case(should)
        {
            let name = &spec.name;
            let sentence = format!("{name} is not the file it should be: its SHA-256 is {is} and not {should}");
            return Err(Error::new(ErrorKind::DamagedModel, sentence));
        }
        let vocab_size = loaded.model.vocab_size();
        let lent = match lent {
            // A GGUF file may have been written without one.
            None if loaded.tokenizer.is_none() && !classified.has_tokenizer_files() => {
                Some(self.borrow_tokenizer(call, vocab_size, &classified).await?)
            }
            lent => lent,
        };
        if let Some(tokenizer) = lent {
            // Without a config.json this is the first that is known of the vocabulary.
            if tokenizer.tokens.len() > vocab_size {
                return Err(no_tokenizer(vocab_size, &classified));
            }
            loaded.tokenizer = Some(tokenizer);
            loaded.notices.push("the files have no tokenizer: GPT-2's is used".to_owned());
        }
        // The tokenizer of a large vocabulary takes a while.
        self.queue.run().await?;
        call.unless_cancelled(async {}).await?;
        let (held, precision) = (loaded.memory_bytes, loaded.precision);
        let mut engine = Engine::new(&spec.name, loaded, &companions)?;
        engine.choose_readers(precision, now);
        engine.model.set_clock(now);
        let model = info(&spec.name, sha256, &engine);
        let notices = engine.notices.clone();
        self.engine.replace(Some(engine));
        self.lab.take();
        self.held.set(held);
        self.background_hash.replace(again.map(|files| Rc::new(BackgroundHash::new(call.id, files))));
        let load_ms = self.clock.now() - started;
        let memory_bytes = core::arch::wasm32::memory_size::<0>() as f64 * 65536.0;
        let (options, experiments) = (OPTIONS.to_vec(), EXPERIMENTS.to_vec());
        Ok(Event::Ready { id: call.id, model, options, experiments, notices, load_ms, memory_bytes })
    }

    /// Finds out what is what, and lets go of what is not needed.
    async fn sort(&self, call: &Call, sources: &mut Sources) -> Result<Classified> {
        let mut beginnings = Vec::with_capacity(sources.0.len());
        for source in sources.0.iter_mut().flatten() {
            let bytes = call.unless_cancelled(source.peek(SNIFF_BYTES)).await??;
            beginnings.push((source.name().to_owned(), source.size(), bytes));
        }
        let prefixes: Vec<_> =
            beginnings.iter().map(|(name, size, bytes)| FilePrefix { name, size: *size, bytes }).collect();
        let classified = checkpoint::classify(&prefixes)?;
        for &place in &classified.ignored {
            sources.0[place] = None;
        }
        Ok(classified)
    }

    /// Takes the weights in.
    async fn read_weights(
        &self,
        call: &Call,
        mut loader: Loader,
        streams: &[(usize, WeightsFile)],
        sources: &mut Sources,
        precision: Option<Precision>,
    ) -> Result<Loaded> {
        let sizes = streams.iter().map(|(place, _)| Ok(sources.at(*place)?.size().unwrap_or(TRIAL_BYTES)));
        if sizes.sum::<Result<u64>>()? >= TRIAL_BYTES {
            warm_up(now);
        }
        let rounds = precision.is_some_and(|precision| precision != Precision::F32);
        let stage = if rounds { Stage::Quantise } else { Stage::Read };
        for (place, stream) in streams {
            loader.begin_file(&stream.name)?;
            while let Some(piece) = call.unless_cancelled(sources.at(*place)?.next()).await?? {
                self.queue.run().await?;
                call.unless_cancelled(async {}).await?;
                if loader.push(&piece)? == Flow::Enough {
                    break;
                }
                let (done, total) = loader.progress();
                let (done, total) = (done as f64, total.map(|total| total as f64));
                self.send(Event::Progress { id: call.id, stage, done, total });
            }
            loader.end_file()?;
            sources.0[*place] = None;
        }
        loader.finish()
    }

    /// The tokenizer of a file that the page lends for it.
    async fn borrow_tokenizer(
        &self,
        call: &Call,
        vocab_size: usize,
        classified: &Classified,
    ) -> Result<gguf::Tokenizer> {
        if vocab_size < GPT2_TOKENS {
            return Err(no_tokenizer(vocab_size, classified));
        }
        let file: ModelFile = call.requested_tokenizer(|| self.send(Event::NeedsTokenizer { id: call.id })).await?;
        let mut source = Source::new(file)?;
        let mut reader = HeaderReader::new(source.name(), source.size());
        let header = loop {
            let Some(piece) = call.unless_cancelled(source.next()).await?? else { break reader.end()? };
            if let Some(header) = reader.push(&mut &*piece)? {
                break header;
            }
            self.queue.run().await?;
        };
        header.tokenizer?.ok_or_else(|| gguf::no_tokenizer(source.name()))
    }
}

/// The refusal of a model that GPT-2's tokenizer has too many tokens for.
fn no_tokenizer(vocab_size: usize, classified: &Classified) -> Error {
    let found = match classified.foreign_tokenizer() {
        Some((name, what)) => format!("{name} is {what}, which GPT-2 does not have"),
        None => "there is no tokenizer".to_owned(),
    };
    Error::new(
        ErrorKind::BadTokenizer,
        format!(
            "{found}, and GPT-2's own has {GPT2_TOKENS} tokens where this model has {vocab_size}; give the model's \
             tokenizer.json, or its vocab.json and merges.txt"
        ),
    )
}

/// What config.json says of the vocabulary; one that cannot be read is refused by the loader.
fn vocab_size(companions: &[checkpoint::ModelFile<'_>]) -> usize {
    let config = companions.iter().find(|file| file.base_name() == "config.json");
    config.and_then(|file| Config::from_json(file.bytes).ok()).map_or(GPT2_TOKENS, |config| config.vocab_size)
}

/// The files of the weights, with their names, for a second reading, if all of them can be read again.
fn weights_again(streams: &[(usize, WeightsFile)], sources: &Sources) -> Option<Vec<(String, Source)>> {
    let weights = streams.iter().filter(|(_, stream)| !stream.tokenizer_only);
    weights.map(|(place, stream)| Some((stream.name.clone(), sources.0[*place].as_ref()?.again()?))).collect()
}

fn info(name: &str, sha256: Option<String>, engine: &Engine) -> ModelInfo {
    let config = engine.model.config();
    ModelInfo {
        name: name.to_owned(),
        sha256,
        precision: engine.identity.precision.clone(),
        parameters: engine.parameters as u64,
        n_layer: config.n_layer as u32,
        n_head: config.n_head as u32,
        n_embd: config.n_embd as u32,
        context_length: engine.model.context_length() as u32,
        vocab_size: engine.model.vocab_size() as u32,
    }
}
