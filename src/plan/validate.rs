//! A spec made into a plan, or everything that is wrong with it.
//!
//! The spec is read as JSON and not as the API's types: one field of the wrong type must not hide the other faults. `control` is
//! not read here: it may change while the run goes on, and no mistake in it may make a started run invalid.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::expressions::{self, Found, Names, Where};
use super::fault::{Fault, Faults, near_miss};
use super::limits;
use super::merge::{Kind, Part, merge};
use super::names::{Lineage, path_hash, step_key};
use super::place::{Origins, inside, item};
use super::read::{Object, kind};
use super::{Plan, RunInfo, StepPlan, graph, params, pod, text_of};
use crate::api::spec::OnStepFailure;
use crate::expr::{Scope, Template, Tree};

/// Most steps of a run, as in the schema.
const MAX_STEPS: usize = 1_000;
/// Most characters of a step's name: it is the value of a label.
const MAX_NAME: usize = 63;
/// Most bytes of an idempotency key.
const MAX_KEY: usize = 256;
/// Most bytes that the defaults' container and pod template may take in all steps together: every step has its own copy.
const MAX_DEFAULTS: usize = 16 << 20;
/// Names that cannot be written as `steps.NAME`: words of the expression language.
const RESERVED_NAMES: [&str; 4] = ["false", "in", "null", "true"];
/// Attempts that ended for a cause outside the step, before the step fails.
const MAX_DISRUPTIONS: i64 = 10;

/// Makes a plan of `spec` for `run`.
///
/// # Errors
///
/// All faults, in the order of the spec, each once; at most [`MAX_FAULTS`](super::fault::MAX_FAULTS) and then how many more.
pub fn build(run: &RunInfo, spec: &Value) -> Result<Plan, Vec<Fault>> {
    let mut faults = Faults::default();
    let Some(spec) = Object::new(spec, "spec", &mut faults) else {
        return Err(faults.or(()).err().unwrap_or_default());
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
    let params = params::read(&spec, &mut faults);
    let inputs = Arc::new(Value::Object(params.clone().into_iter().collect()));
    let idempotency_key = idempotency_key(run, &spec, &inputs, &mut faults);
    let on_step_failure: OnStepFailure = spec
        .read("onStepFailure", &mut faults)
        .unwrap_or_default();

    let given = spec.list("steps", &mut faults).unwrap_or_default();
    if given.is_empty() {
        faults.add("spec.steps", "a run needs at least one step");
    }
    if given.len() > MAX_STEPS {
        faults.add(
            "spec.steps",
            format!("a run has at most {MAX_STEPS} steps, and this one {}", given.len()),
        );
        return Err(faults.or(()).err().unwrap_or_default());
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
    let mut steps = Vec::with_capacity(given.len());
    for (index, step) in given.iter().enumerate() {
        if let Some(step) = Object::new(step, item("spec.steps", index), &mut faults) {
            steps.extend(step_plan(index, &step, &defaults, &names, lineage, &mut faults));
        }
    }
    let (outputs, output_reads) = outputs(&spec, &names, &mut faults);
    let steps = in_order(steps, given.len(), &mut faults);
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
fn idempotency_key(
    run: &RunInfo,
    spec: &Object<'_>,
    params: &Arc<Value>,
    faults: &mut Faults,
) -> Option<String> {
    let idempotency = spec.object("idempotency", faults)?;
    idempotency.only(&["key"], faults);
    let text = idempotency.text("key", faults)?;
    let place = idempotency.at("key");
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(error) => {
            faults.add(place, error.message);
            return None;
        }
    };
    let before = faults.len();
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
    if faults.len() > before {
        return None;
    }
    let scope = Scope::new()
        .with("params", Arc::clone(params))
        .with("run", run_value(run));
    let key = template
        .render(&scope)
        .and_then(|value| text_of(value, || template.exprs().next().map(|expr| expr.source())));
    let fault = match key {
        Ok(key) if key.is_empty() => "gives no text: an empty key would make all runs one".to_owned(),
        Ok(key) if key.len() > MAX_KEY => format!(
            "gives {} bytes, and the limit is {MAX_KEY}",
            key.len()
        ),
        Ok(key) => return Some(key),
        Err(error) => error.message,
    };
    faults.add(place, fault);
    None
}

/// `run` as expressions read it, without what is known only when the run has begun.
pub(super) fn run_value(run: &RunInfo) -> Value {
    json!({"name": run.name, "namespace": run.namespace, "uid": run.uid, "labels": run.labels})
}

/// `spec.defaults`.
struct Defaults<'a> {
    object: Option<Object<'a>>,
    container: Option<&'a Value>,
    pod_template: Option<&'a Value>,
}

impl<'a> Defaults<'a> {
    fn read(spec: &Object<'a>, names: &Names<'_>, steps: usize, faults: &mut Faults) -> Self {
        let mut defaults = Defaults {
            object: spec.object("defaults", faults),
            container: None,
            pod_template: None,
        };
        let Some(object) = &defaults.object else {
            return defaults;
        };
        object.only(
            &["timeout", "startTimeout", "retry", "container", "podTemplate"],
            faults,
        );
        // Read once for their faults, also when every step has its own.
        let mut found = Vec::new();
        limits::duration(object, "timeout", false, &mut found, faults);
        limits::duration(object, "startTimeout", false, &mut found, faults);
        let retry = object.object("retry", faults);
        limits::retry(retry, &mut found, faults);
        expressions::check(&found, None, names, faults);

        let size = |value: Option<&Value>| value.map_or(0, |value| value.to_string().len());
        let (container, pod_template) = (object.get("container"), object.get("podTemplate"));
        let copies = (size(container) + size(pod_template)).saturating_mul(steps);
        if copies > MAX_DEFAULTS {
            faults.add(
                object.place.as_str(),
                format!(
                    "container and podTemplate are too large: {copies} bytes in {steps} steps, and the limit is {MAX_DEFAULTS}"
                ),
            );
            return defaults;
        }
        for (field, value, to) in [
            ("container", container, &mut defaults.container),
            ("podTemplate", pod_template, &mut defaults.pod_template),
        ] {
            match value {
                Some(Value::Object(_)) => *to = value,
                Some(other) => faults.add(
                    object.at(field),
                    format!("must be an object, and is {}", kind(other)),
                ),
                None => {}
            }
        }
        defaults
    }

    /// The object to read `field` from: the step, or the defaults where the step says nothing.
    fn or_step<'s>(&'s self, step: &'s Object<'a>, field: &str) -> &'s Object<'a> {
        match &self.object {
            Some(defaults) if step.get(field).is_none() => defaults,
            _ => step,
        }
    }
}

