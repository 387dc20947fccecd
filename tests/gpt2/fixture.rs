//! The checkpoints in tests/fixtures, whole or taken apart.

use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;
use std::path::{Path, PathBuf};

use candle_core::quantized::{GgmlDType, QTensor, gguf_file};
use candle_core::{Device, Tensor};
use gpt2_web::Result;
use gpt2_web::gpt2::Precision;
use gpt2_web::gpt2::checkpoint::{FilePrefix, Loaded, Loader, ModelFile, Options, SNIFF_BYTES, classify, load};

/// Every folder of published layouts and configurations.
pub const CHECKPOINTS: [&str; 9] = [
    "plain-f32",
    "plain-f16",
    "plain-bf16",
    "prefix-lmhead-f32",
    "untied-f32",
    "buffers-f32",
    "sharded-f32",
    "gelu-erf-eps",
    "inverse-layer-scale",
];

pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub fn json(name: &str) -> serde_json::Value {
    serde_json::from_slice(&bytes(name)).unwrap()
}

/// The files of a checkpoint folder that belong to the model, with their names.
pub fn folder(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = format!("tests/fixtures/checkpoints/{name}");
    let mut names: Vec<_> = std::fs::read_dir(path(&folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names.retain(|file| file != "expected.json");
    names.into_iter().map(|file| (file.clone(), bytes(&format!("{folder}/{file}")))).collect()
}

pub fn try_load(files: &[(String, Vec<u8>)], precision: Option<Precision>) -> Result<Loaded> {
    let files: Vec<_> = files.iter().map(|(name, bytes)| ModelFile { name, bytes }).collect();
    load(&files, precision, &mut |_, _| {})
}

pub fn checkpoint(name: &str, precision: Option<Precision>) -> Loaded {
    try_load(&folder(name), precision).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub fn try_gguf(bytes: &[u8], precision: Option<Precision>) -> Result<Loaded> {
    load(&[ModelFile { name: "model.gguf", bytes }], precision, &mut |_, _| {})
}

pub fn gguf(name: &str, precision: Option<Precision>) -> Loaded {
    try_gguf(&bytes(&format!("tests/fixtures/gguf/{name}.gguf")), precision)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub const EMBEDDED: &str = "www/models/fairy-12m-q8_0.gguf";

/// Every GGUF file.
pub const GGUFS: [&str; 7] = ["f32", "f16", "q8_0", "q4_0", "q5_1", "k256-q4_k_m", "k256-q6_k"];

/// Loads `files` (weights and companions) with each cut into pieces of the `sizes`, over and over, that follow `head`.
pub fn load_in_pieces(files: &[(String, Vec<u8>)], options: Options, sizes: &[usize], known: bool) -> Result<Loaded> {
    let head = |bytes: &'_ Vec<u8>| bytes.len().min(SNIFF_BYTES);
    let prefixes: Vec<_> = files
        .iter()
        .map(|(name, bytes)| FilePrefix {
            name,
            size: known.then_some(bytes.len() as u64),
            bytes: &bytes[..head(bytes)],
        })
        .collect();
    let classified = classify(&prefixes)?;
    let companions = classified.companions.iter().map(|(place, name)| ModelFile { name, bytes: &files[*place].1 });
    let companions: Vec<_> = companions.collect();
    let mut loader = Loader::new(&companions, classified.weights.iter().map(|(_, s)| s.clone()).collect(), options)?;
    let mut sizes = sizes.iter().cycle();
    for (place, stream) in &classified.weights {
        let mut rest = files[*place].1.as_slice();
        let pieces = std::iter::from_fn(|| {
            let (piece, after) = rest.split_at(sizes.next().copied().unwrap_or(1).min(rest.len()));
            rest = after;
            (!piece.is_empty()).then_some(Ok(piece))
        });
        loader.read_file(&stream.name, pieces, &mut |_| {})?;
    }
    loader.finish()
}

/// A safetensors file taken apart: type, shape and data of each tensor.
pub struct Safetensors(pub BTreeMap<String, (String, Vec<usize>, Vec<u8>)>);

impl Safetensors {
    pub fn of(checkpoint: &str) -> Self {
        let bytes = bytes(&format!("tests/fixtures/checkpoints/{checkpoint}/model.safetensors"));
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: HashMap<String, serde_json::Value> = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let tensors = header.into_iter().filter(|(name, _)| name != "__metadata__").map(|(name, info)| {
            let shape: Vec<usize> = serde_json::from_value(info["shape"].clone()).unwrap();
            let [from, to]: [usize; 2] = serde_json::from_value(info["data_offsets"].clone()).unwrap();
            let data = bytes[8 + length..][from..to].to_vec();
            (name, (info["dtype"].as_str().unwrap().to_owned(), shape, data))
        });
        Self(tensors.collect())
    }

    pub fn file(&self) -> Vec<u8> {
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (name, (dtype, shape, bytes)) in &self.0 {
            let offsets = [data.len(), data.len() + bytes.len()];
            header.insert(name.clone(), serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}));
            data.extend(bytes);
        }
        let header = serde_json::to_vec(&header).unwrap();
        [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
    }

    /// With the configuration of the plain checkpoints.
    pub fn load(&self) -> Result<Loaded> {
        let config = bytes("tests/fixtures/checkpoints/plain-f32/config.json");
        try_load(&[("config.json".into(), config), ("model.safetensors".into(), self.file())], None)
    }
}

/// A GGUF file taken apart.
pub struct Gguf {
    pub metadata: BTreeMap<String, gguf_file::Value>,
    pub tensors: BTreeMap<String, QTensor>,
}

impl Gguf {
    pub fn of(name: &str) -> Self {
        let mut file = Cursor::new(bytes(&format!("tests/fixtures/gguf/{name}.gguf")));
        let content = gguf_file::Content::read(&mut file).unwrap();
        let tensors = content.tensor_infos.keys();
        let tensors =
            tensors.map(|name| (name.clone(), content.tensor(&mut file, name, &Device::Cpu).unwrap())).collect();
        Self { metadata: content.metadata.into_iter().collect(), tensors }
    }

    pub fn set_tensor(&mut self, name: &str, tensor: &Tensor) {
        self.tensors.insert(name.into(), QTensor::quantize(tensor, GgmlDType::F32).unwrap());
    }

    pub fn set_text(&mut self, key: &str, text: &str) {
        self.metadata.insert(key.into(), gguf_file::Value::String(text.into()));
    }

    pub fn file(&self) -> Vec<u8> {
        let metadata: Vec<_> = self.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let tensors: Vec<_> = self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let mut file = Cursor::new(Vec::new());
        gguf_file::write(&mut file, &metadata, &tensors).unwrap();
        file.into_inner()
    }

    pub fn load(&self) -> Result<Loaded> {
        try_gguf(&self.file(), None)
    }
}
