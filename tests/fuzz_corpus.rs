//! Replays the inputs of the fuzzers: the seeds they start from, cut at many places and with bytes changed, and
//! everything that ever broke something. How to run the fuzzers themselves: docs/fuzzing.md.
#![cfg(not(target_arch = "wasm32"))]

use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

#[path = "../fuzz/targets.rs"]
mod targets;

/// Copies of `data` in which a few bytes are others of its own: most remain JSON, or a header that can be read. The
/// same ones in every run.
fn changed(data: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut random = ChaCha8Rng::seed_from_u64(data.len() as u64);
    let mut place = move |below: usize| random.next_u32() as usize % below;
    (0..150).map(move |_| {
        let mut copy = data.to_vec();
        for _ in 0..=place(3) {
            let (from, to) = (place(data.len()), place(data.len()));
            copy[to] = data[from];
        }
        copy
    })
}

/// Calls `target` with every file of its folder in fuzz/seeds and fuzz/regressions.
#[track_caller]
fn replay(name: &str, target: fn(&[u8])) {
    let mut seeds = 0;
    for folder in ["seeds", "regressions"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(folder).join(name);
        let Ok(files) = std::fs::read_dir(&folder) else { continue };
        for file in files {
            let path = file.expect("the folder can be read").path();
            // Shown if the target panics.
            println!("{}", path.display());
            let data = std::fs::read(&path).expect("the file can be read");
            target(&data);
            if folder.parent().is_some_and(|parent| parent.ends_with("seeds")) {
                seeds += 1;
                for cut in 0..40 {
                    target(&data[..data.len() * cut / 40]);
                }
                for changed in changed(&data) {
                    target(&changed);
                }
            }
        }
    }
    assert!(seeds > 0, "there are no seeds for {name}");
}

#[test]
fn safetensors() {
    replay("safetensors", targets::safetensors);
}

#[test]
fn gguf() {
    replay("gguf", targets::gguf);
}

#[test]
fn tokenizer() {
    replay("tokenizer", targets::tokenizer);
}

#[test]
fn config() {
    replay("config", targets::config);
}

#[test]
fn options() {
    replay("options", targets::options);
}

/// A seed that is refused at its first byte would find nothing.
#[test]
fn the_seeds_are_accepted() {
    use gpt2_web::gpt2::checkpoint::{self, ModelFile};
    for format in ["safetensors", "gguf"] {
        let seed = std::fs::read(format!("{}/fuzz/seeds/{format}/f32", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let files = [
            ModelFile { name: "model", bytes: &seed },
            ModelFile { name: "config.json", bytes: include_bytes!("../fuzz/seeds/config/plain") },
        ];
        checkpoint::load(&files, None, &mut |_, _| {}).unwrap();
    }
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/options")).unwrap() {
        let seed = std::fs::read(file.unwrap().path()).unwrap();
        serde_json::from_slice::<gpt2_web::options::RawOptions>(&seed).unwrap();
    }
}
