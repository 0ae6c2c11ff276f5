//! The walk over a parsed expression: literals, names, selections, calls and loops.

use std::cell::RefCell;
use std::collections::HashMap;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr as Node, IdedExpr, operators};
use serde_json::Value;

use super::shape::{Derived, Shape, literal_shape};
use super::{BYTES_A_STEP, Cost, LOOP, SCALAR, built};
use crate::expr::scope::Scope;
use crate::expr::{ast, functions};

pub(super) struct Estimator<'a> {
    pub(super) scope: &'a Scope,
    pub(super) derived: &'a Derived,
    /// The variables of the macros around the place, innermost last.
    pub(super) bound: RefCell<Vec<(&'a str, Shape<'a>)>>,
    /// Weights of inputs, by address: an input is measured once, however often it is named.
    pub(super) weights: RefCell<HashMap<*const Value, u64>>,
}

impl<'a> Estimator<'a> {
    pub(super) fn node(&self, node: &'a IdedExpr) -> (Shape<'a>, Cost) {
        match &node.expr {
            Node::Literal(literal) => (literal_shape(literal), Cost::steps(1)),
            Node::Ident(name) => (self.name(name), Cost::steps(1)),
            Node::Select(select) => {
                let (operand, cost) = self.node(&select.operand);
                if select.test {
                    return (Shape::scalar(), cost.plus(Cost::steps(2)));
                }
                let shape = self.field(&operand, &select.field);
                // A chain of names is looked up as a whole, which takes longer the longer it is.
                let lookup = 1 + chain(node) / 4;
                let copied = copies(&operand, &shape);
                (shape, cost.plus(Cost::steps(lookup)).plus(copied))
            }
            Node::List(list) => self.list(list.elements.iter()),
            Node::Map(map) => {
                let parts = map.entries.iter().filter_map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => Some([&entry.key, &entry.value]),
                    EntryExpr::StructField(_) => None,
                });
                let (mut shape, cost) = self.list(parts.flatten());
                shape.len = map.entries.len() as u64;
                (shape, cost)
            }
            Node::Comprehension(comprehension) => self.comprehension(comprehension),
            Node::Call(call) => self.call(call),
            // No expression with these gets this far.
            Node::Struct(_) | Node::Unspecified => (Shape::opaque(u64::MAX, u64::MAX), Cost::steps(u64::MAX)),
        }
    }

    pub(super) fn name(&self, name: &str) -> Shape<'a> {
        if let Some((_, shape)) = self.bound.borrow().iter().rev().find(|(n, _)| *n == name) {
            return shape.clone();
        }
        match self.scope.get(name) {
            Some(value) => self.inputs(vec![value]),
            // The name of a type.
            None => Shape::opaque(SCALAR, 0),
        }
    }

    pub(super) fn list(&self, elements: impl Iterator<Item = &'a IdedExpr>) -> (Shape<'a>, Cost) {
        let mut child = Shape::nothing();
        let (mut bytes, mut len) = (3u64, 0u64);
        let mut cost = Cost::steps(1);
        for element in elements {
            let (shape, dear) = self.node(element);
            cost = cost.plus(dear).plus(Cost::steps(1));
            bytes = bytes.saturating_add(shape.bytes);
            len += 1;
            child = self.join(&child, &shape);
        }
        (Shape::list(bytes, len, child), cost.plus(built(bytes)))
    }

    pub(super) fn call(&self, call: &'a CallExpr) -> (Shape<'a>, Cost) {
        let mut cost = Cost::steps(1);
        let mut shapes = Vec::with_capacity(call.args.len() + 1);
        let mut costs = Vec::with_capacity(call.args.len() + 1);
        // The target of `math.abs(x)` is a name only.
        let target = call.target.as_ref().filter(|target| !Self::is_namespace(target));
        for part in target.map(AsRef::as_ref).into_iter().chain(&call.args) {
            let (shape, dear) = self.node(part);
            shapes.push(shape);
            costs.push(dear);
        }
        if call.func_name == operators::CONDITIONAL
            && let ([_, yes, no], [condition, then, otherwise]) = (shapes.as_slice(), costs.as_slice())
        {
            let cost = cost.plus(*condition).plus(then.dearer(*otherwise));
            return (self.join(yes, no), cost);
        }
        for dear in costs {
            cost = cost.plus(dear);
        }
        let (shape, own) = self.function(call, &shapes);
        (shape, cost.plus(own))
    }

    pub(super) fn is_namespace(target: &IdedExpr) -> bool {
        matches!(&target.expr, Node::Ident(name) if functions::is_namespace(name))
    }

    pub(super) fn comprehension(&self, loop_: &'a ComprehensionExpr) -> (Shape<'a>, Cost) {
        let (start, start_cost) = self.node(&loop_.accu_init);
        if ast::is_binding(loop_) {
            let (shape, cost) = self.within([(loop_.accu_var.as_str(), start.clone())], || self.node(&loop_.result));
            let copied = Cost::steps((start.bytes / BYTES_A_STEP).saturating_add(shape.bytes / BYTES_A_STEP) + 4);
            return (shape, cost.plus(start_cost).plus(copied));
        }
        let (range, range_cost) = self.node(&loop_.iter_range);
        let item = self.element(&range);
        let times = range.len;
        // Each element is copied for its turn.
        let around = start_cost
            .plus(range_cost)
            .plus(Cost::steps(4 + range.bytes / BYTES_A_STEP));
        let variables = [
            (loop_.iter_var.as_str(), item),
            (loop_.accu_var.as_str(), Shape::scalar()),
        ];
        if !matches!(loop_.accu_init.expr, Node::List(_)) {
            // all, exists, exists_one: what is carried around is a truth value or a count.
            let (_, body) = self.within(variables, || self.node(&loop_.loop_step));
            let cost = body.plus(Cost::steps(LOOP)).times(times);
            return (Shape::scalar(), around.plus(cost));
        }
        let Some(append) = Append::of(loop_) else {
            return (Shape::opaque(u64::MAX, u64::MAX), Cost::steps(u64::MAX));
        };
        let (guard, (value, value_cost)) = self.within(variables, || {
            let guard = append.guard.map_or(Cost::default(), |guard| self.node(guard).1);
            (guard, self.node(append.value))
        });
        let copies_range = matches!(&append.value.expr, Node::Ident(name) if *name == loop_.iter_var);
        let bytes = if copies_range {
            range.bytes
        } else {
            value.bytes.saturating_mul(times)
        }
        .saturating_add(3);
        let cost = guard
            .plus(value_cost)
            .plus(Cost::steps(LOOP))
            .times(times)
            .plus(built(bytes).times(2));
        (Shape::list(bytes, times, value), around.plus(cost))
    }

    pub(super) fn within<const N: usize, R>(
        &self,
        variables: [(&'a str, Shape<'a>); N],
        work: impl FnOnce() -> R,
    ) -> R {
        let outer = self.bound.borrow().len();
        self.bound.borrow_mut().extend(variables);
        let result = work();
        self.bound.borrow_mut().truncate(outer);
        result
    }
}

