//! Experiments about choosing a token.

use super::models::Known;
use super::*;

/// Probabilities 1/2, 1/4, 1/8, 1/16, 1/16 for the tokens 10 to 14, everywhere.
fn halves(_: &[u32]) -> Vec<f32> {
    let mut logits = vec![f32::NEG_INFINITY; 50257];
    for (id, power) in (10..15).zip([4.0, 3.0, 2.0, 1.0, 1.0f32]) {
        logits[id] = power * 2f32.ln();
    }
    logits
}

fn near(got: &Value, right: f64) {
    assert!((got.as_f64().unwrap() - right).abs() < 1e-6, "{got} for {right}");
}

#[test]
fn the_acceptance_rule_is_that_of_speculative_sampling() {
    let tokenizer = gpt2_tokenizer();
    let mut model = Known::new(tokenizer.len(), halves);
    let options = json!({"prompt": "x", "n": 200, "temperature": 1, "target_temperature": 0.5, "seed": 3});
    let Left { rows, summary, .. } = left("sampled-check", options, &mut model, &tokenizer);
    assert_eq!(rows.len(), 200);
    // At temperature 0.5 the probabilities are as 256, 64, 16, 4, 4 of 344.
    let drawn = [0.5f64, 0.25, 0.125, 0.0625, 0.0625];
    let target = [256.0f64, 64.0, 16.0, 4.0, 4.0].map(|weight| weight / 344.0);
    let expected: f64 = drawn.iter().zip(target).map(|(q, p)| q.min(p)).sum();
    for row in &rows {
        let place = row["token_id"].as_u64().unwrap() as usize - 10;
        near(&row["probability"], drawn[place]);
        near(&row["target_probability"], target[place]);
        near(&row["accept_probability"], (target[place] / drawn[place]).min(1.0));
        near(&row["expected_acceptance"], expected);
        near(&row["best"]["probability"], 0.5);
        assert_eq!((row["agree"].as_bool(), row["rank"].as_u64()), (Some(place == 0), Some(place as u64 + 1)));
    }
    near(&summary["expected_acceptance"], expected);
    near(&summary["expected_run"], expected / (1.0 - expected));
    // Half of the tokens are the best, with a standard error of 0.035; the accepted share's is 0.03.
    assert!((summary["agree_share"].as_f64().unwrap() - 0.5).abs() < 0.15, "{summary}");
    assert!((summary["accepted_share"].as_f64().unwrap() - expected).abs() < 0.15, "{summary}");
}

#[test]
fn the_sampling_bench_says_where_probabilities_go() {
    let tokenizer = gpt2_tokenizer();
    let mut model = Known::new(tokenizer.len(), halves);
    let memory = RefCell::default();
    let mut bench = |options: Value| {
        let trial = Trial { clock: &Clock::default(), memory: &memory, cancel_after: usize::MAX };
        attempt("sampling", options, &mut model, &tokenizer, trial).unwrap()
    };
    let plain = json!({"prompt": "x", "temperature": 1, "top_p": 1, "draws": 4000});
    let Left { rows, summary, .. } = bench(plain.clone());
    assert_eq!((rows.len(), &summary["reused"], &summary["kept"]), (5, &json!(false), &json!(5)));
    near(&summary["entropy_bits"], 1.875);
    for (row, right) in rows.iter().zip([0.5, 0.25, 0.125, 0.0625, 0.0625]) {
        near(&row["probability"], right);
        near(&row["filtered_probability"], right);
        // Five standard errors.
        let drawn = row["drawn"].as_f64().unwrap();
        assert!((drawn - 4000.0 * right).abs() < 5.0 * (4000.0 * right * (1.0 - right)).sqrt(), "{row}");
    }
    near(&summary["rest_probability"], 0.0);

    let Left { rows, summary, .. } =
        bench(json!({"prompt": "x", "temperature": 1, "top_k": 3, "top_p": 0.7, "most": 4}));
    assert_eq!(summary["reused"], true, "the model need not run for another rule");
    // Of 4/7, 2/7 and 1/7 the first two reach 0.7.
    near(&rows[0]["filtered_probability"], 2.0 / 3.0);
    assert_eq!(
        (&rows[2]["removed_by"], &rows[3]["removed_by"], &rows[0]["removed_by"]),
        (&json!("top_p"), &json!("top_k"), &Value::Null)
    );
    assert_eq!((&summary["removed"][0]["filter"], &summary["removed"][0]["tokens"]), (&json!("top_k"), &json!(2)));
    near(&summary["removed"][1]["mass"], 1.0 / 7.0);
    near(&summary["rest_probability"], 0.0625);

    assert_eq!(bench(json!({"prompt": "y"})).summary["reused"], false, "another text");
    let summary = bench(json!({"ids": [10, 11, 12], "position": 2})).summary;
    assert_eq!((&summary["position"], summary["text"].as_array().unwrap().len()), (&json!(2), 3));
    // The penalty concerns tokens of the text.
    let ids = json!({"ids": [10, 11], "temperature": 1, "top_p": 1, "repetition_penalty": 2});
    let Left { rows, .. } = bench(ids);
    assert_eq!(
        rows.iter().map(|row| row["penalised"].as_bool().unwrap()).collect::<Vec<_>>(),
        [true, true, false, false, false]
    );
    near(&rows[0]["tempered_probability"], 4.0 / (4.0 + 2.0 * 2f64.sqrt() + 8.0 * 0.5 + 2.0 + 2.0));
}

