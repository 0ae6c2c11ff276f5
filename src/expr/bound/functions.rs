//! What each function and operator makes of its arguments, and what that costs.

use std::rc::Rc;

use cel::common::ast::{CallExpr, Expr as Node, IdedExpr, LiteralValue, operators};

use super::shape::{Inner, Shape};
use super::walk::{Estimator, copies};
use super::{BYTES_A_STEP, COMPILE, COMPILE_BYTE, Cost, MATCH_BYTE, NUMBER_TEXT, SCALAR, built};
use crate::expr::functions::{ADDEND, KEYS, MATCHES};

impl<'a> Estimator<'a> {
    /// What a function makes of arguments of these shapes, and what that costs beside the arguments. The target comes first.
    pub(super) fn function(&self, call: &'a CallExpr, args: &[Shape<'a>]) -> (Shape<'a>, Cost) {
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
}

/// How often a part can occur in a text of `len` bytes; an empty one is found between all characters.
pub(super) fn occurrences(len: u64, part: Option<&IdedExpr>) -> u64 {
    match part.map(|part| &part.expr) {
        Some(Node::Literal(LiteralValue::String(part))) if !part.inner().is_empty() => len / part.inner().len() as u64,
        _ => len.saturating_add(1),
    }
}