/// The parts of the loop that `map` and `filter` are: a list that grows by `[value]` where the guard holds.
pub(super) struct Append<'a> {
    guard: Option<&'a IdedExpr>,
    value: &'a IdedExpr,
}

impl<'a> Append<'a> {
    pub(super) fn of(loop_: &'a ComprehensionExpr) -> Option<Self> {
        let Node::Call(step) = &loop_.loop_step.expr else {
            return None;
        };
        let (guard, grown) = match step.args.as_slice() {
            [guard, grown, _] if step.func_name == operators::CONDITIONAL => (Some(guard), grown),
            _ => (None, &loop_.loop_step),
        };
        let Node::Call(grown) = &grown.expr else {
            return None;
        };
        match grown.args.as_slice() {
            [_, appended] if grown.func_name == operators::ADD => match &appended.expr {
                Node::List(list) => match list.elements.as_slice() {
                    [value] => Some(Self { guard, value }),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }
}

/// A selection from an optional copies what it selects.
pub(super) fn copies(operand: &Shape<'_>, selected: &Shape<'_>) -> Cost {
    if operand.optional {
        Cost::steps(selected.bytes / BYTES_A_STEP)
    } else {
        Cost::default()
    }
}

/// How many names a chain of selections has.
pub(super) fn chain(mut node: &IdedExpr) -> u64 {
    let mut names = 0;
    while let Node::Select(select) = &node.expr {
        names += 1;
        node = &select.operand;
    }
    names
}
