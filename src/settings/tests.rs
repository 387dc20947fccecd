use super::*;
use crate::error::ErrorKind;
use crate::options::OptionValue;

fn parse(json: &str) -> Result<Settings> {
    Settings::from_raw(&serde_json::from_str(json).unwrap(), 5)
}

fn with(name: &str, value: OptionValue) -> Result<Settings> {
    Settings::from_raw(&RawOptions::from([(name.to_owned(), value)]), 5)
}

#[test]
fn nothing_given_means_the_defaults_of_the_table() {
    let settings = serde_json::to_value(parse("{}").unwrap()).unwrap();
    for spec in OPTIONS.iter().filter(|spec| !spec.default.is_empty()) {
        let default: serde_json::Value = serde_json::from_str(spec.default).unwrap();
        let used = &settings[spec.name];
        let same = used == &default || used.as_f64().is_some() && used.as_f64() == default.as_f64();
        assert!(same, "{}: table {default}, used {used}", spec.name);
    }
    assert_eq!(settings["seed"], 5);
    assert!(settings["timeout_ms"].is_null());
}

#[test]
fn every_row_of_the_table_is_a_field_and_every_field_a_row() {
    let settings = serde_json::to_value(Settings::default()).unwrap();
    let mut fields: Vec<_> = settings.as_object().unwrap().keys().map(String::as_str).collect();
    let mut rows: Vec<_> = OPTIONS.iter().map(|spec| spec.name).collect();
    fields.sort_unstable();
    rows.sort_unstable();
    assert_eq!(fields, rows);
}

/// Options are listed in four more places, for people and for a test. Names, defaults, ranges and help must agree.
#[test]
fn every_list_of_options_agrees() {
    let readme = include_str!("../../README.md");
    let page = include_str!("../../www/index.html").replace("&lt;", "<").replace("&gt;", ">");
    let command_line = include_str!("../../build.sh").split_whitespace().collect::<Vec<_>>().join(" ");
    let fake_worker = include_str!("../../tests/page/fake-worker.js").replace(r"\'", "'");
    // A bar inside a cell is written \|.
    let cell = |row: &str, index: usize| {
        let row = row.replace(r"\|", "\u{1}");
        row.split('|').nth(index).unwrap_or_default().trim().replace('\u{1}', "|").replace("`<", "<").replace(">`", ">")
    };
    for OptionSpec { name, default, help, range } in OPTIONS {
        let begin = format!("| `{name}` |");
        let row = readme.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("no {begin}"));
        let said = match *default {
            "" if *name == "seed" => "random",
            "" | "[]" => "none",
            default => default,
        };
        assert_eq!((cell(row, 2).as_str(), cell(row, 4).as_str()), (said, *help), "README, {name}");

        let flag = format!("--{}", name.replace('_', "-"));
        let begin = command_line.find(&flag).unwrap_or_else(|| panic!("no {flag} in build.sh"));
        let line = &command_line[begin..];
        let line = line.split_once(" --").map_or(line, |(line, _)| line);
        let said = if *range == OptionRange::Flag { "no" } else { said };
        assert!(line.contains(help) && line.contains(&format!("({said}")), "build.sh, {name}: {line}");

        let accepts = match *range {
            OptionRange::Integer { min, max: MAX_SEED } => format!("{min} to 2^53 − 1"),
            OptionRange::Integer { min, max } if max == u64::from(u32::MAX) => format!("from {min}"),
            OptionRange::Integer { min, max } => format!("{min} to {max}"),
            OptionRange::Number { min, max: Some(max), open: true } => format!("above {min}, at most {max}"),
            OptionRange::Number { min, max: Some(max), open: false } => format!("{min} to {max}"),
            OptionRange::Number { min, max: None, open } => format!("{} {min}", if open { "above" } else { "from" }),
            OptionRange::Strings { most } => format!("a text, or up to {most} in a list"),
            OptionRange::Flag => "true, false".to_owned(),
            OptionRange::Numbers { .. } | OptionRange::Text => unreachable!("no option of a run"),
        };
        assert_eq!(cell(row, 3), accepts, "README, {name}");

        let id = if *name == "stop" { "stop-at".to_owned() } else { name.replace('_', "-") };
        assert!(page.contains(&format!("<p id=\"{id}-help\">{help}</p>")), "index.html, {name}");
        if let OptionRange::Integer { min, max } = range {
            assert!(
                page.contains(&format!(
                    "name=\"{name}\" type=\"number\" inputmode=\"numeric\" min=\"{min}\" max=\"{max}\""
                )),
                "{name}"
            );
        }
        if let OptionRange::Number { min, max, .. } = range {
            let max = max.map_or_else(String::new, |max| format!(" max=\"{max}\""));
            let control = format!("name=\"{name}\" type=\"number\" inputmode=\"decimal\" min=\"{min}\"{max} step=");
            assert!(page.contains(&control), "index.html, {name}: no {control}");
        }
        let wire = match *range {
            OptionRange::Integer { min, max } => format!("type: 'integer', min: {min}, max: {max}"),
            OptionRange::Number { min, max, open } => {
                let max = max.map_or_else(|| "null".to_owned(), |max| max.to_string());
                format!("type: 'number', min: {min}, max: {max}, open: {open}")
            }
            OptionRange::Strings { most } => format!("type: 'strings', most: {most}"),
            OptionRange::Flag => "type: 'flag'".to_owned(),
            OptionRange::Numbers { .. } | OptionRange::Text => unreachable!("no option of a run"),
        };
        let row = format!("['{name}', {{ {wire} }}, '{help}']");
        assert!(fake_worker.contains(&row), "fake-worker.js, {name}: no {row}");
        assert!(fake_worker.contains(&format!("{name}: '{default}'")), "fake-worker.js, {name}");
    }
}

