//! How long the parts of a pass take.

use crate::model::PartTimes;

/// A part of a pass: a field of [`PartTimes`], which says what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Embedding,
    Attention,
    Mlp,
    LmHead,
}

/// Adds up the time of each part. Without a clock it does nothing.
#[derive(Debug, Clone, Default)]
pub struct Stopwatch {
    /// Milliseconds from any fixed moment.
    clock: Option<fn() -> f64>,
    times: PartTimes,
    last: f64,
}

impl Stopwatch {
    /// Measures from now on with `clock`, which returns milliseconds from any fixed moment and never runs backwards.
    pub fn set_clock(&mut self, clock: fn() -> f64) {
        self.clock = Some(clock);
    }

    /// What was measured since there is a clock.
    pub fn times(&self) -> Option<PartTimes> {
        self.clock.map(|_| self.times)
    }

    /// The next part begins now.
    pub fn start(&mut self) {
        if let Some(clock) = self.clock {
            self.last = clock();
        }
    }

    /// `part` ends now, and the next begins.
    pub fn lap(&mut self, part: Part) {
        let Some(clock) = self.clock else { return };
        let now = clock();
        let time = match part {
            Part::Embedding => &mut self.times.embedding,
            Part::Attention => &mut self.times.attention,
            Part::Mlp => &mut self.times.mlp,
            Part::LmHead => &mut self.times.lm_head,
        };
        *time += now - self.last;
        self.last = now;
    }
}
