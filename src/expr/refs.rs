//! What an expression refers to, found once when it is parsed, so that faults are reported before anything runs and naming a step
//! makes it a need.

use std::collections::{BTreeMap, BTreeSet};

use cel::common::ast::{EntryExpr, Expr as Node, IdedExpr, LiteralValue, SourceInfo, operators};
use serde_json::Value;

use super::ast;
use super::error::{ExprError, ExprErrorKind};
use super::functions::{self, Call};
use super::scope::Scope;

/// The names that are types of the language, and not variables.
const TYPES: [&str; 11] = [
    "bool",
    "bytes",
    "double",
    "dyn",
    "int",
    "list",
    "map",
    "null_type",
    "optional_type",
    "string",
    "uint",
];

/// What an expression refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refs {
    /// The free variables. The variables of macros are not among them, also when one has the name of a root.
    pub roots: BTreeSet<String>,
    /// The steps that are named literally: `steps.a`, `steps['a']`, `steps.?a`, `steps[?'a']`.
    pub steps: BTreeSet<String>,
    /// For each step named, the fields selected right behind it: `output`, `phase` and so on.
    pub step_fields: BTreeMap<String, BTreeSet<String>>,
    /// The params that are named literally.
    pub params: BTreeSet<String>,
    /// Those that are asked for and not relied upon, somewhere: `has(params.a)`, `params.?a`, `params[?'a']`, `'a' in params`.
    pub optional_params: BTreeSet<String>,
    /// Params are asked for by names that only the evaluation can tell: `x in params`, a macro over `params`.
    pub asks_any_param: bool,
    /// Steps are named in a way that only the evaluation can tell: `steps[x]`, a bare `steps`, a macro over `steps`.
    pub computed_steps: bool,
    /// Subtractions that read like the name of a step with a dash: what was written, and what was probably meant.
    pub dashed: Vec<(String, String)>,
    /// Functions that do not exist. An expression that calls one is never evaluated.
    pub unknown_functions: BTreeSet<String>,
    /// For each root, the keys that are named literally behind it. A root in `whole` is used in some other way too.
    pub(super) selected: BTreeMap<String, BTreeSet<String>>,
    pub(super) whole: BTreeSet<String>,
    /// What no expression may contain, in the order of the walk. An expression that has any is never evaluated.
    pub(super) faults: Vec<ExprError>,
}

impl Refs {
    /// Whether the expression has nothing in it that cannot be evaluated anywhere, so that its cost can be known.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty() && self.unknown_functions.is_empty()
    }

    /// The keys that are named literally behind `root`: `name` for `run.name`.
    pub fn keys_of(&self, root: &str) -> impl Iterator<Item = &str> {
        self.selected.get(root).into_iter().flatten().map(String::as_str)
    }

    /// The inputs that an evaluation in `scope` needs: the root, its value, and the keys that are enough when not all are used.
    pub(super) fn inputs<'a>(
        &'a self,
        scope: &'a Scope,
    ) -> impl Iterator<Item = (&'a str, &'a Value, Option<&'a BTreeSet<String>>)> {
        self.roots.iter().filter_map(|root| {
            let keys = if self.whole.contains(root) {
                None
            } else {
                self.selected.get(root)
            };
            Some((root.as_str(), scope.get(root)?, keys))
        })
    }
}

/// Collects the references of `root`, and all that no expression may contain.
pub(super) fn collect(root: &IdedExpr, places: &SourceInfo) -> Refs {
    let mut collector = Collector {
        refs: Refs::default(),
        bound: Vec::new(),
        places,
    };
    collector.walk(root);
    let mut refs = collector.refs;
    refs.params = refs.selected.get("params").cloned().unwrap_or_default();
    refs.steps = refs.selected.get("steps").cloned().unwrap_or_default();
    refs.computed_steps = refs.whole.contains("steps");
    refs
}

struct Collector<'a> {
    refs: Refs,
    /// The variables of the macros around the place, innermost last.
    bound: Vec<&'a str>,
    places: &'a SourceInfo,
}

impl<'a> Collector<'a> {
    fn fault(&mut self, kind: ExprErrorKind, node: &IdedExpr, message: String) {
        let error = ExprError::new(kind, message);
        self.refs.faults.push(match self.places.offset_for(node.id) {
            Some((start, _)) => {
                let source = &self.places.source;
                let at = ast::byte_offset(source, start);
                // The place of a call is its bracket; a person looks at the function's name.
                let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                error.at(match source[at..].starts_with('(') {
                    true => source[..at].trim_end_matches(name).len(),
                    false => at,
                })
            }
            None => error,
        });
    }

