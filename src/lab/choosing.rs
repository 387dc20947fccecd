//! Continuations that are drawn, many of one prompt.

use super::bench::Bench;
use super::distribution;
use crate::error::Result;
use crate::record::StopReason;
use crate::sampler::UniformRng;
use crate::text::{IncrementalDecoder, StopStrings};

/// How a continuation is drawn.
pub struct Choosing {
    /// The most tokens.
    pub n: usize,
    /// 0 takes the most likely token.
    pub temperature: f64,
    /// Where the random numbers begin.
    pub seed: u64,
    /// Strings that end it.
    pub stop: Vec<String>,
}

/// What was drawn.
pub struct Chosen {
    /// The ids, the one that ended the text included.
    pub ids: Vec<u32>,
    /// The mean of the natural logarithms of their probabilities in the model's own distribution.
    pub mean_logprob: f64,
    /// Why it ended.
    pub reason: StopReason,
    /// Its text; one with a stop string ends before it.
    pub text: String,
}

impl Bench<'_> {
    /// Continues the prompt that the model has processed: `logits` are those after it, and `held` is its length.
    pub async fn choose(&mut self, held: usize, logits: &[f32], choosing: &Choosing) -> Result<Chosen> {
        self.model.truncate(held);
        let mut random = UniformRng::new(choosing.seed);
        let (mut decoder, mut stops) = (IncrementalDecoder::default(), StopStrings::new(choosing.stop.clone()));
        let (mut ids, mut sum, mut text) = (Vec::new(), 0.0, String::new());
        let mut logits = logits.to_vec();
        let reason = loop {
            let id = match choosing.temperature {
                0.0 => distribution::best(&logits).0,
                temperature => distribution::draw(&distribution::softmax(&logits, temperature), random.next_f64()),
            };
            sum += distribution::logprob(&logits, id);
            ids.push(id);
            if self.tokenizer.ends(id) {
                break StopReason::Eos;
            }
            let mut decoded = String::new();
            decoder.push(self.tokenizer.bytes(id).unwrap_or_default(), &mut decoded);
            if stops.push(&decoded, &mut text).is_some() {
                break StopReason::StopString;
            }
            if ids.len() == choosing.n {
                break StopReason::MaxTokens;
            }
            if self.model.len() == self.model.context_length() {
                break StopReason::ContextFull;
            }
            logits = self.step(id).await?.0;
        };
        let mut tail = String::new();
        decoder.finish(&mut tail);
        let stopped = reason == StopReason::StopString || stops.push(&tail, &mut text).is_some();
        let reason = if stopped || stops.finish(&mut text).is_some() { StopReason::StopString } else { reason };
        Ok(Chosen { mean_logprob: sum / ids.len() as f64, ids, reason, text })
    }
}
