//! Evaluation: what expressions read, and what a step's fields are when they have read it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::backoff::Backoff;
use super::place::{inside, item, member};
use super::validate::run_value;
use super::{DurationPlan, IntPlan, Plan, StepPlan, duration};
use crate::api::schema::ATTEMPTS_MAX;
use crate::api::status::{OutputType, Record};
use crate::api::time::Time;
use crate::api::words::StepPhase;
use crate::expr::{Expr, ExprError, ExprErrorKind, Scope, Template, Tree};

/// What a step's expressions can read: `params`; `steps` with those in `names` (see [`StepPlan::reads`]); `run`, with startTime once
/// the run has begun; `attempt` if its number is given.
pub fn scope(
    plan: &Plan,
    journal: &BTreeMap<String, Record>,
    names: &BTreeSet<String>,
    start_time: Option<Time>,
    attempt: Option<i64>,
) -> Scope {
    let scope = scope_with(plan, journal, names, run_at(plan, start_time));
    match attempt {
        Some(number) => scope.with("attempt", json!({"number": number})),
        None => scope,
    }
}

/// What `outputs` can read when the steps have ended: every step that they name, and how the run ends (`run.outcome`,
/// `run.failedSteps`).
pub fn scope_at_end(plan: &Plan, journal: &BTreeMap<String, Record>, start_time: Option<Time>, outcome: &str) -> Scope {
    let failed = plan.steps.iter().filter(|step| {
        let record = journal.get(&step.path);
        record.is_some_and(|record| record.phase == StepPhase::Failed)
    });
    let failed: Vec<&str> = failed.map(|step| step.path.as_str()).collect();
    let mut run = run_at(plan, start_time);
    run.insert("outcome".into(), outcome.into());
    run.insert("failedSteps".into(), failed.into());
    scope_with(plan, journal, &plan.output_reads, run)
}

fn scope_with(
    plan: &Plan,
    journal: &BTreeMap<String, Record>,
    names: &BTreeSet<String>,
    run: Map<String, Value>,
) -> Scope {
    let steps: Map<String, Value> = names
        .iter()
        .map(|name| (name.clone(), step_value(journal.get(name))))
        .collect();
    Scope::new()
        .with("params", Arc::clone(&plan.inputs))
        .with("steps", Value::Object(steps))
        .with("run", Value::Object(run))
}

fn run_at(plan: &Plan, start_time: Option<Time>) -> Map<String, Value> {
    let mut run = run_value(&plan.run);
    if let Some(start) = start_time {
        run.insert("startTime".into(), start.to_string().into());
    }
    run
}

/// A step as expressions read it. `output` exists only if the step has succeeded, so that reading it is an error otherwise.
fn step_value(record: Option<&Record>) -> Value {
    let Some(record) = record else {
        return json!({"phase": StepPhase::Pending.as_str(), "attempts": 0});
    };
    let mut step = Map::new();
    step.insert("phase".into(), record.phase.as_str().into());
    step.insert("attempts".into(), record.attempt.into());
    if let Some(reason) = record.reason {
        step.insert("reason".into(), reason.as_str().into());
    }
    if let Some(exit_code) = record.exit_code {
        step.insert("exitCode".into(), exit_code.into());
    }
    if record.phase == StepPhase::Succeeded
        && let Some(output) = &record.output
    {
        let value = match record.output_type {
            Some(OutputType::Json) => serde_json::from_str(output).ok(),
            Some(OutputType::Text) | None => Some(Value::String(output.clone())),
        };
        if let Some(value) = value {
            step.insert("output".into(), value);
        }
    }
    Value::Object(step)
}

impl StepPlan {
    /// Whether the step is to run at all.
    ///
    /// # Errors
    ///
    /// When the expression fails or gives something else than true or false.
    pub fn when(&self, scope: &Scope) -> Result<bool, ExprError> {
        let Some(when) = &self.when else {
            return Ok(true);
        };
        match when.eval(scope)? {
            Value::Bool(wanted) => Ok(wanted),
            other => Err(bad_result(format!(
                "must give true or false, and gives {}",
                shown(&other)
            ))),
        }
    }

    /// The longest time of an attempt in milliseconds.
    pub fn timeout_ms(&self, scope: &Scope) -> Result<Option<i64>, ExprError> {
        limit(self.timeout.as_ref(), scope)
    }

    /// The longest time from an attempt's record to its container's start in milliseconds.
    pub fn start_timeout_ms(&self, scope: &Scope) -> Result<Option<i64>, ExprError> {
        limit(self.start_timeout.as_ref(), scope)
    }

