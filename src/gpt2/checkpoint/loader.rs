//! The loader: bytes of files in, a model out.

use std::collections::{BTreeMap, BTreeSet};

use super::assemble::{Assembled, assemble};
use super::budget::{self, precision_of};
use super::header::{Header, trailing};
use super::header_reader::HeaderReader;
use super::known_model::{KnownModel, Options};
use super::plan::{self, Plan, Planned};
use super::tensor_reader::{LoadedTensor, Target, TensorReader};
use super::tensors::{Role, TensorId, TensorKind};
use super::weights_hash::WeightsHash;
use super::{Format, Loaded, ModelFile, WeightsFile, gguf};
use crate::error::{Error, ErrorKind, Result};
use crate::gpt2::matrix::{Layout, MatrixBuilder};
use crate::gpt2::matrix::{Matrix, Precision};
use crate::gpt2::{Config, Gpt2, memory};

/// Whether a file is to be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// More of it is needed.
    More,
    /// The rest of the file is not needed: call [`Loader::end_file`].
    Enough,
}

/// Loads a model from files that arrive one after the other, in pieces of any size. The result does not depend on the
/// sizes.
///
/// For each of its streams, in any order: [`begin_file`](Self::begin_file), [`push`](Self::push) until the file or the
/// [`Flow`] ends, [`end_file`](Self::end_file). Then [`finish`](Self::finish). After an error it is of no more use;
/// dropping it, at any time, frees all it holds.
///
/// The memory of a tensor is allocated once, when its data begins. In addition there are the header, a few rows, and at
/// most one matrix in f32, if it is stored transposed and has to be quantised.
pub struct Loader {
    known: KnownModel,
    /// Names of the streams that were read to their end.
    ended: BTreeSet<String>,
    fingerprint: Option<WeightsHash>,
    open: Option<Open>,
    held: BTreeMap<TensorId, LoadedTensor>,
    /// Bytes of weights taken.
    done: u64,
}

struct Open {
    file: usize,
    taken: u64,
    stage: Stage,
}

enum Stage {
    Header(HeaderReader),
    Tensors(Tensors),
    /// The rest of the file is not needed.
    Enough,
}

/// The tensors of a file on their way.
struct Tensors {
    /// Place in the file.
    at: u64,
    plan: Plan,
    end: u64,
    receiver: Option<TensorReader>,
}

impl Loader {
    /// A loader for weights in `streams`, with whatever small files are `companions` (of these it reads `config.json`
    /// and `*.safetensors.index.json`); [`classify`](super::classify) gives both.
    ///
    /// # Errors
    /// `NotAModel` if the configuration is an HTML page or the like, else as [`Config::from_json`]; `DamagedModel` for
    /// a broken index, `MissingTensor` for a file it names that is not among the streams.
    pub fn new(companions: &[ModelFile<'_>], streams: Vec<WeightsFile>, options: Options) -> Result<Self> {
        Ok(Self {
            known: KnownModel::new(companions, streams, options)?,
            ended: BTreeSet::new(),
            fingerprint: options.fingerprint.then(WeightsHash::default),
            open: None,
            held: BTreeMap::new(),
            done: 0,
        })
    }

    /// Adds notices for the user, such as those of [`classify`](super::classify).
    pub fn note(&mut self, notices: &[String]) {
        self.known.notices.extend_from_slice(notices);
    }

    /// Begins one of the streams.
    ///
    /// # Errors
    /// `InvalidRequest` if another file is open, or this is none of the streams, or was there before.
    pub fn begin_file(&mut self, name: &str) -> Result<()> {
        let file = self.known.streams.iter().position(|stream| stream.name == name);
        let file = file.filter(|file| self.open.is_none() && !self.ended.contains(&self.known.names[*file]));
        let file = file.ok_or_else(|| {
            Error::new(ErrorKind::InvalidRequest, format!("{name} is none of the files that are to come now"))
        })?;
        let reader = HeaderReader::new(name, self.known.streams[file].size);
        self.open = Some(Open { file, taken: 0, stage: Stage::Header(reader) });
        Ok(())
    }

    /// Takes the next bytes of the open file.
    ///
    /// # Errors
    /// `NotAModel`, `DamagedModel`, `UnsupportedModel`, `MissingTensor`, `UnexpectedTensor`, `WrongShape`,
    /// `BadTokenizer` or `OutOfMemory`; the sentence names the file, field or tensor. Nothing is allocated on the word
    /// of a header before its numbers were held against the size of the file and the limit of memory.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Flow> {
        let mut open = self.open.take().ok_or_else(|| not_open("push"))?;
        let stream = &self.known.streams[open.file];
        open.taken += bytes.len() as u64;
        if let Some(size) = stream.size.filter(|size| open.taken > *size) {
            return Err(damaged(format!("{} goes on after the {size} bytes it should have", stream.name)));
        }
        if !stream.tokenizer_only {
            if let Some(fingerprint) = &mut self.fingerprint {
                fingerprint.push(bytes);
            }
            self.done += bytes.len() as u64;
        }
        self.advance(&mut open, bytes).map_err(|error| self.told_of_held(error))?;
        let flow = if matches!(open.stage, Stage::Enough) { Flow::Enough } else { Flow::More };
        self.open = Some(open);
        Ok(flow)
    }

