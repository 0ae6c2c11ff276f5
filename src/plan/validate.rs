//! A spec made into a plan, or everything that is wrong with it.
//!
//! The spec is read as JSON and not as the API's types: one field of the wrong type must not hide the other faults. `control` is
//! not read here: it may change while the run goes on, and no mistake in it may make a started run invalid.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::expressions::{self, Found, Names, Where};
use super::fault::{Fault, Faults};
use super::names::Lineage;
use super::place::{inside, item};
use super::read::Object;
use super::scope::text_of;
use super::steps::{Defaults, Draft, draft};
use super::templates::{keys_are_plain, tree};
use super::{Plan, RunInfo, StepPlan, graph, params};
use crate::api::spec::OnStepFailure;
use crate::expr::{Scope, Template, TemplateReading, Tree};

/// Most steps of a run, as in the schema.
const MAX_STEPS: usize = 1_000;
/// Most bytes of an idempotency key.
const MAX_KEY: usize = 256;
/// Most expressions of a run, the defaults' ones counted in every step. Reading this many takes about a second.
const MAX_EXPRESSIONS: usize = 20_000;

/// Makes a plan of `spec` for `run`.
///
/// # Errors
///
/// All faults, in the order of the spec, each once; at most [`MAX_FAULTS`](super::fault::MAX_FAULTS) and then how many more.
pub fn build(run: &RunInfo, spec: &Value) -> Result<Plan, Vec<Fault>> {
    make(run, spec, Faults::default()).map_err(Faults::into_list)
}

/// The faults that [`build`] would find in `spec`, the first `most` of them, and how many more: a terminal has more room than a
/// status.
pub fn faults(run: &RunInfo, spec: &Value, most: usize) -> (Vec<Fault>, usize) {
    match make(run, spec, Faults::telling(most)) {
        Ok(_) => (Vec::new(), 0),
        Err(faults) => faults.into_parts(),
    }
}

fn make(run: &RunInfo, spec: &Value, mut faults: Faults) -> Result<Plan, Faults> {
    let Some(spec) = Object::new(spec, "spec", &mut faults) else {
        return Err(faults);
    };
    spec.only(
        &[
            "params",
            "idempotency",
            "onStepFailure",
            "defaults",
            "steps",
            "outputs",
            "control",
        ],
        &mut faults,
    );
    let expressions = expressions_in(spec.members);
    if expressions > MAX_EXPRESSIONS {
        faults.add(
            "spec",
            format!(
                "there are {expressions} expressions, and the limit is {MAX_EXPRESSIONS}; what the defaults hold counts in every step"
            ),
        );
        return Err(faults);
    }
    let params = params::read(&spec, &mut faults);
    let inputs = Arc::new(Value::Object(params.clone().into_iter().collect()));
    let idempotency_key = idempotency_key(run, &spec, &inputs, &mut faults);
    let on_step_failure: OnStepFailure = spec.read("onStepFailure", &mut faults).unwrap_or_default();

    let given = spec.list("steps", &mut faults).unwrap_or_default();
    if given.is_empty() {
        faults.add("spec.steps", "a run needs at least one step");
    }
    if given.len() > MAX_STEPS {
        faults.add(
            "spec.steps",
            format!("a run has at most {MAX_STEPS} steps, and this one {}", given.len()),
        );
        return Err(faults);
    }
    let names = Names {
        params: Arc::clone(&inputs),
        steps: step_names(given),
    };
    let defaults = Defaults::read(&spec, &names, given.len(), &mut faults);
    let lineage = match &idempotency_key {
        Some(key) => Lineage::Key {
            namespace: &run.namespace,
            key,
        },
        None => Lineage::Run { uid: &run.uid },
    };
    let mut drafts = Vec::with_capacity(given.len());
    for (index, step) in given.iter().enumerate() {
        if let Some(step) = Object::new(step, item("spec.steps", index), &mut faults) {
            drafts.push(draft(index, &step, &defaults, &names, lineage, &mut faults));
        }
    }
    let (outputs, output_reads) = outputs(&spec, &names, &mut faults);
    let steps = in_order(drafts, given.len(), &mut faults);
    let plan = Plan {
        run: run.clone(),
        params,
        inputs,
        on_step_failure,
        steps,
        outputs,
        output_reads,
        idempotency_key,
    };
    faults.or(plan)
}

/// How many expressions are to be read, at most.
fn expressions_in(spec: &Map<String, Value>) -> usize {
    fn count(value: &Value) -> usize {
        match value {
            Value::String(text) => text.matches("$[[").count(),
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(members) => members.values().map(count).sum(),
            _ => 0,
        }
    }
    let steps = spec.get("steps").and_then(Value::as_array).map_or(0, Vec::len);
    spec.iter()
        .map(|(field, value)| match field.as_str() {
            "defaults" => count(value).saturating_mul(steps.max(1)),
            _ => count(value),
        })
        .fold(0, usize::saturating_add)
}

