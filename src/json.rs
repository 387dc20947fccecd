//! JSON files that come with a model. Python and its users write some that strict JSON does not allow.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};

/// Reads the JSON file `name`, which should be `form`, for example "a JSON object of tokens and ids".
///
/// A byte order mark in front is skipped. `NaN`, `Infinity` and `-Infinity`, which Python's `json` writes, are read as
/// null: they are mostly in fields that are not used.
///
/// # Errors
/// Of the `kind`, if it is something else; the sentence says what.
pub(crate) fn parse<T: DeserializeOwned>(kind: ErrorKind, name: &str, form: &str, bytes: &[u8]) -> Result<T> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if let Some(what) = something_else(text) {
        return Err(Error::new(kind, format!("{name} is not {form} but {what}")));
    }
    let strict = serde_json::from_slice(text);
    let read = strict.or_else(|error| match without_python_numbers(text) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(text) => serde_json::from_slice(&text),
    });
    read.map_err(|error| {
        Error::new(kind, format!("{name} is not {form}: {error}; take it from the model's page once more"))
    })
}

/// What a file plainly is, if that is no JSON, and what to do about it.
pub(crate) fn something_else(bytes: &[u8]) -> Option<&'static str> {
    let text = bytes.trim_ascii_start();
    match text {
        [] => Some("empty; download it again"),
        [b'<', ..] => Some("a web page (perhaps an error or a login page); download it again"),
        // UTF-16 with its mark, or its first character is `{` or `[` beside a zero.
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [b'{' | b'[', 0, ..] | [0, b'{' | b'[', ..] => {
            Some("text in UTF-16; save it as UTF-8")
        }
        _ if text.starts_with(b"version https://git-lfs") => {
            Some("a Git LFS pointer, which only says where the file is; download the file itself")
        }
        _ => None,
    }
}

/// The text with null for each of Python's numbers outside strings.
fn without_python_numbers(text: &[u8]) -> Cow<'_, [u8]> {
    const NUMBERS: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];
    let mut clean = Vec::new();
    // Bytes before `copied` are in `clean`.
    let (mut at, mut copied, mut in_string) = (0, 0, false);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => at += 1,
            b'N' | b'I' | b'-' if !in_string => {
                if let Some(number) = NUMBERS.iter().find(|number| text[at..].starts_with(number)) {
                    clean.extend_from_slice(&text[copied..at]);
                    clean.extend_from_slice(b"null");
                    at += number.len();
                    copied = at;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    clean.extend_from_slice(&text[copied..]);
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(bytes: &[u8]) -> Result<Value> {
        parse(ErrorKind::BadTokenizer, "vocab.json", "a JSON object", bytes)
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        assert_eq!(read(b"\xef\xbb\xbf{\"a\": 1}").unwrap(), json!({"a": 1}));
    }

    #[test]
    fn numbers_of_python_are_null_but_not_in_strings() {
        let text = br#"{"a": NaN, "NaN": [Infinity,-Infinity, -1], "b\"NaN": "\\", "c": "-Infinity, NaN"}"#;
        let expected = json!({"a": null, "NaN": [null, null, -1], "b\"NaN": "\\", "c": "-Infinity, NaN"});
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn what_is_no_json_is_named() {
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        for (bytes, says) in [
            (&b""[..], "empty"),
            (b"\xef\xbb\xbf \n", "empty"),
            (b"\n<!DOCTYPE html>", "web page"),
            (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS"),
            (&utf16("\u{feff}{}"), "UTF-16"),
            (&utf16("{}"), "UTF-16"),
            (b"\xfe\xff\0{\0}", "UTF-16"),
            (b"\0{\0}", "UTF-16"),
            (b"{\"a\": }", "line 1 column 7"),
            (b"{\"a\": NaNs}", "line 1"),
            (b"{\"a\": nan}", "line 1"),
            (b"{\"a\": NaN", "line 1"),
            (b"{\"a\\", "line 1"),
        ] {
            let error = read(bytes).unwrap_err();
            assert_eq!(error.kind, ErrorKind::BadTokenizer);
            assert!(error.message.starts_with("vocab.json is not a JSON object"), "{error}");
            assert!(error.message.contains(says), "{error}");
        }
    }
}
