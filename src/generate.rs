//! The generation loop: prefill in chunks, then one token a step, until there is a reason to stop.
//!
//! [`Generation`] does one bounded piece of work per call, so that its caller can look after other things in between:
//! a worker reads its messages there. It knows no engine, no browser and no GPT-2, only the seam
//! [`LanguageModel`], a tokenizer and a clock.
//!
//! The order inside a step is part of the contract: sample, append the id, is it an end-of-text token? (which is
//! never decoded), bytes to the incremental decoder, text to the stop strings, emit what is safe, stop string?
//! `max_tokens`? context full? cancelled? past the deadline?

pub(crate) mod chunks;
mod profiler;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, ErrorKind, Result};
use crate::model::LanguageModel;
use crate::record::{Alternative, Identity, Record, StepRecord, Stop, StopReason};
use crate::sampler::{Candidate, Sampler, UniformRng};
use crate::settings::Settings;
use crate::text::{IncrementalDecoder, StopStrings, Tokenizer};
use chunks::ChunkSize;
use profiler::Profiler;

/// A flag that ends a run from outside. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Cancels the run. Cancelling again has no effect.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the run was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one call of [`Generation::advance`] did.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// A chunk of the prompt was processed.
    Prefill {
        /// Positions of the prompt processed so far.
        done: usize,
        /// Positions of the prompt.
        total: usize,
        /// Milliseconds of the chunk's pass.
        chunk_ms: f64,
    },
    /// A token was chosen; its `text` is the delta to show.
    Step(StepRecord),
    /// The run is over. Nothing follows.
    End {
        /// Text that was held back; empty if the last step has flushed it.
        text: String,
        /// The stop reason.
        stop: Stop,
    },
}

/// One run: a prompt being continued.
pub struct Generation<'a, M: LanguageModel + ?Sized> {
    model: &'a mut M,
    tokenizer: &'a Tokenizer,
    clock: &'a dyn Fn() -> f64,
    cancel: CancelToken,
    settings: Settings,
    sampler: Sampler,
    rng: UniformRng,
    decoder: IncrementalDecoder,
    stops: StopStrings,
    chunks: ChunkSize,
    prompt: String,
    prompt_ids: Vec<u32>,
    started_from_eos: bool,
    token_ids: Vec<u32>,
    text: String,
    steps: Vec<StepRecord>,
    stop: Option<Stop>,
    ended: bool,
    failed: bool,
    /// Logits of the last position of the prompt, until the first step has used them.
    prefilled: Option<Vec<f32>>,
    /// A step's logits without those of ids that are no tokens.
    masked: Vec<f32>,
    started_at: f64,
    prefill_ms: f64,
    prefill_ended_at: Option<f64>,
    first_token_at: Option<f64>,
    last_token_at: f64,
    profiler: Profiler,
}

impl<'a, M: LanguageModel + ?Sized> Generation<'a, M> {
    /// Prepares a run that continues `prompt`; an empty prompt starts from the end-of-text token. Whatever the model
    /// held before is forgotten. `clock` returns milliseconds from any fixed moment and never runs backwards.
    ///
    /// # Errors
    /// [`ErrorKind::PromptTooLong`] if the prompt has more tokens than the context has positions,
    /// [`ErrorKind::BadTokenizer`] if the prompt is empty and there is no end-of-text token, or as
    /// [`Tokenizer::prompt`].
    pub fn new(
        model: &'a mut M,
        tokenizer: &'a Tokenizer,
        prompt: &str,
        settings: Settings,
        clock: &'a dyn Fn() -> f64,
        cancel: CancelToken,
    ) -> Result<Self> {
        let started_at = clock();
        let context = model.context_length();
        // A prompt of megabytes is refused before it is encoded: that would take seconds, without a chance to cancel.
        let at_least = tokenizer.at_least(prompt);
        if at_least > context {
            return Err(too_long(&format!("at least {at_least}"), context, at_least - context));
        }
        let mut prompt_ids = tokenizer.prompt(prompt, settings.parse_special)?;
        if prompt_ids.is_empty() {
            prompt_ids.push(tokenizer.eos().ok_or_else(|| {
                Error::new(
                    ErrorKind::BadTokenizer,
                    "an empty prompt starts from the end-of-text token, and this tokenizer has none; give a prompt",
                )
            })?);
        }
        // Some tokenizers put that token there themselves.
        let started_from_eos = prompt.is_empty() && prompt_ids.len() == 1 && tokenizer.eos() == Some(prompt_ids[0]);
        if prompt_ids.len() > context {
            return Err(too_long(&prompt_ids.len().to_string(), context, prompt_ids.len() - context));
        }
        let mut sampler = Sampler::new(&settings);
        for &id in &prompt_ids {
            sampler.observe(id);
        }
        model.truncate(0);
        Ok(Self {
            model,
            tokenizer,
            clock,
            cancel,
            sampler,
            rng: UniformRng::new(settings.seed),
            decoder: IncrementalDecoder::default(),
            stops: StopStrings::new(settings.stop.clone()),
            chunks: ChunkSize::default(),
            settings,
            prompt: prompt.to_owned(),
            prompt_ids,
            started_from_eos,
            token_ids: Vec::new(),
            text: String::new(),
            steps: Vec::new(),
            stop: None,
            ended: false,
            failed: false,
            prefilled: None,
            masked: Vec::new(),
            started_at,
            prefill_ms: 0.0,
            prefill_ended_at: None,
            first_token_at: None,
            last_token_at: started_at,
            profiler: Profiler::default(),
        })
    }

