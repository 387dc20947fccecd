//! The model against reference results, its invariants, and what its loader refuses.

mod fixture;
mod invariants;
mod reference;
mod refusals;
mod streaming;
