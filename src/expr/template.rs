//! The one rule: a string is plain text, except what stands between `$[[` and `]]`.

use serde_json::Value;

use super::error::{ExprError, ExprErrorKind};
use super::scope::Scope;
use super::{Cost, Expr, eval, syntax};

const OPEN: &str = "$[[";
const CLOSE: &str = "]]";
const ESCAPED: &str = "$$[[";

/// A string of a manifest, read by the one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Template {
    /// No expression in it. Escapes are resolved.
    Literal(String),
    /// Exactly one expression and nothing around it: it gives its JSON value.
    Value(Expr),
    /// Text with expressions in it: it gives text.
    Text(Vec<Part>),
}

/// A string and all that is wrong with it.
#[derive(Clone, Debug)]
pub struct TemplateReading {
    /// What could be read. When there are faults it is only good for looking at the expressions in it.
    pub template: Template,
    /// In the order of the string, with offsets in it.
    pub faults: Vec<ExprError>,
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Literal(String),
    Expr(Expr),
}

impl Template {
    /// Reads a string. `$$[[` stands for a literal `$[[`.
    ///
    /// # Errors
    ///
    /// The first fault, with its offset in `text`.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        let reading = Self::read(text);
        match reading.faults.into_iter().next() {
            Some(fault) => Err(fault),
            None => Ok(reading.template),
        }
    }

    /// Reads a string with all that is wrong with it: one expression that is broken does not hide the others.
    pub fn read(text: &str) -> TemplateReading {
        let mut parts = Vec::new();
        let mut faults = Vec::new();
        let mut literal = String::new();
        let mut at = 0;
        while let Some(found) = text[at..].find('$') {
            let dollar = at + found;
            literal.push_str(&text[at..dollar]);
            let rest = &text[dollar..];
            if rest.starts_with(ESCAPED) {
                literal.push_str(OPEN);
                at = dollar + ESCAPED.len();
            } else if rest.starts_with(OPEN) {
                let start = dollar + OPEN.len();
                let end = match closing(text, start, dollar) {
                    Ok(end) => end,
                    Err(fault) => {
                        let place = fault.offset.unwrap_or(start).max(start);
                        let closed = fault.kind != ExprErrorKind::Unterminated;
                        faults.push(fault.measured(text));
                        // The brackets do not fit; it was probably meant to end at the next `]]`.
                        match text[place..].find(CLOSE).filter(|_| closed) {
                            Some(end) => at = place + end + CLOSE.len(),
                            None => at = text.len(),
                        }
                        continue;
                    }
                };
                let (expr, wrong) = syntax::parse(&text[start..end]);
                faults.extend(wrong.into_iter().map(|fault| fault.moved(start).measured(text)));
                if let Some(expr) = expr {
                    if !literal.is_empty() {
                        parts.push(Part::Literal(std::mem::take(&mut literal)));
                    }
                    let start = start + expr.start;
                    parts.push(Part::Expr(expr.starting_at(start)));
                }
                at = end + CLOSE.len();
            } else {
                literal.push('$');
                at = dollar + 1;
            }
        }
        literal.push_str(&text[at..]);
        if parts.is_empty() {
            return TemplateReading {
                template: Self::Literal(literal),
                faults,
            };
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        let template = match <[Part; 1]>::try_from(parts) {
            Ok([Part::Expr(expr)]) => Self::Value(expr),
            Ok(parts) => Self::Text(parts.into()),
            Err(parts) => Self::Text(parts),
        };
        TemplateReading { template, faults }
    }

    /// Reads a string that must be exactly one `$[[ … ]]`, as in `when`.
    ///
    /// # Errors
    ///
    /// The first fault; [`ExprErrorKind::NotAnExpression`] when there is none, or text around it.
    pub fn parse_value(text: &str) -> Result<Expr, ExprError> {
        Self::parse(text)?.into_value()
    }

    /// The expression, if the string is exactly one.
    ///
    /// # Errors
    ///
    /// [`ExprErrorKind::NotAnExpression`] when there is none, or text around it.
    pub fn into_value(self) -> Result<Expr, ExprError> {
        match self {
            Self::Value(expr) => Ok(expr),
            Self::Literal(_) => Err(ExprError::new(
                ExprErrorKind::NotAnExpression,
                "this must be one expression: write $[[ … ]]",
            )
            .at(0)),
            Self::Text(_) => Err(ExprError::new(
                ExprErrorKind::NotAnExpression,
                "this must be exactly one $[[ … ]], with no text around it",
            )
            .at(0)),
        }
    }

    /// The expressions, in order.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let (value, parts) = match self {
            Self::Literal(_) => (None, [].as_slice()),
            Self::Value(expr) => (Some(expr), [].as_slice()),
            Self::Text(parts) => (None, parts.as_slice()),
        };
        value.into_iter().chain(parts.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Expr(expr) => Some(expr),
        }))
    }

    /// The value of the string: text, or any JSON when it is exactly one expression.
    ///
    /// # Errors
    ///
    /// Those of [`Expr::eval`], with offsets in the text; [`ExprErrorKind::NotText`] when a part of a text is null, a list or an
    /// object. What is put in is never read again.
    pub fn render(&self, scope: &Scope) -> Result<Value, ExprError> {
        self.render_within(scope, &mut Cost::default())
    }

    pub(super) fn render_within(&self, scope: &Scope, spent: &mut Cost) -> Result<Value, ExprError> {
        match self {
            Self::Literal(text) => Ok(Value::String(text.clone())),
            Self::Value(expr) => expr.eval_within(scope, spent),
            Self::Text(parts) => {
                let mut text = String::new();
                for part in parts {
                    match part {
                        Part::Literal(literal) => text.push_str(literal),
                        Part::Expr(expr) => {
                            let value = expr.eval_within(scope, spent)?;
                            put(&mut text, &value).map_err(|error| error.at(expr.start))?;
                        }
                    }
                }
                eval::check_cost(*spent)?;
                Ok(Value::String(text))
            }
        }
    }
}

