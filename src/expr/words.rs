//! Where a name is written in an expression. The parsed form keeps no places that a person would point at, so they are found in the
//! source again, word by word.

use std::ops::Range;

use super::template::{after_string, is_raw};

/// What is looked for in an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// A variable: `params`.
    Root(&'a str),
    /// A variable that is used without a literal key behind it: `steps[x]`.
    Whole(&'a str),
    /// A key behind a variable: `steps.charge`, `steps['charge']`, `steps.?charge`.
    Key(&'a str, &'a str),
    /// A key behind that: `steps.charge.output`.
    Field(&'a str, &'a str, &'a str),
    /// A function that is called: `size`, `math.abs`.
    Function(&'a str),
    /// Anything as it is written, white space aside.
    Written(&'a str),
}

/// Bytes of `source` where `name` is first written.
pub(super) fn find(source: &str, name: Name<'_>) -> Option<Range<usize>> {
    let tokens = &tokens(source)[..];
    let roots = |root| (0..tokens.len()).filter(move |at| is_root(tokens, *at, root));
    let from = |at: usize, end: usize| tokens[at].at.start..tokens[end - 1].at.end;
    match name {
        Name::Root(root) => roots(root).map(|at| from(at, at + 1)).next(),
        Name::Whole(root) => roots(root)
            .find(|at| selector(tokens, at + 1).is_none())
            .map(|at| from(at, at + 1)),
        Name::Key(root, key) => roots(root).find_map(|at| {
            let (found, end) = selector(tokens, at + 1)?;
            (found == key).then(|| from(at, end))
        }),
        Name::Field(root, key, field) => roots(root).find_map(|at| {
            let (found, end) = selector(tokens, at + 1)?;
            let (inner, end) = selector(tokens, end).filter(|_| found == key)?;
            (inner == field).then(|| from(at, end))
        }),
        Name::Function(function) => sequence(tokens, &format!("{function}(")).map(|at| at.start..at.end - 1),
        Name::Written(text) => sequence(tokens, text),
    }
}

/// How many bytes to point at in `text` for a fault at `offset`: a word, the opening of an expression, or a single character.
pub(super) fn word_at(text: &str, offset: usize) -> usize {
    let rest = text.get(offset..).unwrap_or_default();
    if rest.starts_with("$[[") {
        return 3;
    }
    let word = rest.bytes().take_while(|byte| is_word(*byte)).count();
    match word {
        0 => rest
            .chars()
            .next()
            .filter(|c| !c.is_whitespace())
            .map_or(0, char::len_utf8),
        word => word,
    }
}

struct Token<'a> {
    at: Range<usize>,
    kind: Kind<'a>,
}

#[derive(PartialEq, Eq)]
enum Kind<'a> {
    Word(&'a str),
    /// What stands between the quotes, as it is written.
    Text(&'a str),
    Sign(u8),
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The words, strings and signs of `source`, up to a string that is not closed.
fn tokens(source: &str) -> Vec<Token<'_>> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        let word = bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
        let prefix = &bytes[at..at + word];
        let quoted = matches!(bytes.get(at + word), Some(b'\'' | b'"'));
        if quoted && (word == 0 || is_raw(prefix) || matches!(prefix, b"b" | b"B")) {
            let quote = at + word;
            let Ok(end) = after_string(bytes, quote, is_raw(prefix)) else {
                return tokens;
            };
            at = end;
            let quotes = if bytes[quote..].starts_with(&[bytes[quote]; 3]) && end - quote >= 6 {
                3
            } else {
                1
            };
            let text = source.get(quote + quotes..end - quotes).unwrap_or_default();
            tokens.push(Token {
                at: start..at,
                kind: Kind::Text(text),
            });
        } else if word > 0 {
            at += word;
            tokens.push(Token {
                at: start..at,
                kind: Kind::Word(&source[start..at]),
            });
        } else if bytes[at..].starts_with(b"//") {
            at += bytes[at..]
                .iter()
                .position(|byte| *byte == b'\n')
                .unwrap_or(bytes.len() - at);
        } else {
            at += 1;
            while !source.is_char_boundary(at) {
                at += 1;
            }
            if !byte.is_ascii_whitespace() {
                tokens.push(Token {
                    at: start..at,
                    kind: Kind::Sign(byte),
                });
            }
        }
    }
    tokens
}

/// Whether the token is a variable of that name, and no field, key or function.
fn is_root(tokens: &[Token<'_>], at: usize, root: &str) -> bool {
    let sign = |at: Option<usize>, byte| {
        at.and_then(|at| tokens.get(at))
            .is_some_and(|token| token.kind == Kind::Sign(byte))
    };
    let behind_dot = sign(at.checked_sub(1), b'.') || (sign(at.checked_sub(1), b'?') && sign(at.checked_sub(2), b'.'));
    tokens[at].kind == Kind::Word(root) && !behind_dot && !sign(Some(at + 1), b'(')
}

/// The literal key that is selected at token `at`, and the token behind it.
fn selector<'a>(tokens: &[Token<'a>], at: usize) -> Option<(&'a str, usize)> {
    let kind = |at: usize| tokens.get(at).map(|token| &token.kind);
    let optional = usize::from(kind(at + 1) == Some(&Kind::Sign(b'?')));
    match (kind(at)?, kind(at + 1 + optional)?) {
        (Kind::Sign(b'.'), Kind::Word(key)) => Some((key, at + 2 + optional)),
        (Kind::Sign(b'['), Kind::Text(key)) if kind(at + 2 + optional) == Some(&Kind::Sign(b']')) => {
            Some((key, at + 3 + optional))
        }
        _ => None,
    }
}

/// Where the tokens of `text` stand one after the other.
fn sequence(found: &[Token<'_>], text: &str) -> Option<Range<usize>> {
    let wanted = tokens(text);
    if wanted.is_empty() {
        return None;
    }
    found
        .windows(wanted.len())
        .find(|window| {
            window
                .iter()
                .zip(&wanted)
                .all(|(found, wanted)| found.kind == wanted.kind)
        })
        .map(|window| window[0].at.start..window[window.len() - 1].at.end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_found_where_it_is_written() {
        for (source, name, written) in [
            ("a.params + params.x", Name::Root("params"), Some("params")),
            ("'params' + params.x", Name::Key("params", "x"), Some("params.x")),
            ("params.a + params . b", Name::Key("params", "b"), Some("params . b")),
            ("params(1)", Name::Root("params"), None),
            ("x.?params", Name::Root("params"), None),
            ("c ? params : 1", Name::Root("params"), Some("params")),
            (
                "steps.a.x + steps['b-c'].x",
                Name::Key("steps", "b-c"),
                Some("steps['b-c']"),
            ),
            ("steps.?a", Name::Key("steps", "a"), Some("steps.?a")),
            (
                "steps[?\"a\"].x",
                Name::Field("steps", "a", "x"),
                Some("steps[?\"a\"].x"),
            ),
            (
                "steps.a.y + steps.a.x",
                Name::Field("steps", "a", "x"),
                Some("steps.a.x"),
            ),
            ("steps.a == steps[b]", Name::Whole("steps"), Some("steps")),
            ("size + size(1)", Name::Function("size"), Some("size")),
            (
                "math.floor(1) + math.abs(1)",
                Name::Function("math.abs"),
                Some("math.abs"),
            ),
            (
                "1 + steps.a - b.output",
                Name::Written("steps.a-b"),
                Some("steps.a - b"),
            ),
            ("// steps.a\nsteps.a", Name::Key("steps", "a"), Some("steps.a")),
            ("r'\\' + x", Name::Root("x"), Some("x")),
            ("\"\"\"a\"b\"\"\" + x", Name::Root("x"), Some("x")),
            ("é + x", Name::Root("x"), Some("x")),
            ("", Name::Root("x"), None),
        ] {
            let found = find(source, name).map(|at| &source[at]);
            assert_eq!(found, written, "{source}: {name:?}");
        }
        let source = "size + size(1)";
        assert_eq!(find(source, Name::Function("size")), Some(7..11));
        assert_eq!(find("steps.a == steps[b]", Name::Whole("steps")), Some(11..16));
    }

    #[test]
    fn a_fault_points_at_a_word_an_opening_or_a_character() {
        for (text, offset, length) in [
            ("a $[[ b", 2, 3),
            ("foo_1 + 2", 0, 5),
            ("a + é", 4, 2),
            ("a", 1, 0),
            ("a ]]", 1, 0),
            ("a", 9, 0),
            ("é", 1, 0),
        ] {
            assert_eq!(word_at(text, offset), length, "{text:?} {offset}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_an_answer_inside_of_it(source in "\\PC{0,40}", name in "[a-z.()'\\[ ]{0,6}") {
            for name in [
                Name::Root(&name), Name::Whole(&name), Name::Key(&name, "a"), Name::Field("a", &name, "b"),
                Name::Function(&name), Name::Written(&name),
            ] {
                if let Some(at) = find(&source, name) {
                    prop_assert!(source.get(at).is_some());
                }
            }
        }
    }
}
