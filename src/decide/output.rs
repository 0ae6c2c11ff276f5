//! A step's output out of its container's termination message: whole and as it was written, or an error. Nothing is cut silently.
//!
//! The kubelet keeps the last 4,096 bytes of the file, then the first 12,288 / n of those in a pod of n containers, and says of
//! neither that it cut. So a message that fills its room is an error, whole or not: the usable limit is one byte less.

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::api::spec::OutputFormat;
use crate::api::status::OutputType;
use crate::api::words::StepReason;
use crate::evidence::{MAX_TERMINATION_MESSAGE, Terminated, cut, written_bytes};

/// Most bytes of all termination messages of a pod.
const MAX_TERMINATION_MESSAGES: usize = 12_288;
/// Most bytes of a message about an output.
const MAX_MESSAGE: usize = 1024;
/// How deep lists and objects may lie in each other.
const MAX_DEPTH: usize = 64;
/// What the kubelet writes instead of a message that it cannot read.
pub(super) const UNREADABLE: &str = "Error on reading termination log ";

/// What the record keeps: the step's own bytes, and how to read them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepOutput {
    pub text: String,
    pub output_type: OutputType,
}

/// An output that cannot be recorded, of a step whose effect has happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BadOutput {
    /// OutputTooLarge, OutputInvalid or OutputLost.
    pub reason: StepReason,
    pub message: String,
}

/// Most bytes of an output that is seen to be whole, in a pod of `containers` containers, init and ephemeral ones included.
pub fn file_limit(containers: usize) -> usize {
    (MAX_TERMINATION_MESSAGES / containers.max(1))
        .min(MAX_TERMINATION_MESSAGE)
        .saturating_sub(1)
}

/// The output that the main container left when it ended, of a step whose output may have `max_bytes` bytes.
///
/// - Auto: a JSON object or list if the file is one that can be represented, else text, without the line ends at its end. So
///   `1042` and `0042` are both text, and an empty or missing file is the empty text.
/// - JSON: one JSON value that can be represented; an empty file is none.
/// - Text: the file as it is.
///
/// JSON can be represented if each integer fits 64 bits with a sign, each other number a double, no object has a key twice and
/// nothing lies deeper than 64 levels: otherwise expressions would read something else than what the step wrote.
pub fn read_output(
    main: &Terminated,
    containers: usize,
    format: OutputFormat,
    max_bytes: usize,
) -> Result<StepOutput, BadOutput> {
    let file = main.message.as_str();
    if file.starts_with(UNREADABLE) {
        return bad(
            StepReason::OutputLost,
            "the kubelet could not read the output file".to_owned(),
        );
    }
    let bytes = written_bytes(file);
    let whole = file_limit(containers);
    if bytes > whole {
        let limit = whole.min(max_bytes);
        return bad(
            StepReason::OutputTooLarge,
            format!("the output has at least {bytes} bytes, limit {limit} (containers in the pod: {containers})"),
        );
    }
    if bytes > max_bytes {
        return bad(
            StepReason::OutputTooLarge,
            format!("the output has {bytes} bytes, limit {max_bytes}"),
        );
    }
    if file.contains(char::REPLACEMENT_CHARACTER) {
        return bad(
            StepReason::OutputInvalid,
            "the output is not valid UTF-8, or holds the character U+FFFD that stands for what is not".to_owned(),
        );
    }
    let (text, output_type) = match format {
        OutputFormat::Text => (file, OutputType::Text),
        OutputFormat::Json => match check_json(file) {
            Ok(()) => (file, OutputType::Json),
            Err(why) => {
                return bad(
                    StepReason::OutputInvalid,
                    format!("the output is not JSON that can be represented: {why}"),
                );
            }
        },
        OutputFormat::Auto => {
            let is_composed = file.trim_start().starts_with(['{', '[']);
            match is_composed && check_json(file).is_ok() {
                true => (file, OutputType::Json),
                false => (file.trim_end_matches(['\r', '\n']), OutputType::Text),
            }
        }
    };
    Ok(StepOutput {
        text: text.to_owned(),
        output_type,
    })
}

fn bad(reason: StepReason, message: String) -> Result<StepOutput, BadOutput> {
    Err(BadOutput {
        reason,
        // It may quote what the step wrote.
        message: cut(&message, MAX_MESSAGE),
    })
}

/// Whether `text` is exactly one JSON value that can be represented, else why not.
fn check_json(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    Representable { depth: 0 }
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end())
        .map_err(|error| error.to_string())?;
    // serde_json reads an integer that is too large as a double, so the digits have to be looked at.
    match integers(text).find(|digits| digits.parse::<i64>().is_err()) {
        Some(digits) => Err(format!("the integer {digits} does not fit 64 bits")),
        None => Ok(()),
    }
}

/// The integers in valid JSON, as they are written.
fn integers(json: &str) -> impl Iterator<Item = &str> {
    let bytes = json.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let start = at;
            at += 1;
            match bytes[start] {
                b'"' => {
                    while at < bytes.len() && bytes[at] != b'"' {
                        at += if bytes[at] == b'\\' { 2 } else { 1 };
                    }
                    at += 1;
                }
                b'-' | b'0'..=b'9' => {
                    while at < bytes.len() && b"+-.eE0123456789".contains(&bytes[at]) {
                        at += 1;
                    }
                    let number = &json[start..at];
                    if !number.contains(['.', 'e', 'E']) {
                        return Some(number);
                    }
                }
                _ => {}
            }
        }
        None
    })
}

/// Reads a JSON value for nothing but its depth and its keys.
struct Representable {
    depth: usize,
}

impl Representable {
    fn deeper<E: serde::de::Error>(&self) -> Result<Representable, E> {
        match self.depth < MAX_DEPTH {
            true => Ok(Representable { depth: self.depth + 1 }),
            false => Err(E::custom(format_args!("it is nested deeper than {MAX_DEPTH} levels"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Representable {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Representable {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(self.deeper()?)?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let mut keys = std::collections::BTreeSet::new();
        while let Some(key) = object.next_key::<String>()? {
            object.next_value_seed(self.deeper()?)?;
            if let Some(twice) = keys.replace(key) {
                return Err(A::Error::custom(format_args!("an object has the key {twice:?} twice")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