    /// Extends an `OutOfMemory` error if the budget was sufficient: memory is fragmented, or the machine has less. Freeing the
    /// model in use would help.
    fn told_of_held(&self, error: Error) -> Error {
        let Options { memory_limit, held, .. } = self.known.options;
        if error.kind == ErrorKind::OutOfMemory && held > 0 && self.known.needed <= memory_limit {
            return budget::beside(self.known.needed, memory_limit, held);
        }
        error
    }

    fn advance(&mut self, open: &mut Open, mut bytes: &[u8]) -> Result<()> {
        if let Stage::Header(reader) = &mut open.stage {
            let Some(header) = reader.push(&mut bytes)? else { return Ok(()) };
            self.header(open, header)?;
        }
        if let Stage::Tensors(tensors) = &mut open.stage {
            self.data(open.file, tensors, bytes)?;
        }
        Ok(())
    }

    /// Ends the open file.
    ///
    /// # Errors
    /// `DamagedModel` if it is cut short, and all those of [`push`](Self::push).
    pub fn end_file(&mut self) -> Result<()> {
        let mut open = self.open.take().ok_or_else(|| not_open("end_file"))?;
        if let Stage::Header(reader) = &mut open.stage {
            let header = reader.end()?;
            self.header(&mut open, header)?;
        }
        let name = &self.known.names[open.file];
        if let Stage::Tensors(Tensors { at, plan, .. }) = &open.stage
            && let Some(next) = plan.front()
        {
            return Err(damaged(format!(
                "{name} ends at byte {at}, before the end of the tensor {} at byte {}; it is cut short, download it again",
                next.name, next.end
            )));
        }
        self.ended.insert(name.clone());
        if let Some(fingerprint) = self.fingerprint.as_mut().filter(|_| !self.known.streams[open.file].tokenizer_only) {
            fingerprint.end_file(name);
        }
        Ok(())
    }

    /// Takes the file `name` whole, in `pieces` of any size: [`begin_file`](Self::begin_file), then
    /// [`push`](Self::push) until it has enough, then [`end_file`](Self::end_file). `after_piece` hears of the progress.
    ///
    /// # Errors
    /// As those three, and those of the pieces.
    pub fn read_file<P: AsRef<[u8]>>(
        &mut self,
        name: &str,
        pieces: impl IntoIterator<Item = Result<P>>,
        after_piece: &mut dyn FnMut(&Self),
    ) -> Result<()> {
        self.begin_file(name)?;
        for piece in pieces {
            if self.push(piece?.as_ref())? == Flow::Enough {
                break;
            }
            after_piece(self);
        }
        self.end_file()
    }

