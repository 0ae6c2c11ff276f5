//! What the walk knows of a value: how large it can be at most, what its parts are, and what an input weighs.

use std::cell::OnceCell;
use std::rc::Rc;

use cel::common::ast::{Expr as Node, IdedExpr, LiteralValue};
use serde_json::Value;

use super::SCALAR;
use super::walk::Estimator;

/// Values that the estimate itself computes, to know them as well as inputs: documents read by `fromJson`, parts made by `split`.
/// A list, because what is in it stays where it is.
#[derive(Default)]
pub(super) struct Derived {
    first: OnceCell<Box<(Value, Derived)>>,
}

impl Derived {
    pub(super) fn keep(&self, value: Value) -> &Value {
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
pub(super) struct Shape<'a> {
    /// JSON bytes with a comma; at least one for every element, so this bounds counts as well.
    pub(super) bytes: u64,
    /// Elements of a list or a map, bytes of a text.
    pub(super) len: u64,
    /// Surely a number, a truth value or null, so that `+` cannot make it longer.
    pub(super) scalar: bool,
    /// Perhaps an optional, from which a selection copies.
    pub(super) optional: bool,
    pub(super) inner: Inner<'a>,
}

#[derive(Clone, Debug)]
pub(super) enum Inner<'a> {
    /// It is one of these inputs.
    Inputs(Rc<Vec<&'a Value>>),
    /// Every element, key and value of it is within this.
    Child(Rc<Shape<'a>>),
    /// A part is no larger than the whole.
    Opaque,
}

impl<'a> Shape<'a> {
    pub(super) fn scalar() -> Self {
        Self {
            bytes: SCALAR,
            len: 0,
            scalar: true,
            optional: false,
            inner: Inner::Opaque,
        }
    }

    pub(super) fn opaque(bytes: u64, len: u64) -> Self {
        Self {
            bytes,
            len,
            scalar: false,
            optional: false,
            inner: Inner::Opaque,
        }
    }

    /// No value at all, which is within every other.
    pub(super) fn nothing() -> Self {
        Self {
            bytes: 0,
            len: 0,
            scalar: true,
            optional: false,
            inner: Inner::Opaque,
        }
    }

    pub(super) fn text(text: &str) -> Self {
        Self::opaque(text_weight(text), text.len() as u64)
    }

    pub(super) fn list(bytes: u64, len: u64, child: Shape<'a>) -> Self {
        Self {
            bytes,
            len,
            scalar: false,
            optional: false,
            inner: Inner::Child(Rc::new(child)),
        }
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.bytes == 0
    }
}

impl<'a> Estimator<'a> {
    /// The shape of a value that is one of `values`.
    pub(super) fn inputs(&self, values: Vec<&'a Value>) -> Shape<'a> {
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

    pub(super) fn field(&self, operand: &Shape<'a>, key: &str) -> Shape<'a> {
        let mut shape = match &operand.inner {
            Inner::Inputs(values) => self.inputs(values.iter().filter_map(|value| value.get(key)).collect()),
            _ => self.entry(operand),
        };
        shape.optional |= operand.optional;
        shape
    }

    pub(super) fn index(&self, operand: &Shape<'a>, key: Option<&IdedExpr>) -> Shape<'a> {
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
    pub(super) fn entry(&self, whole: &Shape<'a>) -> Shape<'a> {
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
    pub(super) fn element(&self, whole: &Shape<'a>) -> Shape<'a> {
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
    pub(super) fn known_texts(&self, shape: &Shape<'a>) -> Option<Vec<&'a str>> {
        let Inner::Inputs(values) = &shape.inner else {
            return None;
        };
        let texts: Vec<&'a str> = values.iter().filter_map(|value| value.as_str()).collect();
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        (bytes <= DERIVED && texts.len() <= 64).then_some(texts)
    }

    pub(super) fn is_list(&self, shape: &Shape<'a>) -> bool {
        matches!(&shape.inner, Inner::Inputs(values) if values.iter().all(|value| value.is_array()))
    }

    /// The least shape that both are within.
    pub(super) fn join(&self, a: &Shape<'a>, b: &Shape<'a>) -> Shape<'a> {
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

    pub(super) fn weight(&self, value: &Value) -> u64 {
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

pub(super) fn literal_shape<'a>(literal: &LiteralValue) -> Shape<'a> {
    match literal {
        LiteralValue::String(text) => Shape::text(text.inner()),
        LiteralValue::Bytes(bytes) => {
            let len = bytes.inner().len() as u64;
            Shape::opaque(6 * len + 3, len)
        }
        _ => Shape::scalar(),
    }
}

/// The JSON text with its comma: quotes, and escapes as they are written.
pub(super) fn text_weight(text: &str) -> u64 {
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
