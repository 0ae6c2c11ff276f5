//! Small questions about the parsed form of an expression, and the one change that is made to it.

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr as Node, IdedExpr, LiteralValue, operators};

use super::functions::{ADDEND, KEYS, MATCHES};

/// The operand and the key of a selection whose key is written out: `a.b`, `has(a.b)`, `a['b']`, `a.?b` and `a[?'b']`.
pub(super) fn literal_selection(node: &IdedExpr) -> Option<(&IdedExpr, &str)> {
    match &node.expr {
        Node::Select(select) => Some((&select.operand, &select.field)),
        Node::Call(call) if is_selection(&call.func_name) => match call.args.as_slice() {
            [operand, key] => match &key.expr {
                Node::Literal(LiteralValue::String(key)) => Some((operand, key.inner())),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// Whether a selection does without the key: `has(a.b)`, `a.?b` and `a[?'b']`.
pub(super) fn is_optional_selection(node: &IdedExpr) -> bool {
    match &node.expr {
        Node::Select(select) => select.test,
        Node::Call(call) => [operators::OPT_INDEX, operators::OPT_SELECT].contains(&call.func_name.as_str()),
        _ => false,
    }
}

fn is_selection(name: &str) -> bool {
    [operators::INDEX, operators::OPT_INDEX, operators::OPT_SELECT].contains(&name)
}

/// Whether the name of a call is one of an operator; no function's name has these characters.
pub(super) fn is_operator(name: &str) -> bool {
    name == operators::IN
        || name == operators::NOT_STRICTLY_FALSE
        || name.contains(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '.' | '@'))
}

pub(super) fn is_arithmetic(name: &str) -> bool {
    [
        operators::ADD,
        operators::SUBSTRACT,
        operators::MULTIPLY,
        operators::DIVIDE,
        operators::MODULO,
    ]
    .contains(&name)
}

/// Whether a comprehension loops over nothing and only gives a value a name, as the optional macros and `sortBy` do.
pub(super) fn is_binding(comprehension: &ComprehensionExpr) -> bool {
    comprehension.iter_var == "#unused"
}

/// How `a.b['c']` was written, for messages; `None` when it is no chain of names.
pub(super) fn written(node: &IdedExpr) -> Option<String> {
    if let Node::Ident(name) = &node.expr {
        return Some(name.clone());
    }
    let (operand, key) = literal_selection(node)?;
    let mut text = written(operand)?;
    if is_name(key) {
        text.push('.');
        text.push_str(key);
    } else {
        text.push_str(&format!("['{key}']"));
    }
    Some(text)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The byte offset of the character number `characters`.
pub(super) fn byte_offset(text: &str, characters: u32) -> usize {
    text.char_indices()
        .nth(characters as usize)
        .map_or(text.len(), |(offset, _)| offset)
}

/// Puts our functions where the language is not deterministic or not bounded.
pub(super) fn rewrite(node: &mut IdedExpr) {
    match &mut node.expr {
        Node::Ident(_) | Node::Literal(_) | Node::Unspecified => {}
        Node::Select(select) => rewrite(&mut select.operand),
        Node::List(list) => list.elements.iter_mut().for_each(rewrite),
        Node::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    rewrite(&mut entry.key);
                    rewrite(&mut entry.value);
                }
            }
        }
        Node::Struct(_) => {}
        Node::Comprehension(loop_) => {
            for part in [
                &mut loop_.iter_range,
                &mut loop_.accu_init,
                &mut loop_.loop_cond,
                &mut loop_.loop_step,
                &mut loop_.result,
            ] {
                rewrite(part);
            }
            if !matches!(loop_.iter_range.expr, Node::List(_)) {
                wrap(&mut loop_.iter_range, KEYS);
            }
        }
        Node::Call(call) => {
            if let Some(target) = &mut call.target {
                rewrite(target);
            }
            call.args.iter_mut().for_each(rewrite);
            if call.func_name == "matches" {
                call.func_name = MATCHES.to_owned();
                if let Some(target) = call.target.take() {
                    call.args.insert(0, *target);
                }
            } else if call.func_name == operators::ADD
                && let [_, addend] = call.args.as_mut_slice()
                // The loops of `map` and `filter` are recognised, and made fast, by the list behind their `+`.
                && !matches!(addend.expr, Node::List(_) | Node::Literal(_))
            {
                wrap(addend, ADDEND);
            }
        }
    }
}

/// Makes `name(node)` of `node`.
fn wrap(node: &mut IdedExpr, name: &str) {
    let inner = std::mem::take(node);
    node.id = inner.id;
    node.expr = Node::Call(CallExpr {
        func_name: name.to_owned(),
        target: None,
        args: vec![inner],
    });
}
