//! Splitting a file into documents as kubectl does: by lines that begin with `---`, before any YAML is read, or, for a file
//! that begins with `{`, as one JSON value after the other.

use std::ops::Range;

use super::{Finding, Findings};

/// Where the documents stand in the text.
pub struct Chunks {
    pub at: Vec<Range<usize>>,
    /// kubectl reads them as JSON.
    pub json: bool,
}

pub fn chunks(text: &str, findings: &mut Findings) -> Chunks {
    match json_stream(text) {
        Some(at) => Chunks { at, json: true },
        None => Chunks {
            at: separated(text, findings),
            json: false,
        },
    }
}

/// JSON values, one after the other. A single one is also YAML, but its escapes are JSON's.
fn json_stream(text: &str) -> Option<Vec<Range<usize>>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    let mut chunks = Vec::new();
    let mut start = 0;
    while let Some(value) = values.next() {
        value.ok()?;
        let end = values.byte_offset();
        chunks.push(start..end);
        start = end;
    }
    Some(chunks)
}

fn separated(text: &str, findings: &mut Findings) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("---") {
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                let end = offset + line.trim_end().len();
                findings.push(
                    Finding::error(
                        offset..end,
                        "kubectl takes every line that begins with `---` as the border between two documents, and refuses \
                         other text on it",
                    )
                    .help("put the text on a line of its own"),
                );
            }
            chunks.push(start..offset);
            start = offset + line.len();
        }
        offset += line.len();
    }
    chunks.push(start..text.len());
    chunks
}
