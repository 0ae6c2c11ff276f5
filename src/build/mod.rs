//! The Job of an attempt, as it is sent to the API server. Pure: the same plan, record and scope give the same manifest.

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::api::names;
use crate::api::status::Record;
use crate::api::time::Time;
use crate::expr::{ExprError, Scope};
use crate::plan::{Plan, StepPlan};

#[cfg(test)]
mod tests;

/// Why an attempt has no Job.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// The spec's own fault, found when its expressions were evaluated.
    #[error("{path}: {error}")]
    Expression { path: String, error: ExprError },
    /// The journal does not name the Job, and nothing is started that the journal does not name.
    #[error("the record of step {step} names no Job")]
    Unnamed { step: String },
}

/// The Job of the attempt that `record` names. `scope` is that of the attempt, and the API server refuses the Job from
/// `create_before` on.
///
/// # Errors
///
/// When an expression fails, with its place in the spec, or the record names no Job.
pub fn job(
    plan: &Plan,
    step: &StepPlan,
    record: &Record,
    scope: &Scope,
    create_before: jiff::Timestamp,
) -> Result<Value, BuildError> {
    // Read and never computed: a newer version may compute another name for an attempt that is already under way.
    let name = record.job_name.as_deref().ok_or_else(|| BuildError::Unnamed {
        step: step.path.clone(),
    })?;
    let (container, template) = step
        .render(scope)
        .map_err(|(path, error)| BuildError::Expression { path, error })?;
    let timeout = step.timeout_ms(scope).map_err(|error| BuildError::Expression {
        path: format!("{}.timeout", step.place),
        error,
    })?;
    let labels = labels(plan, step, record);
    let env = env(plan, step, record);
    Ok(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": plan.run.namespace,
            "labels": labels,
            "annotations": {
                names::ANNOTATION_STEP_PATH: step.path,
                names::ANNOTATION_CREATE_BEFORE: Time::from(create_before).to_string(),
            },
            // Never blockOwnerDeletion: a foreground deletion of the run would then wait for its pods, which hold our finalizer
            // until the run is gone. It would need a permission on the run's finalizers, too.
            "ownerReferences": [{
                "apiVersion": format!("{}/{}", names::GROUP, names::VERSION),
                "kind": "WorkflowRun",
                "name": plan.run.name,
                "uid": plan.run.uid,
                "controller": true,
                "blockOwnerDeletion": false,
            }],
        },
        // One pod, never a second by the Job controller: Oncilla alone decides about retries. No ttlSecondsAfterFinished: a Job
        // that is gone before it was read would cost an attempt.
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "podReplacementPolicy": "Failed",
            "template": pod_template(template, container, labels, env, step, timeout),
        },
    }))
}

/// By these an attempt's Job and pods are found, whoever owns them.
fn labels(plan: &Plan, step: &StepPlan, record: &Record) -> Map<String, Value> {
    let (no_backup, yes) = names::LABEL_NO_BACKUP;
    [
        (names::LABEL_RUN, plan.run.name.as_str()),
        (names::LABEL_RUN_UID, &plan.run.uid),
        (names::LABEL_STEP, &step.name),
        (names::LABEL_STEP_HASH, &step.hash),
        (names::LABEL_ATTEMPT, &record.attempt.to_string()),
        (no_backup, yes),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.into()))
    .collect()
}

/// What every container of the step is told.
fn env(plan: &Plan, step: &StepPlan, record: &Record) -> Vec<Value> {
    [
        ("IDEMPOTENCY_KEY", step.key.as_str()),
        ("ATTEMPT", &record.attempt.to_string()),
        ("FENCE", &record.fence.to_string()),
        ("RUN", &plan.run.name),
        ("STEP", &step.path),
    ]
    .into_iter()
    .map(|(name, value)| variable(name, value))
    .collect()
}

fn variable(name: &str, value: &str) -> Value {
    json!({"name": format!("{}{name}", names::ENV_PREFIX), "value": value})
}

fn pod_template(
    template: Value,
    container: Value,
    labels: Map<String, Value>,
    env: Vec<Value>,
    step: &StepPlan,
    timeout: Option<i64>,
) -> Value {
    let mut template = object(template);
    let mut metadata = object(template.remove("metadata").unwrap_or_default());
    let mut all_labels = object(metadata.remove("labels").unwrap_or_default());
    all_labels.extend(labels);
    let mut annotations = object(metadata.remove("annotations").unwrap_or_default());
    annotations.insert(names::ANNOTATION_STEP_PATH.into(), step.path.clone().into());

    let mut spec = object(template.remove("spec").unwrap_or_default());
    // A step that does not name an account has no business with the API server.
    let has_account = ["serviceAccountName", "serviceAccount"]
        .iter()
        .any(|field| spec.get(*field).is_some_and(|account| account != ""));
    if !has_account {
        spec.entry("automountServiceAccountToken").or_insert(false.into());
    }
    // A variable for every service of the namespace is more than a step asked for, and thousands of them keep it from starting.
    spec.entry("enableServiceLinks").or_insert(false.into());
    spec.insert("restartPolicy".into(), "Never".into());
    if let Some(timeout) = timeout {
        spec.insert("activeDeadlineSeconds".into(), seconds(timeout).into());
    }
    if let Some(Value::Array(init_containers)) = spec.get_mut("initContainers") {
        for init in init_containers {
            *init = with_env(std::mem::take(init), env.clone()).into();
        }
    }
    spec.insert("containers".into(), json!([main(container, env)]));
    json!({
        "metadata": {
            "labels": all_labels,
            "annotations": annotations,
            // Keeps what the pod says until it is recorded.
            "finalizers": [names::FINALIZER_EVIDENCE],
        },
        "spec": spec,
    })
}

/// The step's own container. The kubelet makes the message file, writable for every user, and mounts it at its path.
fn main(container: Value, mut env: Vec<Value>) -> Map<String, Value> {
    env.push(variable("OUTPUT", names::OUTPUT_PATH));
    let mut container = with_env(container, env);
    container.insert("name".into(), names::MAIN_CONTAINER.into());
    container.insert("terminationMessagePath".into(), names::OUTPUT_PATH.into());
    container.insert("terminationMessagePolicy".into(), "File".into());
    container
}

/// Ours come first: a step's own variables may refer to them, as in `$(ONCILLA_ATTEMPT)`.
fn with_env(container: Value, mut env: Vec<Value>) -> Map<String, Value> {
    let mut container = object(container);
    if let Some(Value::Array(own)) = container.remove("env") {
        env.extend(own);
    }
    container.insert("env".into(), env.into());
    container
}

/// Whole seconds, rounded up, as far as Kubernetes takes them.
fn seconds(millis: i64) -> i64 {
    let seconds = millis / 1_000 + i64::from(millis % 1_000 > 0);
    seconds.clamp(1, i32::MAX.into())
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
