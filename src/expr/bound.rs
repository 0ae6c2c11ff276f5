//! How dear an evaluation can become, computed before it runs.
//!
//! The language has no loops that run for ever, but `['x'].map(a, a + a).map(a, a + a)…` doubles with every 14 characters, and the
//! evaluator has no limits of its own. So the parsed expression is walked once with the real sizes of its inputs. For every node the
//! walk knows a [`Shape`], an upper bound on the value, and adds up what the node can cost: **steps**, about a microsecond of work
//! each, and **bytes**, the JSON size of every text, list and map that is built on the way, kept or not.
//!
//! Both are upper bounds by construction: where a branch decides, the dearer one counts; where a loop runs, its body counts as often
//! as the range can have elements, each time with the largest element. An input keeps its real values as long as it is only
//! selected from, which makes the bounds tight where it matters.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr as Node, IdedExpr, LiteralValue, operators};
use serde_json::Value;

use super::ast;
use super::functions::{self, ADDEND, KEYS, MATCHES};
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

/// Values that the estimate itself computes, to know them as well as inputs: documents read by `fromJson`, parts made by `split`.
/// A list, because what is in it stays where it is.
#[derive(Default)]
struct Derived {
    first: OnceCell<Box<(Value, Derived)>>,
}

impl Derived {
    fn keep(&self, value: Value) -> &Value {
        let mut end = self;
        while let Some(entry) = end.first.get() {
            end = &entry.1;
        }
        &end.first.get_or_init(|| Box::new((value, Self::default()))).0
    }
}

/// The most bytes of text that are worth computing for one call.
const DERIVED: usize = 64 << 10;

/// An upper bound on a value. Numbers, truth values and null are `scalar`; everything may also be less than its shape, or absent.
#[derive(Clone, Debug)]
struct Shape<'a> {
    /// JSON bytes with a comma; at least one for every element, so this bounds counts as well.
    bytes: u64,
    /// Elements of a list or a map, bytes of a text.
    len: u64,
    /// Surely a number, a truth value or null, so that `+` cannot make it longer.
    scalar: bool,
    /// Perhaps an optional, from which a selection copies.
    optional: bool,
    inner: Inner<'a>,
}

#[derive(Clone, Debug)]
enum Inner<'a> {
    /// It is one of these inputs.
    Inputs(Rc<Vec<&'a Value>>),
    /// Every element, key and value of it is within this.
    Child(Rc<Shape<'a>>),
    /// A part is no larger than the whole.
    Opaque,
}

impl<'a> Shape<'a> {
    fn scalar() -> Self {
        Self {
            bytes: SCALAR,
            len: 0,
            scalar: true,
            optional: false,
            inner: Inner::Opaque,
        }
    }

    fn opaque(bytes: u64, len: u64) -> Self {
        Self {
            bytes,
            len,
            scalar: false,
            optional: false,
            inner: Inner::Opaque,
        }
    }

    /// No value at all, which is within every other.
    fn nothing() -> Self {
        Self {
            bytes: 0,
            len: 0,
            scalar: true,
            optional: false,
            inner: Inner::Opaque,
        }
    }

    fn text(text: &str) -> Self {
        Self::opaque(text_weight(text), text.len() as u64)
    }

    fn list(bytes: u64, len: u64, child: Shape<'a>) -> Self {
        Self {
            bytes,
            len,
            scalar: false,
            optional: false,
            inner: Inner::Child(Rc::new(child)),
        }
    }

    fn is_nothing(&self) -> bool {
        self.bytes == 0
    }
}

struct Estimator<'a> {
    scope: &'a Scope,
    derived: &'a Derived,
    /// The variables of the macros around the place, innermost last.
    bound: RefCell<Vec<(&'a str, Shape<'a>)>>,
    /// Weights of inputs, by address: an input is measured once, however often it is named.
    weights: RefCell<HashMap<*const Value, u64>>,
}