    fn is_free(&self, name: &str) -> bool {
        !self.bound.contains(&name)
    }

    fn is_params(&self, node: &IdedExpr) -> bool {
        matches!(&node.expr, Node::Ident(name) if name == "params" && self.is_free(name))
    }

    fn walk(&mut self, node: &'a IdedExpr) {
        if self.selection(node) {
            return;
        }
        match &node.expr {
            Node::Ident(name) => self.name(node, name),
            Node::Literal(_) => {}
            Node::Select(select) => self.walk(&select.operand),
            Node::List(list) => list.elements.iter().for_each(|element| self.walk(element)),
            Node::Map(map) => {
                for entry in &map.entries {
                    match &entry.expr {
                        EntryExpr::MapEntry(entry) => {
                            self.walk(&entry.key);
                            self.walk(&entry.value);
                        }
                        EntryExpr::StructField(field) => self.walk(&field.value),
                    }
                }
            }
            Node::Call(call) => {
                if call.func_name == operators::SUBSTRACT {
                    self.dashes(node);
                }
                if call.func_name == operators::IN
                    && let [key, range] = call.args.as_slice()
                    && self.is_params(range)
                {
                    match &key.expr {
                        Node::Literal(LiteralValue::String(key)) => {
                            self.refs.optional_params.insert(key.inner().to_owned());
                        }
                        _ => self.refs.asks_any_param = true,
                    }
                }
                self.function(node, call);
                call.args.iter().for_each(|arg| self.walk(arg));
            }
            Node::Comprehension(loop_) => {
                self.refs.asks_any_param |= self.is_params(&loop_.iter_range);
                self.walk(&loop_.iter_range);
                self.walk(&loop_.accu_init);
                let outer = self.bound.len();
                self.bound.push(&loop_.accu_var);
                if !ast::is_binding(loop_) {
                    self.bound.push(&loop_.iter_var);
                    self.walk(&loop_.loop_cond);
                    self.walk(&loop_.loop_step);
                    self.bound.truncate(outer + 1);
                }
                self.walk(&loop_.result);
                self.bound.truncate(outer);
            }
            Node::Struct(message) => self.fault(
                ExprErrorKind::Syntax,
                node,
                format!(
                    "there is no type {} to make a value of; write a map: {{'key': value}}",
                    super::error::shorten(&message.type_name, 40)
                ),
            ),
            Node::Unspecified => self.fault(ExprErrorKind::Syntax, node, "the expression is not complete".to_owned()),
        }
    }

    fn name(&mut self, node: &IdedExpr, name: &'a str) {
        if let Some(name) = name.strip_prefix('.') {
            let message = format!(
                "a name cannot begin with a dot: write {}",
                super::error::shorten(name, 40)
            );
            return self.fault(ExprErrorKind::Syntax, node, message);
        }
        let is_type = name == "type" || TYPES.contains(&name);
        if self.is_free(name) && !is_type && !name.starts_with('@') {
            self.refs.roots.insert(name.to_owned());
            self.refs.whole.insert(name.to_owned());
        }
    }

    /// Takes in `root.key` and `root.key.field`, where the root is free and the key literal. Answers whether `node` was that.
    fn selection(&mut self, node: &'a IdedExpr) -> bool {
        if let Some((root, key)) = self.root_key(node) {
            self.select(root, key, ast::is_optional_selection(node));
            return true;
        }
        let Some((operand, field)) = ast::literal_selection(node) else {
            return false;
        };
        let Some((root, key)) = self.root_key(operand) else {
            return false;
        };
        self.select(root, key, ast::is_optional_selection(operand));
        if root == "steps" {
            self.refs
                .step_fields
                .entry(key.to_owned())
                .or_default()
                .insert(field.to_owned());
        }
        true
    }

    fn root_key(&self, node: &'a IdedExpr) -> Option<(&'a str, &'a str)> {
        let (operand, key) = ast::literal_selection(node)?;
        match &operand.expr {
            Node::Ident(root) if self.is_free(root) && !root.starts_with(['.', '@']) => Some((root, key)),
            _ => None,
        }
    }