    /// Bytes of weights taken, and how many there are, if that is known.
    pub fn progress(&self) -> (u64, Option<u64>) {
        (self.done, self.known.weights().map(|stream| stream.size).sum())
    }

    /// The hyperparameters, once they are known.
    pub fn config(&self) -> Option<&Config> {
        self.known.config.as_ref()
    }

    /// The bytes that the model takes at run time with weights in `precision` (`None`: as in the file), including the
    /// KV cache of a full context and some workspace. `None` before the headers are known.
    pub fn memory_needed(&self, precision: Option<Precision>) -> Option<u64> {
        self.known.memory_needed(precision)
    }

    /// The model.
    ///
    /// # Errors
    /// `InvalidRequest` if a file is open or has not come.
    pub fn finish(self) -> Result<Loaded> {
        if let Some(stream) = self.known.streams.iter().find(|stream| !self.ended.contains(&stream.name)) {
            return Err(Error::new(ErrorKind::InvalidRequest, format!("{} has not come to its end", stream.name)));
        }
        let (Some(config), Some(format)) = (self.known.config, self.known.format) else {
            return Err(Error::new(
                ErrorKind::NotAModel,
                "there is no weights file; give a .gguf or a .safetensors file",
            ));
        };
        let sha256 = self.fingerprint.map(WeightsHash::finish);
        let mut notices = self.known.notices;
        notices.extend(plan::without(&self.known.left_out));
        notices.extend(budget::not_quantised(&self.known.found, self.known.options.precision, format));
        let Assembled { network, precision, parameters } = assemble(&config, format.names(), self.held)?;
        let memory_bytes = budget::held(&self.known.found, Some(&config), self.known.options.precision);
        let model = Gpt2::new(config, network, precision);
        Ok(Loaded {
            model,
            tokenizer: self.known.tokenizer,
            format,
            precision,
            parameters,
            memory_bytes,
            sha256,
            notices,
        })
    }

    /// Adds a header, then reads the data that follows it.
    fn header(&mut self, open: &mut Open, header: Header) -> Result<()> {
        let Stage::Header(reader) = std::mem::replace(&mut open.stage, Stage::Enough) else { return Ok(()) };
        let bytes = reader.into_bytes();
        if self.known.streams[open.file].tokenizer_only {
            self.known.tokenizer =
                Some(header.tokenizer?.ok_or_else(|| gguf::no_tokenizer(&self.known.names[open.file]))?);
            return Ok(());
        }
        let (data, end) = (bytes.len().min(usize::try_from(header.data).unwrap_or(usize::MAX)), header.end());
        let plan = self.known.add_header(open.file, header)?;
        let mut tensors = Tensors { at: data as u64, end, plan, receiver: None };
        self.data(open.file, &mut tensors, &bytes[data..])?;
        open.stage = Stage::Tensors(tensors);
        Ok(())
    }

    /// Reads data of the remaining tensors of `file`.
    fn data(&mut self, file: usize, tensors: &mut Tensors, mut bytes: &[u8]) -> Result<()> {
        while let Some(planned) = tensors.plan.front() {
            let before = bytes.len() as u64;
            let complete = match planned.keep {
                Some((id, _)) if tensors.at >= planned.begin => {
                    let receiver = match &mut tensors.receiver {
                        Some(receiver) => receiver,
                        None if bytes.is_empty() => return Ok(()),
                        none => none.insert(self.receiver(planned)?),
                    };
                    let complete = receiver.push(&mut bytes)?;
                    if complete && let Some(receiver) = tensors.receiver.take() {
                        self.held.insert(id, receiver.finish()?);
                    }
                    complete
                }
                // Padding before a tensor, or one that is left out.
                keep => {
                    let to = if keep.is_some() { planned.begin } else { planned.end };
                    let skipped = (to - tensors.at).min(before);
                    bytes = &bytes[skipped as usize..];
                    keep.is_none() && tensors.at + skipped == to
                }
            };
            let moved = before - bytes.len() as u64;
            tensors.at += moved;
            if complete {
                tensors.plan.pop_front();
            } else if bytes.is_empty() {
                return Ok(());
            }
        }
        if self.known.format == Some(Format::Safetensors) && !bytes.is_empty() {
            return Err(trailing(&self.known.names[file], tensors.end));
        }
        tensors.at += bytes.len() as u64;
        Ok(())
    }

