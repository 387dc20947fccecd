//! Models whose every number is known, and a clock that is moved by hand.

use std::cell::Cell;
use std::rc::Rc;

use crate::error::Result;
use crate::lab::Subject;
use crate::model::LanguageModel;

/// A clock that models move. It may also move by itself, each time it is looked at.
#[derive(Clone, Default)]
pub struct Clock {
    now: Rc<Cell<f64>>,
    tick: f64,
    /// Every so many looks it moves by so much more.
    jump: Option<(u32, f64)>,
    looks: Rc<Cell<u32>>,
}

impl Clock {
    pub fn ticking(tick: f64) -> Self {
        Self { tick, ..Self::default() }
    }

    pub fn jumping(self, looks: u32, by: f64) -> Self {
        Self { jump: Some((looks, by)), ..self }
    }

    pub fn now(&self) -> f64 {
        self.looks.set(self.looks.get() + 1);
        let jump = self.jump.filter(|(looks, _)| self.looks.get().is_multiple_of(*looks)).map_or(0.0, |(_, by)| by);
        self.add(self.tick + jump);
        self.now.get()
    }

    pub fn add(&self, ms: f64) {
        self.now.set(self.now.get() + ms);
    }
}

/// A model that says the same logits everywhere, or what a function of all ids says. A pass takes as long as `cost` says of
/// its first position and its length.
pub struct Known<F> {
    pub logits: F,
    pub vocab: usize,
    pub context: usize,
    pub clock: Clock,
    pub cost: fn(usize, usize) -> f64,
    ids: Vec<u32>,
    last: Vec<f32>,
}

impl<F: Fn(&[u32]) -> Vec<f32>> Known<F> {
    pub fn new(vocab: usize, logits: F) -> Self {
        let (clock, cost) = (Clock::default(), |_, _| 0.0);
        Self { logits, vocab, context: 256, clock, cost, ids: Vec::new(), last: Vec::new() }
    }

    /// The logits that the last call of `feed` returned.
    pub fn last(&self) -> &[f32] {
        &self.last
    }

    pub fn set_last(&mut self, logits: Vec<f32>) {
        self.last = logits;
    }
}

impl<F: Fn(&[u32]) -> Vec<f32>> LanguageModel for Known<F> {
    fn vocab_size(&self) -> usize {
        self.vocab
    }

    fn context_length(&self) -> usize {
        self.context
    }

    fn len(&self) -> usize {
        self.ids.len()
    }

    fn feed(&mut self, ids: &[u32]) -> Result<&[f32]> {
        self.last = self.score(ids)?.pop().unwrap();
        Ok(&self.last)
    }

    fn score(&mut self, ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        assert!(self.ids.len() + ids.len() <= self.context, "beyond the context");
        self.clock.add((self.cost)(self.ids.len(), ids.len()));
        let rows = ids.iter().map(|&id| {
            self.ids.push(id);
            (self.logits)(&self.ids)
        });
        Ok(rows.collect())
    }

    fn truncate(&mut self, len: usize) {
        self.ids.truncate(len);
    }
}

impl<F: Fn(&[u32]) -> Vec<f32>> Subject for Known<F> {}
