//! `model.safetensors.index.json`: which tensor is in which of several files.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::ModelFile;
use super::names::published;
use crate::error::{Error, ErrorKind, Result};
use crate::json;

/// The files of a sharded model, and the tensors of each.
#[derive(Debug, Deserialize)]
pub(super) struct Index {
    /// Tensor to file.
    weight_map: BTreeMap<String, String>,
}

impl Index {
    /// Reads the index in `file`.
    ///
    /// # Errors
    /// `DamagedModel`.
    pub fn read(file: &ModelFile<'_>) -> Result<Self> {
        json::parse(ErrorKind::DamagedModel, file.base_name(), "an index of tensors", file.bytes)
    }

    /// Checks the names of the weights files against the index. If none of the names is known, as in a cache, only their
    /// number is checked.
    ///
    /// # Errors
    /// `MissingTensor` for a missing file, `UnexpectedTensor` for one too many.
    pub fn check_files<'a>(&self, files: impl Iterator<Item = &'a str>) -> Result<()> {
        let named: BTreeMap<String, &str> =
            self.weight_map.values().map(|file| (published(file), file.as_str())).collect();
        let given: BTreeMap<String, &str> = files.map(|file| (published(file), file)).collect();
        if named.len() == given.len() && given.keys().all(|name| says_nothing(name)) {
            return Ok(());
        }
        if let Some((_, file)) = named.iter().find(|(name, _)| !given.contains_key(*name)) {
            return Err(Error::new(
                ErrorKind::MissingTensor,
                format!("the model is in {} files, and {file:?} is not among them; give all of them", named.len()),
            ));
        }
        match given.iter().find(|(name, _)| !named.contains_key(*name)) {
            None => Ok(()),
            Some((_, file)) => Err(Error::new(
                ErrorKind::UnexpectedTensor,
                format!("{file} is not one of the {} files that the model's index names; leave it out", named.len()),
            )),
        }
    }

    /// Checks the tensors of `file` against the index.
    ///
    /// # Errors
    /// `MissingTensor` or `UnexpectedTensor`, with tensor and file.
    pub fn check_tensors<'a>(&self, file: &str, tensors: impl Iterator<Item = &'a str>) -> Result<()> {
        let given: BTreeSet<&str> = tensors.collect();
        let own = published(file);
        // A file with an unknown name is identified by its first tensor.
        let own = match given.first().and_then(|first| self.weight_map.get(*first)) {
            Some(place) if says_nothing(&own) => published(place),
            _ => own,
        };
        let mut named = self.weight_map.iter().filter(|(_, place)| published(place) == own);
        if let Some((tensor, _)) = named.find(|(tensor, _)| !given.contains(tensor.as_str())) {
            return Err(Error::new(
                ErrorKind::MissingTensor,
                format!("the tensor {tensor} should be in {file}, as the index says, and is not; download both again"),
            ));
        }
        match given.iter().find(|tensor| self.weight_map.get(**tensor).is_none_or(|place| published(place) != own)) {
            None => Ok(()),
            Some(tensor) => Err(Error::new(
                ErrorKind::UnexpectedTensor,
                format!("{file} holds the tensor {tensor}, which the index does not say; download both again"),
            )),
        }
    }
}

fn says_nothing(name: &str) -> bool {
    !name.ends_with(".safetensors")
}
