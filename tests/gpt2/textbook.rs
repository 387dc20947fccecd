//! The whole network against GPT-2 as a textbook writes it (`src/gpt2/reference.rs`), over random weights in random small
//! shapes with every switch of the configuration, and over every fixture.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use gpt2_web::gpt2::Precision;
use gpt2_web::model::LanguageModel;
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::fixture::{self, CHECKPOINTS, EMBEDDED, GGUFS, Safetensors, folder, try_gguf, try_load};

/// What a `config.json` says, under its names.
#[derive(Debug, Clone)]
struct Config {
    vocab_size: usize,
    n_positions: usize,
    n_head: usize,
    head_dim: usize,
    n_layer: usize,
    n_inner: usize,
    layer_norm_epsilon: f64,
    activation_function: &'static str,
    scale_attn_weights: bool,
    scale_attn_by_inverse_layer_idx: bool,
    tie_word_embeddings: bool,
}

impl Config {
    fn n_embd(&self) -> usize {
        self.n_head * self.head_dim
    }

    fn json(&self) -> Vec<u8> {
        serde_json::to_vec(&serde_json::json!({
            "model_type": "gpt2",
            "vocab_size": self.vocab_size,
            "n_positions": self.n_positions,
            "n_embd": self.n_embd(),
            "n_head": self.n_head,
            "n_layer": self.n_layer,
            "n_inner": self.n_inner,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "activation_function": self.activation_function,
            "scale_attn_weights": self.scale_attn_weights,
            "scale_attn_by_inverse_layer_idx": self.scale_attn_by_inverse_layer_idx,
            "tie_word_embeddings": self.tie_word_embeddings,
        }))
        .unwrap()
    }

    /// Every tensor of the checkpoint: its name, its shape, and how far its numbers lie from their mean at most, so
    /// that what comes out of each part is about as large as what goes in.
    fn tensors(&self) -> Vec<(String, Vec<usize>, f64)> {
        let (width, inner) = (self.n_embd(), self.n_inner);
        let spread = |inputs: usize| 1.7 / (inputs as f64).sqrt();
        let mut all = vec![
            ("wte.weight".to_owned(), vec![self.vocab_size, width], 1.0),
            ("wpe.weight".to_owned(), vec![self.n_positions, width], 0.5),
        ];
        for layer in 0..self.n_layer {
            let mut add =
                |name: &str, shape: &[usize], spread| all.push((format!("h.{layer}.{name}"), shape.to_vec(), spread));
            for (name, inputs, outputs, gain) in [
                // Scores as far from each other as those of a trained model.
                ("attn.c_attn", width, 3 * width, 1.5),
                ("attn.c_proj", width, width, 1.0),
                ("mlp.c_fc", width, inner, 1.0),
                ("mlp.c_proj", inner, width, 1.0),
            ] {
                add(&format!("{name}.weight"), &[inputs, outputs], gain * spread(inputs));
                add(&format!("{name}.bias"), &[outputs], 0.3);
            }
            for name in ["ln_1", "ln_2"] {
                add(&format!("{name}.weight"), &[width], 0.4);
                add(&format!("{name}.bias"), &[width], 0.3);
            }
        }
        all.push(("ln_f.weight".to_owned(), vec![width], 0.4));
        all.push(("ln_f.bias".to_owned(), vec![width], 0.3));
        if !self.tie_word_embeddings {
            all.push(("lm_head.weight".to_owned(), vec![self.vocab_size, width], 1.0));
        }
        all
    }
}

/// A checkpoint of random weights.
fn random_weights(config: &Config, seed: u64) -> Safetensors {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut file = BTreeMap::new();
    for (name, shape, spread) in config.tensors() {
        let mean = if name.contains("ln_") && name.ends_with("weight") { 1.0 } else { 0.0 };
        let bytes = (0..shape.iter().product())
            .map(|_| (mean + spread * (f64::from(random.next_u32()) / 2f64.powi(31) - 1.0)) as f32)
            .flat_map(f32::to_le_bytes)
            .collect();
        file.insert(name, ("F32".to_owned(), shape, bytes));
    }
    Safetensors(file)
}

/// The difference between the logits of the network and of the textbook over the same weights, and the size of logits:
/// root mean squares.
fn difference(config: &Config, precision: Precision, seed: u64, ids: &[u32]) -> (f64, f64) {
    let file = random_weights(config, seed).file();
    let files = [("config.json".to_owned(), config.json()), ("model.safetensors".to_owned(), file)];
    let mut model = try_load(&files, Some(precision)).unwrap_or_else(|error| panic!("{config:?}: {error}")).model;
    let wanted = model.reference().forward(ids).unwrap().0.concat();
    let got = model.score(ids).unwrap().concat();
    off_and_size(&got, &wanted)
}

fn off_and_size(got: &[f32], wanted: &[f32]) -> (f64, f64) {
    assert_eq!(got.len(), wanted.len());
    let mean = |sum: f64| (sum / wanted.len() as f64).sqrt();
    let squares = got.iter().zip(wanted).map(|(&got, &wanted)| (f64::from(got) - f64::from(wanted)).powi(2));
    (mean(squares.sum()), mean(wanted.iter().map(|&logit| f64::from(logit).powi(2)).sum()))
}

