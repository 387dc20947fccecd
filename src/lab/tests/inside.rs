//! The inside view, and precision, on real models.

use super::*;
use crate::gpt2::Precision;
use crate::lab::distribution::{best, softmax};

#[test]
fn the_last_layer_says_what_the_model_says() {
    for name in ["f32", "q8_0"] {
        let mut engine = tiny(name);
        let options = json!({"prompt": "the quick brown fox", "candidates": 3});
        let Left { rows, summary, .. } = left("inside", options, &mut engine.model, &engine.tokenizer);
        let ids: Vec<u32> = summary["tokens"]
            .as_array()
            .unwrap()
            .iter()
            .map(|piece| piece["token_id"].as_u64().unwrap() as u32)
            .collect();
        let (n, config) = (ids.len(), engine.model.config().clone());
        let scores = engine.model.score(&ids).unwrap();
        let lens: Vec<_> = rows.iter().filter(|row| row.get("position").is_some()).collect();
        assert_eq!(lens.len(), (config.n_layer + 1) * n);
        for row in lens.iter().filter(|row| row["layer"] == config.n_layer) {
            let logits = &scores[row["position"].as_u64().unwrap() as usize];
            let (id, probability) = (best(logits).0, softmax(logits, 1.0)[best(logits).0 as usize]);
            assert_eq!(row["token_id"], id);
            // The fast network rounds activations to 8 bits.
            assert!((row["probability"].as_f64().unwrap() - probability).abs() < 0.02, "{row}, {probability}");
            assert_eq!(row["candidates"].as_array().unwrap().len(), 3);
        }
        let attention: Vec<_> = rows.iter().filter(|row| row.get("weights").is_some()).collect();
        assert_eq!(attention.len(), config.n_layer * config.n_head * n);
        for row in attention {
            let weights = numbers(&row["weights"]);
            assert_eq!(weights.len() as u64, row["query"].as_u64().unwrap() + 1);
            assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-3, "{row}");
        }
        let decided = numbers(&summary["decided_at"]);
        for (position, layer) in decided.iter().enumerate() {
            let said = |layer: u64| &lens[layer as usize * n + position]["token_id"];
            let from = *layer as u64;
            assert!((from..=config.n_layer as u64).all(|layer| said(layer) == said(config.n_layer as u64)));
            assert!(from == 0 || said(from - 1) != said(config.n_layer as u64));
        }
    }
}

#[test]
fn the_textbook_model_chooses_the_same_tokens_in_the_naive_loop() {
    let mut engine = tiny("f32");
    let options = json!({"prompt": "the quick", "lengths": [8], "repeats": 1});
    let Left { rows, .. } = left("naive", options, &mut engine.model, &engine.tokenizer);
    assert_eq!(
        (&rows[0]["equal"], &rows[0]["textbook_equal"]),
        (&json!(true), &json!(true)),
        "{}",
        rows[0]["differences"]
    );
    assert_eq!(rows[0]["steps"]["textbook_ms"].as_array().unwrap().len(), 8);
}

/// A model that is made of another is the one that its file gives.
#[test]
fn a_model_in_another_precision_is_the_one_that_a_load_gives() {
    let load = |precision| {
        let bytes = std::fs::read("tests/fixtures/gguf/f32.gguf").unwrap();
        let file = ModelFile { name: "f32.gguf", bytes: &bytes };
        crate::gpt2::checkpoint::load(&[file], Some(precision), &mut |_, _| {}).unwrap().model
    };
    let ids = [5, 17, 200, 3, 3, 99];
    for precision in Precision::ALL {
        let mut made = load(Precision::F32).in_precision(precision).unwrap();
        let mut loaded = load(precision);
        assert_eq!(made.score(&ids).unwrap(), loaded.score(&ids).unwrap(), "{precision:?}");
        assert_eq!((made.precision(), made.weight_bytes()), (precision, loaded.weight_bytes()));
    }
}

#[test]
fn fewer_bits_lie_further_from_the_reference() {
    let mut engine = tiny("f32");
    let options = json!({"prompts": ["the quick", "brown"], "n": 12, "text": "the quick brown fox jumps over the dog"});
    let Left { rows, summary, .. } = left("precision", options, &mut engine.model, &engine.tokenizer);
    let field = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(field("precision"), ["f32", "q8_0", "q4_0"]);
    assert_eq!(field("loaded"), [true, false, false]);
    let divergence: Vec<f64> = field("mean_divergence").iter().map(|value| value.as_f64().unwrap()).collect();
    assert!(divergence[0] == 0.0 && divergence[1] > 0.0 && divergence[2] > 4.0 * divergence[1], "{divergence:?}");
    assert_eq!((numbers(&rows[0]["surviving"]), &rows[0]["e"]), (vec![1.0; 13], &json!(0.0)));
    let ids = engine.tokenizer.encode("the quick brown fox jumps over the dog", false).unwrap();
    assert_eq!(summary["tokens"], ids.len());
    let scores = engine.model.score(&ids).unwrap();
    let product: f64 = scores.iter().zip(&ids[1..]).map(|(row, &next)| softmax(row, 1.0)[next as usize].ln()).sum();
    let perplexity = rows[0]["perplexity"].as_f64().unwrap();
    assert!((perplexity / (-product / (ids.len() - 1) as f64).exp() - 1.0).abs() < 1e-9, "{perplexity}");
    assert_eq!(summary["left_out"], json!([]));
}
