//! The expression language: what stands between `$[[` and `]]`.
//!
//! It is CEL, read and evaluated by the `cel` crate, made safe for a controller: an evaluation is a pure function of its scope (no
//! clock, no randomness, maps in the order of their keys), its cost is bounded before it runs, and every fault is an error with one
//! line for the person who wrote the expression. [`Expr`] is one expression, [`Template`] a string of a manifest, [`Tree`] a JSON
//! document of such strings.

mod ast;
mod bound;
mod error;
mod eval;
mod functions;
mod refs;
mod scope;
mod stack;
mod syntax;
mod template;
#[cfg(test)]
mod tests;
mod tree;
mod values;
mod words;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use cel::common::ast::{IdedExpr, SourceInfo};
use serde_json::Value;

pub use bound::Cost;
pub use error::{ExprError, ExprErrorKind, Resource};
pub use functions::function_names;
pub use refs::Refs;
pub use scope::Scope;
pub use stack::with_stack;
pub use template::{Part, Template, TemplateReading};
pub use tree::{Tree, TreeReading};
pub use words::Name;

/// The most characters of an expression's source.
pub const MAX_SOURCE: usize = 1_024;

/// The most that one evaluation may use up by its bound; an expression above it is not evaluated. A template or a tree is one
/// evaluation: its expressions share the limits.
pub const LIMITS: Cost = Cost {
    steps: 1_000_000,
    bytes: 1 << 20,
};

/// A parsed expression. Clones share it.
#[derive(Clone)]
pub struct Expr {
    inner: Arc<Parsed>,
    /// Where the source begins in the text that it came out of, in bytes.
    start: usize,
}

struct Parsed {
    source: String,
    /// The stack that the expression takes, in bytes.
    stack: usize,
    root: IdedExpr,
    places: SourceInfo,
    refs: Refs,
}

impl Parsed {
    fn bound(&self, scope: &Scope) -> bound::Bound {
        bound::bound(&self.root, &self.refs, scope)
    }
}

impl Drop for Parsed {
    /// A long chain is a deep tree, and dropping a tree recurses.
    fn drop(&mut self) {
        let root = std::mem::take(&mut self.root);
        stack::enough(self.stack, move || drop(root));
    }
}

impl Expr {
    /// Reads an expression, without the `$[[` and `]]`.
    ///
    /// # Errors
    ///
    /// When the text is too long, is not CEL, calls a function in a form it does not have, or holds a pattern that is not valid.
    /// Names and functions that do not exist are no error here: [`Expr::refs`] has them, so that the caller can say what was meant.
    pub fn parse(source: &str) -> Result<Self, ExprError> {
        match syntax::parse(source) {
            (Some(expr), faults) if faults.is_empty() => Ok(expr),
            (_, faults) => Err(faults
                .into_iter()
                .next()
                .unwrap_or_else(|| ExprError::new(ExprErrorKind::Syntax, "the expression cannot be read"))),
        }
    }

    /// The source, without the white space around it.
    pub fn source(&self) -> &str {
        &self.inner.source
    }

    pub fn refs(&self) -> &Refs {
        &self.inner.refs
    }

    /// The upper bound on what an evaluation in `scope` uses up.
    pub fn cost(&self, scope: &Scope) -> Cost {
        stack::enough(self.inner.stack, || self.inner.bound(scope).cost())
    }

    /// Where `name` is first written, in bytes of the text that the expression came out of; where the whole expression is, if it
    /// is not found.
    pub fn place_of(&self, name: Name<'_>) -> Range<usize> {
        let source = &self.inner.source;
        let place = words::find(source, name).unwrap_or(0..source.len());
        self.start + place.start..self.start + place.end
    }

    /// Evaluates the expression. The same scope gives the same result, to the byte.
    ///
    /// # Errors
    ///
    /// When a name or function does not exist, the bound is above [`LIMITS`], the evaluation fails, or its result is no JSON.
    pub fn eval(&self, scope: &Scope) -> Result<Value, ExprError> {
        let mut spent = Cost::default();
        self.eval_within(scope, &mut spent)
    }

    /// Evaluates the expression as one of several that share the limits: `spent` is what the earlier ones may have used up.
    fn eval_within(&self, scope: &Scope, spent: &mut Cost) -> Result<Value, ExprError> {
        stack::enough(self.inner.stack, || eval::evaluate(&self.inner, scope, spent))
            .map_err(|error| error.moved(self.start))
    }

    fn starting_at(mut self, start: usize) -> Self {
        self.start = start;
        self
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expr").field(&self.inner.source).finish()
    }
}

impl PartialEq for Expr {
    /// Two expressions are equal when they are written the same.
    fn eq(&self, other: &Self) -> bool {
        self.inner.source == other.inner.source
    }
}

impl Eq for Expr {}
