//! A JSON document whose strings are templates.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::error::ExprError;
use super::scope::Scope;
use super::{Cost, Expr, Template, stack};

/// Enough for documents as deep as the API server and our readers of JSON and YAML let through.
const STACK: usize = 1 << 20;

/// A JSON document read by the one rule: every string in it is a template, its keys are not. What is constant is kept as it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// No expression in it.
    Constant(Value),
    Template(Template),
    List(Vec<Tree>),
    Object(BTreeMap<String, Tree>),
}

/// A document and all that is wrong with it.
#[derive(Clone, Debug)]
pub struct TreeReading {
    /// What could be read. When there are faults it is only good for looking at the expressions in it.
    pub tree: Tree,
    /// In the document's order, each with the path of its string and an offset in that string.
    pub faults: Vec<(String, ExprError)>,
}

impl Tree {
    /// Reads a document.
    ///
    /// # Errors
    ///
    /// All faults, each with the path of its string: `container.env[0].value`, `labels['app.kubernetes.io/name']`, and empty when the
    /// document is the string.
    pub fn parse(document: &Value) -> Result<Self, Vec<(String, ExprError)>> {
        let reading = Self::read(document);
        match reading.faults.is_empty() {
            true => Ok(reading.tree),
            false => Err(reading.faults),
        }
    }

    /// Reads a document with all that is wrong with it: one string that is broken does not hide the others.
    pub fn read(document: &Value) -> TreeReading {
        stack::enough(STACK, || {
            let mut faults = Vec::new();
            let tree = read(document, &mut String::new(), &mut faults);
            TreeReading { tree, faults }
        })
    }

    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_))
    }

    /// The document with the values of its expressions, which share the limits of one evaluation.
    ///
    /// # Errors
    ///
    /// The first fault, with the path of its string and offsets in that string.
    pub fn render(&self, scope: &Scope) -> Result<Value, (String, ExprError)> {
        stack::enough(STACK, || fill(self, scope, &mut Cost::default(), &mut String::new()))
    }

    /// All expressions, in the document's order, with the paths of their strings.
    pub fn exprs_with_paths(&self) -> Vec<(String, &Expr)> {
        let mut found = Vec::new();
        list(self, &mut String::new(), &mut found);
        found
    }
}

/// Does `work` with the path one step longer.
fn below<R>(path: &mut String, step: &str, work: impl FnOnce(&mut String) -> R) -> R {
    let length = path.len();
    path.push_str(step);
    let result = work(path);
    path.truncate(length);
    result
}

fn key_step(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    match (plain, path.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!(".{key}"),
        (false, _) => format!("['{key}']"),
    }
}

fn read(document: &Value, path: &mut String, faults: &mut Vec<(String, ExprError)>) -> Tree {
    match document {
        Value::String(text) => {
            let reading = Template::read(text);
            faults.extend(reading.faults.into_iter().map(|fault| (path.clone(), fault)));
            match reading.template {
                Template::Literal(text) => Tree::Constant(Value::String(text)),
                template => Tree::Template(template),
            }
        }
        Value::Array(items) => {
            let items: Vec<_> = items
                .iter()
                .enumerate()
                .map(|(index, item)| below(path, &format!("[{index}]"), |path| read(item, path, faults)))
                .collect();
            if items.iter().all(Tree::is_constant) {
                return Tree::Constant(items.into_iter().filter_map(constant).collect());
            }
            Tree::List(items)
        }
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields
                .iter()
                .map(|(key, value)| {
                    let tree = below(path, &key_step(path, key), |path| read(value, path, faults));
                    (key.clone(), tree)
                })
                .collect();
            if fields.values().all(Tree::is_constant) {
                let fields = fields
                    .into_iter()
                    .filter_map(|(key, tree)| Some((key, constant(tree)?)));
                return Tree::Constant(Value::Object(fields.collect()));
            }
            Tree::Object(fields)
        }
        other => Tree::Constant(other.clone()),
    }
}

fn constant(tree: Tree) -> Option<Value> {
    match tree {
        Tree::Constant(value) => Some(value),
        _ => None,
    }
}

fn fill(tree: &Tree, scope: &Scope, spent: &mut Cost, path: &mut String) -> Result<Value, (String, ExprError)> {
    match tree {
        Tree::Constant(value) => Ok(value.clone()),
        Tree::Template(template) => template
            .render_within(scope, spent)
            .map_err(|error| (path.clone(), error)),
        Tree::List(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| below(path, &format!("[{index}]"), |path| fill(item, scope, spent, path)))
            .collect(),
        Tree::Object(fields) => {
            let mut filled = Map::new();
            for (key, tree) in fields {
                let value = below(path, &key_step(path, key), |path| fill(tree, scope, spent, path))?;
                filled.insert(key.clone(), value);
            }
            Ok(Value::Object(filled))
        }
    }
}

fn list<'a>(tree: &'a Tree, path: &mut String, found: &mut Vec<(String, &'a Expr)>) {
    match tree {
        Tree::Constant(_) => {}
        Tree::Template(template) => {
            found.extend(template.exprs().map(|expr| (path.clone(), expr)));
        }
        Tree::List(items) => {
            for (index, item) in items.iter().enumerate() {
                below(path, &format!("[{index}]"), |path| list(item, path, found));
            }
        }
        Tree::Object(fields) => {
            for (key, tree) in fields {
                below(path, &key_step(path, key), |path| list(tree, path, found));
            }
        }
    }
}
