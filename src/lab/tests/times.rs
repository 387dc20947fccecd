//! Experiments that time something, with models that take a known time.

use super::models::Known;
use super::*;

/// Says one of the letters, by the number of ids.
fn letters(tokenizer: &Tokenizer) -> impl Fn(&[u32]) -> Vec<f32> + use<> {
    let (a, len) = (tokenizer.encode("a", false).unwrap()[0], tokenizer.len());
    move |ids: &[u32]| {
        let mut logits = vec![0.0; len];
        logits[a as usize + ids.len() % 20] = 9.0;
        logits
    }
}

fn timed<F: Fn(&[u32]) -> Vec<f32>>(name: &str, options: Value, model: &mut Known<F>, tokenizer: &Tokenizer) -> Left {
    let clock = model.clock.clone();
    let trial = Trial { clock: &clock, memory: &RefCell::default(), cancel_after: usize::MAX };
    attempt(name, options, model, tokenizer, trial).unwrap()
}

#[test]
fn naive_counts_positions_and_times_by_hand() {
    let tokenizer = gpt2_tokenizer();
    let mut model = Known::new(tokenizer.len(), letters(&tokenizer));
    model.cost = |_, positions| 2.0 * positions as f64;
    let options = json!({"prompt": "one two three", "lengths": [4, 1, 4], "repeats": 2});
    let Left { rows, summary, .. } = timed("naive", options, &mut model, &tokenizer);
    let field = |name: &str| rows.iter().map(|row| row[name].as_f64().unwrap()).collect::<Vec<_>>();
    assert_eq!(field("tokens"), [1.0, 4.0], "in order, each once");
    assert_eq!(field("prompt_tokens"), [3.0, 3.0]);
    // 3; and 3 + 4 + 5 + 6, beside 3 + 3.
    assert_eq!((field("naive_positions"), field("cached_positions")), (vec![3.0, 18.0], vec![3.0, 6.0]));
    assert_eq!(field("waste_factor"), [1.0, 3.0]);
    assert_eq!((field("naive_ms"), field("cached_ms")), (vec![6.0, 36.0], vec![6.0, 12.0]));
    assert_eq!(field("slowdown"), [1.0, 3.0]);
    assert_eq!((field("naive_us_per_position"), field("cached_us_per_position")), (vec![2000.0; 2], vec![2000.0; 2]));
    assert_eq!(numbers(&rows[1]["steps"]["naive_ms"]), [6.0, 8.0, 10.0, 12.0]);
    assert_eq!(numbers(&rows[1]["steps"]["cached_ms"]), [6.0, 2.0, 2.0, 2.0]);
    assert!(rows.iter().all(|row| row["equal"] == true && row["textbook_ms"].is_null()));
    assert_eq!((&summary["equal"], summary["waste_factor"].as_f64()), (&json!(true), Some(3.0)));
}

/// A model that forgets what it read before if it is fed one by one, as one with a broken cache would.
struct Forgetful(Known<Says>);

/// Ids to logits.
type Says = Box<dyn Fn(&[u32]) -> Vec<f32>>;

