//! What a file holds, and whether and why not it would load in a page:
//!
//! ```sh
//! cargo run --release --example inspect -- FILE
//! ```
//!
//! FILE is a GGUF or safetensors file, or the folder of a checkpoint. All of it is read, so the answer is that of the
//! loader itself. The exit code is 0 if it would load, 1 if not, 2 if there is no such file.

use std::path::Path;
use std::process::ExitCode;

use gpt2_web::Result;
use gpt2_web::engine::Engine;
use gpt2_web::gpt2::Precision;
use gpt2_web::gpt2::checkpoint::{Header, HeaderReader, Loaded, Loader, Options};

mod disk;

const MIB: u64 = 1 << 20;

/// The size of GPT-2's vocabulary, which a page can lend to a model that has no tokenizer of its own.
const GPT2_TOKENS: usize = 50257;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [path] = arguments.as_slice() else {
        eprintln!("usage: inspect FILE");
        return ExitCode::from(2);
    };
    if !Path::new(path).exists() {
        eprintln!("there is no file {path}");
        return ExitCode::from(2);
    }
    match inspect(Path::new(path)) {
        Ok(Verdict { precision, parameters, sha256, notices }) => {
            println!("loads: yes, in {}", precision.name());
            println!("  {parameters} parameters, sha256 {sha256}");
            for notice in notices {
                println!("  note: {notice}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("loads: no ({})", serde_json::to_value(error.kind).unwrap_or_default());
            println!("  {error}");
            ExitCode::FAILURE
        }
    }
}

/// What there is to say of a model that loads.
struct Verdict {
    precision: Precision,
    parameters: usize,
    sha256: String,
    notices: Vec<String>,
}

fn inspect(path: &Path) -> Result<Verdict> {
    let files = disk::Files::at(path)?;
    for (place, stream) in &files.classified.weights {
        let name = files.name(*place);
        match header(&files, *place) {
            Ok(header) => print_header(name, stream.size, &header),
            Err(error) => println!("{name}: {error}"),
        }
    }
    for place in &files.classified.ignored {
        println!("{}: not used", files.name(*place));
    }
    let companions = files.companions();
    for file in &companions {
        println!("{}: {} bytes", file.name, file.bytes.len());
    }

    let mut loader = files.loader(Options::default())?;
    let streamed = files.stream(&mut loader);
    print_model(&loader);
    streamed?;
    let loaded = loader.finish()?;
    let Loaded { precision, parameters, .. } = loaded;
    let (sha256, mut notices) = (loaded.sha256.clone().unwrap_or_default(), loaded.notices.clone());
    if loaded.tokenizer.is_none()
        && !files.classified.brings_tokenizer()
        && loaded.model.config().vocab_size >= GPT2_TOKENS
    {
        notices.push("it comes without a tokenizer; the page lends it GPT-2's".to_owned());
    } else {
        Engine::new(&path.display().to_string(), loaded, &companions)?;
    }
    Ok(Verdict { precision, parameters, sha256, notices })
}

fn header(files: &disk::Files, place: usize) -> Result<Header> {
    let stream = files.classified.weights.iter().find(|(other, _)| *other == place).map(|(_, stream)| stream);
    let mut reader = HeaderReader::new(files.name(place), stream.and_then(|stream| stream.size));
    for piece in files.pieces(place)? {
        if let Some(header) = reader.push(&mut piece?.as_slice())? {
            return Ok(header);
        }
    }
    reader.end()
}

fn print_header(name: &str, size: Option<u64>, header: &Header) {
    let bytes = size.unwrap_or_default();
    println!("{name}: {}, {bytes} bytes, {} tensors", header.format.name(), header.tensors.len());
    let width = header.tensors.iter().map(|tensor| tensor.name.len()).max().unwrap_or_default();
    for tensor in &header.tensors {
        let (shape, bytes) = (format!("{:?}", tensor.shape), tensor.end - tensor.begin);
        println!("  {:width$}  {:7}  {shape:16}  {bytes:>11} bytes", tensor.name, tensor.type_name);
    }
    match &header.tokenizer {
        Ok(Some(tokenizer)) => {
            println!("tokenizer inside: {} tokens, {} merges", tokenizer.tokens.len(), tokenizer.merges.len());
        }
        Ok(None) => println!("tokenizer inside: none"),
        Err(error) => println!("tokenizer inside: {error}"),
    }
}

fn print_model(loader: &Loader) {
    if let Some(config) = loader.config() {
        println!("configuration: {config:#?}");
    }
    let limit = Options::default().memory_limit / MIB;
    for precision in Precision::ALL {
        if let Some(needed) = loader.memory_needed(Some(precision)) {
            println!("memory needed in {:4}: {:5} MiB of at most {limit} MiB", precision.name(), needed.div_ceil(MIB));
        }
    }
}
