//! The only module that knows the browser.

pub mod protocol;
