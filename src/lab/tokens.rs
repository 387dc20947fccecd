//! Tokens and bytes: how text is cut, and what that does to a decoder and to stop strings.

use serde::Serialize;

use super::bench::Bench;
use super::distribution::Piece;
use super::spec::{ExperimentSpec, texts};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{OptionRange, OptionSpec};
use crate::text::{IncrementalDecoder, Tokenizer};

pub const SPEC: ExperimentSpec = ExperimentSpec {
    name: "tokens",
    question: "What is a token?",
    options: &[
        OptionSpec {
            name: "text", range: OptionRange::Text, default: "\"推論 café 😀\"", help: "The text to cut."
        },
        OptionSpec {
            name: "stop",
            range: OptionRange::Text,
            default: "\"\\n\\n\"",
            help: "A stop string, cut after each of the texts below.",
        },
        texts(
            "left",
            r#"["The end", "The end.", "The end. ", "\n", "He said: \"No.\"", "wait..."]"#,
            "What comes before the stop string.",
        ),
    ],
};

/// The longest text, in bytes.
const LONGEST: usize = 20_000;

/// One token of the text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct TokensRow {
    /// Its place, from 0.
    pub place: u32,
    /// Its id.
    pub token_id: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What decoding it alone would show: U+FFFD for what is no whole character.
    pub alone: String,
    /// What the incremental decoder emits with it.
    pub emitted: String,
    /// Bytes that it holds after it, because they are the beginning of a character.
    pub held_bytes: u32,
}

/// How a stop string is cut after a text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct StopCut {
    /// What comes before it.
    pub left: String,
    /// The tokens of both that hold at least one byte of the stop string.
    pub tokens: Vec<Piece>,
    /// Whether these are the tokens of the stop string alone, so that looking for those ids finds it.
    pub found_by_ids: bool,
}

/// What the rows say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct TokensSummary {
    /// Tokens of the text.
    pub tokens: u32,
    /// Its characters.
    pub characters: u32,
    /// Its bytes.
    pub bytes: u32,
    /// U+FFFD that decoding token by token would show.
    pub broken: u32,
    /// The tokens of the stop string alone.
    pub stop: Vec<Piece>,
    /// How it is cut after each text.
    pub cuts: Vec<StopCut>,
    /// Texts after which looking for its ids would miss it.
    pub missed: u32,
}

pub async fn run(bench: &mut Bench<'_>, post: &dyn Fn(TokensRow)) -> Result<TokensSummary> {
    let (text, stop) = (bench.options.text("text"), bench.options.text("stop"));
    let left = bench.options.texts("left");
    if let Some(long) =
        [text, stop].into_iter().chain(left.iter().map(String::as_str)).find(|text| text.len() > LONGEST)
    {
        let sentence = format!("a text has {} bytes, of at most {LONGEST}; shorten it", long.len());
        return Err(Error::new(ErrorKind::InvalidOption, sentence));
    }
    let rows = cut(bench.tokenizer, text)?;
    let broken = rows.iter().map(|row| row.alone.matches(char::REPLACEMENT_CHARACTER).count()).sum::<usize>();
    for row in &rows {
        post(row.clone());
    }
    bench.desk.turn().await?;
    let alone = bench.tokenizer.encode(stop, false)?;
    let mut cuts = Vec::new();
    for left in left {
        cuts.push(stop_after(bench.tokenizer, left, stop, &alone)?);
    }
    Ok(TokensSummary {
        tokens: rows.len() as u32,
        characters: text.chars().count() as u32,
        bytes: text.len() as u32,
        broken: (broken - text.matches(char::REPLACEMENT_CHARACTER).count().min(broken)) as u32,
        stop: alone.iter().map(|&id| bench.piece(id)).collect(),
        missed: cuts.iter().filter(|cut| !cut.found_by_ids).count() as u32,
        cuts,
    })
}

fn cut(tokenizer: &Tokenizer, text: &str) -> Result<Vec<TokensRow>> {
    let (mut decoder, mut given, mut emitted_bytes) = (IncrementalDecoder::default(), 0, 0);
    let ids = tokenizer.encode(text, false)?;
    let rows = ids.iter().enumerate().map(|(place, &id)| {
        let bytes = tokenizer.bytes(id).unwrap_or_default().to_vec();
        let mut emitted = String::new();
        decoder.push(&bytes, &mut emitted);
        given += bytes.len();
        // A text has no invalid bytes, so what was emitted is as long as what it was made of.
        emitted_bytes += emitted.len();
        TokensRow {
            place: place as u32,
            token_id: id,
            alone: String::from_utf8_lossy(&bytes).into_owned(),
            bytes,
            emitted,
            held_bytes: given.saturating_sub(emitted_bytes) as u32,
        }
    });
    Ok(rows.collect())
}

/// The tokens of `left` and `stop` together that hold bytes of `stop`.
fn stop_after(tokenizer: &Tokenizer, left: String, stop: &str, alone: &[u32]) -> Result<StopCut> {
    let ids = tokenizer.encode(&format!("{left}{stop}"), false)?;
    let (mut rest, mut first) = (stop.len(), ids.len());
    while rest > 0 && first > 0 {
        first -= 1;
        rest = rest.saturating_sub(tokenizer.bytes(ids[first]).unwrap_or_default().len());
    }
    let held = &ids[first..];
    let tokens = held.iter().map(|&id| Piece { token_id: id, text: tokenizer.decode(&[id]) }).collect();
    Ok(StopCut { left, tokens, found_by_ids: held == alone })
}
