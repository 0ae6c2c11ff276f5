//! Reading manifests as kubectl does, with the place of every key and value, so that a fault can be shown where it stands.
//!
//! `read` turns a file's text into documents. `schema` finds what the API server refuses by the CRD's schema, `advice` what
//! is sound but probably not meant, `snippet` shows a finding in its source.

mod advice;
mod check;
mod explain;
mod metadata;
mod parse;
mod part;
mod path;
mod resolve;
mod schema;
mod snippet;
mod split;
mod words;

use std::ops::Range;

use serde_json::{Map, Value};

pub use advice::advise;
pub use parse::MAX_DEPTH;
pub use path::{Path, Segment};
pub use schema::Schema;
pub use snippet::{Snippets, Style};

/// Most bytes of a file. A single object of more than 1.5 MiB fits no etcd.
pub const MAX_BYTES: usize = 4 << 20;

/// Most documents of a file.
pub const MAX_DOCUMENTS: usize = 10_000;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It is refused, by the API server or by the controller.
    Error,
    /// It is accepted, but probably not meant.
    Warning,
    /// Something that was passed over.
    Note,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// Something to say about a place in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub severity: Severity,
    /// Bytes of the file's text.
    pub at: Range<usize>,
    /// The field, as `spec.steps[0].when`; empty if it is about no field.
    pub path: String,
    /// What is wrong, without the path.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Finding {
    pub fn new(severity: Severity, at: Range<usize>, message: impl Into<String>) -> Finding {
        Finding {
            severity,
            at,
            path: String::new(),
            message: message.into(),
            help: None,
        }
    }

    pub fn error(at: Range<usize>, message: impl Into<String>) -> Finding {
        Finding::new(Severity::Error, at, message)
    }

    pub fn warning(at: Range<usize>, message: impl Into<String>) -> Finding {
        Finding::new(Severity::Warning, at, message)
    }

    pub fn at_path(mut self, path: impl Into<String>) -> Finding {
        self.path = path.into();
        self
    }

    pub fn help(mut self, help: impl Into<String>) -> Finding {
        self.help = Some(help.into());
        self
    }
}

/// Findings of a file: the first ones of each severity are told, the others only counted, so that a file of a million faults
/// is no burden and no crowd of notes hides an error.
#[derive(Debug, Default)]
pub struct Findings {
    told: Vec<Finding>,
    counts: [usize; 3],
    more: usize,
}

impl Findings {
    /// Most of a severity that are told.
    pub const MAX: usize = 200;

    pub fn push(&mut self, finding: Finding) {
        if self.is_full(finding.severity) {
            self.more += 1;
        } else {
            self.counts[finding.severity as usize] += 1;
            self.told.push(finding);
        }
    }

    /// Counts findings that were not even made.
    pub fn count_more(&mut self, more: usize) {
        self.more += more;
    }

    /// Whether another one would only be counted.
    pub fn is_full(&self, severity: Severity) -> bool {
        self.counts[severity as usize] >= Findings::MAX
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Finding> {
        self.told.iter()
    }

    fn iter_mut(&mut self) -> std::slice::IterMut<'_, Finding> {
        self.told.iter_mut()
    }

    /// Adds those of an object.
    pub fn append(&mut self, other: Findings) {
        self.more += other.more;
        other.told.into_iter().for_each(|finding| self.push(finding));
    }

    /// In the order of the file, each once; and how many more there are.
    pub fn into_sorted(mut self) -> (Vec<Finding>, usize) {
        self.told.sort_by(|a, b| {
            let key = |finding: &Finding| (finding.at.start, finding.severity, finding.at.end);
            (key(a), &a.path, &a.message).cmp(&(key(b), &b.path, &b.message))
        });
        self.told.dedup();
        (self.told, self.more)
    }
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub struct Node {
    /// Bytes of the file's text; empty for a value that is left out.
    pub at: Range<usize>,
    pub content: Content,
}

#[derive(Clone, Debug)]
pub enum Content {
    Scalar(ScalarNode),
    Sequence(Vec<Node>),
    Mapping(Vec<Entry>),
}

/// A scalar, as written and as kubectl reads it.
#[derive(Clone, Debug)]
pub struct ScalarNode {
    /// The text without quotes, escapes resolved.
    pub text: String,
    /// Without quotes and not a block scalar: what it means is decided by its looks.
    pub plain: bool,
    /// The tag that stands before it, such as `!!str`.
    pub tag: Option<String>,
    /// What the API server gets.
    pub value: Value,
}

/// A key with its value. Each key of a mapping is there once.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    /// Bytes of the file's text.
    pub key_at: Range<usize>,
    pub value: Node,
}

impl Node {
    /// The value as the API server gets it.
    pub fn to_json(&self) -> Value {
        match &self.content {
            Content::Scalar(scalar) => scalar.value.clone(),
            Content::Sequence(items) => Value::Array(items.iter().map(Node::to_json).collect()),
            Content::Mapping(entries) => Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.to_json()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// The value of a key, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The entry of a key, if this is a mapping that has it.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.content {
            Content::Mapping(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// An item, if this is a sequence that has it.
    pub fn item(&self, index: usize) -> Option<&Node> {
        match &self.content {
            Content::Sequence(items) => items.get(index),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(scalar) => scalar.value.as_str(),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar(scalar) if scalar.value.is_null())
    }
}

/// A file's documents, and what is to be said about its YAML.
#[derive(Debug, Default)]
pub struct Reading {
    /// The documents that could be read, in order; empty ones are left out.
    pub documents: Vec<Node>,
    pub findings: Findings,
}

/// Reads a file's text. Whatever it holds, this neither panics nor takes more memory than a fixed multiple of its size and of
/// what aliases may make.
pub fn read(text: &str) -> Reading {
    let mut reading = Reading::default();
    let chunks = split::chunks(text, &mut reading.findings);
    for (number, chunk) in chunks.at.into_iter().enumerate() {
        if number == MAX_DOCUMENTS {
            let message = format!("there are more than {MAX_DOCUMENTS} documents in this file");
            reading
                .findings
                .push(Finding::error(chunk, message).help("use more files"));
            break;
        }
        parse::document(text, chunk, chunks.json, &mut reading);
    }
    reading
}
