//! What the expressions of a spec refer to: only what exists, only what can be known where they stand, and at a bearable cost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::fault::{Faults, near_miss};
use crate::expr::{Expr, LIMITS, Scope, function_names};

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
            (Where::Outputs, "run") => &["failedSteps", "labels", "name", "namespace", "outcome", "startTime", "uid"],
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
pub fn check(
    found: &[Found],
    own: Option<&str>,
    names: &Names<'_>,
    faults: &mut Faults,
) -> BTreeSet<String> {
    // What is asked for in one place of a step, mostly in `when`, may be relied upon in another.
    let asked: BTreeSet<&str> = found
        .iter()
        .flat_map(|found| found.expr.refs().optional_params.iter())
        .map(String::as_str)
        .collect();
    let any_asked = found
        .iter()
        .any(|found| found.expr.refs().is_used_whole("params"));

    let mut read = BTreeSet::new();
    for found in found {
        let place = found.place.as_str();
        let refs = found.expr.refs();
        let dashed: Vec<&str> = refs
            .dashed
            .iter()
            .flat_map(|(written, _)| written.trim_start_matches("steps.").split('-'))
            .collect();
        for (written, _) in &refs.dashed {
            let name = written.trim_start_matches("steps.");
            let meant = names
                .steps
                .contains_key(name)
                .then_some(name)
                .or_else(|| near_miss(name, names.steps.keys().copied()));
            let hint = match meant {
                Some(meant) => format!("did you mean {}?", reference(meant)),
                None => format!("a name with a dash is written {}", reference(name)),
            };
            faults.add(place, format!("{written} is a subtraction; {hint}"));
        }
        for root in &refs.roots {
            if !found.at.roots().contains(&root.as_str()) && !dashed.contains(&root.as_str()) {
                faults.add(place, unknown_root(root, found.at, names));
            }
        }
        for root in ["run", "attempt"] {
            let known = found.at.fields(root);
            for field in refs.keys_of(root).filter(|field| !known.contains(field)) {
                faults.add(place, unknown_field(root, field, known));
            }
        }
        for param in &refs.params {
            let excused = any_asked || asked.contains(param.as_str());
            if !names.has_param(param) && !excused {
                let near = near_miss(param, names.param_names())
                    .map(|near| format!("; did you mean params.{near}?"))
                    .unwrap_or_default();
                faults.add(place, format!("there is no param {param}{near}"));
            }
        }
        if !found.at.roots().contains(&"steps") {
            // Said by the root already.
        } else if found.at == Where::Outputs {
            if refs.computed_steps {
                read.extend(names.steps.keys().map(|name| (*name).to_owned()));
            }
        } else if refs.computed_steps {
            faults.add(
                place,
                "a step is named literally, as steps.NAME or steps['NAME'], so that it is known what has to run first",
            );
        }
        if found.at.roots().contains(&"steps") {
            for step in &refs.steps {
                if names.steps.contains_key(step.as_str()) {
                    if own == Some(step) {
                        faults.add(place, "a step cannot read its own result");
                    } else {
                        read.insert(step.clone());
                    }
                } else if !dashed.contains(&step.as_str()) {
                    faults.add(place, unknown_step(step, names));
                }
            }
            for (step, fields) in &refs.step_fields {
                for field in fields {
                    if names.steps.contains_key(step.as_str())
                        && !STEP_FIELDS.contains(&field.as_str())
                    {
                        faults.add(place, unknown_step_field(step, field));
                    }
                }
            }
        }
        for function in &refs.unknown_functions {
            let near = near_miss(function, function_names())
                .map(|near| format!("; did you mean {near}?"))
                .unwrap_or_default();
            faults.add(place, format!("there is no function {function}{near}"));
        }
    }
    check_cost(found, names, faults);
    read
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
        let cost = found.expr.cost(&scope);
        let (steps, bytes) = spent.entry(found.group).or_default();
        for (sum, cost, limit, what) in [
            (steps, cost.steps, LIMITS.steps, "take {} steps"),
            (bytes, cost.bytes, LIMITS.bytes, "build {} bytes"),
        ] {
            let before = *sum;
            *sum = sum.saturating_add(cost);
            if before <= limit && *sum > limit {
                let bound = match *sum {
                    u64::MAX => format!("more than {}", u64::MAX),
                    bound => bound.to_string(),
                };
                faults.add(
                    found.place.as_str(),
                    format!(
                        "too dear: with these params it may {}, and the limit is {limit}; do it in a step",
                        what.replace("{}", &bound)
                    ),
                );
            }
        }
    }
}

/// How an expression names a step.
pub fn reference(step: &str) -> String {
    match step.contains('-') {
        true => format!("steps['{step}']"),
        false => format!("steps.{step}"),
    }
}

fn unknown_step(step: &str, names: &Names<'_>) -> String {
    match near_miss(step, names.steps.keys().copied()) {
        Some(near) => format!("there is no step {step}; did you mean {}?", reference(near)),
        None => format!("there is no step {step}"),
    }
}

fn unknown_step_field(step: &str, field: &str) -> String {
    let hint = match near_miss(field, STEP_FIELDS) {
        Some(near) => format!("did you mean {}.{near}?", reference(step)),
        None => format!("what it gave is {}.output", reference(step)),
    };
    format!("a step has no {field}, but {}; {hint}", list(&STEP_FIELDS))
}

fn unknown_field(root: &str, field: &str, known: &[&str]) -> String {
    match near_miss(field, known.iter().copied()) {
        Some(near) => format!("there is no {root}.{field}; did you mean {root}.{near}?"),
        None if known.is_empty() => format!("there is no {root}.{field} here"),
        None => format!("there is no {root}.{field}; {root} has {}", list(known)),
    }
}

fn unknown_root(root: &str, at: Where, names: &Names<'_>) -> String {
    let known = at.roots();
    let hint = if names.has_param(root) {
        format!("did you mean params.{root}?")
    } else if names.steps.contains_key(root) && known.contains(&"steps") {
        format!("did you mean {}?", reference(root))
    } else if let Some(near) = near_miss(root, known.iter().copied()) {
        format!("did you mean {near}?")
    } else {
        format!("{} can read {}", at.name(), list(known))
    };
    format!("there is no {root} here; {hint}")
}

/// `a, b and c`.
fn list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [word] => (*word).to_owned(),
        [words @ .., last] => format!("{} and {last}", words.join(", ")),
    }
}
