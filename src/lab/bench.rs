//! What every experiment works with: a model, a tokenizer, options, and a desk to time things on.

use std::cell::{Cell, RefCell};

use serde::Serialize;

use super::distribution::{self, Piece};
use super::host::{Host, Memory, Subject};
use super::spec::Options;
use super::stats::{Spread, quantile};
use crate::error::{Error, ErrorKind, Result};
use crate::generate::chunks::ChunkSize;
use crate::text::Tokenizer;

/// For so long an experiment may go on without a turn, in milliseconds.
const TURN_MS: f64 = 8.0;

/// The most positions of a pass.
const MOST_AT_ONCE: usize = 256;

/// So long a pass may take, in milliseconds, where one position takes less.
const PASS_MS: f64 = 1000.0;

/// Spread of the fixed computation, as a share of its median, from which a machine counts as busy.
const BUSY: f64 = 0.25;

/// Of fewer probes nothing is concluded.
const FEWEST_PROBES: usize = 4;

/// What was noticed of clock and machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Machine {
    /// The least step of the clock, in milliseconds.
    pub timer_resolution_ms: f64,
    /// Times of one fixed computation, done between the measurements; null if nothing was timed.
    pub probe_ms: Option<Spread>,
    /// Whether these times differ so much that other work disturbed the measurements.
    pub busy: bool,
}

/// The place of an experiment.
pub struct Bench<'a> {
    pub model: &'a mut dyn Subject,
    pub tokenizer: &'a Tokenizer,
    pub options: Options,
    pub desk: &'a Desk<'a>,
    pub memory: &'a RefCell<Memory>,
}

/// Time and progress.
pub struct Desk<'a> {
    host: &'a dyn Host,
    turned: Cell<f64>,
    done: Cell<usize>,
    total: Cell<usize>,
    resolution_ms: f64,
    probes: RefCell<Vec<f64>>,
}

/// Tokens that were chosen greedily, and what that took.
pub struct Produced {
    /// The ids.
    pub ids: Vec<u32>,
    /// Milliseconds until each was chosen, the choice included; for the first that is the prefill.
    pub step_ms: Vec<f64>,
}

impl Produced {
    /// Milliseconds in all.
    pub fn ms(&self) -> f64 {
        self.step_ms.iter().sum()
    }

    /// Milliseconds of the last step.
    pub fn last_ms(&self) -> f64 {
        self.step_ms.last().copied().unwrap_or_default()
    }
}