    fn select(&mut self, root: &str, key: &str, optional: bool) {
        if optional && root == "params" {
            self.refs.optional_params.insert(key.to_owned());
        }
        self.refs.roots.insert(root.to_owned());
        self.refs
            .selected
            .entry(root.to_owned())
            .or_default()
            .insert(key.to_owned());
    }

    fn function(&mut self, node: &IdedExpr, call: &'a cel::common::ast::CallExpr) {
        if ast::is_operator(&call.func_name) {
            return;
        }
        let mut name = call.func_name.clone();
        let mut is_member = false;
        if let Some(target) = &call.target {
            match &target.expr {
                Node::Ident(space) if functions::is_namespace(space) && self.is_free(space) => {
                    name = format!("{space}.{name}");
                }
                _ => {
                    is_member = true;
                    self.walk(target);
                }
            }
        }
        match functions::judge(&name, is_member, call.args.len()) {
            Call::Known => {}
            Call::Unknown => {
                self.refs.unknown_functions.insert(name);
            }
            Call::Misused(signature) => self.fault(
                ExprErrorKind::UnknownFunction,
                node,
                format!("{} is called as {}", signature.name, signature.usage),
            ),
        }
        self.pattern(node, call);
    }

    /// A pattern that is written as a literal is checked now and not when the expression runs.
    fn pattern(&mut self, node: &IdedExpr, call: &cel::common::ast::CallExpr) {
        if call.func_name == "matches"
            && let Some(Node::Literal(LiteralValue::String(pattern))) = call.args.last().map(|arg| &arg.expr)
            && let Err(message) = functions::compile(pattern.inner())
        {
            self.fault(ExprErrorKind::Syntax, node, message);
        }
    }

    /// `steps.reserve-stock.output` is a subtraction: a step's name with a dash needs brackets and quotes.
    fn dashes(&mut self, node: &'a IdedExpr) {
        let Some(name) = self.dashed_name(node) else {
            return;
        };
        let found = format!("steps.{name}");
        // The walk goes on inside, where a part of a longer name would be found again.
        if !self
            .refs
            .dashed
            .iter()
            .any(|(longer, _)| longer.strip_prefix(&found).is_some_and(|rest| rest.starts_with('-')))
        {
            self.refs.dashed.push((found, format!("steps['{name}']")));
        }
    }

    /// The name with dashes that a subtraction spells: `steps.a - b` and `steps.a - b.output` are `a-b`.
    fn dashed_name(&self, node: &IdedExpr) -> Option<String> {
        let Node::Call(call) = &node.expr else {
            return None;
        };
        let [left, right] = call.args.as_slice() else {
            return None;
        };
        if call.func_name != operators::SUBSTRACT {
            return None;
        }
        let head = self.step_name(left).or_else(|| self.dashed_name(left))?;
        let tail = self.tail(right)?;
        Some(format!("{head}-{tail}"))
    }

    /// The step that `node` ends with: `steps.a`, or `x + steps.a`, which binds closer than a minus behind it.
    fn step_name(&self, node: &IdedExpr) -> Option<String> {
        match &node.expr {
            Node::Select(select) if !select.test => match &select.operand.expr {
                Node::Ident(root) if root == "steps" && self.is_free(root) => Some(select.field.clone()),
                _ => None,
            },
            Node::Call(call) if ast::is_arithmetic(&call.func_name) => {
                call.args.last().and_then(|last| self.step_name(last))
            }
            _ => None,
        }
    }

    fn tail(&self, mut node: &IdedExpr) -> Option<String> {
        loop {
            match &node.expr {
                Node::Ident(name) if self.is_free(name) && !ROOTS.contains(&name.as_str()) => {
                    return Some(name.clone());
                }
                Node::Literal(LiteralValue::Int(number)) => {
                    return Some(number.inner().to_string());
                }
                Node::Select(select) if !select.test => node = &select.operand,
                Node::Call(call) if call.func_name == operators::INDEX || call.func_name == operators::OPT_SELECT => {
                    node = call.args.first()?;
                }
                Node::Call(call) => node = call.target.as_ref()?,
                Node::Comprehension(loop_) if !ast::is_binding(loop_) => node = &loop_.iter_range,
                _ => return None,
            }
        }
    }
}

/// Behind a minus these are surely meant as what they are.
const ROOTS: [&str; 6] = ["params", "steps", "run", "attempt", "item", "index"];
