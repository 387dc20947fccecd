//! The tensors of every fixture against those that candle's own readers give, which hold the whole file in memory.

use candle_core::safetensors::SliceSafetensors;
use candle_core::{DType, Device, Tensor};
use candle_transformers::quantized_var_builder::VarBuilder;

use super::loader::held_in_f32;
use super::tensors::TensorId;
use super::{gguf, safetensors};

fn assert_same(got: &Tensor, expected: &Tensor, name: &str) {
    assert_eq!(got.dims(), expected.dims(), "{name}");
    let flat = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert_eq!(flat(got), flat(expected), "{name}");
}

#[test]
fn gguf_tensors_are_those_of_the_quantised_var_builder() {
    for file in ["f32", "f16", "q8_0", "q4_0", "q5_1", "k256-q4_k_m", "k256-q6_k"] {
        let bytes = std::fs::read(format!("tests/fixtures/gguf/{file}.gguf")).unwrap();
        let oracle = VarBuilder::from_gguf_buffer(&bytes, &Device::Cpu).unwrap();
        for (id, got) in held_in_f32(&[], &bytes) {
            let name = gguf::NAMES.name(id);
            let expected = oracle.get(got.dims(), &name).unwrap().dequantize(&Device::Cpu).unwrap();
            assert_same(&got, &expected, &format!("{file}: {name}"));
        }
    }
}

#[test]
fn safetensors_are_those_of_candle_turned_around_where_they_must_be() {
    for folder in ["plain-f32", "plain-f16", "plain-bf16", "prefix-lmhead-f32", "untied-f32", "buffers-f32"] {
        let bytes = std::fs::read(format!("tests/fixtures/checkpoints/{folder}/model.safetensors")).unwrap();
        let config = std::fs::read(format!("tests/fixtures/checkpoints/{folder}/config.json")).unwrap();
        let oracle = SliceSafetensors::new(&bytes).unwrap();
        let find = |name: &str| {
            let (key, _) = oracle
                .tensors()
                .into_iter()
                .find(|(key, _)| key.strip_prefix("transformer.").unwrap_or(key) == name)
                .unwrap();
            oracle.load(&key, &Device::Cpu).unwrap().to_dtype(DType::F32).unwrap()
        };
        for (id, got) in held_in_f32(&config, &bytes) {
            let name = safetensors::NAMES.name(id);
            let expected = find(&name);
            let turned = ["c_attn.weight", "c_proj.weight", "c_fc.weight"].iter().any(|end| name.ends_with(end));
            let expected = if turned { expected.t().unwrap() } else { expected };
            assert_same(&got, &expected, &format!("{folder}: {name}"));
        }
    }
}

#[test]
fn every_tensor_of_the_model_is_compared() {
    let bytes = std::fs::read("tests/fixtures/gguf/q5_1.gguf").unwrap();
    let held = held_in_f32(&[], &bytes);
    let config = crate::gpt2::Config { n_layer: 2, ..Default::default() };
    assert!(held.keys().copied().eq({
        let mut all: Vec<_> = TensorId::needed(&config, true).collect();
        all.sort();
        all
    }));
}