/// A step with the positions, in the spec, of those it needs.
struct Draft {
    plan: StepPlan,
    /// Its own position.
    index: usize,
    needs: BTreeSet<usize>,
}

fn step_plan(
    index: usize,
    step: &Object<'_>,
    defaults: &Defaults<'_>,
    names: &Names<'_>,
    lineage: Lineage<'_>,
    faults: &mut Faults,
) -> Option<Draft> {
    step.only(
        &[
            "name",
            "description",
            "needs",
            "needsPolicy",
            "when",
            "container",
            "podTemplate",
            "output",
            "retry",
            "timeout",
            "startTimeout",
            "failurePolicy",
        ],
        faults,
    );
    let name = step_name(index, step, names, faults).unwrap_or_default();
    step.text("description", faults);
    let mut needs = needs(index, step, name, names, faults);
    let needs_policy = step.read("needsPolicy", faults).unwrap_or_default();

    let mut found = Vec::new();
    let when = step
        .text("when", faults)
        .and_then(|text| limits::expression(text, step.at("when"), &mut found, faults));
    let mut origins = Origins::default();
    let container = overlay(Kind::Container, "container", step, defaults.container, &mut origins, faults);
    let pod_template = overlay(Kind::PodTemplate, "podTemplate", step, defaults.pod_template, &mut origins, faults);
    if step.get("container").is_none() {
        faults.add(step.at("container"), "a step needs a container");
    } else if image_is_missing(&container) {
        faults.add(
            format!("{}.image", step.at("container")),
            "the step has no image, neither here nor in spec.defaults.container.image",
        );
    }
    pod::check(&container, &pod_template, &mut |place, message| {
        faults.add(origins.of(&place), message);
    });
    let init_containers = init_containers(&pod_template);
    let container = tree("container", &container, &origins, &mut found, faults);
    let pod_template = tree("podTemplate", &pod_template, &origins, &mut found, faults);
    let output = step.object("output", faults);
    let (output_format, output_max_bytes) = limits::output(output, 1 + init_containers.len(), faults);
    let retry = defaults.or_step(step, "retry").object("retry", faults);
    let (max_attempts, backoff) = limits::retry(retry, &mut found, faults);
    let mut limit = |field: &str, faults: &mut Faults| {
        limits::duration(defaults.or_step(step, field), field, false, &mut found, faults)
    };
    let timeout = limit("timeout", faults);
    let start_timeout = limit("startTimeout", faults);
    let failure_policy = step.read("failurePolicy", faults).unwrap_or_default();

    let reads = expressions::check(&found, Some(name), names, faults);
    needs.extend(reads.iter().filter_map(|name| names.steps.get(name.as_str())));
    let plan = StepPlan {
        name: name.to_owned(),
        path: name.to_owned(),
        hash: path_hash(name),
        key: step_key(lineage, name),
        needs: Vec::new(),
        reads,
        needs_policy,
        when,
        failure_policy,
        max_attempts,
        max_disruptions: MAX_DISRUPTIONS,
        backoff,
        timeout,
        start_timeout,
        output_format,
        output_max_bytes,
        container: container?,
        pod_template: pod_template?,
        init_containers,
        origins,
    };
    Some(Draft { plan, index, needs })
}

