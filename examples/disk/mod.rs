//! Files on disk, for the programs beside this: what a page does with Blobs.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use gpt2_web::gpt2::checkpoint::{self, Classified, FilePrefix, Loader, ModelFile, Options, SNIFF_BYTES};
use gpt2_web::{Error, ErrorKind, Result};

/// What is read at a time.
const PIECE_BYTES: u64 = 4 << 20;

/// The files of one model.
pub struct Files {
    names: Vec<String>,
    paths: Vec<PathBuf>,
    companions: Vec<(String, Vec<u8>)>,
    /// What is what.
    pub classified: Classified,
}

impl Files {
    /// The files in the folder `path`, or the file `path` with the configuration and tokenizer that lie beside it.
    pub fn at(path: &Path) -> Result<Self> {
        let mut paths = if path.is_dir() { in_folder(path)? } else { vec![path.to_owned()] };
        if let (false, Some(folder)) = (path.is_dir(), path.parent()) {
            let beside = ["config.json", "vocab.json", "merges.txt", "tokenizer.json"].map(|name| folder.join(name));
            paths.extend(beside.into_iter().filter(|other| other.is_file() && other != path));
        }
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let names: Vec<_> = paths.iter().map(name).collect();
        let read = |path: &PathBuf| Ok((beginning(path)?, path.metadata().map_err(|e| unreadable(path, &e))?.len()));
        let beginnings = paths.iter().map(read).collect::<Result<Vec<(Vec<u8>, u64)>>>()?;
        let prefixes: Vec<_> = (names.iter().zip(&beginnings))
            .map(|(name, (bytes, size))| FilePrefix { name, size: Some(*size), bytes })
            .collect();
        let classified = checkpoint::classify(&prefixes)?;
        let whole = |(place, name): &(usize, String)| {
            let path = &paths[*place];
            Ok((name.clone(), std::fs::read(path).map_err(|error| unreadable(path, &error))?))
        };
        let companions = classified.companions.iter().map(whole).collect::<Result<_>>()?;
        Ok(Self { names, paths, companions, classified })
    }

    /// The small files, in memory.
    pub fn companions(&self) -> Vec<ModelFile<'_>> {
        self.companions.iter().map(|(name, bytes)| ModelFile { name, bytes }).collect()
    }

    /// A loader for these files, which has read nothing yet.
    pub fn loader(&self, options: Options) -> Result<Loader> {
        let streams = self.classified.weights.iter().map(|(_, stream)| stream.clone()).collect();
        let mut loader = Loader::new(&self.companions(), streams, options)?;
        loader.note(&self.classified.notices);
        Ok(loader)
    }

    /// Reads all weights into `loader`.
    pub fn stream(&self, loader: &mut Loader) -> Result<()> {
        for (place, stream) in &self.classified.weights {
            loader.read_file(&stream.name, self.pieces(*place)?, &mut |_| {})?;
        }
        Ok(())
    }

    /// File number `place`, piece by piece.
    pub fn pieces(&self, place: usize) -> Result<impl Iterator<Item = Result<Vec<u8>>>> {
        let path = &self.paths[place];
        let mut file = File::open(path).map_err(|error| unreadable(path, &error))?;
        Ok(std::iter::from_fn(move || {
            let mut piece = Vec::new();
            match (&mut file).take(PIECE_BYTES).read_to_end(&mut piece) {
                Ok(0) => None,
                Ok(_) => Some(Ok(piece)),
                Err(error) => Some(Err(unreadable(path, &error))),
            }
        }))
    }

    /// The name of file number `place`.
    #[allow(dead_code, reason = "not every program tells names")]
    pub fn name(&self, place: usize) -> &str {
        &self.names[place]
    }
}

fn in_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>());
    let mut paths = entries.map_err(|error| unreadable(folder, &error))?;
    paths.retain(|path| path.is_file());
    paths.sort();
    Ok(paths)
}

fn beginning(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SNIFF_BYTES as u64).read_to_end(&mut bytes));
    read.map_err(|error| unreadable(path, &error))?;
    Ok(bytes)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::InvalidRequest, format!("{} cannot be read: {error}", path.display()))
}