impl Bench<'_> {
    /// The ids of the text `text`, as a prompt.
    ///
    /// # Errors
    /// As [`Tokenizer::prompt`]; `InvalidOption` if there are none, or if they leave no room for `n` more tokens.
    pub fn encode(&self, text: &str, n: usize) -> Result<Vec<u32>> {
        let context = self.model.context_length();
        // A text of megabytes is refused before it is encoded.
        let ids = match self.tokenizer.at_least(text) {
            at_least if at_least > context => return Err(too_long(&format!("at least {at_least}"), n, context)),
            _ => self.tokenizer.prompt(text, false)?,
        };
        let ids = match self.tokenizer.eos() {
            Some(eos) if ids.is_empty() => vec![eos],
            _ => ids,
        };
        self.fits(&ids, n)?;
        Ok(ids)
    }

    /// The ids of the option `ids`, or of the text of `prompt` if there are none.
    ///
    /// # Errors
    /// As [`encode`](Self::encode); `InvalidOption` for an id that is not in the vocabulary.
    pub fn prompt(&self, n: usize) -> Result<Vec<u32>> {
        let ids: Vec<u32> = self.options.counts("ids").into_iter().map(|id| id as u32).collect();
        if ids.is_empty() {
            return self.encode(self.options.text("prompt"), n);
        }
        let known = self.model.vocab_size();
        if let Some(id) = ids.iter().find(|&&id| id as usize >= known) {
            let sentence = format!("`ids` must be below {known}, the model's vocabulary; got {id}");
            return Err(Error::new(ErrorKind::InvalidOption, sentence));
        }
        self.fits(&ids, n)?;
        Ok(ids)
    }

    /// Whether `n` tokens fit after these ids. The last of them needs no position.
    fn fits(&self, ids: &[u32], n: usize) -> Result<()> {
        if ids.is_empty() {
            return Err(Error::new(ErrorKind::InvalidOption, "the prompt has no tokens; write something"));
        }
        let context = self.model.context_length();
        if ids.len() + n > context + 1 { Err(too_long(&ids.len().to_string(), n, context)) } else { Ok(()) }
    }

    /// The text of a token.
    pub fn piece(&self, id: u32) -> Piece {
        Piece { token_id: id, text: self.tokenizer.decode(&[id]) }
    }

    /// Forgets everything, processes `ids` and returns the logits after the last, without those of ids that are no tokens,
    /// and the milliseconds it took. The chunks are those of a generation: the first is one position.
    pub async fn prefill(&mut self, ids: &[u32]) -> Result<(Vec<f32>, f64)> {
        let mut chunks = ChunkSize::default();
        self.process(ids, |last| {
            if let Some((positions, ms)) = last {
                chunks.measured(positions, ms);
            }
            chunks.next()
        })
        .await
    }

    /// The same in one pass, or in several where one would take long: how long a step takes is `step_ms`.
    pub async fn whole_pass(&mut self, ids: &[u32], step_ms: f64) -> Result<(Vec<f32>, f64)> {
        self.process(ids, |_| positions_at_once(step_ms)).await
    }

    /// Forgets everything and processes `ids` in chunks. `size` is told of the last chunk, its positions and milliseconds,
    /// and says how many positions the next has.
    async fn process(
        &mut self,
        ids: &[u32],
        mut size: impl FnMut(Option<(usize, f64)>) -> usize,
    ) -> Result<(Vec<f32>, f64)> {
        self.model.truncate(0);
        let (mut from, mut total, mut last) = (0, 0.0, None);
        loop {
            let to = ids.len().min(from + size(last));
            let before = self.desk.now();
            let logits = if to == ids.len() { Some(self.model.feed(&ids[from..to])?.to_vec()) } else { None };
            if logits.is_none() {
                self.model.extend(&ids[from..to])?;
            }
            let ms = self.desk.now() - before;
            last = Some((to - from, ms));
            total += ms;
            from = to;
            self.desk.turn().await?;
            if let Some(mut logits) = logits {
                distribution::mask(&mut logits, self.tokenizer);
                return Ok((logits, total));
            }
        }
    }

    /// Processes one more token and returns the logits after it, and the milliseconds it took.
    pub async fn step(&mut self, id: u32) -> Result<(Vec<f32>, f64)> {
        let before = self.desk.now();
        let mut logits = self.model.feed(&[id])?.to_vec();
        let ms = self.desk.now() - before;
        distribution::mask(&mut logits, self.tokenizer);
        self.desk.turn().await?;
        Ok((logits, ms))
    }

    /// Some steps for nothing, before anything is timed: memory that is not there yet, code that is not compiled yet.
    pub async fn warm_up(&mut self, prompt: &[u32]) -> Result<()> {
        let room = self.model.context_length() + 1 - prompt.len();
        self.produce(prompt, room.clamp(1, 16)).await?;
        self.desk.fixed_computation();
        Ok(())
    }

    /// Continues `prompt` with the `n` most likely tokens, past an end of text too.
    pub async fn produce(&mut self, prompt: &[u32], n: usize) -> Result<Produced> {
        let (mut logits, mut ms) = self.prefill(prompt).await?;
        let mut produced = Produced { ids: Vec::with_capacity(n), step_ms: Vec::with_capacity(n) };
        loop {
            let before = self.desk.now();
            let (id, _) = distribution::best(&logits);
            ms += self.desk.now() - before;
            produced.ids.push(id);
            produced.step_ms.push(ms);
            if produced.ids.len() == n {
                return Ok(produced);
            }
            (logits, ms) = self.step(id).await?;
        }
    }

    /// Forgets everything, processes `ids` and hands the logits after each to `each`, with its place. That is one pass, or
    /// several where one would take long: how long a step takes is `step_ms`. Returns the milliseconds, `each` included, and
    /// the number of passes.
    pub async fn score(
        &mut self,
        ids: &[u32],
        step_ms: f64,
        mut each: impl FnMut(usize, &[f32]),
    ) -> Result<(f64, u32)> {
        self.model.truncate(0);
        let (mut ms, mut passes, mut first) = (0.0, 0, 0);
        let (tokenizer, mut masked) = (self.tokenizer, Vec::new());
        for chunk in ids.chunks(positions_at_once(step_ms)) {
            let before = self.desk.now();
            self.model.score_each(chunk, &mut |place, logits| {
                each(first + place, distribution::only_tokens(logits, tokenizer, &mut masked));
            })?;
            ms += self.desk.now() - before;
            passes += 1;
            first += chunk.len();
            self.desk.turn().await?;
        }
        Ok((ms, passes))
    }
}

