//! The hyperparameters of a GPT-2 checkpoint.

use serde::Deserialize;

use super::activation::Activation;
use crate::error::{Error, ErrorKind, Result};
use crate::json;

/// The hyperparameters of a GPT-2, under Hugging Face's names.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Size of the vocabulary, which is the number of logits.
    pub vocab_size: usize,
    /// Number of position embeddings: the context length.
    pub n_positions: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Number of transformer blocks.
    pub n_layer: usize,
    /// Attention heads of a block; each is `n_embd / n_head` wide.
    pub n_head: usize,
    /// Width of the hidden layer of the feed-forward network.
    pub n_inner: usize,
    /// The epsilon of layer norms, added to the variance.
    pub layer_norm_epsilon: f64,
    /// The activation function of the feed-forward network.
    pub activation: Activation,
    /// Whether attention scores are divided by the square root of the head's width.
    pub scale_attn_weights: bool,
    /// Whether attention scores of block `i` are also divided by `i + 1`.
    pub scale_attn_by_inverse_layer_idx: bool,
    /// Whether the token embedding is the `lm_head` if the file has no `lm_head`.
    pub tie_word_embeddings: bool,
}

/// The smallest GPT-2, which are also Hugging Face's defaults for fields missing in `config.json`.
impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 50257,
            n_positions: 1024,
            n_embd: 768,
            n_layer: 12,
            n_head: 12,
            n_inner: 4 * 768,
            layer_norm_epsilon: 1e-5,
            activation: Activation::NewGelu,
            scale_attn_weights: true,
            scale_attn_by_inverse_layer_idx: false,
            tie_word_embeddings: true,
        }
    }
}

/// The fields of `config.json` that affect the result. Missing fields have the defaults of Hugging Face's `GPT2Config`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Json {
    model_type: Option<String>,
    architectures: Option<Vec<String>>,
    vocab_size: Option<usize>,
    n_positions: Option<usize>,
    n_embd: Option<usize>,
    n_layer: Option<usize>,
    n_head: Option<usize>,
    /// Aliases of the four fields above, which Hugging Face's library accepts too.
    max_position_embeddings: Option<usize>,
    hidden_size: Option<usize>,
    num_hidden_layers: Option<usize>,
    num_attention_heads: Option<usize>,
    n_inner: Option<usize>,
    activation_function: Option<String>,
    layer_norm_epsilon: Option<f64>,
    scale_attn_weights: Option<bool>,
    scale_attn_by_inverse_layer_idx: Option<bool>,
    tie_word_embeddings: Option<bool>,
    /// All other fields. Apart from those in [`FOREIGN`], they only matter for training or for other programs.
    /// (`reorder_and_upcast_attn` changes the order of 16-bit operations and has no effect in f32.)
    #[serde(flatten)]
    others: serde_json::Map<String, serde_json::Value>,
}

