//! The model against reference results, its invariants, and what its loader refuses.

mod files;
mod fixture;
mod invariants;
mod profile;
mod reference;
mod refusals;
mod streaming;
mod textbook;