/// How many positions a pass has at most where a step takes `step_ms`. One of many takes no longer than a step.
fn positions_at_once(step_ms: f64) -> usize {
    ((PASS_MS / step_ms.max(1e-3)) as usize).clamp(MOST_AT_ONCE / 16, MOST_AT_ONCE)
}

impl<'a> Desk<'a> {
    /// A desk whose clock was measured.
    pub fn new(host: &'a dyn Host) -> Self {
        Self {
            host,
            turned: Cell::new(f64::NEG_INFINITY),
            done: Cell::new(0),
            total: Cell::new(0),
            resolution_ms: resolution_ms(host),
            probes: RefCell::default(),
        }
    }

    /// Milliseconds by the clock.
    pub fn now(&self) -> f64 {
        self.host.now()
    }

    /// Lets waiting messages be handled, if they have waited for some milliseconds.
    ///
    /// # Errors
    /// `Cancelled` once the experiment was cancelled.
    pub async fn turn(&self) -> Result<()> {
        if self.now() - self.turned.get() >= TURN_MS {
            self.host.turn().await?;
            self.turned.set(self.now());
        }
        Ok(())
    }

    /// Says how much there will be to do, in units that [`advance`](Self::advance) counts.
    pub fn expect(&self, total: usize) {
        self.total.set(total);
        self.host.progress(0, total);
    }

    /// Counts units of work that were done.
    pub fn advance(&self, units: usize) {
        self.done.set((self.done.get() + units).min(self.total.get()));
        self.host.progress(self.done.get(), self.total.get());
    }

    /// Says that all is done, also where less was to do than expected.
    pub fn finish(&self) {
        self.host.progress(self.total.get(), self.total.get());
    }

    /// Times the fixed computation once. Experiments that time something do that between their measurements.
    pub fn probe(&self) {
        let before = self.now();
        self.fixed_computation();
        self.probes.borrow_mut().push(self.now() - before);
    }

    fn fixed_computation(&self) {
        let mut state = 0x9E37_79B9_u32;
        for _ in 0..4_000_000 {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
        }
        std::hint::black_box(state);
    }

    /// What was noticed of clock and machine.
    pub fn machine(&self) -> Machine {
        let probes = self.probes.borrow();
        let probe_ms = (!probes.is_empty()).then(|| Spread::of(&probes));
        // A coarse clock makes equal times differ by a tick at each end. The slowest tenth is left to chance.
        let busy = probes.len() >= FEWEST_PROBES
            && probe_ms.is_some_and(|spread| {
                let above = quantile(&probes, 0.9) - spread.min - 2.0 * self.resolution_ms;
                above > BUSY * spread.median
            });
        Machine { timer_resolution_ms: self.resolution_ms, probe_ms, busy }
    }
}

/// The least step of the clock that is seen within some milliseconds.
fn resolution_ms(host: &dyn Host) -> f64 {
    const STEPS: usize = 8;
    let (begin, mut last) = (host.now(), host.now());
    let (mut least, mut steps) = (f64::INFINITY, 0);
    // A clock that stands still must not stop us.
    for _ in 0..2_000_000 {
        let now = host.now();
        if now > last {
            least = least.min(now - last);
            steps += 1;
            last = now;
        }
        if steps >= STEPS || now - begin > 20.0 {
            break;
        }
    }
    if least.is_finite() { least } else { 0.0 }
}

fn too_long(tokens: &str, n: usize, context: usize) -> Error {
    let room = if n > 1 { format!("and {n} more") } else { "and one more".to_owned() };
    let sentence =
        format!("{tokens} tokens {room} do not fit into the context of {context}; shorten the text or ask for fewer");
    Error::new(ErrorKind::InvalidOption, sentence)
}
