//! The expression language: CEL between `$[[` and `]]`, bounded before it runs.

use std::collections::BTreeMap;

use serde_json::Value;

/// What an expression can read, by root name.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    roots: BTreeMap<String, Value>,
}

/// A parsed expression.
#[derive(Clone, Debug)]
pub struct Expr {}

/// A JSON document whose strings are templates.
#[derive(Clone, Debug)]
pub struct Tree {}
