//! What can be wrong with an expression or with its evaluation, in words for the person who wrote it.

use std::fmt;

/// An expression that cannot be read, is too dear, or failed when it was evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprError {
    pub kind: ExprErrorKind,
    /// One line: what is wrong and what to do about it. It never contains values of unbounded size.
    pub message: String,
    /// Where, as a byte offset: in the expression's source, or in the whole text when the expression came out of a template.
    /// `None` when the place is not known, as for most faults of an evaluation.
    pub offset: Option<usize>,
    /// How many bytes are wrong there, as far as that is known: a word, a sign. 0 where something is missing.
    pub length: usize,
}

/// The kinds of faults, for programs. People read the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprErrorKind {
    /// The text is not CEL.
    Syntax,
    /// The source has more characters than [`MAX_SOURCE`](super::MAX_SOURCE).
    TooLong { characters: usize, limit: usize },
    /// The bound on the evaluation's work, computed before it runs, is above the limit.
    TooDear { resource: Resource, bound: u64, limit: u64 },
    /// A `$[[` without its `]]`, or a string without its closing quote.
    Unterminated,
    /// The field takes exactly one `$[[ … ]]`, and the text is something else.
    NotAnExpression,
    /// A name that is not in the scope.
    UnknownName,
    /// A function that does not exist, or is called with the wrong number of arguments.
    UnknownFunction,
    /// An input that has no value in the expression language: an integer beyond 64 bits.
    BadInput,
    /// The evaluation failed: a missing key, operands of the wrong type, a division by zero and the like.
    Evaluation,
    /// Null, a list or an object inside text.
    NotText,
    /// A result that has no form in JSON: bytes, a type, an optional, an infinite number, a map whose keys are not text.
    BadResult,
}

/// What an evaluation uses up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    Steps,
    Bytes,
}

impl ExprError {
    pub fn new(kind: ExprErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            offset: None,
            length: 0,
        }
    }

    pub(super) fn at(mut self, offset: usize) -> Self {
        self.offset = Some(offset);
        self
    }

    /// The same fault seen from a text in which the expression begins `by` bytes later.
    pub(super) fn moved(mut self, by: usize) -> Self {
        self.offset = self.offset.map(|offset| offset + by);
        self
    }

    /// The same fault with the length of what stands at its place in `text`.
    pub(super) fn measured(mut self, text: &str) -> Self {
        self.length = self.offset.map_or(0, |offset| super::words::word_at(text, offset));
        self
    }

    /// The bytes that are wrong.
    pub fn part(&self) -> Option<std::ops::Range<usize>> {
        self.offset.map(|offset| offset..offset + self.length)
    }

    pub(super) fn too_dear(resource: Resource, bound: u64, limit: u64) -> Self {
        let message = match resource {
            Resource::Steps => format!(
                "too dear: with these inputs it may take {} steps, and the limit is {limit}; loop over less, or do it in a step",
                number(bound)
            ),
            Resource::Bytes => format!(
                "too dear: with these inputs it may build {} bytes, and the limit is {limit}; build less, or do it in a step",
                number(bound)
            ),
        };
        Self::new(ExprErrorKind::TooDear { resource, bound, limit }, message)
    }
}

/// Bounds saturate: the largest number stands for "more than can be counted".
fn number(bound: u64) -> String {
    if bound == u64::MAX {
        format!("more than {bound}")
    } else {
        bound.to_string()
    }
}

impl fmt::Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExprError {}

/// `text` cut to at most `limit` characters, for messages that quote what a user wrote.
pub(super) fn shorten(text: &str, limit: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
