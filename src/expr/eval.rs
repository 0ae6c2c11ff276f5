//! Evaluation: the bound is held against the limits, the inputs that are named become values, and the result becomes JSON.

use cel::common::ast::{EntryExpr, Expr as Node, IdedExpr};
use cel::common::types::CelString;
use cel::{Context, ExecutionError, Value as CelValue};
use serde_json::Value;
use std::sync::Arc;

use super::error::{ExprError, ExprErrorKind, Resource, shorten};
use super::scope::Scope;
use super::{Cost, LIMITS, Parsed, ast, functions, values};

/// Evaluates `parsed`. It needs the stack that `parsed` says.
pub(super) fn evaluate(parsed: &Parsed, scope: &Scope, spent: &mut Cost) -> Result<Value, ExprError> {
    check_names(parsed, scope)?;
    *spent = spent.plus(parsed.bound(scope).cost());
    check_cost(*spent)?;

    let mut context = Context::with_env(Arc::clone(functions::environment()));
    let text = |text| CelString::from(text);
    for (root, value, keys) in parsed.refs.inputs(scope) {
        let value = match (value, keys) {
            (Value::Object(fields), Some(keys)) => {
                let named = keys.iter().filter_map(|key| fields.get_key_value(key));
                values::object_in(named, &text)
            }
            _ => values::from_json(value, &text),
        };
        let value =
            value.map_err(|message| ExprError::new(ExprErrorKind::BadInput, format!("in {root}: {message}")))?;
        context.add_variable_as_val(root, value);
    }
    let result = CelValue::resolve_val(&parsed.root, &context)
        .map_err(|error| fault(parsed, &error))
        .and_then(|value| {
            values::to_json(value.as_ref()).map_err(|message| {
                ExprError::new(
                    ExprErrorKind::BadResult,
                    format!("the result cannot be used: {message}"),
                )
            })
        });
    functions::forget_patterns();
    result
}

/// A name that does not exist is a fault whether or not the evaluation would come to it.
fn check_names(parsed: &Parsed, scope: &Scope) -> Result<(), ExprError> {
    if let Some(fault) = parsed.refs.faults.first() {
        return Err(fault.clone());
    }
    if let Some(function) = parsed.refs.unknown_functions.first() {
        return Err(ExprError::new(
            ExprErrorKind::UnknownFunction,
            format!("there is no function {}", shorten(function, 60)),
        ));
    }
    match parsed.refs.roots.iter().find(|root| scope.get(root).is_none()) {
        Some(root) => Err(unknown_name(root, scope)),
        None => Ok(()),
    }
}

fn unknown_name(name: &str, scope: &Scope) -> ExprError {
    let names: Vec<&str> = scope.names().collect();
    ExprError::new(
        ExprErrorKind::UnknownName,
        format!(
            "there is no {} here; there is {}",
            shorten(name, 60),
            if names.is_empty() {
                "nothing".to_owned()
            } else {
                names.join(", ")
            }
        ),
    )
}

pub(super) fn check_cost(spent: Cost) -> Result<(), ExprError> {
    if spent.bytes > LIMITS.bytes {
        return Err(ExprError::too_dear(Resource::Bytes, spent.bytes, LIMITS.bytes));
    }
    if spent.steps > LIMITS.steps {
        return Err(ExprError::too_dear(Resource::Steps, spent.steps, LIMITS.steps));
    }
    Ok(())
}