/// Fields that must be numbers if they are present. The parser reads `NaN` as null.
const NUMBERS: [&str; 6] = ["vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "layer_norm_epsilon"];

const FORM: &str = "the configuration of a model";

/// Unsupported fields that would change the result, unless they are missing, null, false, 0 or empty.
const FOREIGN: [&str; 4] = ["add_cross_attention", "is_encoder_decoder", "pruned_heads", "quantization_config"];

impl Config {
    /// Reads Hugging Face's `config.json`.
    ///
    /// # Errors
    /// `DamagedModel` if the JSON is invalid or inconsistent, `UnsupportedModel` if it needs an unsupported feature. The
    /// message names the field.
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let json: Json = json::parse(ErrorKind::DamagedModel, "config.json", FORM, bytes)?;
        let all: serde_json::Map<_, _> = json::parse(ErrorKind::DamagedModel, "config.json", FORM, bytes)?;
        for name in NUMBERS {
            if all.get(name).is_some_and(serde_json::Value::is_null) {
                return Err(damaged(format!(
                    "`{name}` in config.json is null or NaN, not a number; download config.json again"
                )));
            }
        }
        let architecture = json.architectures.as_ref().and_then(|names| names.first());
        match (&json.model_type, architecture) {
            (Some(model_type), _) if model_type != "gpt2" => return Err(unsupported("model_type", model_type)),
            (None, Some(name)) if !name.starts_with("GPT2") => return Err(unsupported("architectures", name)),
            _ => {}
        }
        for name in FOREIGN {
            if let Some(value) = json.others.get(name).filter(|value| !says_nothing(value)) {
                return Err(unsupported(name, &format!("{:.60}", value.to_string())));
            }
        }
        let usual = Self::default();
        let activation = match json.activation_function.as_deref() {
            None => usual.activation,
            Some("gelu_new" | "gelu_pytorch_tanh") => Activation::NewGelu,
            Some("gelu") => Activation::Gelu,
            Some("relu") => Activation::Relu,
            Some("silu" | "swish") => Activation::Silu,
            Some(other) => return Err(unsupported("activation_function", other)),
        };
        let n_embd = either("n_embd", json.n_embd, "hidden_size", json.hidden_size, usual.n_embd)?;
        Self {
            vocab_size: json.vocab_size.unwrap_or(usual.vocab_size),
            n_positions: either(
                "n_positions",
                json.n_positions,
                "max_position_embeddings",
                json.max_position_embeddings,
                usual.n_positions,
            )?,
            n_embd,
            n_layer: either("n_layer", json.n_layer, "num_hidden_layers", json.num_hidden_layers, usual.n_layer)?,
            n_head: either("n_head", json.n_head, "num_attention_heads", json.num_attention_heads, usual.n_head)?,
            n_inner: json.n_inner.unwrap_or(n_embd.saturating_mul(4)),
            layer_norm_epsilon: json.layer_norm_epsilon.unwrap_or(usual.layer_norm_epsilon),
            activation,
            scale_attn_weights: json.scale_attn_weights.unwrap_or(usual.scale_attn_weights),
            scale_attn_by_inverse_layer_idx: json
                .scale_attn_by_inverse_layer_idx
                .unwrap_or(usual.scale_attn_by_inverse_layer_idx),
            tie_word_embeddings: json.tie_word_embeddings.unwrap_or(usual.tie_word_embeddings),
        }
        .checked()
    }

    /// Returns the configuration if its values are valid.
    ///
    /// # Errors
    /// `DamagedModel` for a size of 0, for an `n_head` that does not divide `n_embd`, or for an epsilon that is not a small
    /// positive number. `UnsupportedModel` for sizes far above those of GPT-2.
    pub fn checked(self) -> Result<Self> {
        for (name, value, max) in [
            ("vocab_size", self.vocab_size, 1 << 22),
            ("n_positions", self.n_positions, 1 << 20),
            ("n_embd", self.n_embd, 1 << 16),
            ("n_layer", self.n_layer, 1 << 10),
            ("n_head", self.n_head, 1 << 16),
            ("n_inner", self.n_inner, 1 << 18),
        ] {
            if value == 0 {
                return Err(damaged(format!("`{name}` is 0 in the configuration; it must be at least 1")));
            }
            if value > max {
                return Err(Error::new(
                    ErrorKind::UnsupportedModel,
                    format!("`{name}` is {value} in the configuration; the maximum supported is {max}"),
                ));
            }
        }
        if !self.n_embd.is_multiple_of(self.n_head) {
            return Err(damaged(format!(
                "the configuration is inconsistent: `n_embd` ({}) is not a multiple of `n_head` ({})",
                self.n_embd, self.n_head
            )));
        }
        if !(self.layer_norm_epsilon > 0.0 && self.layer_norm_epsilon < 1.0) {
            return Err(damaged(format!(
                "`layer_norm_epsilon` is {} in the configuration; it must be a small positive number",
                self.layer_norm_epsilon
            )));
        }
        Ok(self)
    }

    /// Width of one attention head.
    pub fn head_dim(&self) -> usize {
        self.n_embd / self.n_head
    }

    /// The factor for the attention scores of block `layer` before the softmax.
    pub fn attention_scale(&self, layer: usize) -> f32 {
        let width = if self.scale_attn_weights { (self.head_dim() as f32).sqrt() } else { 1.0 };
        let depth = if self.scale_attn_by_inverse_layer_idx { (layer + 1) as f32 } else { 1.0 };
        1.0 / (width * depth)
    }
}

