//! Bytes -> text deltas that never end inside a character.

/// What stands for bytes that are no text.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Decodes UTF-8 that arrives in pieces cut anywhere, in linear time.
///
/// *Invalid* and *incomplete* are different things. Bytes that no continuation can make valid become U+FFFD at once,
/// one for each maximal invalid part (Unicode 16, section 3.9, as `String::from_utf8_lossy` and the browser's
/// `TextDecoder` do), and never block what follows. Bytes that may become a character are held: at most three.
///
/// The text does not depend on where the pieces were cut: it is what `String::from_utf8_lossy` makes of all of them.
///
/// ```
/// use gpt2_web::text::IncrementalDecoder;
///
/// let mut decoder = IncrementalDecoder::default();
/// let mut text = String::new();
/// decoder.push(b"caf\xC3", &mut text);
/// assert_eq!(text, "caf");
/// decoder.push(b"\xA9 \xFF!\xF0\x9F", &mut text);
/// assert_eq!(text, "café \u{FFFD}!");
/// decoder.finish(&mut text);
/// assert_eq!(text, "café \u{FFFD}!\u{FFFD}");
/// ```
#[derive(Debug, Clone, Default)]
pub struct IncrementalDecoder {
    /// Between calls: the beginning of one character, at most three bytes.
    held: Vec<u8>,
}

impl IncrementalDecoder {
    /// Takes the next bytes and appends to `out` the text that is complete with them.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        self.held.extend_from_slice(bytes);
        let mut incomplete = 0;
        let mut chunks = self.held.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            out.push_str(chunk.valid());
            if chunk.invalid().is_empty() {
                continue;
            }
            if chunks.peek().is_none() && may_become_a_character(chunk.invalid()) {
                incomplete = chunk.invalid().len();
            } else {
                out.push(REPLACEMENT);
            }
        }
        self.held.drain(..self.held.len() - incomplete);
    }

    /// Ends the text: bytes still held become one U+FFFD appended to `out`. The decoder is then as new.
    pub fn finish(&mut self, out: &mut String) {
        if !self.held.is_empty() {
            out.push(REPLACEMENT);
            self.held.clear();
        }
    }
}

