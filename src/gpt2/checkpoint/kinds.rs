//! What a GGUF or safetensors file may hold instead of a whole GPT-2: an adapter, a part, something else.

use std::collections::HashMap;

use super::gguf_header::{self, Value};
use super::header::Split;
use super::refusal::Refusal;
use crate::error::{Error, ErrorKind};

/// The part that a GGUF file is; none if it holds a whole model.
pub(super) fn split(metadata: &HashMap<&str, Value<'_>>) -> Option<Split> {
    match (metadata.get("split.no"), metadata.get("split.count")) {
        (Some(&Value::Integer(number)), Some(&Value::Integer(count))) if count > 1 => Some(Split { number, count }),
        _ => None,
    }
}

/// The same, from a file's first bytes.
pub(super) fn part(bytes: &[u8]) -> Option<Split> {
    split(&gguf_header::beginning(bytes))
}

/// The refusal of the GGUF file `name` if its first bytes show that it holds no model.
pub(super) fn other_gguf(name: &str, bytes: &[u8]) -> Option<Refusal> {
    let what = no_model(&gguf_header::beginning(bytes))?;
    Some(Refusal { error: Error::new(ErrorKind::NotAModel, format!("{name} is {what}")), is_model: true })
}

/// What a GGUF file is if it is not a model, and what to do.
pub(super) fn no_model(metadata: &HashMap<&str, Value<'_>>) -> Option<&'static str> {
    const IMAGES: &str = "the part of another model that looks at pictures (mmproj); give the GGUF file of a GPT-2";
    let text = |key: &str| match metadata.get(key) {
        Some(Value::String(text)) => *text,
        _ => "",
    };
    match (text("general.type"), text("general.architecture")) {
        ("adapter", _) => Some(
            "a LoRA adapter, which holds only what is added to a model; merge it into its base model with llama.cpp's \
             `llama-export-lora`, and give the GGUF file this writes",
        ),
        ("imatrix", _) => Some(
            "an importance matrix, which llama.cpp quantises with, and holds no model; give the model's own GGUF file",
        ),
        ("mmproj", _) | (_, "clip") => Some(IMAGES),
        (_, "controlvector") => {
            Some("a control vector, which holds only what is added to a model; give the GGUF file of the model")
        }
        _ => None,
    }
}

/// Whether a safetensors file holds an adapter, by its first bytes.
pub(super) fn is_adapter(bytes: &[u8]) -> bool {
    [&b".lora_A"[..], b".lora_B", b".lora_embedding_", b"lora_magnitude", b".ia3_l", b"prompt_embeddings\""]
        .iter()
        .any(|mark| bytes.windows(mark.len()).any(|window| window == *mark))
}

/// The error for the adapter `name` without a model.
pub(super) fn adapter(name: &str) -> Error {
    Error::new(
        ErrorKind::NotAModel,
        format!(
            "{name} is an adapter (LoRA or the like), which holds only what is added to a model; merge it into its base \
             model with peft (`merge_and_unload()`, then `save_pretrained`), and give the model.safetensors and \
             config.json this writes"
        ),
    )
}

/// Recognises a model other than GPT-2 by the name of a tensor: what it is, and what to do.
pub(super) fn architecture(tensor: &str) -> Option<&'static str> {
    const MARKS: [(&str, &str); 24] = [
        (".lora_", "an adapter (LoRA); merge it into its base model with peft (`merge_and_unload()`)"),
        (".qweight", "quantised by GPTQ or AWQ; give the model it was made from, or a GGUF file"),
        (".qzeros", "quantised by GPTQ or AWQ; give the model it was made from, or a GGUF file"),
        (".SCB", "quantised by bitsandbytes; give the model it was made from, or a GGUF file"),
        (".absmax", "quantised by bitsandbytes; give the model it was made from, or a GGUF file"),
        (".quant_map", "quantised by bitsandbytes; give the model it was made from, or a GGUF file"),
        ("crossattention", "a GPT-2 with cross-attention, the decoder of a larger model"),
        ("decoder.layers.", "of the architecture of OPT or BART"),
        ("self_attn.qkv_proj", "of the architecture of Phi-3"),
        ("self_attn.q_proj", "of the architecture of Llama, Mistral, Qwen or Gemma"),
        ("mlp.gate_proj", "of the architecture of Llama, Mistral, Qwen or Gemma"),
        ("model.layers.", "of the architecture of Llama, Mistral, Qwen or Gemma"),
        ("gpt_neox.", "of the architecture GPT-NeoX (Pythia)"),
        ("attn.attention.", "of the architecture GPT-Neo"),
        ("attn.q_proj", "of the architecture GPT-J"),
        ("attn.qkv_proj", "of the architecture CodeGen"),
        ("attention.self.", "of the architecture of BERT or RoBERTa"),
        ("attention.q_lin", "of the architecture DistilBERT"),
        ("SelfAttention.", "of the architecture T5"),
        ("mixer.", "of the architecture Mamba"),
        ("backbone.layers.", "of the architecture Mamba"),
        ("self_attention.", "of the architecture of Bloom or Falcon"),
        ("attn.Wqkv", "of the architecture MPT"),
        ("blocks.0.att.", "of the architecture RWKV"),
    ];
    MARKS.iter().find(|(mark, _)| tensor.contains(mark)).map(|(_, what)| *what)
}