/// Puts a value into text: a string as it is, numbers and truth values in their JSON form.
fn put(text: &mut String, value: &Value) -> Result<(), ExprError> {
    let what = match value {
        Value::String(string) => {
            text.push_str(string);
            return Ok(());
        }
        Value::Number(_) | Value::Bool(_) => {
            text.push_str(&value.to_string());
            return Ok(());
        }
        Value::Null => "null",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Err(ExprError::new(
        ExprErrorKind::NotText,
        format!("this gives {what}, which is no text; wrap it in toJson() to write it as JSON"),
    ))
}

/// Where the `]]` begins that ends the expression which begins at `start`, found by reading CEL: brackets that are open, strings and
/// comments do not end it. `opened` is where its `$[[` is.
fn closing(text: &str, start: usize, opened: usize) -> Result<usize, ExprError> {
    let bytes = text.as_bytes();
    let mut open = Vec::new();
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'(' | b'[' | b'{' => open.push(byte),
            b']' if open.is_empty() => {
                if bytes.get(at + 1) == Some(&b']') {
                    return Ok(at);
                }
                return Err(unopened(']', at));
            }
            b')' | b']' | b'}' => {
                let opening = match byte {
                    b')' => b'(',
                    b']' => b'[',
                    _ => b'{',
                };
                match open.pop() {
                    Some(bracket) if bracket == opening => {}
                    Some(bracket) => return Err(unclosed(char::from(bracket), char::from(byte), at)),
                    None => return Err(unopened(char::from(byte), at)),
                }
            }
            b'\'' | b'"' => {
                at = after_string(bytes, at, false)?;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at += bytes[at..]
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .unwrap_or(bytes.len() - at);
                continue;
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                let word = bytes[at..]
                    .iter()
                    .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
                    .map_or(&bytes[at..], |length| &bytes[at..at + length]);
                at += word.len();
                // The letters before a quote can make it a raw string, in which a backslash is only that.
                if matches!(bytes.get(at), Some(b'\'' | b'"')) {
                    at = after_string(bytes, at, is_raw(word))?;
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    Err(ExprError::new(
        ExprErrorKind::Unterminated,
        match open.last() {
            Some(bracket) => format!(
                "the $[[ is not closed: the expression has an open '{}'",
                char::from(*bracket)
            ),
            None => "the $[[ is not closed by ]]; a literal $[[ is written $$[[".to_owned(),
        },
    )
    .at(opened))
}

pub(super) fn is_raw(word: &[u8]) -> bool {
    matches!(word, [b'r' | b'R'] | [b'b' | b'B', b'r' | b'R'])
}

fn unclosed(open: char, close: char, at: usize) -> ExprError {
    let message = format!("an '{open}' is not closed before this '{close}'");
    ExprError::new(ExprErrorKind::Syntax, message).at(at)
}

fn unopened(bracket: char, at: usize) -> ExprError {
    ExprError::new(ExprErrorKind::Syntax, format!("this '{bracket}' closes nothing")).at(at)
}

/// The place behind the string whose opening quote is at `start`.
pub(super) fn after_string(bytes: &[u8], start: usize, raw: bool) -> Result<usize, ExprError> {
    let quote = bytes[start];
    let triple = bytes[start..].starts_with(&[quote; 3]);
    let mut at = start + if triple { 3 } else { 1 };
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' if !raw => at += 1,
            b'\n' | b'\r' if !triple => break,
            _ if byte == quote && !triple => return Ok(at + 1),
            _ if byte == quote && bytes[at..].starts_with(&[quote; 3]) => return Ok(at + 3),
            _ => {}
        }
        at += 1;
    }
    Err(ExprError::new(ExprErrorKind::Unterminated, "a string is not closed").at(start))
}
