//! A Job or a pod made into evidence. Labels decide whether it is ours: one whose labels do not say which run, step and attempt
//! it belongs to is no evidence of anything.

use std::collections::BTreeMap;

use kube::Resource;

use super::faults::{faults, foreign_manager};
use super::views::{ContainerStateView, ContainerStatusView, ContainerView, JobView, PodView, TerminatedView};
use crate::api::names::{FINALIZER_EVIDENCE, LABEL_ATTEMPT, LABEL_RUN, LABEL_RUN_UID, LABEL_STEP_HASH};
use crate::evidence::{
    AttemptId, ContainerEvidence, ContainerKind, ContainerState, JobEvidence, JobState, MAX_TERMINATION_MESSAGE, Node,
    PodEvidence, PodPhase, Terminated, cut, written_bytes,
};

/// Most bytes of a word, such as a reason.
const MAX_WORD: usize = 256;
/// Most bytes of a text for people.
const MAX_TEXT: usize = 1024;

/// The run that an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunRef {
    pub namespace: String,
    pub uid: String,
    pub name: String,
}

/// The run that an object's labels name.
pub fn run_of<K: Resource>(object: &K) -> Option<RunRef> {
    let labels = object.meta().labels.as_ref()?;
    Some(RunRef {
        namespace: some(object.meta().namespace.as_deref())?,
        uid: some(labels.get(LABEL_RUN_UID).map(String::as_str))?,
        name: labels.get(LABEL_RUN).cloned().unwrap_or_default(),
    })
}

/// The attempt that labels name.
pub fn attempt_of(labels: &BTreeMap<String, String>) -> Option<AttemptId> {
    let hash = some(labels.get(LABEL_STEP_HASH).map(String::as_str))?;
    let text = labels.get(LABEL_ATTEMPT)?;
    let number: i64 = text.parse().ok()?;
    // Only the form that is written: a selector would not find any other.
    (number >= 1 && number.to_string() == *text).then_some((hash, number))
}

