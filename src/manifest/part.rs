//! Where a part of a string stands in the file: in a quoted string an escape is longer than what it stands for, in a block every
//! line begins with blanks that are not part of it.

use std::iter::Peekable;
use std::ops::Range;
use std::str::CharIndices;

use super::{Content, Node};

impl Node {
    /// The bytes of the file that the bytes `part` of this string are written in. None if it is no string, or one whose lines are
    /// folded or that has a tag or an anchor.
    pub fn part(&self, text: &str, part: &Range<usize>) -> Option<Range<usize>> {
        let Content::Scalar(scalar) = &self.content else {
            return None;
        };
        let (source, value) = (text.get(self.at.clone())?, scalar.text.as_str());
        let places = match source.as_bytes().first()? {
            _ if source == value => Some((0..=source.len()).collect()),
            _ if scalar.plain => None,
            b'\'' => quoted(source, value, '\''),
            b'"' => quoted(source, value, '"'),
            _ => block(source, value),
        }?;
        let (start, end) = (*places.get(part.start)?, *places.get(part.end)?);
        (start <= end).then(|| self.at.start + start..self.at.start + end)
    }
}

/// For every byte of `text`, and its end, the byte of `source` where it is written; None if `source` is not `text` in quotes on one
/// line.
fn quoted(source: &str, text: &str, quote: char) -> Option<Vec<usize>> {
    let mut places = Vec::with_capacity(text.len() + 1);
    let mut written = source.char_indices().peekable();
    written.next_if(|(_, c)| *c == quote)?;
    for c in text.chars() {
        let (at, first) = written.next()?;
        match first {
            '\'' if quote == '\'' => {
                written.next_if(|(_, c)| *c == '\'')?;
                if c != '\'' {
                    return None;
                }
            }
            '\\' if quote == '"' => escape(&mut written)?,
            first if first != c => return None,
            _ => {}
        }
        places.extend(std::iter::repeat_n(at, c.len_utf8()));
    }
    places.push(written.peek().map(|(at, _)| *at)?);
    Some(places)
}

/// Passes over what follows a backslash.
fn escape(written: &mut Peekable<CharIndices<'_>>) -> Option<()> {
    let digits = match written.next()?.1 {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => 0,
    };
    let mut code = 0;
    for _ in 0..digits {
        code = code * 16 + written.next()?.1.to_digit(16)?;
    }
    // JSON writes a character beyond 16 bits in two halves.
    if digits == 4 && (0xd800..0xdc00).contains(&code) {
        written.next_if(|(_, c)| *c == '\\')?;
        return escape(written);
    }
    Some(())
}

/// The same for a block whose lines are kept. Its source begins at its first letter.
fn block(source: &str, text: &str) -> Option<Vec<usize>> {
    let mut places = Vec::with_capacity(text.len() + 1);
    let mut at = 0;
    let mut written = source.split_inclusive('\n');
    for line in text.split_inclusive('\n') {
        // The last line breaks are left out of the source.
        let source_line = written.next().unwrap_or_default();
        let (content, bare) = (line.trim_end_matches('\n'), source_line.trim_end_matches(['\n', '\r']));
        let indent = bare
            .len()
            .checked_sub(content.len())
            .filter(|_| bare.ends_with(content))?;
        places.extend((0..line.len()).map(|byte| at + indent + byte));
        at += source_line.len();
    }
    places.push(places.last().map_or(at, |last| last + 1));
    places.iter_mut().for_each(|place| *place = (*place).min(source.len()));
    Some(places)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::manifest::read;

    /// Where `part` of the value of `a` is written.
    fn written(source: &str, part: &str) -> Option<String> {
        let reading = read(source);
        let node = reading.documents[0].get("a").unwrap();
        let start = node.as_str().unwrap().find(part).unwrap();
        let at = node.part(source, &(start..start + part.len()))?;
        Some(source[at].to_owned())
    }

    #[test]
    fn a_part_is_found_through_quotes_and_escapes() {
        for (source, part, found) in [
            ("a: x y z\n", "y", Some("y")),
            ("a: \"é y z\"\n", "y", Some("y")),
            ("a: \"\\t\\x41\\u00e9\\U0001f600y\\\"\"\n", "y", Some("y")),
            ("a: \"\\t\\x41\\u00e9\\U0001f600y\\\"\"\n", "é", Some("\\u00e9")),
            ("{\"a\": \"\\ud83d\\ude00y\"}", "y", Some("y")),
            ("a: 'it''s y'\n", "y", Some("y")),
            ("a: 'it''s y'\n", "'s", Some("''s")),
            ("a: |\n  x\n\n    y z\nb: 1\n", "y", Some("y")),
            ("a: |-\n  x\n  y", "y", Some("y")),
            ("a: |2\r\n    x\r\n    y\r\n", "y", Some("y")),
            ("a: !!str y\n", "y", None),
            ("a: >\n  x\n  y\n", "y", None),
            ("a: \"x\n  y\"\n", "y", None),
            ("a: x\n  y\n", "y", None),
        ] {
            assert_eq!(written(source, part).as_deref(), found, "{source:?}");
        }
    }

    #[test]
    fn an_empty_part_and_the_end_have_a_place() {
        let source = "a: 'x'\n";
        let reading = read(source);
        let node = reading.documents[0].get("a").unwrap();
        assert_eq!(node.part(source, &(1..1)), Some(5..5));
        assert_eq!(node.part(source, &(1..2)), None);
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_is_meant(text in "\\PC{0,12}", style in 0..3usize, start in 0..12usize, end in 0..12usize) {
            let value = serde_json::Value::from(text.as_str());
            let source = match style {
                0 => format!("a: {value}\n"),
                1 => format!("a: '{}'\n", text.replace('\'', "''")),
                _ => format!("a: |-\n  {text}\n"),
            };
            let reading = read(&source);
            if let Some(node) = reading.documents.first().and_then(|document| document.get("a"))
                && let Some(read) = node.as_str()
                && start <= end
                && let Some(part) = read.get(start..end)
                && let Some(at) = node.part(&source, &(start..end))
            {
                let written = &source[at];
                prop_assert!(written == part || style < 2 && written.len() >= part.len(), "{source:?} {written:?} {part:?}");
            }
        }
    }
}