/// Configurations whose widths are multiples of `unit`: heads of up to `head_dim` units, and up to `n_inner` inside.
fn configs(
    unit: usize,
    head_dim: usize,
    n_inner: usize,
    vocab: RangeInclusive<usize>,
) -> impl Strategy<Value = Config> {
    let heads = (1..=5usize, 1..=head_dim).prop_map(move |(n_head, head_dim)| (n_head, head_dim * unit));
    let sizes = (vocab, 1..=24usize, 1..=3usize, 1..=n_inner);
    let epsilon = prop::sample::select(&[1e-5, 1e-6, 1e-3]);
    let activation = prop::sample::select(&["gelu_new", "gelu", "relu", "silu"]);
    (heads, sizes, epsilon, activation, any::<[bool; 3]>()).prop_map(
        move |(
            (n_head, head_dim),
            (vocab_size, n_positions, n_layer, n_inner),
            layer_norm_epsilon,
            activation,
            flags,
        )| {
            Config {
                vocab_size,
                n_positions,
                n_head,
                head_dim,
                n_layer,
                n_inner: n_inner * unit,
                layer_norm_epsilon,
                activation_function: activation,
                scale_attn_weights: flags[0],
                scale_attn_by_inverse_layer_idx: flags[1],
                tie_word_embeddings: flags[2],
            }
        },
    )
}

/// As many ids as the context takes, at most.
fn with_ids(config: impl Strategy<Value = Config>) -> impl Strategy<Value = (Config, Vec<u32>)> {
    config.prop_flat_map(|config| {
        let ids = prop::collection::vec(0..config.vocab_size as u32, 1..=config.n_positions);
        (Just(config), ids)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn in_f32_the_network_is_the_textbook((config, ids) in with_ids(configs(1, 13, 70, 1..=90)), seed: u64) {
        let (off, size) = difference(&config, Precision::F32, seed, &ids);
        // A millionth is usual. A layer norm of two numbers that are nearly the same enlarges it a thousandfold.
        prop_assert!(off <= 1e-3 * size.max(0.1), "{} beside {}: {:?}", off, size, config);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The weights are the same, quantised. What differs is that activations, keys and values are rounded to 8 bits, which
    /// moves the logits by a share of their size. With few logits their size would be a matter of luck.
    #[test]
    fn in_blocks_the_network_is_near_the_textbook((config, ids) in with_ids(configs(32, 2, 16, 32..=90)), seed: u64) {
        // Unscaled scores of wide heads are so far apart that the least rounding changes which one is greatest.
        let config = Config { scale_attn_weights: true, ..config };
        for precision in [Precision::Q8_0, Precision::Q4_0] {
            let (off, size) = difference(&config, precision, seed, &ids);
            prop_assert!(off <= SHARE * size, "{:?}: {} beside {}: {:?}", precision, off, size, config);
        }
    }
}

/// How far 8-bit activations move logits, as a share of their size.
const SHARE: f64 = 0.06;

#[test]
fn on_every_fixture_the_network_is_the_textbook() {
    let checkpoints = CHECKPOINTS.map(|name| (name, fixture::checkpoint(name, None)));
    let ggufs = GGUFS.map(|name| (name, fixture::gguf(name, Some(Precision::F32))));
    let embedded = try_gguf(&fixture::bytes(EMBEDDED), Some(Precision::F32)).unwrap();
    for (name, loaded) in checkpoints.into_iter().chain(ggufs).chain([("embedded", embedded)]) {
        let mut model = loaded.model;
        let ids: Vec<u32> = (0..24).map(|place| place * place * 7 % model.vocab_size() as u32).collect();
        let (wanted, layers) = model.reference().forward(&ids).unwrap();
        let (off, size) = off_and_size(&model.score(&ids).unwrap().concat(), &wanted.concat());
        assert!(off <= 1e-5 * size, "{name}: {off} beside {size}");
        assert_eq!(layers.len(), model.config().n_layer);
        for layer in layers {
            assert_eq!(layer.hidden.len(), ids.len() * model.config().n_embd);
            // Each query takes 1 in all, and nothing from what comes after it.
            for (row, weights) in layer.attention.chunks_exact(ids.len()).enumerate() {
                let (seen, later) = weights.split_at(row % ids.len() + 1);
                assert!((seen.iter().sum::<f32>() - 1.0).abs() < 1e-5 && later.iter().all(|&weight| weight == 0.0));
            }
        }
    }
}

/// A safetensors file begins with the length of its header, whose bytes may be those that begin a pickle, a gzip archive
/// or an ONNX file.
#[test]
fn a_header_of_any_length_is_one() {
    let file = Safetensors::of("plain-f32").file();
    let (length, rest) = file.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    for length in [0x1_0280, 0x1_0380, 0x1_0480, 0x1_0580, 0x1_8b1f, 0x12_0108, 0x3a_0208] {
        let blanks = vec![b' '; length - header.len()];
        let file = [&(length as u64).to_le_bytes()[..], header, &blanks, data].concat();
        let files = [folder("plain-f32").swap_remove(0), ("model.safetensors".to_owned(), file)];
        assert_eq!(files[0].0, "config.json");
        try_load(&files, None).unwrap_or_else(|error| panic!("{length:#x}: {error}"));
    }
}