fn some(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Whether `job` is the Job of this attempt of the run, and not one that happens to have the name: labels, and the run as
/// controlling owner, by UID (R4).
pub fn belongs_to(job: &JobView, run_uid: &str, attempt: &AttemptId) -> bool {
    run_of(job).is_some_and(|run| run.uid == run_uid)
        && job.metadata.labels.as_ref().and_then(attempt_of).as_ref() == Some(attempt)
        && is_controlled_by(job, run_uid)
}

/// Whether a WorkflowRun with this UID is the object's controlling owner.
pub(super) fn is_controlled_by(job: &JobView, run_uid: &str) -> bool {
    let owners = job.metadata.owner_references.as_deref().unwrap_or_default();
    owners
        .iter()
        .any(|owner| owner.uid == run_uid && owner.controller == Some(true) && owner.kind == "WorkflowRun")
}

/// What a Job says. None if its labels do not name a run, a step and an attempt.
pub fn job_evidence(job: &JobView) -> Option<JobEvidence> {
    run_of(job)?;
    let is_true = |kind: &str| {
        let conditions = &job.status.conditions;
        conditions
            .iter()
            .any(|condition| condition.r#type == kind && condition.status == "True")
    };
    Some(JobEvidence {
        uid: some(job.metadata.uid.as_deref())?,
        attempt: attempt_of(job.metadata.labels.as_ref()?)?,
        deleting: job.metadata.deletion_timestamp.is_some(),
        suspended: job.spec.suspend == Some(true) || foreign_manager(&job.spec).is_some(),
        closing: job.spec.active_deadline_seconds == Some(1),
        state: match (is_true("Complete"), is_true("Failed")) {
            (_, true) => JobState::Failed,
            (true, false) => JobState::Complete,
            (false, false) => JobState::Active,
        },
        created: job.metadata.creation_timestamp.as_ref().map(|time| time.0.into()),
        waiting: None,
        faults: faults(job),
    })
}

/// What a pod says. None if its labels do not name a run, a step and an attempt. Its size is bounded, whatever the pod says.
pub fn pod_evidence(pod: &PodView) -> Option<PodEvidence> {
    run_of(pod)?;
    let PodView { metadata, spec, status } = pod;
    let condition = |kind: &str, value: &str| {
        let mut conditions = status.conditions.iter();
        conditions.find(|condition| condition.r#type == kind && condition.status == value)
    };
    let init = spec
        .init_containers
        .iter()
        .map(|container| match container.restart_policy.as_deref() {
            Some("Always") => (container, ContainerKind::Sidecar),
            _ => (container, ContainerKind::Init),
        })
        .map(|(view, kind)| container(view, kind, &status.init_container_statuses));
    let regular = spec
        .containers
        .iter()
        .map(|view| container(view, ContainerKind::Regular, &status.container_statuses));
    let ephemeral = spec
        .ephemeral_containers
        .iter()
        .map(|view| container(view, ContainerKind::Ephemeral, &status.ephemeral_container_statuses));
    Some(PodEvidence {
        attempt: attempt_of(metadata.labels.as_ref()?)?,
        uid: some(metadata.uid.as_deref())?,
        name: some(metadata.name.as_deref())?,
        phase: match status.phase.as_str() {
            "Pending" => PodPhase::Pending,
            "Running" => PodPhase::Running,
            "Succeeded" => PodPhase::Succeeded,
            "Failed" => PodPhase::Failed,
            _ => PodPhase::Unknown,
        },
        reason: cut(&status.reason, MAX_WORD),
        message: cut(&status.message, MAX_TEXT),
        generation: metadata.generation.unwrap_or_default(),
        observed_generation: status.observed_generation,
        deleting: metadata.deletion_timestamp.is_some(),
        ended_before_deletion: false,
        held: metadata
            .finalizers
            .as_deref()
            .unwrap_or_default()
            .iter()
            .any(|finalizer| finalizer == FINALIZER_EVIDENCE),
        node: some(spec.node_name.as_deref()).map_or(Node::None, Node::Named),
        start_time: status.start_time,
        active_deadline_seconds: spec.active_deadline_seconds,
        disruption: condition("DisruptionTarget", "True").map(|condition| cut(&condition.reason, MAX_WORD)),
        unschedulable: condition("PodScheduled", "False")
            .filter(|condition| condition.reason == "Unschedulable")
            .map(|condition| cut(&condition.message, MAX_TEXT)),
        waiting: None,
        containers: init.chain(regular).chain(ephemeral).collect(),
    })
}

fn container(view: &ContainerView, kind: ContainerKind, statuses: &[ContainerStatusView]) -> ContainerEvidence {
    let status = statuses.iter().find(|status| status.name == view.name);
    ContainerEvidence {
        name: view.name.clone(),
        kind,
        state: status.map_or(ContainerState::Unreported, |status| state(&status.state)),
        restart_count: status.map_or(0, |status| status.restart_count),
        ran_before: status.is_some_and(|status| {
            let last = &status.last_state;
            last.waiting.is_some() || last.running.is_some() || last.terminated.is_some()
        }),
    }
}

fn state(view: &ContainerStateView) -> ContainerState {
    match view {
        ContainerStateView {
            running: Some(running), ..
        } => ContainerState::Running {
            started: running.started_at,
        },
        ContainerStateView {
            terminated: Some(view), ..
        } => ContainerState::Terminated(terminated(view)),
        ContainerStateView {
            waiting: Some(waiting), ..
        } => ContainerState::Waiting {
            reason: cut(&waiting.reason, MAX_WORD),
            message: cut(&waiting.message, MAX_TEXT),
        },
        _ => ContainerState::Unreported,
    }
}

fn terminated(view: &TerminatedView) -> Terminated {
    Terminated {
        exit_code: view.exit_code.unwrap_or(-1),
        reason: cut(&view.reason, MAX_WORD),
        message: bounded(&view.message),
        started: view.started_at,
        finished: view.finished_at,
        has_id: !view.container_id.is_empty(),
    }
}

/// The beginning of a termination message. It is cut only where it is too long for an output anyway, and then stays so.
fn bounded(message: &str) -> String {
    let mut written = 0;
    let end = message.char_indices().find_map(|(at, character)| {
        if written >= MAX_TERMINATION_MESSAGE {
            return Some(at);
        }
        written += match character {
            char::REPLACEMENT_CHARACTER => 1,
            other => other.len_utf8(),
        };
        None
    });
    let kept = &message[..end.unwrap_or(message.len())];
    debug_assert!(kept.len() == message.len() || written_bytes(kept) >= MAX_TERMINATION_MESSAGE);
    kept.to_owned()
}
