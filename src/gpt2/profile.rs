//! How long the parts of a pass take.

/// A part of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Rows of tokens and positions.
    Embedding,
    /// Of all blocks: the first layer norm, queries, keys and values, attention and its output.
    Attention,
    /// Of all blocks: the second layer norm and the feed-forward part.
    Mlp,
    /// The last layer norm and the logits.
    Head,
}

/// Milliseconds spent in each part.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PartTimes {
    /// In [`Part::Embedding`].
    pub embedding: f64,
    /// In [`Part::Attention`].
    pub attention: f64,
    /// In [`Part::Mlp`].
    pub mlp: f64,
    /// In [`Part::Head`].
    pub head: f64,
}

/// Adds up the time of each part. Without a clock it does nothing.
#[derive(Debug, Clone, Default)]
pub struct Stopwatch {
    /// Milliseconds from any fixed moment.
    pub clock: Option<fn() -> f64>,
    /// Since it was made, or last taken.
    pub times: PartTimes,
    last: f64,
}

impl Stopwatch {
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
            Part::Head => &mut self.times.head,
        };
        *time += now - self.last;
        self.last = now;
    }
}
