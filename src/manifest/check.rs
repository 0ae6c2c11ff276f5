//! An object checked against the schema: what the validator finds, said in words, and what it cannot see.

use std::collections::HashMap;
use std::ops::Range;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::LocationSegment;
use jsonschema::{JsonType, ValidationError};
use serde_json::{Value, json};

use super::path::{Path, Segment};
use super::schema::{field_schema, schema_at};
use super::words::{
    INTEGER_OR_EXPRESSION, NO_EXPRESSION, clip, limit_words, number_words, oncillas_own, pattern_words, type_words,
    unquoted,
};
use super::{Content, Finding, Findings, Node, ScalarNode, Severity};
use crate::api::schema::EXPRESSION;
use crate::plan::fault::near_miss;

/// One object being checked.
pub struct Check<'a> {
    pub text: &'a str,
    pub object: &'a Node,
    /// What every path begins with; empty unless the object is an item of a List.
    pub base: &'a Path,
    /// Nulls that the API server drops.
    pub dropped: Vec<Path>,
    pub findings: &'a mut Findings,
}

/// Whether a text is what a field takes.
fn fits(schema: &Value, text: &str) -> bool {
    jsonschema::is_valid(schema, &json!(text))
}

impl<'a> Check<'a> {
    fn add(&mut self, severity: Severity, path: &Path, message: String, help: Option<String>) {
        let at = match self.findings.is_full(severity) {
            true => 0..0,
            false => path.find(self.object).1,
        };
        self.add_at(severity, path, at, message, help);
    }

    fn add_at(&mut self, severity: Severity, path: &Path, at: Range<usize>, message: String, help: Option<String>) {
        let path = Path([self.base.0.as_slice(), path.0.as_slice()].concat());
        let mut finding = Finding::new(severity, at, message).at_path(path.to_string());
        finding.help = help;
        self.findings.push(finding);
    }

    pub fn error(&mut self, path: &Path, message: impl Into<String>, help: Option<String>) {
        self.add(Severity::Error, path, message.into(), help);
    }

