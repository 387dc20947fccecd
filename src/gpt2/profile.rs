//! Times the parts of a forward pass.

use crate::model::PartTimes;

/// A part of a forward pass; [`PartTimes`] describes what belongs to each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Embedding,
    Attention,
    Mlp,
    LmHead,
}

/// Adds up the time of each part, if it has a clock.
#[derive(Debug, Clone, Default)]
pub struct Stopwatch {
    /// A monotonic clock in milliseconds.
    clock: Option<fn() -> f64>,
    times: PartTimes,
    last: f64,
}

impl Stopwatch {
    /// Starts measuring with `clock`, a monotonic clock in milliseconds.
    pub fn set_clock(&mut self, clock: fn() -> f64) {
        self.clock = Some(clock);
    }

    /// The times since the clock was set.
    pub fn times(&self) -> Option<PartTimes> {
        self.clock.map(|_| self.times)
    }

    /// Starts the next part.
    pub fn start(&mut self) {
        if let Some(clock) = self.clock {
            self.last = clock();
        }
    }

    /// Ends `part` and starts the next.
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
