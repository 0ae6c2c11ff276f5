//! How dear an evaluation can become, computed before it runs.
//!
//! The language has no loops that run for ever, but `['x'].map(a, a + a).map(a, a + a)…` doubles with every 14 characters, and the
//! evaluator has no limits of its own. So the parsed expression is walked once with the real sizes of its inputs. For every node the
//! walk knows a [`Shape`](shape::Shape), an upper bound on the value, and adds up what the node can cost: **steps**, about a microsecond of work
//! each, and **bytes**, the JSON size of every text, list and map that is built on the way, kept or not.
//!
//! Both are upper bounds by construction: where a branch decides, the dearer one counts; where a loop runs, its body counts as often
//! as the range can have elements, each time with the largest element. An input keeps its real values as long as it is only
//! selected from, which makes the bounds tight where it matters.

mod functions;
mod shape;
mod walk;

use std::cell::RefCell;

use cel::common::ast::IdedExpr;
use serde_json::Value;

use self::shape::Derived;
use self::walk::Estimator;
use super::refs::Refs;
use super::scope::Scope;

/// An upper bound on what an evaluation uses up. It saturates: `u64::MAX` stands for "cannot be counted".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// About a microsecond of work each.
    pub steps: u64,
    /// JSON bytes built, the result among them.
    pub bytes: u64,
}

impl Cost {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            steps: self.steps.saturating_add(other.steps),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn times(self, n: u64) -> Self {
        Self {
            steps: self.steps.saturating_mul(n),
            bytes: self.bytes.saturating_mul(n),
        }
    }

    fn dearer(self, other: Self) -> Self {
        Self {
            steps: self.steps.max(other.steps),
            bytes: self.bytes.max(other.bytes),
        }
    }

    const fn steps(steps: u64) -> Self {
        Self { steps, bytes: 0 }
    }
}

/// Bytes copied or compared for the price of a step.
const BYTES_A_STEP: u64 = 64;

/// The longest JSON text of a number, a truth value or null, with the comma behind it.
const SCALAR: u64 = 26;

/// The most characters that a number has as text: 1e308 and 5e-324 are written out.
const NUMBER_TEXT: u64 = 400;

/// What the parts of a loop that the macros add cost each time around.
const LOOP: u64 = 4;

/// Steps for a byte that a pattern reads: a pattern at the limit of its size has some thousand states to follow.
const MATCH_BYTE: u64 = 20;

/// Steps to compile a pattern, and for each byte of it: classes of letters in all scripts are large.
const COMPILE: u64 = 1_000;
const COMPILE_BYTE: u64 = 100;

/// What an evaluation costs on the way to its result, and how large the result can be.
pub(super) struct Bound {
    way: Cost,
    /// JSON bytes with a comma.
    pub(super) result: u64,
}

impl Bound {
    pub(super) fn cost(&self) -> Cost {
        self.way.plus(built(self.result))
    }
}

/// Computes the bound of `root` in `scope`.
pub(super) fn bound(root: &IdedExpr, refs: &Refs, scope: &Scope) -> Bound {
    let derived = Derived::default();
    let estimator = Estimator {
        scope,
        derived: &derived,
        bound: RefCell::default(),
        weights: RefCell::default(),
    };
    // What is named is made a value of the language first.
    let inputs: u64 = refs
        .inputs(scope)
        .map(|(_, value, keys)| match (value, keys) {
            (Value::Object(fields), Some(keys)) => keys
                .iter()
                .filter_map(|key| fields.get(key))
                .map(|value| estimator.weight(value))
                .sum(),
            _ => estimator.weight(value),
        })
        .sum();
    let (result, cost) = estimator.node(root);
    Bound {
        way: cost.plus(Cost::steps(inputs / BYTES_A_STEP)),
        result: result.bytes,
    }
}

/// What building a value of that size costs.
fn built(bytes: u64) -> Cost {
    Cost {
        steps: bytes / BYTES_A_STEP,
        bytes,
    }
}
