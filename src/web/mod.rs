//! The only module that knows the browser. The messages are plain data and are tested natively; the worker that
//! speaks them exists on wasm32 alone.

pub mod protocol;
#[cfg(target_arch = "wasm32")]
mod source;
#[cfg(target_arch = "wasm32")]
pub mod worker;
