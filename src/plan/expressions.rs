//! What the expressions of a spec refer to: only what exists, only what can be known where they stand, and at a bearable cost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::fault::Faults;
use crate::expr::{Expr, LIMITS, Name, Scope, function_names};

/// Where an expression stands; it decides what can be read there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// `idempotency.key`: before anything has begun.
    Key,
    /// `when`, durations and the like: before an attempt.
    Step,
    /// `container` and `podTemplate`: in an attempt.
    Attempt,
    /// `outputs`: when the steps have ended.
    Outputs,
}

impl Where {
    fn roots(self) -> &'static [&'static str] {
        match self {
            Where::Key => &["params", "run"],
            Where::Step | Where::Outputs => &["params", "steps", "run"],
            Where::Attempt => &["params", "steps", "run", "attempt"],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Where::Key => "idempotency.key",
            Where::Step => "when, a time limit or retry",
            Where::Attempt => "container and podTemplate",
            Where::Outputs => "outputs",
        }
    }

    fn fields(self, root: &str) -> &'static [&'static str] {
        match (self, root) {
            (Where::Key, "run") => &["labels", "name", "namespace", "uid"],
            (Where::Outputs, "run") => &[
                "failedSteps",
                "labels",
                "name",
                "namespace",
                "outcome",
                "startTime",
                "uid",
            ],
            (_, "run") => &["labels", "name", "namespace", "startTime", "uid"],
            (_, "attempt") => &["number"],
            _ => &[],
        }
    }
}

/// What can be read from a step.
pub const STEP_FIELDS: [&str; 5] = ["attempts", "exitCode", "output", "phase", "reason"];

/// An expression of the spec.
pub struct Found {
    pub place: String,
    pub at: Where,
    pub expr: Expr,
    /// Expressions with the same number are evaluated together and share the limits.
    pub group: usize,
}

impl Found {
    /// Adds a fault of this expression, at the place where `name` is written.
    fn fault(&self, name: Name<'_>, message: impl AsRef<str>, faults: &mut Faults) {
        faults.add_in(self.place.as_str(), self.expr.place_of(name), message);
    }
}

/// What exists.
pub struct Names<'a> {
    /// The params, as expressions read them.
    pub params: Arc<Value>,
    /// The steps by name, with their positions in the spec.
    pub steps: BTreeMap<&'a str, usize>,
}

impl Names<'_> {
    fn param_names(&self) -> impl Iterator<Item = &str> {
        self.params
            .as_object()
            .into_iter()
            .flat_map(|params| params.keys().map(String::as_str))
    }

    fn has_param(&self, name: &str) -> bool {
        self.params.get(name).is_some()
    }
}

/// Checks the expressions of one step (`own`), or of what belongs to no step. Answers the names of the steps that they read.
pub fn check(found: &[Found], own: Option<&str>, names: &Names<'_>, faults: &mut Faults) -> BTreeSet<String> {
    // What is asked for in one place of a step, mostly in `when`, may be relied upon in another.
    let asked: BTreeSet<&str> = found
        .iter()
        .flat_map(|found| found.expr.refs().optional_params.iter())
        .map(String::as_str)
        .collect();
    let any_asked = found.iter().any(|found| found.expr.refs().asks_any_param);

    let check = Check {
        own,
        names,
        asked,
        any_asked,
    };
    let mut read = BTreeSet::new();
    for found in found {
        check.roots(found, faults);
        check.params(found, faults);
        check.steps(found, &mut read, faults);
        check.functions(found, faults);
    }
    check_cost(found, names, faults);
    read
}

struct Check<'a> {
    own: Option<&'a str>,
    names: &'a Names<'a>,
    /// Params that are asked for somewhere, so that it is no fault if they do not exist.
    asked: BTreeSet<&'a str>,
    any_asked: bool,
}

