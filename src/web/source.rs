//! The files from the page, read in order and in pieces: never a whole weights file at once.

use std::collections::VecDeque;

use js_sys::{Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{Blob, ReadableStream, ReadableStreamDefaultReader};

use super::protocol::ModelFile;
use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::memory;

/// Bytes taken from a Blob at once.
const PIECE_BYTES: f64 = 4.0 * 1024.0 * 1024.0;

/// Pieces that are read ahead: the browser reads them in other threads and processes.
const AHEAD: usize = 2;

/// The largest file that is read whole: the tokenizer's and the configuration.
const READ_ALL_BYTES: usize = 64 << 20;

/// One file. Dropping it ends a download that feeds it.
pub struct Source {
    name: String,
    size: Option<u64>,
    contents: Contents,
    /// Requested pieces, in order.
    in_flight: VecDeque<JsFuture>,
    /// Bytes that were read to look at them, and not consumed yet.
    peeked: Vec<u8>,
}

enum Contents {
    Blob { blob: Blob, at: f64 },
    Stream(ReadableStreamDefaultReader),
}

impl Source {
    /// The file that the page handed over as `given`.
    ///
    /// # Errors
    /// `InvalidRequest` for a file with neither a Blob nor an unlocked stream.
    pub fn new(given: ModelFile) -> Result<Self> {
        let ModelFile { name, blob, stream, size } = given;
        let refused = |what: &str| Error::new(ErrorKind::InvalidRequest, format!("`{name}` must come with {what}"));
        let (size, contents) = if let Some(blob) = blob {
            let blob: Blob = blob.dyn_into().map_err(|_| refused("a Blob or a stream"))?;
            (Some(blob.size()), Contents::Blob { blob, at: 0.0 })
        } else {
            let stream = stream.and_then(|stream| stream.dyn_into::<ReadableStream>().ok());
            let stream = stream.ok_or_else(|| refused("a Blob or a stream"))?;
            let reader =
                ReadableStreamDefaultReader::new(&stream).map_err(|_| refused("a stream nobody else reads"))?;
            (size, Contents::Stream(reader))
        };
        Ok(Self { name, size: size.map(|size| size as u64), contents, in_flight: VecDeque::new(), peeked: Vec::new() })
    }

    /// The same file from its beginning; `None` if it is one that can be read only once.
    pub fn again(&self) -> Option<Self> {
        let Contents::Blob { blob, .. } = &self.contents else { return None };
        let contents = Contents::Blob { blob: blob.clone(), at: 0.0 };
        let name = self.name.clone();
        Some(Self { name, size: self.size, contents, in_flight: VecDeque::new(), peeked: Vec::new() })
    }

    /// The file's name, as the page called it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its size in bytes, if known.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Its first `bytes`, or all of it if it has fewer; they are still to come from [`next`](Self::next). Of a Blob
    /// nothing else is read or kept.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn peek(&mut self, bytes: usize) -> Result<Vec<u8>> {
        if let Contents::Blob { blob, .. } = &self.contents {
            let head = blob.slice_with_f64_and_f64(0.0, bytes as f64).map(|slice| slice.array_buffer());
            let head = head.map_err(|error| self.unreadable(&error))?;
            let head = JsFuture::from(head).await.map_err(|error| self.unreadable(&error))?;
            return taken(&Uint8Array::new(&head));
        }
        while self.peeked.len() < bytes {
            let Some(piece) = self.read().await? else { break };
            append(&mut self.peeked, &piece)?;
        }
        Ok(self.peeked[..self.peeked.len().min(bytes)].to_vec())
    }

    /// The next piece; `None` at the end. Those after it are read meanwhile.
    ///
    /// # Errors
    /// `InvalidRequest` if the file cannot be read, `DownloadFailed` if its stream breaks; the sentence says why.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let peeked = std::mem::take(&mut self.peeked);
        let piece = if peeked.is_empty() { self.read().await? } else { Some(peeked) };
        while self.in_flight.len() < AHEAD && self.request_next()? {}
        Ok(piece)
    }

    /// All of a small file.
    ///
    /// # Errors
    /// As [`next`](Self::next); `UnsupportedModel` if it is too large to be what it claims to be.
    pub async fn read_all(&mut self) -> Result<Vec<u8>> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next().await? {
            append(&mut whole, &piece)?;
            if whole.len() > READ_ALL_BYTES {
                let most = READ_ALL_BYTES >> 20;
                let sentence = format!("{} has more than {most} MiB, too many for a file of its name", self.name);
                return Err(Error::new(ErrorKind::UnsupportedModel, sentence));
            }
        }
        Ok(whole)
    }

    /// As [`next`](Self::next), but nothing after the piece is read meanwhile.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn read(&mut self) -> Result<Option<Vec<u8>>> {
        if self.in_flight.is_empty() && !self.request_next()? {
            return Ok(None);
        }
        let Some(piece) = self.in_flight.pop_front() else { return Ok(None) };
        let piece = piece.await.map_err(|error| self.unreadable(&error))?;
        match self.contents {
            Contents::Blob { .. } => taken(&Uint8Array::new(&piece)).map(Some),
            Contents::Stream(_) if get(&piece, "done").is_truthy() => Ok(None),
            Contents::Stream(_) => {
                let bytes = get(&piece, "value").dyn_into::<Uint8Array>().map_err(|error| self.unreadable(&error))?;
                taken(&bytes).map(Some)
            }
        }
    }

    /// Asks for one more piece; says whether there may be one.
    fn request_next(&mut self) -> Result<bool> {
        let piece = match &mut self.contents {
            Contents::Blob { blob, at } => {
                let (from, to) = (*at, blob.size().min(*at + PIECE_BYTES));
                if from >= to {
                    return Ok(false);
                }
                *at = to;
                blob.slice_with_f64_and_f64(from, to).map(|slice| slice.array_buffer())
            }
            Contents::Stream(reader) => Ok(reader.read()),
        };
        self.in_flight.push_back(piece.map_err(|error| self.unreadable(&error))?.into());
        Ok(true)
    }

    fn unreadable(&self, error: &JsValue) -> Error {
        let (name, why) = (&self.name, js_message(error));
        match self.contents {
            Contents::Blob { .. } => {
                Error::new(ErrorKind::InvalidRequest, format!("{name} could not be read ({why}); choose it again"))
            }
            Contents::Stream(_) => {
                Error::new(ErrorKind::DownloadFailed, format!("the download of {name} broke off: {why}"))
            }
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Contents::Stream(reader) = &self.contents {
            let (ended, reader) = (JsFuture::from(reader.cancel()), reader.clone());
            spawn_local(async move {
                // A cancel that fails has no one to report to.
                drop(ended.await);
                reader.release_lock();
            });
        }
    }
}

/// A copy of `bytes` in the worker's memory.
fn taken(bytes: &Uint8Array) -> Result<Vec<u8>> {
    let length = bytes.length() as usize;
    let mut copy = memory::try_with_capacity(length)?;
    copy.resize(length, 0);
    bytes.copy_to(&mut copy);
    Ok(copy)
}

fn append(all: &mut Vec<u8>, piece: &[u8]) -> Result<()> {
    memory::try_reserve(all, all.len() + piece.len())?;
    all.extend_from_slice(piece);
    Ok(())
}

fn get(object: &JsValue, key: &str) -> JsValue {
    Reflect::get(object, &key.into()).unwrap_or_default()
}

/// What a JavaScript exception says.
fn js_message(error: &JsValue) -> String {
    error.dyn_ref::<js_sys::Error>().map_or_else(|| format!("{error:?}"), |error| error.message().into())
}