/// What went wrong, without the values: they can be large, and a map among them would be printed in random order.
fn fault(parsed: &Parsed, error: &ExecutionError) -> ExprError {
    let message = match error {
        ExecutionError::NoSuchKey(key) => return missing_key(parsed, key),
        ExecutionError::UndeclaredReference(name) => {
            return ExprError::new(
                ExprErrorKind::UnknownName,
                format!("there is no {} here", shorten(name, 60)),
            );
        }
        ExecutionError::NoSuchOverload(overload) => {
            let types = overload.argument_types();
            format!(
                "{} cannot be used with {}",
                operator(overload.function()),
                if types.is_empty() {
                    "no value".to_owned()
                } else {
                    types.join(" and ")
                }
            )
        }
        ExecutionError::UnsupportedBinaryOperator(op, left, right) => format!(
            "{} cannot be used with {} and {}; convert with int(), double() or string()",
            operator(op),
            left.type_of(),
            right.type_of()
        ),
        ExecutionError::ValuesNotComparable(left, right) => {
            format!("{} and {} cannot be compared", left.type_of(), right.type_of())
        }
        ExecutionError::UnexpectedType { got, want } => {
            format!("found {} where {} is needed", shorten(got, 60), shorten(want, 60))
        }
        ExecutionError::UnsupportedKeyType(key) => {
            format!("a value of type {} cannot be a key", key.type_of())
        }
        ExecutionError::UnsupportedIndex(key, value) => format!(
            "a value of type {} has no element at one of type {}",
            value.type_of(),
            key.type_of()
        ),
        ExecutionError::IndexOutOfBounds(CelValue::Int(index)) => {
            format!("there is no element number {index}; the first is 0")
        }
        ExecutionError::IndexOutOfBounds(_) => "there is no element of that number".to_owned(),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => "division by zero".to_owned(),
        ExecutionError::Overflow(op, ..) => {
            format!("{} gives a number beyond 64 bits", operator(op))
        }
        ExecutionError::DuplicateKey(_) => "a map has the same key twice".to_owned(),
        ExecutionError::FunctionError { function, message } => {
            format!("{}: {}", operator(function), shorten(message, 200))
        }
        ExecutionError::InvalidArgumentCount { expected, actual } => {
            format!("a function that takes {expected} arguments got {actual}")
        }
        _ => "the expression cannot be evaluated with these values".to_owned(),
    };
    ExprError::new(ExprErrorKind::Evaluation, message)
}

/// The evaluator names only the key. When one place of the expression selects it, that is the place.
fn missing_key(parsed: &Parsed, key: &str) -> ExprError {
    let mut places = Vec::new();
    selections(&parsed.root, key, &mut places);
    let short = shorten(key, 60);
    match places.as_slice() {
        [(node, operand)] => {
            let error = ExprError::new(
                ExprErrorKind::Evaluation,
                match ast::written(operand) {
                    Some(operand) => format!(
                        "{} has no '{short}'; if it may be missing, use {}.?{short}.orValue(…) or has()",
                        shorten(&operand, 120),
                        shorten(&operand, 120),
                    ),
                    None => format!("there is no key '{short}'"),
                },
            );
            match parsed.places.offset_for(node.id) {
                Some((start, _)) => error.at(ast::byte_offset(&parsed.source, start)),
                None => error,
            }
        }
        _ => ExprError::new(ExprErrorKind::Evaluation, format!("there is no key '{short}'")),
    }
}

fn selections<'a>(node: &'a IdedExpr, key: &str, found: &mut Vec<(&'a IdedExpr, &'a IdedExpr)>) {
    if let Some((operand, selected)) = ast::literal_selection(node)
        && selected == key
    {
        found.push((node, operand));
    }
    match &node.expr {
        Node::Select(select) => selections(&select.operand, key, found),
        Node::Call(call) => {
            for part in call.target.iter().map(AsRef::as_ref).chain(&call.args) {
                selections(part, key, found);
            }
        }
        Node::List(list) => {
            for element in &list.elements {
                selections(element, key, found);
            }
        }
        Node::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    selections(&entry.key, key, found);
                    selections(&entry.value, key, found);
                }
            }
        }
        Node::Comprehension(loop_) => {
            for part in [&loop_.iter_range, &loop_.accu_init, &loop_.loop_step, &loop_.result] {
                selections(part, key, found);
            }
        }
        Node::Ident(_) | Node::Literal(_) | Node::Struct(_) | Node::Unspecified => {}
    }
}

/// An operator or function as it is written, out of the evaluator's name for it.
fn operator(name: &str) -> String {
    match name {
        "add" => "+".to_owned(),
        "sub" => "-".to_owned(),
        "mul" => "*".to_owned(),
        "div" => "/".to_owned(),
        "rem" => "%".to_owned(),
        "_?_:_" => "? :".to_owned(),
        "_[_]" | "_[?_]" => "[ ]".to_owned(),
        "_?._" | "_._" => "a selection".to_owned(),
        "@in" => "in".to_owned(),
        "@sortByAssociatedKeys" => "sortBy".to_owned(),
        functions::MATCHES => "matches".to_owned(),
        "math.@max" => "math.greatest".to_owned(),
        "math.@min" => "math.least".to_owned(),
        _ if ast::is_operator(name) => name.trim_matches('_').to_owned(),
        _ => name.to_owned(),
    }
}