impl<'a> Estimator<'a> {
    fn node(&self, node: &'a IdedExpr) -> (Shape<'a>, Cost) {
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

    fn name(&self, name: &str) -> Shape<'a> {
        if let Some((_, shape)) = self.bound.borrow().iter().rev().find(|(n, _)| *n == name) {
            return shape.clone();
        }
        match self.scope.get(name) {
            Some(value) => self.inputs(vec![value]),
            // The name of a type.
            None => Shape::opaque(SCALAR, 0),
        }
    }

    fn list(&self, elements: impl Iterator<Item = &'a IdedExpr>) -> (Shape<'a>, Cost) {
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

    fn call(&self, call: &'a CallExpr) -> (Shape<'a>, Cost) {
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

    fn is_namespace(target: &IdedExpr) -> bool {
        matches!(&target.expr, Node::Ident(name) if functions::is_namespace(name))
    }

    /// What a function makes of arguments of these shapes, and what that costs beside the arguments. The target comes first.
    fn function(&self, call: &'a CallExpr, args: &[Shape<'a>]) -> (Shape<'a>, Cost) {
        let nothing = Shape::nothing();
        let a = args.first().unwrap_or(&nothing);
        let b = args.get(1).unwrap_or(&nothing);
        let read: u64 = args.iter().fold(0u64, |sum, arg| sum.saturating_add(arg.bytes));
        let reading = Cost::steps(read / BYTES_A_STEP);
        let scalar = |cost: Cost| (Shape::scalar(), cost);
        // A list or text made of the parts of `a`.
        let part_of_a = || {
            let mut shape = a.clone();
            if let Inner::Inputs(_) = shape.inner {
                shape.inner = Inner::Child(Rc::new(self.entry(a)));
            }
            shape
        };
        match call.func_name.as_str() {
            operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
            | operators::NOT_STRICTLY_FALSE
            | operators::SUBSTRACT
            | operators::MULTIPLY
            | operators::DIVIDE
            | operators::MODULO
            | operators::NEGATE
            | "size"
            | "type"
            | "hasValue" => scalar(Cost::default()),
            operators::EQUALS
            | operators::NOT_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
            | "contains"
            | "startsWith"
            | "endsWith"
            | "bool"
            | "int"
            | "uint"
            | "double" => scalar(reading),
            // Each element is compared with the value, and a map is asked by hash.
            operators::IN => scalar(reading.plus(Cost::steps(b.len / 4))),
            operators::ADD if a.scalar || b.scalar => scalar(Cost::default()),
            operators::ADD => {
                let bytes = a.bytes.saturating_add(b.bytes);
                let shape = Shape::list(
                    bytes,
                    a.len.saturating_add(b.len),
                    self.join(&self.entry(a), &self.entry(b)),
                );
                (shape, built(bytes))
            }
            operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT => {
                let mut shape = self.index(a, call.args.get(1));
                if call.func_name != operators::INDEX {
                    shape.optional = true;
                }
                let copied = copies(&shape, &shape).plus(copies(a, &shape));
                (shape, copied)
            }
            ADDEND | "dyn" => (a.clone(), Cost::default()),
            KEYS => {
                let shape = Shape {
                    inner: Inner::Child(Rc::new(self.element(a))),
                    ..a.clone()
                };
                // Sorting compares each key some dozen times.
                let cost = if self.is_list(a) {
                    Cost::default()
                } else {
                    built(a.bytes).plus(Cost::steps(a.len.saturating_mul(2)))
                };
                (shape, cost)
            }
            MATCHES => {
                let literal = matches!(call.args.get(1).map(|arg| &arg.expr), Some(Node::Literal(_)));
                let compile = if literal {
                    // Compiled once; that is part of reading the expression.
                    0
                } else {
                    COMPILE.saturating_add(b.bytes.saturating_mul(COMPILE_BYTE))
                };
                let run = a.bytes.saturating_mul(MATCH_BYTE).saturating_add(10);
                scalar(Cost::steps(compile.saturating_add(run)))
            }
            "string" => {
                let bytes = a.bytes.max(NUMBER_TEXT);
                (Shape::opaque(bytes, a.len.max(NUMBER_TEXT)), built(bytes))
            }
            // As text again, each byte can become an escape.
            "bytes" => {
                let bytes = a.len.saturating_mul(6).saturating_add(3);
                (Shape::opaque(bytes, a.len), built(bytes))
            }
            "toJson" => {
                let bytes = a.bytes.saturating_mul(2).saturating_add(3);
                (Shape::opaque(bytes, a.bytes), built(bytes).plus(reading))
            }
            // `1e15` becomes a 1 with 15 zeros.
            "fromJson" => {
                if let Some(texts) = self.known_texts(a) {
                    let documents = texts
                        .iter()
                        .filter_map(|text| serde_json::from_str(text).ok())
                        .map(|document| self.derived.keep(document))
                        .collect();
                    let shape = self.inputs(documents);
                    let cost = built(shape.bytes).plus(reading);
                    return (shape, cost);
                }
                let bytes = a.bytes.saturating_mul(6).saturating_add(SCALAR);
                (Shape::opaque(bytes, bytes), built(bytes).plus(reading))
            }
            "optional.of" | "of" | "ofNonZeroValue" => {
                let mut shape = a.clone();
                shape.optional = true;
                (shape, Cost::steps(a.bytes / BYTES_A_STEP))
            }
            "none" => (
                Shape {
                    optional: true,
                    ..Shape::nothing()
                },
                Cost::default(),
            ),
            "or" | "orValue" => (self.join(a, b), Cost::default()),
            "value" => (a.clone(), Cost::default()),
            "indexOf" | "lastIndexOf" => {
                // The search is plain: every place of the text against every character of the part.
                let search = a.len.saturating_mul(b.len) / 256;
                scalar(reading.plus(Cost::steps(search.saturating_add(a.len / 8))))
            }
            "charAt" | "lowerAscii" | "upperAscii" | "trim" | "substring" => {
                (Shape::opaque(a.bytes, a.len), built(a.bytes))
            }
            "reverse" | "slice" | "sort" | "@sortByAssociatedKeys" => {
                let compare = read / BYTES_A_STEP + a.len;
                let cost = built(a.bytes).plus(Cost::steps(compare.saturating_mul(20)));
                (part_of_a(), cost)
            }
            "distinct" => {
                let compare = a.bytes / BYTES_A_STEP + a.len;
                let cost = built(a.bytes).plus(Cost::steps(compare.saturating_mul(a.len.max(1))));
                (part_of_a(), cost)
            }
            "flatten" => (
                Shape::opaque(a.bytes, a.bytes),
                built(a.bytes).plus(Cost::steps(a.bytes / 2)),
            ),
            "join" => {
                let bytes = a.bytes.saturating_add(a.len.saturating_mul(b.bytes)).saturating_add(3);
                (Shape::opaque(bytes, bytes), built(bytes))
            }
            "replace" => {
                let times = occurrences(a.len, call.args.first());
                let new = args.get(2).unwrap_or(&nothing);
                let bytes = a.bytes.saturating_add(times.saturating_mul(new.bytes));
                (Shape::opaque(bytes, bytes), built(bytes).plus(reading))
            }
            "split" => {
                if let (Some(texts), [separator]) = (self.known_texts(a), call.args.as_slice())
                    && let Node::Literal(LiteralValue::String(separator)) = &separator.expr
                    && !separator.inner().is_empty()
                {
                    let lists = texts
                        .iter()
                        .map(|text| self.derived.keep(text.split(separator.inner()).collect()))
                        .collect();
                    let shape = self.inputs(lists);
                    let cost = built(shape.bytes).plus(Cost::steps(shape.len));
                    return (shape, cost);
                }
                let parts = occurrences(a.len, call.args.first()).saturating_add(1);
                let bytes = a.bytes.saturating_add(parts.saturating_mul(4)).saturating_add(3);
                let shape = Shape::list(bytes, parts, Shape::opaque(a.bytes, a.len));
                (shape, built(bytes).plus(Cost::steps(parts)))
            }
            name if name.starts_with("math.@") => {
                scalar(reading.plus(Cost::steps(args.iter().map(|arg| arg.len).max().unwrap_or(0))))
            }
            // Arithmetic on one number. Everything else is refused when the expression is read.
            "abs" | "ceil" | "floor" | "isFinite" | "isInf" | "isNaN" | "round" | "sign" | "trunc" => {
                scalar(Cost::default())
            }
            _ => (Shape::opaque(u64::MAX, u64::MAX), Cost::steps(u64::MAX)),
        }
    }

    fn comprehension(&self, loop_: &'a ComprehensionExpr) -> (Shape<'a>, Cost) {
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

    fn within<const N: usize, R>(&self, variables: [(&'a str, Shape<'a>); N], work: impl FnOnce() -> R) -> R {
        let outer = self.bound.borrow().len();
        self.bound.borrow_mut().extend(variables);
        let result = work();
        self.bound.borrow_mut().truncate(outer);
        result
    }

    /// The shape of a value that is one of `values`.
    fn inputs(&self, values: Vec<&'a Value>) -> Shape<'a> {
        let mut shape = Shape::nothing();
        for value in &values {
            shape.bytes = shape.bytes.max(self.weight(value));
            shape.len = shape.len.max(match value {
                Value::Array(items) => items.len() as u64,
                Value::Object(fields) => fields.len() as u64,
                Value::String(text) => text.len() as u64,
                _ => 0,
            });
            shape.scalar &= matches!(value, Value::Null | Value::Bool(_) | Value::Number(_));
        }
        shape.inner = Inner::Inputs(Rc::new(values));
        shape
    }

    fn field(&self, operand: &Shape<'a>, key: &str) -> Shape<'a> {
        let mut shape = match &operand.inner {
            Inner::Inputs(values) => self.inputs(values.iter().filter_map(|value| value.get(key)).collect()),
            _ => self.entry(operand),
        };
        shape.optional |= operand.optional;
        shape
    }

    fn index(&self, operand: &Shape<'a>, key: Option<&IdedExpr>) -> Shape<'a> {
        match key.map(|key| &key.expr) {
            Some(Node::Literal(LiteralValue::String(key))) => self.field(operand, key.inner()),
            _ => {
                let mut shape = self.entry(operand);
                shape.optional |= operand.optional;
                shape
            }
        }
    }

    /// Any element or any value of it.
    fn entry(&self, whole: &Shape<'a>) -> Shape<'a> {
        match &whole.inner {
            Inner::Inputs(values) => {
                let mut parts = Vec::new();
                for value in values.iter() {
                    match value {
                        Value::Array(items) => parts.extend(items),
                        Value::Object(fields) => parts.extend(fields.values()),
                        _ => {}
                    }
                }
                self.inputs(parts)
            }
            Inner::Child(child) => child.as_ref().clone(),
            Inner::Opaque if whole.scalar => Shape::nothing(),
            Inner::Opaque => Shape {
                len: whole.bytes,
                ..whole.clone()
            },
        }
    }

    /// Any value that a loop over it visits: the elements of a list, the keys of a map.
    fn element(&self, whole: &Shape<'a>) -> Shape<'a> {
        let Inner::Inputs(values) = &whole.inner else {
            return self.entry(whole);
        };
        let mut keys = Shape::nothing();
        let mut items = Vec::new();
        for value in values.iter() {
            match value {
                Value::Array(array) => items.extend(array),
                Value::Object(fields) => {
                    for key in fields.keys() {
                        keys = self.join(&keys, &Shape::text(key));
                    }
                }
                _ => {}
            }
        }
        self.join(&keys, &self.inputs(items))
    }

    /// The texts that it can be, when all are known and not many.
    fn known_texts(&self, shape: &Shape<'a>) -> Option<Vec<&'a str>> {
        let Inner::Inputs(values) = &shape.inner else {
            return None;
        };
        let texts: Vec<&'a str> = values.iter().filter_map(|value| value.as_str()).collect();
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        (bytes <= DERIVED && texts.len() <= 64).then_some(texts)
    }

    fn is_list(&self, shape: &Shape<'a>) -> bool {
        matches!(&shape.inner, Inner::Inputs(values) if values.iter().all(|value| value.is_array()))
    }

    /// The least shape that both are within.
    fn join(&self, a: &Shape<'a>, b: &Shape<'a>) -> Shape<'a> {
        let optional = a.optional || b.optional;
        if a.is_nothing() || b.is_nothing() {
            let one = if a.is_nothing() { b } else { a };
            return Shape {
                optional,
                ..one.clone()
            };
        }
        let inner = match (&a.inner, &b.inner) {
            (Inner::Inputs(x), Inner::Inputs(y)) if Rc::ptr_eq(x, y) => a.inner.clone(),
            (Inner::Inputs(x), Inner::Inputs(y)) => {
                let mut both: Vec<&'a Value> = x.iter().chain(y.iter()).copied().collect();
                both.sort_by_key(|value| std::ptr::from_ref(*value));
                both.dedup_by_key(|value| std::ptr::from_ref(*value));
                Inner::Inputs(Rc::new(both))
            }
            (Inner::Child(x), Inner::Child(y)) if Rc::ptr_eq(x, y) => a.inner.clone(),
            _ if a.scalar && b.scalar => Inner::Opaque,
            (Inner::Opaque, Inner::Opaque) => Inner::Opaque,
            _ => Inner::Child(Rc::new(self.join(&self.entry(a), &self.entry(b)))),
        };
        Shape {
            bytes: a.bytes.max(b.bytes),
            len: a.len.max(b.len),
            scalar: a.scalar && b.scalar,
            optional,
            inner,
        }
    }

    fn weight(&self, value: &Value) -> u64 {
        match value {
            Value::Null | Value::Bool(_) => 6,
            // A whole number that is written with an exponent comes out with all its digits.
            Value::Number(_) => SCALAR,
            Value::String(text) => text_weight(text),
            Value::Array(_) | Value::Object(_) => {
                let address = std::ptr::from_ref(value);
                if let Some(weight) = self.weights.borrow().get(&address) {
                    return *weight;
                }
                let weight = match value {
                    Value::Array(items) => items.iter().map(|item| self.weight(item)).sum::<u64>(),
                    Value::Object(fields) => fields
                        .iter()
                        .map(|(key, value)| text_weight(key) + self.weight(value))
                        .sum(),
                    _ => 0,
                } + 3;
                self.weights.borrow_mut().insert(address, weight);
                weight
            }
        }
    }
}

/// The parts of the loop that `map` and `filter` are: a list that grows by `[value]` where the guard holds.
struct Append<'a> {
    guard: Option<&'a IdedExpr>,
    value: &'a IdedExpr,
}

impl<'a> Append<'a> {
    fn of(loop_: &'a ComprehensionExpr) -> Option<Self> {
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

fn literal_shape<'a>(literal: &LiteralValue) -> Shape<'a> {
    match literal {
        LiteralValue::String(text) => Shape::text(text.inner()),
        LiteralValue::Bytes(bytes) => {
            let len = bytes.inner().len() as u64;
            Shape::opaque(6 * len + 3, len)
        }
        _ => Shape::scalar(),
    }
}

/// What building a value of that size costs.
fn built(bytes: u64) -> Cost {
    Cost {
        steps: bytes / BYTES_A_STEP,
        bytes,
    }
}

/// A selection from an optional copies what it selects.
fn copies(operand: &Shape<'_>, selected: &Shape<'_>) -> Cost {
    if operand.optional {
        Cost::steps(selected.bytes / BYTES_A_STEP)
    } else {
        Cost::default()
    }
}

/// How many names a chain of selections has.
fn chain(mut node: &IdedExpr) -> u64 {
    let mut names = 0;
    while let Node::Select(select) = &node.expr {
        names += 1;
        node = &select.operand;
    }
    names
}

/// How often a part can occur in a text of `len` bytes; an empty one is found between all characters.
fn occurrences(len: u64, part: Option<&IdedExpr>) -> u64 {
    match part.map(|part| &part.expr) {
        Some(Node::Literal(LiteralValue::String(part))) if !part.inner().is_empty() => len / part.inner().len() as u64,
        _ => len.saturating_add(1),
    }
}

/// The JSON text with its comma: quotes, and escapes as they are written.
fn text_weight(text: &str) -> u64 {
    let escapes: u64 = text
        .bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
            0..=0x1f => 5,
            _ => 0,
        })
        .sum();
    text.len() as u64 + escapes + 3
}
