//! Experiments about text.

use super::models::Known;
use super::*;

#[test]
fn the_sample_string_has_nine_tokens_that_cut_its_characters() {
    let tokenizer = gpt2_tokenizer();
    let mut model = Known::new(tokenizer.len(), |_: &[u32]| vec![0.0; 50257]);
    let Left { rows, summary, .. } = left("tokens", json!({}), &mut model, &tokenizer);
    assert_eq!((rows.len(), &summary["tokens"]), (9, &json!(9)));
    let text = |field: &str| rows.iter().map(|row| row[field].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(text("emitted").concat(), "推論 café 😀");
    assert!(text("alone").concat().contains('\u{FFFD}'));
    let bytes: Vec<f64> = rows.iter().flat_map(|row| numbers(&row["bytes"])).collect();
    assert_eq!(bytes, "推論 café 😀".bytes().map(f64::from).collect::<Vec<_>>());
    // Bytes are held until the character is whole, and none at the end.
    assert!(rows.iter().any(|row| row["held_bytes"].as_u64().unwrap() > 0));
    assert_eq!(rows.last().unwrap()["held_bytes"], 0);
    assert_eq!((&summary["characters"], &summary["bytes"]), (&json!(9), &json!(17)));
}

#[test]
fn a_stop_string_is_cut_by_what_comes_before_it() {
    let tokenizer = gpt2_tokenizer();
    let mut model = Known::new(tokenizer.len(), |_: &[u32]| vec![0.0; 50257]);
    let options = json!({"stop": "\n\n", "left": ["end", ".\n", "\n"]});
    let summary = left("tokens", options, &mut model, &tokenizer).summary;
    // GPT-2 has one token for two line breaks, and another for one.
    let ids = |list: &Value| {
        list.as_array().unwrap().iter().map(|piece| piece["token_id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&summary["stop"]), [628]);
    for cut in summary["cuts"].as_array().unwrap() {
        assert_eq!(cut["found_by_ids"], ids(&cut["tokens"]) == [628], "{cut}");
        let spelled: String =
            cut["tokens"].as_array().unwrap().iter().map(|piece| piece["text"].as_str().unwrap()).collect();
        assert!(spelled.ends_with("\n\n"), "{cut}");
    }
    let missed = summary["cuts"].as_array().unwrap().iter().filter(|cut| cut["found_by_ids"] == false).count();
    assert_eq!(summary["missed"], missed);
    assert!(missed > 0, "{summary}");
}

#[test]
fn the_end_is_watched_at_every_step() {
    let tokenizer = gpt2_tokenizer();
    let eos = tokenizer.eos().unwrap() as usize;
    // The end has half of the probability of " a" until there are five ids, and then all of it.
    let a = tokenizer.encode(" a", false).unwrap()[0] as usize;
    let mut model = Known::new(tokenizer.len(), move |ids: &[u32]| {
        let mut logits = vec![f32::NEG_INFINITY; 50257];
        logits[a] = if ids.len() < 5 { 2f32.ln() } else { -20.0 };
        logits[eos] = 0.0;
        logits
    });
    let options = json!({"prompts": ["x", "x y z"], "n": 10});
    let Left { rows, summary, .. } = left("eos", options, &mut model, &tokenizer);
    let near = |got: f64, right: f64| assert!((got - right).abs() < 1e-6, "{got} for {right}");
    for (row, tokens) in rows.iter().zip([5, 3]) {
        assert_eq!((&row["tokens"], &row["stop_reason"]), (&json!(tokens), &json!("eos")));
        let probabilities = numbers(&row["probabilities"]);
        near(probabilities[0], 1.0 / 3.0);
        near(row["max_probability"].as_f64().unwrap(), 1.0);
        assert_eq!(numbers(&row["ranks"])[..tokens - 1], vec![2.0; tokens - 1]);
        assert_eq!(
            (&row["max_step"], &row["best_rank"], &row["steps_as_best"]),
            (&json!(tokens - 1), &json!(1), &json!(1))
        );
    }
    assert_eq!(rows[0]["text"], " a a a a");
    assert_eq!((&summary["steps"], &summary["ended"], &summary["steps_as_best"]), (&json!(8), &json!(2), &json!(2)));

    let never = left("eos", json!({"prompts": ["x"], "n": 2}), &mut model, &tokenizer);
    assert_eq!((&never.rows[0]["stop_reason"], &never.summary["ended"]), (&json!("max_tokens"), &json!(0)));
}

#[test]
fn texts_part_where_the_changed_word_says_so() {
    let tokenizer = gpt2_tokenizer();
    let word = |text: &str| tokenizer.encode(text, false).unwrap()[0];
    let (queen, a, b) = (word(" queen"), word(" a") as usize, word(" b") as usize);
    // The queen's text differs from its fourth token on.
    let mut model = Known::new(tokenizer.len(), move |ids: &[u32]| {
        let mut logits = vec![0.0; 50257];
        logits[if ids.contains(&queen) && ids.len() >= 5 { b } else { a }] = 1.0;
        logits
    });
    let options = json!({"prompts": ["x{ king| queen}", "x{ dog| cat}"], "n": 6, "within": 4});
    let Left { rows, summary, .. } = left("one-word", options, &mut model, &tokenizer);
    assert_eq!((&rows[0]["first_difference"], &rows[1]["first_difference"]), (&json!(4), &Value::Null));
    assert_eq!((&rows[0]["common"], &rows[0]["changed_text"]), (&json!(" a a a"), &json!(" a a a b b b")));
    assert_eq!((&summary["pairs"], &summary["within"], &summary["within_share"]), (&json!(2), &json!(1), &json!(0.5)));
}
