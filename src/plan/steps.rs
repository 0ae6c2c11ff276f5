//! One step of a spec, with the defaults under it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::expressions::{self, Names, Where};
use super::fault::Faults;
use super::limits;
use super::merge::{Kind, Part, merge};
use super::names::{Lineage, path_hash, step_key};
use super::place::{Origins, inside, item};
use super::read::{Object, kind};
use super::templates::tree;
use super::{StepPlan, pod};

/// Most characters of a step's name: it is the value of a label.
const MAX_NAME: usize = 63;
/// Most bytes that the defaults' container and pod template may take in all steps together: every step has its own copy.
const MAX_DEFAULTS: usize = 16 << 20;
/// Names that cannot be written as `steps.NAME`: words of the expression language.
const RESERVED_NAMES: [&str; 4] = ["false", "in", "null", "true"];
/// Attempts that ended for a cause outside the step, before the step fails.
const MAX_DISRUPTIONS: i64 = 10;

/// `spec.defaults`.
pub(super) struct Defaults<'a> {
    object: Option<Object<'a>>,
    container: Option<&'a Value>,
    pod_template: Option<&'a Value>,
}

impl<'a> Defaults<'a> {
    pub(super) fn read(spec: &Object<'a>, names: &Names<'_>, steps: usize, faults: &mut Faults) -> Self {
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
                Some(other) => faults.add(object.at(field), format!("must be an object, and is {}", kind(other))),
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
pub(super) struct Draft<'a> {
    /// Its own position.
    pub(super) index: usize,
    pub(super) name: &'a str,
    pub(super) needs: BTreeSet<usize>,
    /// None if the step has faults that leave nothing to plan with.
    pub(super) plan: Option<StepPlan>,
}

pub(super) fn draft<'a>(
    index: usize,
    step: &Object<'a>,
    defaults: &Defaults<'_>,
    names: &Names<'_>,
    lineage: Lineage<'_>,
    faults: &mut Faults,
) -> Draft<'a> {
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
    let container = overlay(
        Kind::Container,
        "container",
        step,
        defaults.container,
        &mut origins,
        faults,
    );
    let pod_template = overlay(
        Kind::PodTemplate,
        "podTemplate",
        step,
        defaults.pod_template,
        &mut origins,
        faults,
    );
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
    let mut read = |field: &str, value: &Value, faults: &mut Faults| {
        let place_of = |path: &str| origins.of(&inside(field, path));
        tree(value, Where::Attempt, place_of, &mut found, faults)
    };
    let container = read("container", &container, faults);
    let pod_template = read("podTemplate", &pod_template, faults);
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
    let plan = container.zip(pod_template).map(|(container, pod_template)| StepPlan {
        name: name.to_owned(),
        path: name.to_owned(),
        place: step.place.clone(),
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
        container,
        pod_template,
        init_containers,
        origins,
    });
    Draft {
        index,
        name,
        needs,
        plan,
    }
}

fn step_name<'a>(index: usize, step: &Object<'a>, names: &Names<'_>, faults: &mut Faults) -> Option<&'a str> {
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
        && name.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// The positions of the steps in `needs`.
fn needs(index: usize, step: &Object<'_>, own: &str, names: &Names<'_>, faults: &mut Faults) -> BTreeSet<usize> {
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
                faults.add(
                    place,
                    "is the name of a step, written out: it cannot hold an expression",
                );
            }
            None => {
                let near = faults
                    .near_miss(need, names.steps.keys().copied())
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
    let init_containers = pod_template.pointer("/spec/initContainers").and_then(Value::as_array);
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
