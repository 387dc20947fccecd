//! One generation in the worker.

use super::call::Call;
use super::protocol::Event;
use super::state::Worker;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::generate::{Generation, Progress};
use crate::model::LanguageModel;
use crate::options::RawOptions;
use crate::record::Stop;
use crate::settings::Settings;

/// For so long a run may go on without a turn of the message queue, in milliseconds; a step that takes longer has one
/// before and after it.
const TURN_MS: f64 = 8.0;

impl Worker {
    /// Continues `prompt` with the model there is.
    pub(super) async fn generate(&self, call: &Call, prompt: &str, options: &RawOptions) -> Result<Event> {
        // A seed of at most ten digits: random enough to differ, short enough to be read out.
        let settings = Settings::from_raw(options, (js_sys::Math::random() * 2f64.powi(32)) as u64)?;
        let Some(mut engine) = self.engine.take() else {
            return Err(Error::new(ErrorKind::NotLoaded, "there is no model yet; load one first"));
        };
        let result = self.continue_prompt(call, prompt, settings, &mut engine).await;
        self.engine.replace(Some(engine));
        result
    }

    async fn continue_prompt(
        &self,
        call: &Call,
        prompt: &str,
        settings: Settings,
        engine: &mut Engine,
    ) -> Result<Event> {
        let id = call.id;
        let Engine { model, tokenizer, identity, .. } = engine;
        let clock = || self.clock.now();
        let mut generation = Generation::new(model, tokenizer, prompt, settings, &clock, call.cancel.clone())?;
        self.send(Event::Start {
            id,
            settings: generation.settings().clone(),
            prompt_ids: generation.prompt_ids().to_vec(),
        });
        match self.drive(id, &mut generation).await {
            Ok(stop) => Ok(Event::Done { id, stop, record: Box::new(generation.into_record(identity.clone())) }),
            Err(error) => {
                let text = generation.fail();
                self.delta(id, &text);
                Ok(Event::failed(id, error, generation.into_record(identity.clone())))
            }
        }
    }

    /// Takes a generation to its end, and posts what happens.
    async fn drive<M: LanguageModel>(&self, id: u32, generation: &mut Generation<'_, M>) -> Result<Stop> {
        let mut turn = f64::NEG_INFINITY;
        loop {
            // The steps of a small model are shorter than a turn is worth.
            if self.clock.now() - turn >= TURN_MS {
                self.queue.run().await?;
                turn = self.clock.now();
            }
            match generation.advance()? {
                Some(Progress::Prefill { done, total, chunk_ms }) => {
                    self.send(Event::Prefill { id, done: done as u32, total: total as u32, chunk_ms });
                }
                Some(Progress::Step(record)) => {
                    let before = self.clock.now();
                    let first = record.step == 0;
                    self.delta(id, &record.text);
                    self.send_later(Event::Step { id, record });
                    // The first token is waited for.
                    if first {
                        self.flush()
                    } else {
                        self.flush_if_due()
                    }
                    generation.note_delivery_ms(self.clock.now() - before);
                }
                Some(Progress::End { text, stop }) => {
                    self.delta(id, &text);
                    return Ok(stop);
                }
                None => return Err(Error::new(ErrorKind::Engine, "the run ended without saying why")),
            }
        }
    }

    /// Text to show, before the event that it is posted with.
    fn delta(&self, id: u32, text: &str) {
        if !text.is_empty() {
            self.send_later(Event::Delta { id, text: text.to_owned(), posted_at: self.clock.since_epoch() });
        }
    }
}