fn step_name<'a>(
    index: usize,
    step: &Object<'a>,
    names: &Names<'_>,
    faults: &mut Faults,
) -> Option<&'a str> {
    let place = step.at("name");
    if step.get("name").is_none() {
        faults.add(place, "a step needs a name");
        return None;
    }
    let name = step.text("name", faults)?;
    if RESERVED_NAMES.contains(&name) {
        faults.add(
            place,
            format!("{name} is a word of the expression language and cannot be a step's name"),
        );
    } else if !is_step_name(name) {
        faults.add(
            place,
            format!(
                "a step's name has at most {MAX_NAME} small letters, digits and dashes, begins with a letter and does not end with a dash"
            ),
        );
    } else if let Some(first) = names.steps.get(name).filter(|first| **first != index) {
        faults.add(
            place,
            format!("there are two steps {name}; the other is spec.steps[{first}]"),
        );
    }
    Some(name)
}

/// `^[a-z]([-a-z0-9]*[a-z0-9])?$`, in a label's length.
fn is_step_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name
            .bytes()
            .all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// The positions of the steps in `needs`.
fn needs(
    index: usize,
    step: &Object<'_>,
    own: &str,
    names: &Names<'_>,
    faults: &mut Faults,
) -> BTreeSet<usize> {
    let mut needs = BTreeSet::new();
    let place = step.at("needs");
    for (i, need) in step.list("needs", faults).unwrap_or_default().iter().enumerate() {
        let place = item(&place, i);
        let Value::String(need) = need else {
            faults.add(place, format!("must be the name of a step, and is {}", kind(need)));
            continue;
        };
        match names.steps.get(need.as_str()) {
            Some(position) if *position == index || need == own => {
                faults.add(place, "a step cannot need itself");
            }
            Some(position) => {
                needs.insert(*position);
            }
            None if need.contains("$[[") => {
                faults.add(place, "is the name of a step, written out: it cannot hold an expression");
            }
            None => {
                let near = near_miss(need, names.steps.keys().copied())
                    .map(|near| format!("; did you mean {near}?"))
                    .unwrap_or_default();
                faults.add(place, format!("there is no step {need}{near}"));
            }
        }
    }
    needs
}

/// A step's field laid over the defaults' one.
fn overlay(
    kind: Kind,
    field: &str,
    step: &Object<'_>,
    defaults: Option<&Value>,
    origins: &mut Origins,
    faults: &mut Faults,
) -> Value {
    let place = step.at(field);
    let below = format!("spec.defaults.{field}");
    let nothing = Value::Object(Map::new());
    // Where nothing is written, faults are the step's.
    origins.add(field, &place);
    let own = match step.get(field) {
        Some(own @ Value::Object(_)) => own,
        Some(_) => {
            step.object(field, faults);
            &nothing
        }
        None => &nothing,
    };
    let base = Part {
        value: defaults.unwrap_or(&nothing),
        place: &below,
    };
    let over = Part {
        value: own,
        place: &place,
    };
    merge(kind, base, over, field, origins)
}