impl Check<'_> {
    fn roots(&self, found: &Found, faults: &mut Faults) {
        let (refs, known) = (found.expr.refs(), found.at.roots());
        let in_dashed_name = dashed_words(found);
        for root in &refs.roots {
            if !known.contains(&root.as_str()) && !in_dashed_name.contains(root.as_str()) {
                let message = self.unknown_root(root, found.at, faults);
                found.fault(Name::Root(root), message, faults);
            }
        }
        for root in ["run", "attempt"].iter().filter(|root| known.contains(root)) {
            let known = found.at.fields(root);
            for field in refs.keys_of(root).filter(|field| !known.contains(field)) {
                let message = match faults.near_miss(field, known.iter().copied()) {
                    Some(near) => {
                        format!("there is no {root}.{field}; did you mean {root}.{near}?")
                    }
                    None => format!("there is no {root}.{field}; {root} has {}", list(known)),
                };
                found.fault(Name::Key(root, field), message, faults);
            }
        }
    }

    fn unknown_root(&self, root: &str, at: Where, faults: &Faults) -> String {
        let known = at.roots();
        let hint = if self.names.has_param(root) {
            format!("did you mean params.{root}?")
        } else if self.names.steps.contains_key(root) && known.contains(&"steps") {
            format!("did you mean {}?", reference(root))
        } else if let Some(near) = faults.near_miss(root, known.iter().copied()) {
            format!("did you mean {near}?")
        } else {
            format!("{} can read {}", at.name(), list(known))
        };
        format!("there is no {root} here; {hint}")
    }

    fn params(&self, found: &Found, faults: &mut Faults) {
        for param in &found.expr.refs().params {
            if self.any_asked || self.asked.contains(param.as_str()) || self.names.has_param(param) {
                continue;
            }
            let near = faults
                .near_miss(param, self.names.param_names())
                .map(|near| format!("; did you mean params.{near}?"))
                .unwrap_or_default();
            let message = format!("there is no param {param}{near}");
            found.fault(Name::Key("params", param), message, faults);
        }
    }

    fn steps(&self, found: &Found, read: &mut BTreeSet<String>, faults: &mut Faults) {
        let refs = found.expr.refs();
        if !found.at.roots().contains(&"steps") {
            return; // That the root is not there has been said.
        }
        let steps = &self.names.steps;
        for (written, _) in &refs.dashed {
            let name = written.trim_start_matches("steps.");
            let meant = match steps.contains_key(name) {
                true => Some(name),
                false => faults.near_miss(name, steps.keys().copied()),
            };
            let hint = match meant {
                Some(meant) => format!("did you mean {}?", reference(meant)),
                None => format!("a name with a dash is written {}", reference(name)),
            };
            found.fault(
                Name::Written(written),
                format!("{written} is a subtraction; {hint}"),
                faults,
            );
        }
        if refs.computed_steps && found.at == Where::Outputs {
            read.extend(steps.keys().map(|name| (*name).to_owned()));
        } else if refs.computed_steps {
            found.fault(
                Name::Whole("steps"),
                "a step is named literally, as steps.NAME or steps['NAME'], so that it is known what has to run first",
                faults,
            );
        }
        let in_dashed_name = dashed_words(found);
        for step in &refs.steps {
            if self.own == Some(step) {
                found.fault(Name::Key("steps", step), "a step cannot read its own result", faults);
            } else if steps.contains_key(step.as_str()) {
                read.insert(step.clone());
            } else if !in_dashed_name.contains(step.as_str()) {
                let near = faults
                    .near_miss(step, steps.keys().copied())
                    .map(|near| format!("; did you mean {}?", reference(near)))
                    .unwrap_or_default();
                found.fault(
                    Name::Key("steps", step),
                    format!("there is no step {step}{near}"),
                    faults,
                );
            }
        }
        for (step, fields) in &refs.step_fields {
            for field in fields {
                if steps.contains_key(step.as_str()) && !STEP_FIELDS.contains(&field.as_str()) {
                    let hint = match faults.near_miss(field, STEP_FIELDS) {
                        Some(near) => format!("did you mean {}.{near}?", reference(step)),
                        None => format!("what it gave is {}.output", reference(step)),
                    };
                    let has = list(&STEP_FIELDS);
                    let message = format!("a step has no {field}, but {has}; {hint}");
                    found.fault(Name::Field("steps", step, field), message, faults);
                }
            }
        }
    }

    fn functions(&self, found: &Found, faults: &mut Faults) {
        for function in &found.expr.refs().unknown_functions {
            let near = faults
                .near_miss(function, function_names())
                .map(|near| format!("; did you mean {near}?"))
                .unwrap_or_default();
            let message = format!("there is no function {function}{near}");
            found.fault(Name::Function(function), message, faults);
        }
    }
}

/// The words that names with a dash fall into when they are read as subtractions; they are no references of their own.
fn dashed_words(found: &Found) -> BTreeSet<&str> {
    let dashed = found.expr.refs().dashed.iter();
    dashed
        .flat_map(|(written, _)| written.trim_start_matches("steps.").split('-'))
        .collect()
}

/// Faults for what is too dear whatever the steps may give.
fn check_cost(found: &[Found], names: &Names<'_>, faults: &mut Faults) {
    let nothing = Arc::new(json!({}));
    let scope = Scope::new()
        .with("params", Arc::clone(&names.params))
        .with("steps", Arc::clone(&nothing))
        .with("run", Arc::clone(&nothing))
        .with("attempt", nothing);
    let mut spent: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for found in found {
        // It has its own fault, and no cost can be known.
        if !found.expr.refs().is_sound() {
            continue;
        }
        let cost = found.expr.cost(&scope);
        let (steps, bytes) = spent.entry(found.group).or_default();
        let over = *steps > LIMITS.steps || *bytes > LIMITS.bytes;
        *steps = steps.saturating_add(cost.steps);
        *bytes = bytes.saturating_add(cost.bytes);
        let (bound, limit, what) = match (*steps > LIMITS.steps, *bytes > LIMITS.bytes) {
            _ if over => continue,
            (true, _) => (*steps, LIMITS.steps, "take"),
            (_, true) => (*bytes, LIMITS.bytes, "build"),
            (false, false) => continue,
        };
        let bound = match bound {
            u64::MAX => format!("more than {}", u64::MAX - 1),
            bound => bound.to_string(),
        };
        let unit = if what == "take" { "steps" } else { "bytes" };
        let all = Name::Written(found.expr.source());
        found.fault(
            all,
            format!(
                "too dear: with these params it may {what} {bound} {unit}, and the limit is {limit}; do it in a step"
            ),
            faults,
        );
    }
}

/// How an expression names a step.
pub fn reference(step: &str) -> String {
    match step.contains('-') {
        true => format!("steps['{step}']"),
        false => format!("steps.{step}"),
    }
}

/// `a, b and c`.
fn list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [word] => (*word).to_owned(),
        [words @ .., last] => format!("{} and {last}", words.join(", ")),
    }
}
