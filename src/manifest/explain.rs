//! Why YAML could not be read, for people: the parser's own words, the place, and what usually is behind it.

use std::ops::Range;

use super::Finding;

/// A syntax error at `offset` of the text, found while the document at `chunk` was read.
pub fn syntax(text: &str, chunk: &Range<usize>, offset: usize, message: &str) -> Finding {
    // An error at the end of the text is shown at the last thing that stands there.
    let mut offset = floor(text, offset.clamp(chunk.start, chunk.end));
    let before = text[chunk.start..offset].trim_end();
    if text[offset..chunk.end].trim().is_empty() {
        offset = chunk.start + before.len() - before.chars().next_back().map_or(0, char::len_utf8);
    }
    let line_start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
    let line_end = text[offset..].find('\n').map_or(text.len(), |newline| offset + newline);
    let line = &text[line_start..line_end];
    let end = offset + text[offset..].chars().next().map_or(0, char::len_utf8);
    let finding = Finding::error(
        offset..end.min(line_end.max(offset)),
        format!("this is no YAML: {message}"),
    );
    match hint(&text[chunk.start..line_start.max(chunk.start)], line) {
        Some(help) => finding.help(help),
        None => finding,
    }
}

/// A list or mapping as a key, which is also what a template in braces looks like.
pub fn invalid_key(at: Range<usize>) -> Finding {
    Finding::error(at, "a list or mapping cannot be a key")
        .help("quote the value if it is text; a template in double braces has to be rendered before this is a manifest")
}

fn floor(text: &str, mut offset: usize) -> usize {
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// What to do about an error in `line`, which stands after the text `before`.
fn hint(before: &str, line: &str) -> Option<String> {
    let indent = &line[..line.len() - line.trim_start().len()];
    if indent.contains('\t') {
        return Some("YAML allows no tab in the indentation: use spaces".into());
    }
    if line.contains("{{") {
        return Some("this looks like a template: render it first, and validate what comes out".into());
    }
    // The parser often notices only on the line after the one to blame.
    let previous = before.trim_end().lines().next_back();
    first_character(line).or_else(|| [Some(line), previous].into_iter().flatten().find_map(value_hint))
}

/// Key and value of a line of the form `key: value`.
fn key_and_value(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.trim_start().trim_start_matches("- ").split_once(": ")?;
    Some((key, value.trim()))
}

/// A value without quotes that begins with a character that YAML has a use for.
fn first_character(line: &str) -> Option<String> {
    let (key, value) = key_and_value(line)?;
    value.starts_with(['@', '`', '%', '*', '&']).then(|| {
        format!(
            "text may not begin with this character without quotes: write {}",
            quoted(key, value)
        )
    })
}

/// What is wrong with the value of a line of the form `key: value`.
fn value_hint(line: &str) -> Option<String> {
    let (key, value) = key_and_value(line)?;
    if key.contains(['"', '\'', '{', '[']) || value.is_empty() {
        return None;
    }
    if matches!(value.as_bytes()[0], b'"' | b'\'') {
        let quote = &value[..1];
        let closed = value[1..].find(quote).map(|end| end + 2);
        return match closed {
            Some(end) if end < value.len() && !value[end..].trim_start().starts_with('#') => Some(format!(
                "the value ends at its second {quote}: quote the whole of it, as in {}",
                quoted(key, value)
            )),
            Some(_) => None,
            None => Some(format!("the {quote} is not closed")),
        };
    }
    if matches!(value.as_bytes()[0], b'[' | b'{') {
        return value
            .contains("$[[")
            .then(|| "inside [ ] and { } an expression has to be quoted: [\"$[[ params.x ]]\"]".into());
    }
    (value.contains(": ") || value.ends_with(':')).then(|| {
        format!(
            "YAML takes `: ` in a value without quotes for another key: write {}",
            quoted(key, value)
        )
    })
}

/// `key: value` with the value in quotes.
fn quoted(key: &str, value: &str) -> String {
    if value.contains(['"', '\\']) {
        format!("{key}: '{}'", value.replace('\'', "''"))
    } else {
        format!("{key}: \"{value}\"")
    }
}