    /// The settings in effect.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The prompt as the model sees it.
    pub fn prompt_ids(&self) -> &[u32] {
        &self.prompt_ids
    }

    /// Does the next piece of work: a chunk of the prompt, or one token, or the end. `None` once the run is over.
    ///
    /// # Errors
    /// Whatever the model or the sampler reports; the run is then over.
    pub fn advance(&mut self) -> Result<Option<Progress>> {
        if self.ended {
            return Ok(None);
        }
        let progress = self.next();
        if progress.is_err() {
            (self.ended, self.failed) = (true, true);
        }
        progress.map(Some)
    }

    /// Ends the run after a failure in [`advance`](Self::advance) or in the caller. Returns the text that was held back.
    pub fn fail(&mut self) -> String {
        (self.ended, self.failed) = (true, true);
        let mut text = String::new();
        if self.stop.is_none() {
            self.finish_text(StopReason::Cancelled, &mut text);
            self.text.push_str(&text);
        }
        text
    }

    /// Records how long the caller took to deliver the last step, for the profile.
    pub fn note_delivery_ms(&mut self, ms: f64) {
        self.profiler.note_delivery_ms(ms);
    }

    /// The record of the run. A run that did not end counts as cancelled; one that failed has no stop reason.
    pub fn into_record(mut self, identity: Identity) -> Record {
        let mut unseen = String::new();
        let stop = self.stop.take().unwrap_or_else(|| self.finish_text(StopReason::Cancelled, &mut unseen));
        self.text.push_str(&unseen);
        let after_first = self.token_ids.len().saturating_sub(1) as f64;
        let streaming_ms = self.first_token_at.map_or(0.0, |first| self.last_token_at - first);
        Record {
            gpt2_web: env!("CARGO_PKG_VERSION").to_owned(),
            identity,
            settings: self.settings,
            prompt: self.prompt,
            prompt_ids: self.prompt_ids,
            started_from_eos: self.started_from_eos,
            text: self.text,
            token_ids: self.token_ids,
            steps: self.steps,
            positions_processed: self.model.len() as u32,
            prefill_ms: self.prefill_ms,
            decode_ms: self.prefill_ended_at.map_or(0.0, |end| (self.last_token_at - end).max(0.0)),
            time_to_first_token_ms: self.first_token_at.map(|at| at - self.started_at),
            tokens_per_second: (streaming_ms > 0.0).then(|| after_first * 1000.0 / streaming_ms),
            profile: self.profiler.profile(streaming_ms),
            stop: (!self.failed).then_some(stop),
        }
    }

    fn next(&mut self) -> Result<Progress> {
        if let Some(stop) = self.stop.clone() {
            self.ended = true;
            return Ok(Progress::End { text: String::new(), stop });
        }
        if let Some(reason) = self.abort_reason() {
            let mut text = String::new();
            let stop = self.finish_text(reason, &mut text);
            self.text.push_str(&text);
            self.stop = Some(stop.clone());
            self.ended = true;
            return Ok(Progress::End { text, stop });
        }
        if self.model.len() < self.prompt_ids.len() { self.prefill() } else { self.step().map(Progress::Step) }
    }

    /// Processes the next chunk of the prompt, as many positions as [`ChunkSize`] says.
    fn prefill(&mut self) -> Result<Progress> {
        let (from, total) = (self.model.len(), self.prompt_ids.len());
        let to = total.min(from + self.chunks.next());
        let before = (self.clock)();
        let ids = &self.prompt_ids[from..to];
        if to == total {
            self.prefilled = Some(self.model.feed(ids)?.to_vec());
        } else {
            self.model.extend(ids)?;
        }
        let after = (self.clock)();
        self.chunks.measured(to - from, after - before);
        self.prefill_ms += after - before;
        self.prefill_ended_at = Some(after);
        Ok(Progress::Prefill { done: to, total, chunk_ms: after - before })
    }