    /// Allocates a reader for a tensor whose data begins now.
    fn receiver(&self, planned: &Planned) -> Result<TensorReader> {
        let Some((id, dtype)) = planned.keep else { return Err(not_open("receiver")) };
        let (shape, names) = (&self.known.found[&id].shape, self.known.format.map(Format::names));
        let transposed = names.is_some_and(|names| names.turns(id));
        let (row, target) = match (id.role(), shape.as_slice()) {
            (Role::Embedding | Role::Linear, &[outputs, inputs]) => {
                let precision = precision_of(self.known.options.precision, dtype, inputs);
                let order = if transposed { Layout::Transposed } else { Layout::RowMajor };
                let builder = match self.twin(id) {
                    Some(twin) if twin.precision() == precision && twin.shape() == (outputs, inputs) => {
                        MatrixBuilder::maybe_tied(twin)
                    }
                    _ => MatrixBuilder::new(outputs, inputs, precision, order)?,
                };
                (if transposed { outputs } else { inputs }, Target::Matrix(builder, precision))
            }
            (_, shape) => (shape.last().copied().unwrap_or(1), Target::plain(shape)?),
        };
        memory::check_headroom()?;
        Ok(TensorReader::new(&planned.name, dtype, row, planned.end - planned.begin, target))
    }

    /// The token embedding for an `lm_head` and vice versa: many files contain the same matrix twice.
    fn twin(&self, id: TensorId) -> Option<&Matrix> {
        let twin = match id.kind {
            TensorKind::TokenEmbedding => TensorKind::LmHead,
            TensorKind::LmHead => TensorKind::TokenEmbedding,
            _ => return None,
        };
        match self.held.get(&TensorId::single(twin)) {
            Some(LoadedTensor::Matrix(matrix)) => Some(matrix),
            _ => None,
        }
    }
}

fn not_open(call: &str) -> Error {
    Error::new(ErrorKind::InvalidRequest, format!("no file is open for `{call}`; begin one first"))
}

fn damaged(message: String) -> Error {
    Error::new(ErrorKind::DamagedModel, message)
}

/// The tensors of one file as they are held in f32, for the tests of [`oracle`](super::oracle).
#[cfg(test)]
pub(super) fn held_in_f32(config: &[u8], weights: &[u8]) -> BTreeMap<TensorId, candle_core::Tensor> {
    let companions = if config.is_empty() { vec![] } else { vec![ModelFile { name: "config.json", bytes: config }] };
    let stream = WeightsFile { name: "model".into(), size: None, tokenizer_only: false };
    let options = Options { precision: Some(Precision::F32), ..Options::default() };
    let mut loader = Loader::new(&companions, vec![stream], options).unwrap();
    loader.begin_file("model").unwrap();
    loader.push(weights).unwrap();
    loader.end_file().unwrap();
    let Loader { held, known, .. } = loader;
    let tensor = |(id, held)| {
        let numbers = match held {
            LoadedTensor::Vector(numbers) => numbers,
            LoadedTensor::Matrix(matrix) => {
                let (ids, mut rows): (Vec<u32>, _) = ((0..matrix.shape().0 as u32).collect(), Vec::new());
                matrix.rows(&ids, &mut rows);
                rows
            }
        };
        let shape = known.found[&id].shape.as_slice();
        (id, candle_core::Tensor::from_vec(numbers, shape, &candle_core::Device::Cpu).unwrap())
    };
    held.into_iter().map(tensor).collect()
}
