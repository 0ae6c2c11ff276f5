//! What Jobs and pods say happened, in small types of our own, so that decide and its tests need no cluster.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::time::Time;
use crate::api::words::StepReason;

/// An attempt of a step: the hash of the step's path, as the label has it, and the attempt's number.
pub type AttemptId = (String, i64);

/// Everything known about one run's Jobs and pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Evidence {
    /// By name.
    pub jobs: BTreeMap<String, JobEvidence>,
    /// In order of step, attempt and UID.
    pub pods: Vec<PodEvidence>,
    /// Jobs, by name, whose create was answered with a no, and what it meant.
    pub refusals: BTreeMap<String, Refusal>,
    /// Attempts whose Job and pods were read live, after everything else here: for them absence is proof (R5).
    pub live: BTreeSet<AttemptId>,
    /// The API server said that the namespace is being deleted.
    pub namespace_terminating: bool,
}

/// A Job of ours, found by label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobEvidence {
    pub uid: String,
    pub attempt: AttemptId,
    /// It has a deletionTimestamp: a closed attempt.
    pub deleting: bool,
    pub suspended: bool,
    /// Its activeDeadlineSeconds is 1: it has been told to end.
    pub closing: bool,
    pub state: JobState,
    /// When the API server created it.
    pub created: Option<Time>,
    /// Why it has no pod yet, if that is known: from the events of the Job controller.
    pub waiting: Option<Waiting>,
    /// How the stored Job differs from what Oncilla needs (R4); empty when it is sound.
    pub faults: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobState {
    Active,
    Complete,
    Failed,
}

/// Why something has not begun, for people.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Waiting {
    pub reason: StepReason,
    pub message: String,
}

/// A no to the create of a Job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// The API server will never take this Job: the step is Failed (JobRejected).
    Rejected { message: String },
    /// Something else has the name: the step is Failed (JobNameTaken).
    NameTaken { message: String },
    /// Quota or a policy says no for now: the step waits, and the create is tried again at `again`.
    NotNow { waiting: Waiting, again: Time },
}

/// A pod of ours, found by label and never by owner: a Job deleted with its pods orphaned leaves them without one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodEvidence {
    pub attempt: AttemptId,
    pub uid: String,
    pub name: String,
    pub phase: PodPhase,
    /// `status.reason`, such as Evicted or DeadlineExceeded; empty if there is none.
    pub reason: String,
    /// `status.message`; empty if there is none.
    pub message: String,
    /// `metadata.generation`: 1 for a pod as it started, raised by a deletion.
    pub generation: i64,
    /// `status.observedGeneration`, if the kubelet writes it.
    pub observed_generation: Option<i64>,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// It holds our finalizer.
    pub held: bool,
    pub node: Node,
    /// `status.startTime`: when the kubelet accepted it.
    pub start_time: Option<Time>,
    /// `spec.activeDeadlineSeconds`.
    pub active_deadline_seconds: Option<i64>,
    /// The reason of a DisruptionTarget condition that is True.
    pub disruption: Option<String>,
    /// The message of a PodScheduled condition that is False, with reason Unschedulable.
    pub unschedulable: Option<String>,
    /// Containers, init containers and ephemeral ones, as the spec names them.
    pub containers: Vec<ContainerEvidence>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
    /// The kubelet cannot tell, or a word this version does not know.
    Unknown,
}

/// Where a pod is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Node {
    /// No nodeName: nothing of it has run.
    None,
    Named(String),
    /// The node object is gone by a live GET, or tainted out-of-service.
    Lost(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerEvidence {
    pub name: String,
    pub kind: ContainerKind,
    pub state: ContainerState,
    pub restart_count: i64,
    /// It has a lastState: it ran before.
    pub ran_before: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContainerKind {
    Regular,
    Init,
    /// An init container with restartPolicy Always.
    Sidecar,
    Ephemeral,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContainerState {
    /// The kubelet has not said anything.
    Unreported,
    Waiting {
        reason: String,
        message: String,
    },
    Running {
        started: Option<Time>,
    },
    Terminated(Terminated),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Terminated {
    pub exit_code: i32,
    pub reason: String,
    /// The termination message: the step's output, for the main container.
    pub message: String,
    pub started: Option<Time>,
    pub finished: Option<Time>,
    /// It has a containerID: a runtime made it.
    pub has_id: bool,
}