    /// Chooses one token and says what follows from it.
    fn step(&mut self) -> Result<StepRecord> {
        let before = (self.clock)();
        let prefilled = self.prefilled.take();
        let logits = match (&prefilled, self.token_ids.last()) {
            (Some(logits), _) => logits.as_slice(),
            (None, Some(&last)) => self.model.feed(&[last])?,
            (None, None) => {
                return Err(Error::new(ErrorKind::Engine, "decoding began before the prompt was processed"));
            }
        };
        let forwarded = (self.clock)();
        // A model may have more ids than its tokenizer, to round its vocabulary up: those are never chosen.
        let known = logits.len().min(self.tokenizer.len());
        let choice = match self.tokenizer.holes() {
            [] => self.sampler.sample(&logits[..known], self.rng.next_f64())?,
            // Nor are those to which it gave no token.
            holes => {
                self.masked.clear();
                self.masked.extend_from_slice(&logits[..known]);
                for &hole in holes.iter().take_while(|&&hole| (hole as usize) < known) {
                    self.masked[hole as usize] = f32::NEG_INFINITY;
                }
                self.sampler.sample(&self.masked, self.rng.next_f64())?
            }
        };
        let sampled = (self.clock)();

        self.sampler.observe(choice.id);
        self.token_ids.push(choice.id);
        if self.first_token_at.is_none() {
            self.first_token_at = Some(sampled);
            self.profiler.begin(self.model.part_times());
        } else {
            self.profiler.step(self.model.part_times(), sampled - forwarded);
        }
        self.last_token_at = sampled;
        let mut record = StepRecord {
            step: self.steps.len() as u32,
            token_id: choice.id,
            bytes: Vec::new(),
            text: String::new(),
            logprob: choice.logprob,
            filtered_logprob: choice.filtered_logprob,
            alternatives: self.alternatives(),
            positions_processed: self.model.len() as u32,
            position: self.model.len() as u32,
            forward_ms: if prefilled.is_some() { 0.0 } else { forwarded - before },
            sample_ms: sampled - forwarded,
        };
        self.emit(&mut record);
        self.text.push_str(&record.text);
        self.steps.push(record.clone());
        Ok(record)
    }

    /// The most likely tokens of the step just sampled.
    fn alternatives(&self) -> Vec<Alternative> {
        let alternative = |candidate: Candidate| Alternative {
            id: candidate.id,
            text: self.tokenizer.decode(&[candidate.id]),
            logprob: candidate.logprob,
            filtered_logprob: candidate.filtered_logprob,
        };
        self.sampler.candidates().map(alternative).collect()
    }

    /// Emits the chosen token's text and decides whether the run continues.
    fn emit(&mut self, record: &mut StepRecord) {
        if self.tokenizer.ends(record.token_id) {
            let stop = self.finish_text(StopReason::Eos, &mut record.text);
            let eos_token_id = (stop.reason == StopReason::Eos).then_some(record.token_id);
            self.stop = Some(Stop { eos_token_id, ..stop });
            return;
        }
        let bytes = self.tokenizer.bytes(record.token_id).unwrap_or_default();
        record.bytes.extend_from_slice(bytes);
        let mut decoded = String::new();
        self.decoder.push(bytes, &mut decoded);
        if let Some(index) = self.stops.push(&decoded, &mut record.text) {
            self.stop = Some(Stop::at(&self.settings.stop[index]));
            return;
        }
        let reason = if self.token_ids.len() >= self.settings.max_tokens as usize {
            Some(StopReason::MaxTokens)
        } else if self.model.len() >= self.model.context_length() {
            Some(StopReason::ContextFull)
        } else {
            self.abort_reason()
        };
        if let Some(reason) = reason {
            self.stop = Some(self.finish_text(reason, &mut record.text));
        }
    }

    /// Ends the text: an incomplete character becomes one U+FFFD, and what was held back comes out. A stop string that
    /// was complete, and only held to see whether a longer one would follow, was reached before `reason` and wins.
    fn finish_text(&mut self, reason: StopReason, out: &mut String) -> Stop {
        let mut tail = String::new();
        self.decoder.finish(&mut tail);
        match self.stops.push(&tail, out).or_else(|| self.stops.finish(out)) {
            Some(index) => Stop::at(&self.settings.stop[index]),
            None => Stop::because(reason),
        }
    }

    /// Whether the run was cancelled or is past its deadline.
    fn abort_reason(&self) -> Option<StopReason> {
        let late = |limit| (self.clock)() - self.started_at >= limit;
        if self.cancel.is_cancelled() {
            Some(StopReason::Cancelled)
        } else if self.settings.timeout_ms.is_some_and(late) {
            Some(StopReason::Timeout)
        } else {
            None
        }
    }
}

fn too_long(tokens: &str, context: usize, surplus: usize) -> Error {
    Error::new(
        ErrorKind::PromptTooLong,
        format!(
            "the prompt has {tokens} tokens and the context holds {context}; shorten the prompt by at least {surplus}"
        ),
    )
}