    /// Says one error of the validator in words.
    pub fn tell(&mut self, error: &ValidationError, schema: &Value, missing: &mut Vec<Path>) {
        let path = Path(
            error
                .instance_path()
                .iter()
                .map(|segment| match segment {
                    LocationSegment::Property(name) => Segment::Key(name.into_owned()),
                    LocationSegment::Index(index) => Segment::Index(index),
                })
                .collect(),
        );
        let value = error.instance().as_ref();
        let here = schema_at(schema, &path).unwrap_or(&Value::Null);
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                for name in unexpected.iter().take(Findings::MAX + 1) {
                    self.unknown(&path, name, here, value);
                }
            }
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let path = path.key(name);
                if self.dropped.contains(&path) {
                    let help = format!("give {name} a value");
                    self.error(&path, "is required but empty, which counts as not there", Some(help));
                } else {
                    self.error(&path, "is required and missing", None);
                }
                missing.push(path);
            }
            ValidationErrorKind::Type { kind } => self.wrong_type(&path, kind, value, here),
            // That it is empty is said already.
            ValidationErrorKind::Pattern { .. } if value == "" && here["minLength"] != Value::Null => {}
            ValidationErrorKind::Pattern { pattern } => {
                let text = value.as_str().unwrap_or_default();
                let (mut message, mut help) = pattern_words(pattern, text);
                if here["x-kubernetes-int-or-string"] == true {
                    message = format!("must be {INTEGER_OR_EXPRESSION}");
                    if text.parse::<i64>().is_ok() {
                        help = Some("take out the quotes".into());
                    }
                }
                let help = self.taken_for_a_tag(&path).or(help);
                self.error(&path, message, help);
            }
            ValidationErrorKind::Enum { options } => {
                let words: Vec<_> = options
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .collect();
                let text = value.as_str().unwrap_or_default();
                let help = match text.contains("$[[") {
                    true => Some(NO_EXPRESSION.to_owned()),
                    false => near_miss(text, words.iter().copied()).map(|word| format!("did you mean {word}?")),
                };
                let message = match words.as_slice() {
                    [one] => format!("must be {one}"),
                    words => format!("must be one of {}", words.join(", ")),
                };
                self.error(&path, message, help);
            }
            kind => {
                let message = limit_words(kind, value).unwrap_or_else(|| error.to_string());
                // An empty name breaks its pattern as well; saying so twice helps nobody.
                let help = self.taken_for_a_tag(&path);
                self.error(&path, message, help);
            }
        }
    }

    fn key_place(&self, parent: &Path, name: &str) -> Range<usize> {
        match parent.find(self.object).0.and_then(|node| node.entry(name)) {
            Some(entry) => entry.key_at.clone(),
            None => parent.key(name).find(self.object).1,
        }
    }

    /// What is wrong with a key itself.
    pub fn key_error(&mut self, parent: &Path, name: &str, message: &str) {
        let at = self.key_place(parent, name);
        self.add_at(Severity::Error, &parent.key(name), at, message.into(), None);
    }

    fn unknown(&mut self, parent: &Path, name: &str, schema: &Value, value: &Value) {
        let path = parent.key(name);
        let at = self.key_place(parent, name);
        let written = self.text.get(at.clone()).unwrap_or_default();
        let fields = schema["properties"].as_object();
        let help = if unquoted(written) != name && value.get(name).is_some() {
            Some(format!(
                "YAML reads the key {written} as {name}: quote it if it is meant as text"
            ))
        } else {
            fields.and_then(|fields| {
                near_miss(name, fields.keys().map(String::as_str))
                    .map(|near| format!("did you mean {near}?"))
                    .or_else(|| {
                        let holder = fields.iter().find(|(_, field)| {
                            field["properties"].get(name).is_some() || field["items"]["properties"].get(name).is_some()
                        });
                        holder.map(|(holder, _)| format!("{name} is a field of {holder}"))
                    })
                    .or_else(|| oncillas_own(name).map(str::to_owned))
                    .or_else(|| {
                        let names: Vec<_> = fields.keys().map(String::as_str).collect();
                        (!names.is_empty() && names.len() <= 12)
                            .then(|| format!("the fields here are {}", names.join(", ")))
                    })
            })
        };
        self.add_at(Severity::Error, &path, at, "unknown field".into(), help);
    }

    fn wrong_type(&mut self, path: &Path, kind: &TypeKind, value: &Value, schema: &Value) {
        let wanted = match kind {
            TypeKind::Single(kind) => type_words(*kind).to_owned(),
            TypeKind::Multiple(_) if schema["pattern"] == EXPRESSION => INTEGER_OR_EXPRESSION.to_owned(),
            TypeKind::Multiple(kinds) => {
                let words: Vec<_> = kinds.iter().map(type_words).collect();
                words.join(" or ")
            }
        };
        // Whether quotes would help.
        let string = match kind {
            TypeKind::Single(kind) => *kind == JsonType::String,
            TypeKind::Multiple(_) => schema["pattern"].is_null(),
        };
        let found = match value {
            Value::Null => "empty".into(),
            Value::Bool(value) => format!("the boolean {value}"),
            Value::Number(value) => format!("the number {}", number_words(value)),
            Value::String(_) => "text".into(),
            Value::Array(_) => "a list".into(),
            Value::Object(_) => "a mapping".to_owned(),
        };
        let scalar = match path.find(self.object).0.map(|node| &node.content) {
            Some(Content::Scalar(scalar)) => Some(scalar),
            _ => None,
        };
        let written = scalar.map_or("", |scalar| scalar.text.as_str());
        let is_text = !matches!(value, Value::Array(_) | Value::Object(_));
        let (message, help) = match scalar {
            Some(scalar) if scalar.plain && string && is_text && !written.is_empty() => {
                // In quotes it may still not be what the field takes.
                let better = schema["pattern"]
                    .as_str()
                    .and_then(|pattern| pattern_words(pattern, written).1)
                    .filter(|_| !fits(schema, written));
                let said = match value {
                    Value::Bool(value) if value.to_string() == written => {
                        format!("must be {wanted}, and is {found}")
                    }
                    Value::Number(value) if number_words(value) == written => {
                        format!("must be {wanted}, and is {found}")
                    }
                    _ => format!("must be {wanted}; YAML reads {} as {found}", clip(written)),
                };
                (
                    said,
                    better.or_else(|| Some(format!("quote it: \"{}\"", clip(written)))),
                )
            }
            _ => (
                format!("must be {wanted}, and is {found}"),
                self.type_help(kind, value, scalar),
            ),
        };
        self.error(path, message, help);
    }

    fn type_help(&self, kind: &TypeKind, value: &Value, scalar: Option<&ScalarNode>) -> Option<String> {
        let TypeKind::Single(kind) = kind else {
            return None;
        };
        match (*kind, value) {
            (_, Value::String(text)) if text.contains("$[[") => Some(NO_EXPRESSION.into()),
            (JsonType::Array, Value::String(text)) => Some(format!("write a list: [{}]", clip(text))),
            (JsonType::Boolean | JsonType::Integer | JsonType::Number, Value::String(_))
                if scalar.is_some_and(|scalar| !scalar.plain) =>
            {
                Some("take out the quotes".into())
            }
            (JsonType::Object, Value::Array(items)) if items.len() == 1 => Some("take out the dash".into()),
            _ => None,
        }
    }

    /// `when: !params.dry` is a tag and an empty value.
    fn taken_for_a_tag(&self, path: &Path) -> Option<String> {
        match path.find(self.object).0.map(|node| &node.content) {
            Some(Content::Scalar(ScalarNode { tag: Some(tag), .. })) if tag.starts_with('!') => Some(format!(
                "YAML takes {tag} for the name of a type and drops it: quote the value"
            )),
            _ => None,
        }
    }

    /// A value that is not written is no value: the API server drops it.
    pub fn empty(&mut self, path: &Path) {
        let name = match path.0.last() {
            Some(Segment::Key(name)) => name.clone(),
            _ => return,
        };
        let message = if name == "when" {
            "is empty and will be dropped: the step would run without a condition"
        } else {
            "is empty and will be dropped, as if it were not there"
        };
        let help = format!("give {name} a value or take it out");
        self.add(Severity::Warning, path, message.into(), Some(help));
    }

    /// Lists whose items have keys, and sets.
    pub fn duplicates(&mut self, value: &Value, schema: &Value, path: &Path) {
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    if let Some(schema) = field_schema(schema, key) {
                        self.duplicates(value, schema, &path.key(key));
                    }
                }
            }
            Value::Array(items) => {
                let keys: Option<Vec<&str>> = match schema["x-kubernetes-list-type"].as_str() {
                    Some("set") => Some(Vec::new()),
                    Some("map") => schema["x-kubernetes-list-map-keys"]
                        .as_array()
                        .map(|keys| keys.iter().filter_map(Value::as_str).collect()),
                    _ => None,
                };
                let mut seen = HashMap::new();
                for (index, item) in items.iter().enumerate() {
                    let path = path.index(index);
                    if let Some(keys) = &keys {
                        let identity: Vec<&Value> = match keys.as_slice() {
                            [] => vec![item],
                            keys => keys.iter().filter_map(|key| item.get(key)).collect(),
                        };
                        let whole = keys.is_empty() || identity.len() == keys.len();
                        let first = *seen.entry(json!(identity).to_string()).or_insert(index);
                        if whole && first != index {
                            self.duplicate(&path, keys, &identity, first);
                        }
                    }
                    self.duplicates(item, &schema["items"], &path);
                }
            }
            _ => {}
        }
    }

    fn duplicate(&mut self, path: &Path, keys: &[&str], identity: &[&Value], first: usize) {
        let words: Vec<_> = identity
            .iter()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        let words = clip(&words.join(", "));
        let (path, message) = match keys {
            [] => (
                path.clone(),
                format!("{words} is in the list twice: [{first}] is the same"),
            ),
            [key, ..] => (
                path.key(*key),
                format!("the {key} {words} is taken: [{first}] has it already"),
            ),
        };
        self.error(&path, message, None);
    }
}