#[test]
fn values_are_taken_as_given() {
    let settings = parse(
        r#"{"max_tokens": 3, "temperature": 0, "top_k": 40, "top_p": 1, "min_p": 0.1, "repetition_penalty": 1.3,
            "seed": 9007199254740991, "stop": "\n", "timeout_ms": 2.5, "top_logprobs": 0, "parse_special": true}"#,
    )
    .unwrap();
    let expected = Settings {
        max_tokens: 3,
        temperature: 0.0,
        top_k: 40,
        top_p: 1.0,
        min_p: 0.1,
        repetition_penalty: 1.3,
        seed: MAX_SEED,
        stop: vec!["\n".into()],
        timeout_ms: Some(2.5),
        top_logprobs: 0,
        parse_special: true,
    };
    assert_eq!(settings, expected);
}

#[test]
fn seeds_at_the_edges_are_seeds() {
    for seed in [0, 1 << 32, MAX_SEED] {
        assert_eq!(with("seed", OptionValue::Number(seed as f64)).unwrap().seed, seed);
    }
    assert_eq!(with("seed", OptionValue::Number(2f64.powi(53))).unwrap_err().kind, ErrorKind::InvalidOption);
}

#[test]
fn values_outside_their_range_are_refused_by_name() {
    let nan = f64::NAN;
    let inf = f64::INFINITY;
    for (name, values) in [
        ("max_tokens", &[0.0, -1.0, 1.5, nan, inf, 4_294_967_296.0][..]),
        ("temperature", &[-0.1, nan, inf, -inf]),
        ("top_k", &[-1.0, 0.5, nan]),
        ("top_p", &[0.0, -0.5, 1.01, nan, inf]),
        ("min_p", &[-0.1, 1.1, nan]),
        ("repetition_penalty", &[0.0, -1.0, nan, inf]),
        ("seed", &[-1.0, 0.5, nan, inf]),
        ("timeout_ms", &[0.0, -5.0, nan, inf]),
        ("top_logprobs", &[-1.0, 21.0, nan]),
    ] {
        for &value in values {
            let error = with(name, OptionValue::Number(value)).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidOption, "{name} = {value}");
            assert!(error.message.contains(&format!("`{name}`")), "{}", error.message);
            assert!(error.message.ends_with(&format!("got {value}")), "{}", error.message);
        }
    }
}

#[test]
fn values_of_another_type_are_refused() {
    for spec in OPTIONS {
        for json in ["{}", "[1]", "[\"a\", 1]"] {
            let error = parse(&format!("{{\"{}\": {json}}}", spec.name)).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidOption, "{} = {json}", spec.name);
        }
    }
    for json in [r#"{"stop": ""}"#, r#"{"stop": ["a", ""]}"#, r#"{"temperature": "1"}"#, r#"{"parse_special": 1}"#] {
        assert_eq!(parse(json).unwrap_err().kind, ErrorKind::InvalidOption, "{json}");
    }
    let many = vec!["x".to_owned(); 17];
    assert!(with("stop", OptionValue::Strings(many)).unwrap_err().message.contains("at most 16"));
}

#[test]
fn the_settings_of_a_record_can_be_used_again() {
    for json in ["{}", r#"{"timeout_ms": 5, "stop": ["a"], "seed": 7, "temperature": 0}"#] {
        let settings = parse(json).unwrap();
        assert_eq!(parse(&serde_json::to_string(&settings).unwrap()).unwrap(), settings);
    }
}

#[test]
fn null_is_refused_where_not_giving_an_option_has_no_meaning_of_its_own() {
    for spec in OPTIONS {
        let result = parse(&format!("{{\"{}\": null}}", spec.name));
        match spec.default {
            "" => assert_eq!(result.unwrap(), parse("{}").unwrap()),
            _ => assert!(result.unwrap_err().message.ends_with("got null"), "{}", spec.name),
        }
    }
}

#[test]
fn a_misspelt_name_is_answered_with_the_nearest() {
    for (given, meant) in [
        ("max_new_tokens", "max_tokens"),
        ("temprature", "temperature"),
        ("topk", "top_k"),
        ("topP", "top_p"),
        ("stop_strings", "stop"),
        ("repeat_penalty", "repetition_penalty"),
        ("timeout", "timeout_ms"),
    ] {
        let error = with(given, OptionValue::Number(1.0)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::UnknownOption);
        assert_eq!(error.message, format!("there is no option `{given}`; did you mean `{meant}`?"));
    }
}
