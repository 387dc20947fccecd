//! Messages of the page -> requests. A page can post anything that the structured clone knows: circles, depths without
//! end, lists of four thousand million holes. Whatever follows a value wherever it leads does not come back from there,
//! so each field is read by its name, and of its value no more than the field may hold.

use js_sys::{Array, JsString, Reflect};
use serde::de::IgnoredAny;
use wasm_bindgen::prelude::*;

use super::protocol::{ModelFile, Request};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{OptionValue, RawOptions};

/// The most files of a load.
const MOST_FILES: u32 = 1 << 16;

/// The longest text, in JavaScript's units. It is copied into the worker's memory before anything else is known of it.
const LONGEST_TEXT: u32 = 1 << 22;

/// As much of a field's name as is looked at. None is as long.
const LONGEST_NAME: u32 = 1 << 6;

/// The longest text that is looked at as the value of an option, or in a list of these.
const LONGEST_OPTION: u32 = 1 << 16;

/// The longest list that is looked at as the value of an option. No option takes a longer one.
const LONGEST_LIST: u32 = 1 << 12;

/// As many options as are looked at. No request takes as many.
const MOST_OPTIONS: usize = 32;

/// The request that `message` is.
///
/// # Errors
/// `InvalidRequest` for a message outside the protocol, which is named; `PromptTooLong` for a prompt that no context
/// could hold.
pub fn request(message: &JsValue) -> Result<Request> {
    let fields = Fields::of(message, "the message")?;
    let kind = fields.text("type")?;
    fields.refuse_others(match kind.as_str() {
        "load" => &["type", "id", "name", "files", "precision", "sha256"],
        "generate" => &["type", "id", "prompt", "options", "cancelled"],
        "experiment" => &["type", "id", "name", "options", "cancelled"],
        "cancel" | "unload" | "ping" => &["type", "id"],
        "provide_tokenizer" => &["type", "id", "file"],
        _ => return Err(refused(format!("there is no request `{}`", kind.chars().take(64).collect::<String>()))),
    })?;
    let id = id_of(message).ok_or_else(|| fields.wrong("id", "a whole number from 0 to 2^32 - 1"))?;
    Ok(match kind.as_str() {
        "load" => Request::Load {
            id,
            name: fields.text("name")?,
            files: files(&fields)?,
            precision: fields.optional_text("precision")?,
            sha256: fields.optional_text("sha256")?,
        },
        "generate" => Request::Generate {
            id,
            prompt: prompt(&fields)?,
            options: options(&fields)?,
            cancelled: fields.flag("cancelled")?,
        },
        "experiment" => Request::Experiment {
            id,
            name: fields.text("name")?,
            options: options(&fields)?,
            cancelled: fields.flag("cancelled")?,
        },
        "unload" => Request::Unload { id },
        "ping" => Request::Ping { id },
        "provide_tokenizer" => Request::ProvideTokenizer { id, file: file(&fields.get("file")?)? },
        _ => Request::Cancel { id },
    })
}

/// The `id` of a message, also of one that is refused, so that the error finds its request.
pub fn id_of(message: &JsValue) -> Option<u32> {
    let id = Reflect::get(message, &"id".into()).ok()?.as_f64()?;
    (id.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&id)).then_some(id as u32)
}

fn prompt(fields: &Fields<'_>) -> Result<String> {
    let prompt = fields.get("prompt")?;
    if let Some(length) = prompt.dyn_ref::<JsString>().map(JsString::length).filter(|&length| length > LONGEST_TEXT) {
        let sentence = format!("the prompt has {length} characters, more than any context holds; shorten it");
        return Err(Error::new(ErrorKind::PromptTooLong, sentence));
    }
    fields.text("prompt")
}

fn files(fields: &Fields<'_>) -> Result<Vec<ModelFile>> {
    let list = fields.get("files")?;
    let list: &Array = list.dyn_ref().ok_or_else(|| fields.wrong("files", "a list"))?;
    if list.length() > MOST_FILES {
        return Err(fields.wrong("files", &format!("a list of at most {MOST_FILES} files")));
    }
    (0..list.length()).map(|place| file(&list.get(place))).collect()
}

fn file(given: &JsValue) -> Result<ModelFile> {
    let fields = Fields::of(given, "a file")?;
    fields.refuse_others(&["name", "blob", "stream", "size"])?;
    let size = fields.get("size")?;
    let known = size.as_f64().filter(|size| size.is_finite() && *size >= 0.0);
    if known.is_none() && !absent(&size) {
        return Err(fields.wrong("size", "a number of bytes"));
    }
    let given = |value: JsValue| (!absent(&value)).then_some(value);
    Ok(ModelFile {
        name: fields.text("name")?,
        blob: given(fields.get("blob")?),
        stream: given(fields.get("stream")?),
        size: known,
    })
}

