//! One word changed: how soon two greedy texts part.

use serde::Serialize;

use super::bench::Bench;
use super::spec::{ExperimentSpec, n, texts};
use super::stats::median;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{OptionRange, OptionSpec};

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "one-word",
    question: "What if one word were different?",
    options: &[
        texts(
            "prompts",
            r#"["Once upon a time there was a {king|queen} who", "There was once a poor {miller|fisherman} who had a daughter, and", "The {fox|wolf} said to the crow that", "In a little house by the {wood|sea} there lived an old woman, and", "The youngest of the {three|seven} sisters took the golden key and", "A {soldier|tailor} came along the high road one day, and", "The {prince|giant} looked out of the window and saw", "Far away in the land where the {swallows|storks} fly", "\"Who are you?\" said the {moon|wind} to the child, and", "The old {woman|man} gave him a purse full of gold and", "When {winter|summer} came, the bird sat upon the tree and", "The {cat|dog} lay before the fire and"]"#,
            "Prompts with the word to change, in the form {king|queen}.",
        ),
        n("48", 1024),
        OptionSpec {
            name: "within",
            range: OptionRange::Integer { min: 1, max: 1024 },
            default: "12",
            help: "Counts the texts that differ within so many tokens.",
        },
    ],
};

/// One pair of prompts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct OneWordRow {
    /// The prompt.
    pub prompt: String,
    /// The prompt with the other word.
    pub changed: String,
    /// The word.
    pub word: String,
    /// The other word.
    pub other_word: String,
    /// The first output token that differs, from 1; null if none does.
    pub first_difference: Option<u32>,
    /// What follows the prompt.
    pub text: String,
    /// What follows the changed prompt.
    pub changed_text: String,
    /// The part of both that is the same.
    pub common: String,
}

/// What the rows say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct OneWordSummary {
    /// Pairs.
    pub pairs: u32,
    /// Pairs that differ within the asked number of tokens.
    pub within: u32,
    /// The share of these.
    pub within_share: f64,
    /// The median of the first difference; null if more than half of the pairs do not differ.
    pub median_first_difference: Option<f64>,
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(OneWordRow)) -> Result<OneWordSummary> {
    let (n, within) = (bench.options.count("n"), bench.options.count("within") as u32);
    let pairs: Vec<_> = bench.options.texts("prompts").iter().map(|text| Pair::of(text)).collect::<Result<_>>()?;
    bench.desk.expect(2 * pairs.len());
    let mut firsts = Vec::new();
    for Pair { before, words: [word, other_word], after } in pairs {
        let [prompt, changed] = [&word, &other_word].map(|word| format!("{before}{word}{after}"));
        let ids = bench.encode(&prompt, n)?;
        let a = bench.produce(&ids, n).await?.ids;
        bench.desk.advance(1);
        let ids = bench.encode(&changed, n)?;
        let b = bench.produce(&ids, n).await?.ids;
        bench.desk.advance(1);
        let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
        let first_difference = (same < n).then_some(same as u32 + 1);
        firsts.push(first_difference);
        let [text, changed_text, common] = [&a[..], &b[..], &a[..same]].map(|ids| bench.tokenizer.decode(ids));
        post(OneWordRow { prompt, changed, word, other_word, first_difference, text, changed_text, common });
    }
    Ok(summarise(&firsts, within))
}

fn summarise(firsts: &[Option<u32>], within: u32) -> OneWordSummary {
    let near = firsts.iter().filter(|first| first.is_some_and(|first| first <= within)).count();
    let middle = median(&firsts.iter().map(|first| first.map_or(f64::INFINITY, f64::from)).collect::<Vec<_>>());
    OneWordSummary {
        pairs: firsts.len() as u32,
        within: near as u32,
        within_share: near as f64 / firsts.len() as f64,
        median_first_difference: Some(middle).filter(|middle| middle.is_finite()),
    }
}

/// A prompt with two words for one place.
#[derive(Debug, PartialEq)]
struct Pair {
    before: String,
    words: [String; 2],
    after: String,
}

impl Pair {
    fn of(text: &str) -> Result<Self> {
        let split = || {
            let (before, rest) = text.split_once('{')?;
            let (words, after) = rest.split_once('}')?;
            let (a, b) = words.split_once('|')?;
            (a != b && !after.contains('{')).then(|| Self {
                before: before.to_owned(),
                words: [a.to_owned(), b.to_owned()],
                after: after.to_owned(),
            })
        };
        split().ok_or_else(|| {
            let sentence = format!(
                "`prompts` must each hold one place with two different words, as in {{king|queen}}; got {text:?}"
            );
            Error::new(ErrorKind::InvalidOption, sentence)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_has_two_words() {
        let pair = Pair::of("a {king|queen} who").unwrap();
        assert_eq!((pair.before.as_str(), pair.after.as_str()), ("a ", " who"));
        assert_eq!(pair.words, ["king", "queen"]);
        for text in ["a king", "a {king} who", "a {king|king} who", "{a|b} {c|d}", "a {king|queen"] {
            assert_eq!(Pair::of(text).unwrap_err().kind, ErrorKind::InvalidOption, "{text}");
        }
    }

    #[test]
    fn pairs_that_never_differ_count_as_late() {
        let summary = summarise(&[Some(3), Some(12), Some(13), None], 12);
        assert_eq!((summary.within, summary.within_share), (2, 0.5));
        assert_eq!(summary.median_first_difference, Some(12.5));
        assert_eq!(summarise(&[Some(3), None, None], 12).median_first_difference, None);
    }
}
