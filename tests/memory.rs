//! How much memory loading takes at most, counted by the allocator. It is a test of its own because it counts
//! everything the process does.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use gpt2_web::ErrorKind;
use gpt2_web::gpt2::checkpoint::{Loader, ModelFile, Options, WeightsFile};
use gpt2_web::gpt2::{Gpt2, Precision};
use gpt2_web::model::LanguageModel;

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grown(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: every call is handed to the system's allocator as it came; counting touches nothing else.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new may be there at once while the numbers move.
        grown(size);
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MIB: f64 = (1 << 20) as f64;

/// A safetensors file in f32 that is nowhere: its header, and its numbers as they are asked for.
struct Synthetic {
    header: Vec<u8>,
    numbers: u64,
}

impl Synthetic {
    /// GPT-2's shape with `n_layer` blocks, in the order of the published file, its masks included.
    fn new(n_layer: u64) -> Self {
        let (mut header, mut numbers) = (serde_json::Map::new(), 0u64);
        let mut put = |name: String, shape: &[u64]| {
            let from = 4 * numbers;
            numbers += shape.iter().product::<u64>();
            let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [from, 4 * numbers]});
            header.insert(name, entry);
        };
        for block in 0..n_layer {
            for (part, shape) in [
                ("attn.bias", &[1, 1, 1024, 1024][..]),
                ("attn.c_attn.bias", &[2304]),
                ("attn.c_attn.weight", &[768, 2304]),
                ("attn.c_proj.bias", &[768]),
                ("attn.c_proj.weight", &[768, 768]),
                ("ln_1.bias", &[768]),
                ("ln_1.weight", &[768]),
                ("ln_2.bias", &[768]),
                ("ln_2.weight", &[768]),
                ("mlp.c_fc.bias", &[3072]),
                ("mlp.c_fc.weight", &[768, 3072]),
                ("mlp.c_proj.bias", &[768]),
                ("mlp.c_proj.weight", &[3072, 768]),
            ] {
                put(format!("h.{block}.{part}"), shape);
            }
        }
        put("ln_f.bias".into(), &[768]);
        put("ln_f.weight".into(), &[768]);
        put("wpe.weight".into(), &[1024, 768]);
        put("wte.weight".into(), &[50257, 768]);
        let json = serde_json::to_vec(&header).unwrap();
        Self { header: [&(json.len() as u64).to_le_bytes()[..], &json].concat(), numbers }
    }

    fn size(&self) -> u64 {
        self.header.len() as u64 + 4 * self.numbers
    }

    /// Pushes all of it in pieces of 4 MiB; stops after `most` bytes.
    fn stream(&self, loader: &mut Loader, most: u64) -> gpt2_web::Result<()> {
        loader.push(&self.header)?;
        let (mut state, mut left) = (1u32, self.numbers.min(most / 4));
        let mut piece = Vec::with_capacity(4 << 20);
        while left > 0 {
            piece.clear();
            for _ in 0..left.min(1 << 20) {
                state = state.wrapping_mul(1664525).wrapping_add(1013904223);
                let number = (state >> 8) as f32 / (1u32 << 24) as f32 * 0.08 - 0.04;
                piece.extend_from_slice(&number.to_le_bytes());
            }
            left -= (piece.len() / 4) as u64;
            loader.push(&piece)?;
        }
        Ok(())
    }

    fn loader(&self, precision: Precision, n_layer: u64) -> Loader {
        let config = format!(r#"{{"n_layer": {n_layer}}}"#);
        let config = ModelFile { name: "config.json", bytes: config.as_bytes() };
        let stream = WeightsFile { name: "model.safetensors".into(), size: Some(self.size()), tokenizer_only: false };
        let options = Options { precision: Some(precision), ..Options::default() };
        let mut loader = Loader::new(&[config], vec![stream], options).unwrap();
        loader.begin_file("model.safetensors").unwrap();
        loader
    }
}

/// How many bytes the textbook model takes beside the model, for a pass over 64 tokens and the logits of the last.
fn of_the_textbook(model: &Gpt2) -> f64 {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let ids: Vec<u32> = (0..64).collect();
    let mut pass = model.reference().begin(&ids).unwrap();
    while pass.next().unwrap().is_some() {}
    let hidden = pass.hidden().unwrap();
    let mut logits = model.reference().logits(&hidden[hidden.len() - 768..]).unwrap();
    while logits.next().unwrap().is_some() {}
    (PEAK.load(Ordering::Relaxed) - before) as f64
}

/// One test, because two would count each other's memory.
#[test]
fn loading_takes_little_more_than_what_is_kept() {
    let file = Synthetic::new(12);
    assert!((548e6..549e6).contains(&(file.size() as f64)), "{}", file.size());
    for precision in [Precision::Q8_0, Precision::Q4_0] {
        let before = NOW.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let mut loader = file.loader(precision, 12);
        file.stream(&mut loader, u64::MAX).unwrap();
        loader.end_file().unwrap();
        let loaded = loader.finish().unwrap();
        let kept = (NOW.load(Ordering::Relaxed) - before) as f64;
        let peak = (PEAK.load(Ordering::Relaxed) - before) as f64;
        println!("{}: kept {:.1} MiB, peak {:.1} MiB", precision.name(), kept / MIB, peak / MIB);
        assert_eq!((loaded.parameters, loaded.model.vocab_size()), (124_439_808, 50257));
        // 36 or 20 bytes for 32 weights, and positions, norms and biases in f32.
        let weights = if precision == Precision::Q8_0 { 142e6 } else { 80e6 };
        assert!((weights..weights + 2e6).contains(&kept), "kept {kept}");
        assert!(peak <= 1.15 * kept + 60e6, "{precision:?}: kept {kept}, peak {peak}");
        drop(loaded);
        assert!(NOW.load(Ordering::Relaxed) < before + 100_000, "a model that is dropped leaves memory behind");
    }

    // Dropped in the middle, and after an error: everything is given back.
    let before = NOW.load(Ordering::Relaxed);
    let file = Synthetic::new(2);
    let mut loader = file.loader(Precision::Q8_0, 2);
    file.stream(&mut loader, file.size() / 2).unwrap();
    drop(loader);
    let mut loader = file.loader(Precision::F32, 2);
    file.stream(&mut loader, file.size() / 2).unwrap();
    assert_eq!(loader.end_file().unwrap_err().kind, ErrorKind::DamagedModel);
    drop(loader);
    assert!(NOW.load(Ordering::Relaxed) < before + 100_000, "a loader that is dropped leaves memory behind");

    // Last, because the threads that candle computes with stay.
    let file = Synthetic::new(12);
    let mut loader = file.loader(Precision::Q8_0, 12);
    file.stream(&mut loader, u64::MAX).unwrap();
    loader.end_file().unwrap();
    let extra = of_the_textbook(&loader.finish().unwrap().model);
    println!("the textbook model: {:.1} MiB more", extra / MIB);
    assert!(extra < 100e6, "the textbook model takes {extra} more");
}
