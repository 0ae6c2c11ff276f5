//! From text to a parsed expression, and the parser's complaints in one line.

use cel::ParseError;
use std::sync::Arc;

use super::error::{ExprError, ExprErrorKind, shorten};
use super::{Expr, MAX_SOURCE, Parsed, ast, functions, refs, stack};

/// Reads `source`: an expression if it is CEL, and all that is wrong with it. One that has faults is never evaluated, but what it
/// refers to can be looked at.
pub(super) fn parse(source: &str) -> (Option<Expr>, Vec<ExprError>) {
    match tree(source) {
        Ok(expr) => {
            let faults = expr.refs().faults.iter().cloned();
            let faults = faults.map(|fault| fault.moved(expr.start)).collect();
            (Some(expr), faults)
        }
        Err(fault) => (None, vec![fault]),
    }
}

fn tree(source: &str) -> Result<Expr, ExprError> {
    let characters = source.chars().count();
    if characters > MAX_SOURCE {
        return Err(ExprError::new(
            ExprErrorKind::TooLong {
                characters,
                limit: MAX_SOURCE,
            },
            format!(
                "the expression has {characters} characters, and the limit is {MAX_SOURCE}; do part of it in a step"
            ),
        ));
    }
    let trimmed = source.trim();
    let start = source.len() - source.trim_start().len();
    if trimmed.is_empty() {
        return Err(ExprError::new(ExprErrorKind::Syntax, "the expression is empty").at(0));
    }
    let stack = stack::needed(trimmed);
    stack::enough(stack, || read(trimmed, stack))
        .map_err(|error| error.moved(start))
        .map(|parsed| Expr {
            inner: Arc::new(parsed),
            start,
        })
}

fn read(source: &str, stack: usize) -> Result<Parsed, ExprError> {
    let (mut root, places) = functions::environment()
        .parser()
        .parse_with_source_info(source)
        .map_err(|errors| complaint(source, &errors.errors))?;
    let refs = refs::collect(&root, &places);
    ast::rewrite(&mut root);
    Ok(Parsed {
        source: source.to_owned(),
        stack,
        root,
        places,
        refs,
    })
}

/// The first complaint that says something. The parser lists everything it could have read instead, in up to 70 kB.
fn complaint(source: &str, errors: &[ParseError]) -> ExprError {
    let too_deep = errors.iter().find(|error| full_text(error).contains("ecursion limit"));
    if too_deep.is_some() {
        return ExprError::new(
            ExprErrorKind::Syntax,
            "the expression is nested too deeply; do part of it in a step",
        );
    }
    let Some(error) = errors.first() else {
        return ExprError::new(ExprErrorKind::Syntax, "the expression cannot be read");
    };
    let offset = offset(source, error.pos);
    let fault = ExprError::new(ExprErrorKind::Syntax, reason(source, offset, error));
    fault.at(offset)
}

fn full_text(error: &ParseError) -> String {
    match &error.source {
        Some(source) => format!("{} {source}", error.msg),
        None => error.msg.clone(),
    }
}

/// The words that are never names. Behind a dot the language still takes the ones that it only reserves.
const KEYWORDS: [&str; 4] = ["in", "true", "false", "null"];

fn reason(source: &str, offset: usize, error: &ParseError) -> String {
    let rest = &source[offset..];
    let word: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    if let Some(name) = error.msg.strip_prefix("reserved identifier: ") {
        return format!("'{name}' is a reserved word and cannot be a name");
    }
    if error.msg.starts_with("Syntax error: token recognition error") {
        let found: String = rest.chars().take(1).collect();
        return match found.as_str() {
            "'" | "\"" => "a string is not closed".to_owned(),
            "&" | "|" | "=" => format!("'{found}' is no operator; write '{found}{found}'"),
            _ => format!("unexpected '{}'", found.escape_default()),
        };
    }
    if error.msg.starts_with("Syntax error:") {
        if rest.is_empty() {
            return "the expression ends too early".to_owned();
        }
        if KEYWORDS.contains(&word.as_str()) && source[..offset].trim_end().ends_with('.') {
            return format!("'{word}' is a reserved word; write ['{word}'] in place of .{word}");
        }
        if rest.starts_with('=') {
            return "'=' is no operator; write '=='".to_owned();
        }
        let found = if word.is_empty() {
            rest.chars().take(1).collect()
        } else {
            shorten(&word, 40)
        };
        return format!("unexpected '{}'", found.escape_default());
    }
    shorten(&error.msg, 160)
}

/// The byte offset of a line and column, which count from 1 and in characters.
fn offset(source: &str, (line, column): (isize, isize)) -> usize {
    let line = usize::try_from(line - 1).unwrap_or(0);
    let column = usize::try_from(column - 1).unwrap_or(0);
    let Some(text) = source.split_inclusive('\n').nth(line) else {
        return source.len();
    };
    let before: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    before + text.char_indices().nth(column).map_or(text.len(), |(offset, _)| offset)
}
