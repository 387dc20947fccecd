//! The only module that knows the browser. The messages are plain data and tested natively; the worker exists only on
//! wasm32.

#[cfg(target_arch = "wasm32")]
mod background_hash;
#[cfg(target_arch = "wasm32")]
mod call;
#[cfg(target_arch = "wasm32")]
mod event_loop;
#[cfg(target_arch = "wasm32")]
mod experiment;
#[cfg(target_arch = "wasm32")]
mod idle;
#[cfg(target_arch = "wasm32")]
mod load;
#[cfg(target_arch = "wasm32")]
mod message;
#[cfg(target_arch = "wasm32")]
mod outbox;
#[cfg(target_arch = "wasm32")]
mod panics;
pub mod protocol;
#[cfg(all(target_arch = "wasm32", feature = "relaxed"))]
pub mod relaxed;
#[cfg(target_arch = "wasm32")]
mod run;
#[cfg(target_arch = "wasm32")]
mod source;
#[cfg(target_arch = "wasm32")]
mod state;
#[cfg(target_arch = "wasm32")]
pub mod worker;