fn image_is_missing(container: &Value) -> bool {
    match container.get("image") {
        None => true,
        Some(image) => image == "",
    }
}

/// The names of the init containers, and whether each is a sidecar.
fn init_containers(pod_template: &Value) -> Vec<(String, bool)> {
    let init_containers = pod_template
        .pointer("/spec/initContainers")
        .and_then(Value::as_array);
    init_containers
        .into_iter()
        .flatten()
        .map(|init| {
            let name = init.get("name").and_then(Value::as_str).unwrap_or_default();
            let is_sidecar = init.get("restartPolicy").is_some_and(|policy| policy == "Always");
            (name.to_owned(), is_sidecar)
        })
        .collect()
}

/// The templates of a step's field, with their expressions remembered.
fn tree(
    field: &str,
    value: &Value,
    origins: &Origins,
    found: &mut Vec<Found>,
    faults: &mut Faults,
) -> Option<Tree> {
    match Tree::parse(value) {
        Ok(tree) => {
            let group = found.len();
            found.extend(tree.exprs_with_paths().into_iter().map(|(path, expr)| Found {
                place: origins.of(&inside(field, &path)),
                at: Where::Attempt,
                expr: expr.clone(),
                group,
            }));
            Some(tree)
        }
        Err(errors) => {
            for (path, error) in errors {
                faults.add(origins.of(&inside(field, &path)), error.message);
            }
            None
        }
    }
}

/// `spec.outputs`, and the steps they read.
fn outputs(
    spec: &Object<'_>,
    names: &Names<'_>,
    faults: &mut Faults,
) -> (BTreeMap<String, Tree>, BTreeSet<String>) {
    let mut outputs = BTreeMap::new();
    let mut found = Vec::new();
    let Some(given) = spec.object("outputs", faults) else {
        return (outputs, BTreeSet::new());
    };
    for (name, value) in given.members {
        let place = given.at(name);
        if name.is_empty() || name.contains("$[[") {
            faults.add(place.as_str(), "an output's name is written out: it cannot be empty or hold an expression");
        }
        keys_are_plain(value, &place, faults);
        match Tree::parse(value) {
            Ok(tree) => {
                let group = found.len();
                found.extend(tree.exprs_with_paths().into_iter().map(|(path, expr)| Found {
                    place: inside(&place, &path),
                    at: Where::Outputs,
                    expr: expr.clone(),
                    group,
                }));
                outputs.insert(name.clone(), tree);
            }
            Err(errors) => {
                for (path, error) in errors {
                    faults.add(inside(&place, &path), error.message);
                }
            }
        }
    }
    let reads = expressions::check(&found, None, names, faults);
    (outputs, reads)
}

fn keys_are_plain(value: &Value, place: &str, faults: &mut Faults) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let place = super::place::member(place, key);
                if key.contains("$[[") {
                    faults.add(place.as_str(), "a key cannot hold an expression; only values can");
                }
                keys_are_plain(value, &place, faults);
            }
        }
        Value::Array(items) => {
            for (i, value) in items.iter().enumerate() {
                keys_are_plain(value, &item(place, i), faults);
            }
        }
        _ => {}
    }
}

/// The steps in an order in which each comes after those it needs. `count` is how many the spec has; those with faults have no draft.
fn in_order(drafts: Vec<Draft>, count: usize, faults: &mut Faults) -> Vec<StepPlan> {
    let mut needs = vec![Vec::new(); count];
    let mut plans: Vec<Option<StepPlan>> = (0..count).map(|_| None).collect();
    for draft in drafts {
        needs[draft.index] = draft.needs.into_iter().collect();
        plans[draft.index] = Some(draft.plan);
    }
    let order = match graph::order(&needs) {
        Ok(order) => order,
        Err(circles) => {
            for circle in circles {
                let name = |index: usize| plans[index].as_ref().map_or("?", |plan| plan.name.as_str());
                let names: Vec<&str> = circle.iter().chain(circle.first()).map(|index| name(*index)).collect();
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
