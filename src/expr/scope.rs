//! The values that an expression may name.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// The roots of an evaluation: `params`, `steps`, `run`, `attempt`, `item` and whatever else the caller gives. Cloning is cheap, so
/// a loop makes a scope for each item out of the scope around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scope {
    roots: BTreeMap<String, Arc<Value>>,
}

impl Scope {
    pub fn new() -> Self {
        Self::default()
    }

    /// The scope with `name` set to `value`; an earlier value of that name is hidden.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Arc<Value>>) -> Self {
        self.roots.insert(name.into(), value.into());
        self
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.roots.get(name).map(Arc::as_ref)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.roots.keys().map(String::as_str)
    }
}