    /// Most attempts that count: from 1 to [`ATTEMPTS_MAX`].
    pub fn max_attempts(&self, scope: &Scope) -> Result<i64, ExprError> {
        let expr = match &self.max_attempts {
            IntPlan::Fixed(number) => return Ok(*number),
            IntPlan::Expr(expr) => expr,
        };
        let value = expr.eval(scope)?;
        match value.as_i64() {
            Some(number) if (1..=ATTEMPTS_MAX).contains(&number) => Ok(number),
            _ => Err(bad_result(format!(
                "must give an integer from 1 to {ATTEMPTS_MAX}, and gives {}",
                shown(&value)
            ))),
        }
    }

    /// What the wait between two attempts is made of.
    pub fn backoff(&self, scope: &Scope) -> Result<Backoff, ExprError> {
        Ok(Backoff {
            initial: millis(&self.backoff.initial, "initial ", scope)?,
            factor: self.backoff.factor,
            max: millis(&self.backoff.max, "max ", scope)?,
            jitter_percent: self.backoff.jitter_percent,
        })
    }

    /// The container and the pod template with the values of their expressions. Every string field gets text: numbers, true and
    /// false become their JSON text. Only a probe's port may stay a number, as the text `8080` would be the name of a port.
    ///
    /// # Errors
    ///
    /// The first fault, with its place in the spec.
    pub fn render(&self, scope: &Scope) -> Result<(Value, Value), (String, ExprError)> {
        Ok((
            self.render_tree("container", &self.container, scope)?,
            self.render_tree("podTemplate", &self.pod_template, scope)?,
        ))
    }

    fn render_tree(&self, field: &str, tree: &Tree, scope: &Scope) -> Result<Value, (String, ExprError)> {
        tree.render(scope)
            .map_err(|(path, error)| (self.origins.of(&inside(field, &path)), error))
            .and_then(|value| texts(tree, value, field).map_err(|(place, error)| (self.origins.of(&place), error)))
    }
}

/// `value`, which `tree` gave, with text wherever a template stood.
fn texts(tree: &Tree, value: Value, place: &str) -> Result<Value, (String, ExprError)> {
    match (tree, value) {
        (Tree::Template(Template::Value(expr)), value) => {
            if value.is_i64() && is_port(place) {
                return Ok(value);
            }
            text_of(value, || Some(expr.source()))
                .map(Value::String)
                .map_err(|error| (place.to_owned(), error))
        }
        (Tree::List(trees), Value::Array(values)) => trees
            .iter()
            .zip(values)
            .enumerate()
            .map(|(i, (tree, value))| texts(tree, value, &item(place, i)))
            .collect(),
        (Tree::Object(trees), Value::Object(values)) => values
            .into_iter()
            .map(|(key, value)| {
                let value = match trees.get(&key) {
                    Some(tree) => texts(tree, value, &member(place, &key))?,
                    None => value,
                };
                Ok((key, value))
            })
            .collect::<Result<Map<_, _>, _>>()
            .map(Value::Object),
        (_, value) => Ok(value),
    }
}

fn is_port(place: &str) -> bool {
    place.ends_with(".httpGet.port") || place.ends_with(".tcpSocket.port")
}

/// The text that a string field gets from an expression. `source` is the expression, for the message.
pub(super) fn text_of<'a>(value: Value, source: impl FnOnce() -> Option<&'a str>) -> Result<String, ExprError> {
    match value {
        Value::String(text) => Ok(text),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        other => {
            let source = source().filter(|source| source.len() <= 60);
            Err(ExprError::new(
                ExprErrorKind::NotText,
                format!(
                    "gives {}, which is no text; write $[[ toJson({}) ]] for it as JSON",
                    super::read::kind(&other),
                    source.unwrap_or("…"),
                ),
            ))
        }
    }
}

fn limit(plan: Option<&DurationPlan>, scope: &Scope) -> Result<Option<i64>, ExprError> {
    match plan.map(|plan| millis(plan, "", scope)).transpose()? {
        Some(0) => Err(bad_result("must be longer than 0".into())),
        limit => Ok(limit),
    }
}

/// `what` is said before the message of an error.
fn millis(plan: &DurationPlan, what: &str, scope: &Scope) -> Result<i64, ExprError> {
    let expr: &Expr = match plan {
        DurationPlan::Fixed(millis) => return Ok(*millis),
        DurationPlan::Expr(expr) => expr,
    };
    let value = expr.eval(scope)?;
    value.as_str().and_then(duration::parse).ok_or_else(|| {
        bad_result(format!(
            "{what}must give a duration ({}), and gives {}",
            duration::FORM,
            shown(&value)
        ))
    })
}

fn bad_result(message: String) -> ExprError {
    ExprError::new(ExprErrorKind::BadResult, message)
}

/// A value for messages: itself if it is short, else what it is.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() <= 40 => format!("{text:?}"),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        other => super::read::kind(other).to_owned(),
    }
}
