//! How a stored Job differs from what Oncilla needs (R4). Each rule here keeps somebody else from running a step again, from
//! stopping it unseen, or from hiding what it said.

use super::evidence::is_controlled_by;
use super::views::{JobSpecView, JobView, TemplateContainerView};
use crate::api::names::{
    ANNOTATION_STEP_PATH, FINALIZER_EVIDENCE, LABEL_ATTEMPT, LABEL_RUN, LABEL_RUN_UID, LABEL_STEP_HASH, MAIN_CONTAINER,
    OUTPUT_PATH,
};

/// A sentence for each difference; none if the Job is sound.
pub fn faults(job: &JobView) -> Vec<String> {
    let mut found = Vec::new();
    spec(job, &mut found);
    identity(job, &mut found);
    template(job, &mut found);
    found
        .into_iter()
        .map(|what| format!("{what}: an admission webhook or a person may have changed it"))
        .collect()
}

/// The Job controller must make one pod, count it once, and leave it and the Job where they are.
fn spec(job: &JobView, found: &mut Vec<String>) {
    let spec = &job.spec;
    for (field, value, needed) in [
        ("spec.backoffLimit", spec.backoff_limit, 0),
        ("spec.completions", spec.completions, 1),
        ("spec.parallelism", spec.parallelism, 1),
    ] {
        if value != Some(needed) {
            let value = value.map_or("not set".to_owned(), |value| value.to_string());
            found.push(format!("{field} is {value}, not {needed}"));
        }
    }
    let policy = spec.pod_replacement_policy.as_deref();
    if policy != Some("Failed") {
        let policy = policy.unwrap_or("not set");
        found.push(format!("spec.podReplacementPolicy is {policy}, not Failed"));
    }
    for (field, set) in [
        ("spec.podFailurePolicy", spec.pod_failure_policy.is_some()),
        ("spec.successPolicy", spec.success_policy.is_some()),
        ("spec.backoffLimitPerIndex", spec.backoff_limit_per_index.is_some()),
        (
            "spec.ttlSecondsAfterFinished",
            spec.ttl_seconds_after_finished.is_some(),
        ),
    ] {
        if set {
            found.push(format!("{field} is set, and must not be"));
        }
    }
    if let Some(other) = foreign_manager(spec) {
        found.push(format!("spec.managedBy is {other}, and must not be set"));
    }
}

/// Who manages the Job, if that is not Kubernetes' own Job controller.
pub fn foreign_manager(spec: &JobSpecView) -> Option<&str> {
    // The one value that means what no value means.
    spec.managed_by
        .as_deref()
        .filter(|manager| *manager != "kubernetes.io/job-controller")
}

/// Job and pods must be found by their labels, and go when the run goes.
fn identity(job: &JobView, found: &mut Vec<String>) {
    let none = Default::default();
    let labels = job.metadata.labels.as_ref().unwrap_or(&none);
    let run_uid = labels.get(LABEL_RUN_UID).map(String::as_str);
    if !is_controlled_by(job, run_uid.unwrap_or_default()) {
        found.push(format!(
            "metadata.ownerReferences has no controlling WorkflowRun with uid {}",
            run_uid.unwrap_or("of the run")
        ));
    }
    let path = job
        .metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(ANNOTATION_STEP_PATH));
    if path.is_none_or(String::is_empty) {
        found.push(format!("metadata.annotations has no {ANNOTATION_STEP_PATH}"));
    }
    for label in [LABEL_RUN, LABEL_RUN_UID, LABEL_STEP_HASH, LABEL_ATTEMPT] {
        let (own, pods) = (labels.get(label), job.spec.template.metadata.labels.get(label));
        match (own, pods) {
            (None, _) => found.push(format!("metadata.labels has no {label}")),
            (Some(own), None) => found.push(format!("spec.template.metadata.labels has no {label}, not {own}")),
            (Some(own), Some(pods)) if own != pods => {
                found.push(format!("spec.template.metadata.labels has {label} {pods}, not {own}"))
            }
            _ => {}
        }
    }
    let finalizers = &job.spec.template.metadata.finalizers;
    if !finalizers.iter().any(|name| name == FINALIZER_EVIDENCE) {
        found.push(format!("spec.template.metadata.finalizers has no {FINALIZER_EVIDENCE}"));
    }
}

/// The kubelet must run the step's container once and keep what it wrote.
fn template(job: &JobView, found: &mut Vec<String>) {
    let spec = &job.spec.template.spec;
    let policy = spec.restart_policy.as_deref();
    if policy != Some("Never") {
        let policy = policy.unwrap_or("not set");
        found.push(format!("spec.template.spec.restartPolicy is {policy}, not Never"));
    }
    for container in &spec.containers {
        restarts(container, "container", None, found);
    }
    for container in &spec.init_containers {
        restarts(container, "init container", Some("Always"), found);
    }
    match spec.containers.iter().find(|c| c.name == MAIN_CONTAINER) {
        None => found.push(format!("spec.template.spec.containers has no {MAIN_CONTAINER}")),
        Some(main) => main_container(main, found),
    }
}

/// A restart policy of a container's own runs it again inside its pod, after exit 0 too. Only Always on an init container is
/// something else: it makes a sidecar.
fn restarts(container: &TemplateContainerView, what: &str, allowed: Option<&str>, found: &mut Vec<String>) {
    let name = &container.name;
    let policy = container.restart_policy.as_deref();
    if policy.is_some() && policy != allowed {
        let policy = policy.unwrap_or_default();
        found.push(format!("{what} {name} has restartPolicy {policy}"));
    }
    if container.restart_policy_rules.is_some() {
        found.push(format!("{what} {name} has restartPolicyRules"));
    }
}

/// A probe or hook that kills a container leaves no trace of it in the pod: exit 0 after it would pass for success.
fn main_container(main: &TemplateContainerView, found: &mut Vec<String>) {
    let post_start = main.lifecycle.as_ref().and_then(|it| it.post_start);
    for (field, set) in [
        ("livenessProbe", main.liveness_probe.is_some()),
        ("startupProbe", main.startup_probe.is_some()),
        ("lifecycle.postStart", post_start.is_some()),
    ] {
        if set {
            found.push(format!("container {MAIN_CONTAINER} has {field}"));
        }
    }
    let path = main.termination_message_path.as_deref();
    if path != Some(OUTPUT_PATH) {
        let path = path.unwrap_or("not set");
        found.push(format!(
            "container {MAIN_CONTAINER} has terminationMessagePath {path}, not {OUTPUT_PATH}"
        ));
    }
}