/// The steps' names with their positions; of two equal ones the first.
fn step_names(steps: &[Value]) -> BTreeMap<&str, usize> {
    let mut names = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
        if let Some(name) = step.get("name").and_then(Value::as_str) {
            names.entry(name).or_insert(index);
        }
    }
    names
}

/// `idempotency.key`, evaluated: the steps' keys are made from it, so it is needed before anything begins.
fn idempotency_key(run: &RunInfo, spec: &Object<'_>, params: &Arc<Value>, faults: &mut Faults) -> Option<String> {
    let idempotency = spec.object("idempotency", faults)?;
    idempotency.only(&["key"], faults);
    let text = idempotency.text("key", faults)?;
    let place = idempotency.at("key");
    let before = faults.count();
    let TemplateReading {
        template,
        faults: wrong,
    } = Template::read(text);
    for error in &wrong {
        faults.add_error(place.as_str(), error);
    }
    let found: Vec<Found> = template
        .exprs()
        .map(|expr| Found {
            place: place.clone(),
            at: Where::Key,
            expr: expr.clone(),
            group: 0,
        })
        .collect();
    let names = Names {
        params: Arc::clone(params),
        steps: BTreeMap::new(),
    };
    expressions::check(&found, None, &names, faults);
    if faults.count() > before {
        return None;
    }
    let scope = Scope::new()
        .with("params", Arc::clone(params))
        .with("run", Value::Object(run_value(run)));
    let key = template
        .render(&scope)
        .and_then(|value| text_of(value, || template.exprs().next().map(|expr| expr.source())));
    let fault = match key {
        Ok(key) if key.is_empty() => {
            "is empty, and all runs with an empty key would be one piece of work; leave it out, or give it a text"
                .to_owned()
        }
        Ok(key) if key.len() > MAX_KEY => {
            format!(
                "has {} bytes, and the limit is {MAX_KEY}; use a digest or the number of what it is about",
                key.len()
            )
        }
        Ok(key) => return Some(key),
        Err(error) => error.message,
    };
    faults.add(place, fault);
    None
}

/// `run` as expressions read it, without what is known only when the run has begun.
pub(super) fn run_value(run: &RunInfo) -> Map<String, Value> {
    let labels: Map<String, Value> = run
        .labels
        .iter()
        .map(|(key, value)| (key.clone(), value.as_str().into()))
        .collect();
    let mut value = Map::new();
    value.insert("name".into(), run.name.as_str().into());
    value.insert("namespace".into(), run.namespace.as_str().into());
    value.insert("uid".into(), run.uid.as_str().into());
    value.insert("labels".into(), labels.into());
    value
}

/// `spec.outputs`, and the steps they read.
fn outputs(spec: &Object<'_>, names: &Names<'_>, faults: &mut Faults) -> (BTreeMap<String, Tree>, BTreeSet<String>) {
    let mut outputs = BTreeMap::new();
    let mut found = Vec::new();
    let Some(given) = spec.object("outputs", faults) else {
        return (outputs, BTreeSet::new());
    };
    for (name, value) in given.members {
        let place = given.at(name);
        if name.is_empty() || name.contains("$[[") {
            faults.add(
                place.as_str(),
                "an output's name is written out: it cannot be empty or hold an expression",
            );
        }
        keys_are_plain(value, &place, faults);
        let place_of = |path: &str| inside(&place, path);
        if let Some(tree) = tree(value, Where::Outputs, place_of, &mut found, faults) {
            outputs.insert(name.clone(), tree);
        }
    }
    let reads = expressions::check(&found, None, names, faults);
    (outputs, reads)
}

/// The steps in an order in which each comes after those it needs. `count` is how many the spec has.
fn in_order(drafts: Vec<Draft<'_>>, count: usize, faults: &mut Faults) -> Vec<StepPlan> {
    let mut needs = vec![Vec::new(); count];
    let mut names = vec![""; count];
    let mut plans: Vec<Option<StepPlan>> = (0..count).map(|_| None).collect();
    for draft in drafts {
        needs[draft.index] = draft.needs.into_iter().collect();
        names[draft.index] = draft.name;
        plans[draft.index] = draft.plan;
    }
    let order = match graph::order(&needs) {
        Ok(order) => order,
        Err(circles) => {
            for circle in circles {
                let names: Vec<&str> = circle.iter().chain(circle.first()).map(|index| names[*index]).collect();
                faults.add(
                    item("spec.steps", circle[0]),
                    format!("steps that need each other can never start: {}", names.join(" -> ")),
                );
            }
            return Vec::new();
        }
    };
    let mut position = vec![0; count];
    for (at, index) in order.iter().enumerate() {
        position[*index] = at;
    }
    let mut steps = Vec::with_capacity(count);
    for index in order {
        if let Some(mut plan) = plans[index].take() {
            plan.needs = needs[index].iter().map(|need| position[*need]).collect();
            plan.needs.sort_unstable();
            steps.push(plan);
        }
    }
    steps
}