fn options(fields: &Fields<'_>) -> Result<RawOptions> {
    let given = fields.get("options")?;
    if absent(&given) {
        return Ok(RawOptions::new());
    }
    let options = Fields::of(&given, "`options` of the message")?;
    let mut raw = RawOptions::new();
    // Of so many at least one is unknown, and the rest does not matter.
    for name in options.names()?.take(MOST_OPTIONS) {
        let value = option(&options.get(&name)?);
        raw.insert(name, value);
    }
    Ok(raw)
}

fn option(value: &JsValue) -> OptionValue {
    if absent(value) {
        return OptionValue::Null(());
    }
    if let Some(flag) = value.as_bool() {
        return OptionValue::Flag(flag);
    }
    if let Some(number) = value.as_f64() {
        return OptionValue::Number(number);
    }
    let text = |value: &JsValue| text(value, LONGEST_OPTION);
    if let Some(text) = text(value) {
        return OptionValue::String(text);
    }
    let list = value.dyn_ref::<Array>().filter(|list| list.length() <= LONGEST_LIST);
    let texts = list.and_then(|list| list.iter().map(|value| text(&value)).collect());
    let numbers = || list.and_then(|list| list.iter().map(|value| value.as_f64()).collect());
    match texts {
        Some(texts) => OptionValue::Strings(texts),
        None => numbers().map_or(OptionValue::Other(IgnoredAny), OptionValue::Numbers),
    }
}

/// A plain object whose fields are read one by one.
struct Fields<'a> {
    object: &'a JsValue,
    /// What it is, for sentences.
    what: &'static str,
}

impl<'a> Fields<'a> {
    fn of(object: &'a JsValue, what: &'static str) -> Result<Self> {
        if is_plain(object) {
            Ok(Self { object, what })
        } else {
            Err(refused(format!("{what} must be a plain object")))
        }
    }

    /// The names of all fields, as far as they are looked at.
    fn names(&self) -> Result<impl Iterator<Item = String> + use<>> {
        let names = Reflect::own_keys(self.object).map_err(|_| refused(format!("{} cannot be read", self.what)))?;
        let short = |name: JsValue| name.dyn_ref::<JsString>().map(|name| String::from(name.slice(0, LONGEST_NAME)));
        Ok((0..names.length()).filter_map(move |place| short(names.get(place))))
    }

    fn refuse_others(&self, known: &[&str]) -> Result<()> {
        match self.names()?.find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(refused(format!("{} has a field `{name}` that the protocol does not know", self.what))),
            None => Ok(()),
        }
    }

    fn get(&self, name: &str) -> Result<JsValue> {
        Reflect::get(self.object, &name.into()).map_err(|_| refused(format!("{} cannot be read", self.what)))
    }

    fn text(&self, name: &str) -> Result<String> {
        text(&self.get(name)?, LONGEST_TEXT).ok_or_else(|| self.wrong(name, "a text"))
    }

    fn optional_text(&self, name: &str) -> Result<Option<String>> {
        if absent(&self.get(name)?) { Ok(None) } else { self.text(name).map(Some) }
    }

    fn flag(&self, name: &str) -> Result<bool> {
        let value = self.get(name)?;
        if absent(&value) { Ok(false) } else { value.as_bool().ok_or_else(|| self.wrong(name, "true or false")) }
    }

    fn wrong(&self, name: &str, wanted: &str) -> Error {
        refused(format!("`{name}` of {} must be {wanted}", self.what))
    }
}

/// An object made of braces. A map, a date and whatever else has fields of no meaning here is none.
fn is_plain(value: &JsValue) -> bool {
    let prototype = |value: &JsValue| Reflect::get_prototype_of(value).map(JsValue::from);
    value.is_object()
        && !Array::is_array(value)
        && prototype(value).is_ok_and(|root| root.is_null() || prototype(&root).is_ok_and(|above| above.is_null()))
}

fn absent(value: &JsValue) -> bool {
    value.is_undefined() || value.is_null()
}

/// A text of at most `longest` units.
fn text(value: &JsValue, longest: u32) -> Option<String> {
    value.dyn_ref::<JsString>().filter(|text| text.length() <= longest).map(String::from)
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::InvalidRequest, format!("the worker does not understand this message: {why}"))
}