#[test]
fn greedy_text_that_loops_is_seen_to() {
    let tokenizer = gpt2_tokenizer();
    let words = tokenizer.encode(" the cat and the dog and", false).unwrap();
    let turn = words.clone();
    let mut model = Known::new(tokenizer.len(), move |ids: &[u32]| {
        let mut logits = vec![0.0; 50257];
        logits[turn[(ids.len() - 1) % turn.len()] as usize] = 30.0;
        logits
    });
    let options = json!({"prompt": "x", "n": 30, "temperatures": [1], "seeds": 2, "ngram": 6});
    let Left { rows, summary, .. } = left("greedy", options, &mut model, &tokenizer);
    assert_eq!(rows.len(), 3);
    assert_eq!((&rows[0]["temperature"], &rows[0]["seed"], &rows[1]["seed"]), (&json!(0.0), &Value::Null, &json!(1)));
    assert_eq!(rows[0]["repeats"]["period"], words.len());
    assert_eq!(rows[0]["repeats"]["text"], " the cat and the dog and");
    // 25 n-grams of six tokens, six of them different.
    near(&rows[0]["repeated_share"], 19.0 / 25.0);
    near(&rows[0]["distinct_share"], 6.0 / 25.0);
    assert_eq!(summary["by_temperature"].as_array().unwrap().len(), 2);
    assert_eq!(summary["by_temperature"][1]["texts"], 2);
}

#[test]
fn a_trace_goes_on_from_another_choice() {
    let tokenizer = gpt2_tokenizer();
    let mut model = Known::new(tokenizer.len(), |ids: &[u32]| {
        let mut logits = halves(ids);
        // After token 11 the best is 14.
        if ids.last() == Some(&11) {
            logits[14] = 9.0;
        }
        logits
    });
    let Left { rows, .. } = left("trace", json!({"prompt": "x", "n": 3}), &mut model, &tokenizer);
    let chosen =
        |rows: &[Value]| rows.iter().map(|row| row["chosen"]["token_id"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(chosen(&rows), [10, 10, 10]);
    near(&rows[0]["probability"], 0.5);
    assert_eq!(rows.iter().map(|row| row["positions"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 1, 1]);
    let Left { rows, summary, .. } =
        left("trace", json!({"prompt": "x", "n": 3, "choices": [11]}), &mut model, &tokenizer);
    assert_eq!(chosen(&rows), [11, 14, 10]);
    assert_eq!((&rows[0]["given"], &rows[0]["rank"], &rows[1]["given"]), (&json!(true), &json!(2), &json!(false)));
    assert_eq!(rows[1]["prefix"], tokenizer.decode(&[tokenizer.encode("x", false).unwrap()[0], 11]));
    let product: f64 = rows.iter().map(|row| row["probability"].as_f64().unwrap()).product();
    near(&summary["probability"], product);
}

#[test]
fn lengths_end_where_the_texts_end() {
    let tokenizer = gpt2_tokenizer();
    let eos = tokenizer.eos().unwrap() as usize;
    let a = tokenizer.encode(" a", false).unwrap()[0] as usize;
    // A fifth of the texts end at each step.
    let mut model = Known::new(tokenizer.len(), move |_: &[u32]| {
        let mut logits = vec![f32::NEG_INFINITY; 50257];
        (logits[a], logits[eos]) = (4f32.ln(), 0.0);
        logits
    });
    let options = json!({"prompt": "x", "runs": 400, "n": 40, "temperature": 1, "stop": []});
    let Left { rows, summary, .. } = left("lengths", options, &mut model, &tokenizer);
    assert_eq!(rows.len(), 400);
    assert!(
        rows.iter()
            .all(|row| row["text"].as_str().unwrap() == " a".repeat(row["tokens"].as_u64().unwrap() as usize - 1)
                || row["stop_reason"] == "max_tokens")
    );
    // Its standard error is 0.01.
    assert!((summary["hazard"].as_f64().unwrap() - 0.2).abs() < 0.05, "{summary}");
}