/// Whether a field has no effect: it is null, false, 0 or empty.
fn says_nothing(value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn damaged(message: String) -> Error {
    Error::new(ErrorKind::DamagedModel, message)
}

fn unsupported(field: &str, value: &str) -> Error {
    Error::new(
        ErrorKind::UnsupportedModel,
        format!("config.json says `{field}` is {value}, which is not supported; only a plain GPT-2 can be loaded"),
    )
}

/// The value of a field with an alias.
fn either(name: &str, value: Option<usize>, other: &str, alias: Option<usize>, usual: usize) -> Result<usize> {
    match (value, alias) {
        (Some(value), Some(alias)) if value != alias => Err(damaged(format!(
            "the configuration is inconsistent: `{name}` is {value} and its alias `{other}` is {alias}"
        ))),
        _ => Ok(value.or(alias).unwrap_or(usual)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_are_those_of_gpt2() {
        let config = Config::from_json(b"{}").unwrap();
        assert_eq!((config.vocab_size, config.n_positions, config.n_embd), (50257, 1024, 768));
        assert_eq!((config.n_layer, config.n_head, config.n_inner), (12, 12, 3072));
        assert_eq!(config.activation, Activation::NewGelu);
        assert_eq!(config.attention_scale(5), 0.125);
    }

    #[test]
    fn scores_are_scaled_as_the_configuration_says() {
        let scale = |json: &str| Config::from_json(json.as_bytes()).unwrap().attention_scale(3);
        assert_eq!(scale(r#"{"scale_attn_by_inverse_layer_idx": true}"#), 0.125 / 4.0);
        assert_eq!(scale(r#"{"scale_attn_weights": false}"#), 1.0);
    }

    #[test]
    fn fields_that_say_nothing_new_are_accepted() {
        let json = r#"{"reorder_and_upcast_attn": true, "add_cross_attention": false, "pruned_heads": {}, "n_inner": null,
            "quantization_config": null, "attn_pdrop": 0.1, "n_ctx": 1024, "torch_dtype": "float16", "use_cache": true,
            "task_specific_params": {"text-generation": {"do_sample": true}}, "summary_type": "cls_index"}"#;
        assert_eq!(Config::from_json(json.as_bytes()).unwrap(), Config::default());
    }

    #[test]
    fn what_python_and_windows_put_in_is_no_hindrance() {
        let json = b"\xef\xbb\xbf{\"initializer_range\": NaN, \"summary_first_dropout\": -Infinity, \"n_layer\": 3}";
        assert_eq!(Config::from_json(json).unwrap().n_layer, 3);
    }

    #[test]
    fn every_activation_has_its_names() {
        for (name, activation) in [
            ("gelu_new", Activation::NewGelu),
            ("gelu_pytorch_tanh", Activation::NewGelu),
            ("gelu", Activation::Gelu),
            ("relu", Activation::Relu),
            ("silu", Activation::Silu),
        ] {
            let json = format!(r#"{{"activation_function": "{name}"}}"#);
            assert_eq!(Config::from_json(json.as_bytes()).unwrap().activation, activation);
        }
    }

    #[test]
    fn what_cannot_be_computed_is_refused_by_name() {
        for (json, name) in [
            (r#"{"model_type": "gpt_neo"}"#, "gpt_neo"),
            (r#"{"architectures": ["LlamaForCausalLM"]}"#, "LlamaForCausalLM"),
            (r#"{"is_encoder_decoder": true}"#, "is_encoder_decoder"),
            (r#"{"activation_function": "mish"}"#, "`activation_function` is mish"),
            (r#"{"add_cross_attention": true}"#, "add_cross_attention"),
            (r#"{"pruned_heads": {"0": [1]}}"#, "pruned_heads"),
            (r#"{"quantization_config": {"bits": 4}}"#, "quantization_config"),
            (r#"{"n_positions": 100000000}"#, "n_positions"),
        ] {
            let error = Config::from_json(json.as_bytes()).unwrap_err();
            assert_eq!(error.kind, ErrorKind::UnsupportedModel, "{json}");
            assert!(error.message.contains(name), "{}", error.message);
        }
    }

    #[test]
    fn other_architectures_names_are_understood() {
        let theirs =
            r#"{"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 8, "max_position_embeddings": 9}"#;
        let ours = r#"{"n_embd": 96, "n_layer": 3, "n_head": 8, "n_positions": 9}"#;
        let config = Config::from_json(theirs.as_bytes()).unwrap();
        assert_eq!(config, Config::from_json(ours.as_bytes()).unwrap());
        assert_eq!((config.n_head, config.n_positions), (8, 9));
        let error = Config::from_json(br#"{"n_head": 12, "num_attention_heads": 6}"#).unwrap_err();
        assert_eq!(error.kind, ErrorKind::DamagedModel);
        assert!(error.message.contains("n_head") && error.message.contains("num_attention_heads"), "{error}");
    }

    #[test]
    fn contradictions_are_damage() {
        for (json, name) in [
            ("", "config.json"),
            ("[1", "config.json"),
            (r#"{"n_embd": -1}"#, "config.json"),
            (r#"{"n_embd": "768"}"#, "config.json"),
            (r#"{"layer_norm_epsilon": NaN}"#, "layer_norm_epsilon"),
            (r#"{"n_layer": null}"#, "n_layer"),
            (r#"{"n_layer": 0}"#, "n_layer"),
            (r#"{"n_head": 0}"#, "n_head"),
            (r#"{"n_inner": 0}"#, "n_inner"),
            (r#"{"n_head": 7}"#, "n_head"),
            (r#"{"layer_norm_epsilon": 0.0}"#, "layer_norm_epsilon"),
            (r#"{"layer_norm_epsilon": -1e-5}"#, "layer_norm_epsilon"),
        ] {
            let error = Config::from_json(json.as_bytes()).unwrap_err();
            assert_eq!(error.kind, ErrorKind::DamagedModel, "{json}");
            assert!(error.message.contains(name), "{}", error.message);
        }
    }
}