impl LanguageModel for Forgetful {
    fn vocab_size(&self) -> usize {
        self.0.vocab_size()
    }
    fn context_length(&self) -> usize {
        self.0.context_length()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn feed(&mut self, ids: &[u32]) -> Result<&[f32]> {
        let single = ids.len() == 1 && self.0.len() > 4;
        let len = self.0.len();
        let logits = self.0.feed(ids)?;
        if single {
            let shifted = (0..logits.len()).map(|id| if id == 5 && len == 5 { 9.25 } else { logits[id] }).collect();
            self.0.set_last(shifted);
        }
        Ok(self.0.last())
    }
    fn score(&mut self, ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        self.0.score(ids)
    }
    fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

impl Subject for Forgetful {}

#[test]
fn a_broken_cache_is_found_with_the_gap_of_the_logits() {
    let tokenizer = gpt2_tokenizer();
    let says: Says = Box::new(letters(&tokenizer));
    let mut model = Forgetful(Known::new(tokenizer.len(), says));
    let options = json!({"prompt": "one two three", "lengths": [6], "repeats": 1});
    let Left { rows, summary, .. } = left("naive", options, &mut model, &tokenizer);
    // The fourth token is chosen after six positions; with the cache it is token 5, with a logit of 9.25 there and 0 here.
    assert_eq!(summary["equal"], false);
    let difference = &rows[0]["differences"][0];
    assert_eq!(
        (&difference["way"], &difference["step"], &difference["logit_gap"]),
        (&json!("naive"), &json!(3), &json!(9.0))
    );
    assert_eq!(difference["cached"]["token_id"], 5);

    let options = json!({"prompt": "one two three", "n": 6, "repeats": 1});
    let Left { rows, .. } = left("check", options, &mut model, &tokenizer);
    let last = rows.last().unwrap();
    assert_eq!((&last["tokens"], &last["agree"]), (&json!(6), &json!(5)));
    let found = &last["disagreements"][0];
    assert_eq!(
        (&found["step"], &found["produced"]["token_id"], &found["near_tie"]),
        (&json!(3), &json!(5), &json!(false))
    );
    assert_eq!((&found["produced_logit"], &found["checked_logit"]), (&json!(0.0), &json!(9.0)));
}

#[test]
fn checking_costs_what_its_positions_cost() {
    let tokenizer = gpt2_tokenizer();
    let mut model = Known::new(tokenizer.len(), letters(&tokenizer));
    // Reading the weights takes 10, and each position 1.
    model.cost = |_, positions| 10.0 + positions as f64;
    let options = json!({"prompt": "one", "n": 16, "repeats": 3});
    let Left { rows, summary, .. } = timed("check", options, &mut model, &tokenizer);
    assert_eq!(rows.iter().map(|row| row["tokens"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 4, 8, 16]);
    let last = rows.last().unwrap();
    let value = |name: &str| last[name].as_f64().unwrap();
    assert_eq!((value("agree"), value("passes")), (16.0, 1.0));
    // 16 steps of one position; one pass of 16; 16 passes of 1 to 16.
    assert_eq!((value("produce_ms"), value("check_ms"), value("naive_ms")), (176.0, 26.0, 296.0));
    assert_eq!((value("ratio"), value("naive_ratio")), (176.0 / 26.0, 296.0 / 26.0));
    assert_eq!(numbers(&summary["produce_steps_ms"]), [11.0; 16]);
}

#[test]
fn the_sweep_finds_the_cost_of_each_kind_of_token() {
    let tokenizer = gpt2_tokenizer();
    let mut model = Known::new(tokenizer.len(), letters(&tokenizer));
    // A position alone takes 5; several at once 1 each.
    model.cost = |_, positions| if positions == 1 { 5.0 } else { positions as f64 };
    let options =
        json!({"prompt_lengths": [40, 60, 100], "output_lengths": [2, 4, 8], "fixed_prompt": 30, "fixed_output": 4});
    let Left { rows, summary, .. } = timed("sweep", options, &mut model, &tokenizer);
    let near =
        |value: &Value, right: f64| assert!((value.as_f64().unwrap() - right).abs() < 1e-9, "{value} for {right}");
    // The first chunk of a prefill is one position.
    near(&summary["prompt_line"]["slope"], 1.0);
    near(&summary["prompt_line"]["intercept"], 4.0);
    near(&summary["prompt_line"]["r2"], 1.0);
    near(&summary["output_line"]["slope"], 5.0);
    near(&summary["prompt_tokens_per_output_token"], 5.0);
    for row in &rows {
        near(&row["between_tokens_ms"], 5.0);
        near(&row["formula_ms"], row["total_ms"].as_f64().unwrap());
    }
    let contrast: Vec<_> = rows.iter().filter(|row| row["arm"] == "contrast").collect();
    assert_eq!((&contrast[0]["prompt_tokens"], &contrast[0]["output_tokens"]), (&json!(94), &json!(7)));
    near(&contrast[0]["prefill_share"], 98.0 / (98.0 + 6.0 * 5.0));
}

#[test]
fn latency_finds_the_slope() {
    let tokenizer = gpt2_tokenizer();
    let mut model = Known::new(tokenizer.len(), letters(&tokenizer));
    model.cost = |position, _| 10.0 + 0.25 * position as f64;
    let options = json!({"prompt": "one", "n": 500});
    let Left { rows, summary, .. } = timed("latency", options, &mut model, &tokenizer);
    // The context of 256 leaves room for 256 tokens after one.
    assert_eq!(rows.len(), 255);
    assert_eq!((&rows[0]["step"], &rows[0]["position"], &rows[0]["ms"]), (&json!(1), &json!(1), &json!(10.25)));
    let near =
        |value: &Value, right: f64| assert!((value.as_f64().unwrap() - right).abs() < 1e-9, "{value} for {right}");
    near(&summary["line"]["slope"], 0.25);
    near(&summary["line"]["intercept"], 10.0);
    assert_eq!(summary["drift"], true);
    near(&summary["percentiles_ms"][0], 10.0 + 0.25 * 128.0);
    assert!(summary["arithmetic_slope_ms"].is_null());

    // By arithmetic alone: 100 products of weights and 2 for each position.
    let rows: Vec<_> = (0..10).map(|step| LatencyRow { step, position: step, ms: 5.0 }).collect();
    let summary = crate::lab::latency::summarise(&rows, Some((100, 2)));
    assert_eq!((summary.arithmetic_slope_ms, summary.drift), (Some(0.1), false));
}

#[test]
fn a_cancel_takes_effect_within_one_step() {
    let tokenizer = gpt2_tokenizer();
    let mut model = Known::new(tokenizer.len(), letters(&tokenizer));
    model.cost = |_, _| 10.0;
    let options = json!({"prompt": "one", "n": 20, "runs": 50});
    let Left { rows, summary, .. } = timed("cancel", options, &mut model, &tokenizer);
    assert_eq!(rows.len(), 50);
    for row in &rows {
        let value = |name: &str| row[name].as_f64().unwrap();
        assert!(value("done_steps") - value("steps_before") <= 1.0, "{row}");
        assert!((0.0..=10.0).contains(&value("latency_ms")), "{row}");
        // The prefill gives the first token. The step that runs at that moment is the last.
        let at = value("cancelled_at_ms");
        assert_eq!(value("done_steps"), if at < 10.0 { 0.0 } else { 1.0 + (at / 10.0).floor() }, "{row}");
    }
    assert_eq!(
        (&summary["step_ms"], &summary["timeout_ms"], &summary["overshoot_ms"]),
        (&json!(10.0), &json!(5.0), &json!(5.0))
    );
    assert_eq!(summary["positions_without_cancel"], json!(1000 * 20));
}

#[test]
fn held_text_waits_as_many_steps_as_the_stop_string_needs() {
    let tokenizer = gpt2_tokenizer();
    let said = tokenizer.encode(" a. The cat. The end", false).unwrap();
    let script = said.clone();
    let mut model = Known::new(tokenizer.len(), move |ids: &[u32]| {
        let mut logits = vec![0.0; 50257];
        logits[script.get(ids.len() - 1).map_or(0, |&id| id as usize)] = 50.0;
        logits
    });
    model.cost = |_, _| 10.0;
    let options = json!({"prompt": "x", "stop": [". The end"], "n": 20, "paces": [4], "temperature": 0});
    let Left { rows, summary, .. } = timed("hold-back", options, &mut model, &tokenizer);
    let row = |place: usize| (rows[place]["text"].as_str().unwrap(), rows[place]["delay_steps"].as_u64().unwrap());
    // " a" at once; "." and " The" wait until " cat" shows that it is not the end.
    assert_eq!((row(0), row(1)), ((" a", 0), (". The cat", 2)));
    assert_eq!((rows[1]["held_characters"].as_u64(), rows[1]["delay_ms"].as_f64()), (Some(5), Some(20.0)));
    assert_eq!(numbers(&rows[1]["paced_ms"]), [500.0]);
    assert_eq!((&summary["text"], &summary["stop_string"]), (&json!(" a. The cat"), &json!(". The end")));
    assert_eq!((&summary["max_delay_steps"], &summary["held_characters"]), (&json!(2), &json!(5)));
}
