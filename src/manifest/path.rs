//! Paths of fields as the API server writes them, `spec.steps[0].container.env[1].value`, and where they stand in a file.

use std::fmt;
use std::ops::Range;

use super::{Content, Node};

/// A part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    Key(String),
    Index(usize),
}

/// A field of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub Vec<Segment>);

impl Path {
    /// Reads a path. What is no path is a path of one key, which nothing has.
    pub fn parse(text: &str) -> Path {
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('[') {
                let quote = inside.chars().next().filter(|c| matches!(c, '\'' | '"'));
                let (segment, after) = match quote {
                    Some(quote) => {
                        let inside = &inside[1..];
                        let end = inside.find(quote).unwrap_or(inside.len());
                        let after = inside.get(end + 1..).unwrap_or("");
                        (
                            Segment::Key(inside[..end].into()),
                            after.strip_prefix(']').unwrap_or(after),
                        )
                    }
                    None => {
                        let end = inside.find(']').unwrap_or(inside.len());
                        let segment = match inside[..end].parse() {
                            Ok(index) => Segment::Index(index),
                            Err(_) => Segment::Key(inside[..end].into()),
                        };
                        (segment, inside.get(end + 1..).unwrap_or(""))
                    }
                };
                segments.push(segment);
                rest = after;
            } else {
                rest = rest.strip_prefix('.').unwrap_or(rest);
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                segments.push(Segment::Key(rest[..end].into()));
                rest = &rest[end..];
            }
        }
        Path(segments)
    }

    pub fn key(&self, key: impl Into<String>) -> Path {
        self.with(Segment::Key(key.into()))
    }

    pub fn index(&self, index: usize) -> Path {
        self.with(Segment::Index(index))
    }

    fn with(&self, segment: Segment) -> Path {
        let mut segments = self.0.clone();
        segments.push(segment);
        Path(segments)
    }

    /// Whether this is `other` or a part of what `other` names.
    pub fn is_within(&self, other: &Path) -> bool {
        self.0.starts_with(&other.0)
    }

    /// The value the path names, and where to show something about it: the value if it is a scalar, else its key; for what is
    /// not there, what would hold it.
    pub fn find<'a>(&self, root: &'a Node) -> (Option<&'a Node>, Range<usize>) {
        let mut node = root;
        let mut place = first_key(root);
        for segment in &self.0 {
            let step = match (segment, &node.content) {
                (Segment::Key(key), Content::Mapping(_)) => node.entry(key).map(|entry| {
                    let at = match &entry.value.content {
                        Content::Scalar(_) if !entry.value.at.is_empty() => entry.value.at.clone(),
                        _ => entry.key_at.clone(),
                    };
                    (&entry.value, at)
                }),
                // A list whose items have names may be spoken of by them.
                (Segment::Key(name), Content::Sequence(items)) => items
                    .iter()
                    .find(|item| item.get("name").and_then(Node::as_str) == Some(name))
                    .map(|item| (item, first_key(item))),
                // A key of digits, told from an index by what it is looked up in.
                (Segment::Index(index), Content::Mapping(_)) => {
                    let key = index.to_string();
                    node.entry(&key).map(|entry| (&entry.value, entry.key_at.clone()))
                }
                (Segment::Index(index), _) => node.item(*index).map(|item| (item, first_key(item))),
                _ => None,
            };
            match step {
                Some((value, at)) => (node, place) = (value, at),
                None => return (None, place),
            }
        }
        (Some(node), place)
    }
}

/// Where to show something about an item: its first entry, which is where the eye finds it.
fn first_key(node: &Node) -> Range<usize> {
    match &node.content {
        Content::Mapping(entries) => match entries
            .iter()
            .map(|entry| (&entry.key_at, &entry.value))
            .min_by_key(|(at, _)| at.start)
        {
            Some((key, value))
                if matches!(value.content, Content::Scalar(_))
                    && !value.at.is_empty()
                    && value.at.start > key.start =>
            {
                key.start..value.at.end
            }
            Some((key, _)) => key.clone(),
            None => node.at.clone(),
        },
        _ => node.at.clone(),
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) if !is_plain(key) => write!(f, "['{key}']")?,
                Segment::Key(key) if position == 0 => f.write_str(key)?,
                Segment::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

/// Whether a key can be written after a dot.
fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::read;

    #[test]
    fn a_path_is_read_as_it_is_written() {
        for text in [
            "spec.steps[0].when",
            "metadata.labels['example.com/team']",
            "spec.params.items[1][2]",
            "items[0].spec",
            "",
        ] {
            assert_eq!(Path::parse(text).to_string(), text);
        }
        for text in ["[", "[']", "a[", "a..b", "[']x", ".", "a]b"] {
            Path::parse(text);
        }
    }

    #[test]
    fn a_path_is_found_or_else_what_would_hold_it() {
        let text = "spec:\n  steps:\n  - name: a\n    when:\n    needs: [b, c]\n";
        let document = &read(text).documents[0];
        for (path, shown) in [
            ("spec.steps[0].name", "a"),
            ("spec.steps[0].when", "when"),
            ("spec.steps[0].needs", "needs"),
            ("spec.steps[0].needs[1]", "c"),
            ("spec.steps[0].container", "name: a"),
            ("spec.steps[a].needs[0]", "b"),
            ("spec.steps[7].when", "steps"),
            ("spec.params", "spec"),
            ("metadata", "spec"),
        ] {
            assert_eq!(&text[Path::parse(path).find(document).1], shown, "{path}");
        }
    }
}