/// Whether `invalid`, the end of a text, is only cut short.
fn may_become_a_character(invalid: &[u8]) -> bool {
    std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;
    use crate::text::Tokenizer;
    use crate::text::tokenizer::tests::{fixture, gpt2};

    /// The quadratic reference: decodes everything again for each piece, and keeps back an incomplete end.
    #[derive(Default)]
    struct Reference {
        bytes: Vec<u8>,
        shown: usize,
    }

    impl Reference {
        fn push(&mut self, bytes: &[u8]) -> String {
            self.bytes.extend_from_slice(bytes);
            // An end is incomplete if some continuation makes it a character: try them all, by the lead byte's rule.
            let held = (1..=3.min(self.bytes.len()))
                .find(|&n| {
                    let end = &self.bytes[self.bytes.len() - n..];
                    let continuations: &[&[u8]] = &[
                        &[0x80],
                        &[0x90],
                        &[0xA0],
                        &[0x80, 0x80],
                        &[0x90, 0x80],
                        &[0xA0, 0x80],
                        &[0x80, 0x80, 0x80],
                        &[0x90, 0x80, 0x80],
                    ];
                    continuations.iter().any(|more| {
                        std::str::from_utf8(&[end, more].concat()).is_ok_and(|text| text.chars().count() == 1)
                    })
                })
                .unwrap_or(0);
            let text = String::from_utf8_lossy(&self.bytes[..self.bytes.len() - held]).into_owned();
            let delta = text[self.shown..].to_owned();
            self.shown = text.len();
            delta
        }

        fn finish(self) -> String {
            String::from_utf8_lossy(&self.bytes)[self.shown..].to_owned()
        }
    }

    /// The deltas of `pieces`, the one of `finish` last.
    fn deltas(pieces: &[&[u8]]) -> Vec<String> {
        let mut decoder = IncrementalDecoder::default();
        let mut deltas: Vec<String> = pieces
            .iter()
            .map(|piece| {
                let mut delta = String::new();
                decoder.push(piece, &mut delta);
                assert!(decoder.held.len() <= 3, "{:?}", decoder.held);
                delta
            })
            .collect();
        let mut last = String::new();
        decoder.finish(&mut last);
        deltas.push(last);
        deltas
    }

    fn bytewise(bytes: &[u8]) -> Vec<String> {
        deltas(&bytes.chunks(1).collect::<Vec<_>>())
    }

    #[test]
    fn characters_arrive_whole_at_their_last_byte() {
        let expected: Vec<String> =
            ["", "", "", "👋", "", "", "", "🏽", "", "é", "", "", "漢", ""].map(String::from).into();
        assert_eq!(bytewise("👋🏽é漢".as_bytes()), expected);
    }

    #[test]
    fn invalid_is_replaced_at_once_and_blocks_nothing() {
        let pieces: Vec<&[u8]> = std::iter::once(&b"\xFF"[..]).chain(std::iter::repeat_n(&b" x"[..], 50)).collect();
        let deltas = deltas(&pieces);
        assert_eq!(deltas[0], "\u{FFFD}");
        assert!(deltas[1..=50].iter().all(|delta| delta == " x"));
        assert_eq!(deltas[51], "");
    }

    #[test]
    fn a_half_character_is_replaced_when_something_else_follows() {
        assert_eq!(deltas(&[b"\xF0\x9F", b" a"]), ["", "\u{FFFD} a", ""]);
        assert_eq!(deltas(&[b"\xE6\xBC", b"\xE6\xBC\xA2"]), ["", "\u{FFFD}漢", ""]);
        assert_eq!(deltas(&[b"\x80"]), ["\u{FFFD}", ""]);
        assert_eq!(deltas(&[b"\xF0\x9F"]), ["", "\u{FFFD}"]);
        assert_eq!(deltas(&[b"\xED", b"\xA0"]), ["", "\u{FFFD}\u{FFFD}", ""], "half a surrogate pair is never text");
        assert_eq!(deltas(&[b"", b"\xC3", b"", b"\xA9", b""]), ["", "", "", "é", "", ""]);
    }

    #[test]
    fn punctuation_waits_for_nothing() {
        assert_eq!(deltas(&[b"!", b",", "…".as_bytes(), b" "]), ["!", ",", "…", " ", ""]);
    }

    #[test]
    fn finish_leaves_a_fresh_decoder() {
        let (mut decoder, mut text) = (IncrementalDecoder::default(), String::new());
        decoder.push(b"\xC3", &mut text);
        decoder.finish(&mut text);
        decoder.push(b"\xA9a", &mut text);
        decoder.finish(&mut text);
        assert_eq!(text, "\u{FFFD}\u{FFFD}a");
    }

    #[derive(Deserialize)]
    struct Stream {
        ids: Vec<u32>,
        text: String,
    }

    #[test]
    fn the_published_streams_decode_to_their_texts_however_they_are_fed() {
        let tokenizer = gpt2();
        let streams: Vec<Stream> = serde_json::from_slice(&fixture("byte-streams.json")).unwrap();
        assert_eq!(streams.len(), 120);
        for Stream { ids, text } in &streams {
            let tokens: Vec<&[u8]> = ids.iter().map(|&id| tokenizer.bytes(id).unwrap()).collect();
            let bytes = tokens.concat();
            assert_eq!(&tokenizer.decode(ids), text);
            assert_eq!(&deltas(&tokens).concat(), text);
            for size in 1..=bytes.len() {
                assert_eq!(&deltas(&bytes.chunks(size).collect::<Vec<_>>()).concat(), text, "in pieces of {size}");
            }
            for size in 2..ids.len() {
                let several: Vec<Vec<u8>> = tokens.chunks(size).map(|tokens| tokens.concat()).collect();
                let pieces: Vec<&[u8]> = several.iter().map(Vec::as_slice).collect();
                assert_eq!(&deltas(&pieces).concat(), text, "{size} tokens at a time");
            }
        }
    }

    #[test]
    fn two_thousand_steps_do_not_grow_it() {
        let (mut decoder, mut text) = (IncrementalDecoder::default(), String::new());
        for _ in 0..2000 {
            decoder.push(b"\xF0\x9F\x91", &mut text);
        }
        assert!(decoder.held.capacity() <= 16);
        assert_eq!(text, "\u{FFFD}".repeat(1999));
    }

    /// Bytes in which characters, parts of characters and nonsense are all frequent.
    fn awkward_bytes() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            any::<u8>().prop_map(|byte| vec![byte]),
            any::<char>().prop_map(|c| c.to_string().into_bytes()),
            (any::<char>(), 1..4usize).prop_map(|(c, n)| c.to_string().bytes().take(n).collect()),
            prop::sample::select(&b"\x80\xBF\xC0\xC2\xE0\xED\xEF\xF0\xF4\xF5\xFF\x9F\xA0\x8F\x90"[..])
                .prop_map(|byte| vec![byte]),
        ];
        prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn equals_the_quadratic_reference(bytes in awkward_bytes(), cuts in prop::collection::vec(0..100usize, 0..12)) {
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
            ends.sort_unstable();
            let pieces: Vec<&[u8]> = ends.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let mut reference = Reference::default();
            let mut expected: Vec<String> = pieces.iter().map(|piece| reference.push(piece)).collect();
            expected.push(reference.finish());
            prop_assert_eq!(deltas(&pieces), expected);
            prop_assert_eq!(bytewise(&bytes).concat(), String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn what_the_tokenizer_decodes_at_once_is_what_streams(ids in prop::collection::vec(0..50257u32, 0..40)) {
            let tokenizer: &Tokenizer = gpt2();
            let tokens: Vec<&[u8]> = ids.iter().map(|&id| tokenizer.bytes(id).unwrap()).collect();
            prop_assert_eq!(deltas(&tokens).concat(), tokenizer.decode(&ids));
        }
    }
}
