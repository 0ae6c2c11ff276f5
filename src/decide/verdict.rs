//! What became of one pod of a step: the one place that says whether a step succeeded.
//!
//! An exit code alone proves nothing: a container that was told to stop, ran out of time or was run twice can exit with 0 as well.
//! And nothing is final before the pod's phase is.

use super::output::{BadOutput, StepOutput, UNREADABLE, read_output};
use crate::api::names::MAIN_CONTAINER;
use crate::api::spec::OutputFormat;
use crate::api::time::Time;
use crate::api::words::StepReason;
use crate::evidence::{
    ContainerEvidence, ContainerKind, ContainerState, Node, PodEvidence, PodPhase, Terminated, Waiting, cut,
};

/// `metadata.generation` of a pod as it starts. A deletion raises it by one.
const STARTED_GENERATION: i64 = 1;
/// Most bytes of a failed container's own words.
const MAX_MESSAGE: usize = 1024;
/// The kubelet's word for a container of which it has lost sight. The exit code beside it is made up.
const STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
/// The DisruptionTarget reason of a pod that the pod garbage collector has made Failed, without asking its node.
const BY_POD_GC: &str = "DeletionByPodGC";

/// What a verdict has to know of the step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepTemplate {
    /// Init containers of the step: name, and whether it is a sidecar. Others in the pod were injected.
    pub init_containers: Vec<(String, bool)>,
    pub output_format: OutputFormat,
    /// Bytes.
    pub output_max_bytes: usize,
}

/// What became of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// The step's container has not begun. Why, if that is known.
    Waiting {
        waiting: Option<Waiting>,
        stopping: bool,
    },
    /// The step's container has begun, and the pod has not ended.
    Running {
        started: Option<Time>,
        stopping: bool,
    },
    /// The pod's phase is final, but nobody knows that its containers have stopped. They may still run: wait, and look whether the
    /// node is still there.
    NotStopped {
        message: String,
    },
    /// The step did its work and left this.
    Success {
        output: StepOutput,
        times: Times,
    },
    /// The step did its work, and its output cannot be recorded. Never run it again by itself: the effect is there.
    BadOutput {
        /// OutputTooLarge, OutputInvalid or OutputLost.
        reason: StepReason,
        message: String,
        times: Times,
    },
    Failure(Failure),
}

/// When the step's container started and ended, by its node's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Times {
    pub started: Option<Time>,
    pub finished: Option<Time>,
}

/// An attempt that ended without success.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Failure {
    pub reason: StepReason,
    /// It ended for a cause outside the step. As `StepReason::is_disruption` says, but for Evicted, which can be either: room that
    /// the node lacked, or disk space that the step used up.
    pub disruption: bool,
    /// Of the container that failed; None if no container is known to have ended by itself.
    pub exit_code: Option<i32>,
    pub message: String,
    pub times: Times,
}

/// What became of `pod`, a pod of a step like `step`.
pub fn verdict(pod: &PodEvidence, step: &StepTemplate) -> Verdict {
    if !pod.is_terminal() {
        return unfinished(pod);
    }
    if let Err(message) = ended(pod) {
        return match &pod.node {
            Node::Lost(node) => Verdict::Failure(node_lost(pod, node)),
            _ => Verdict::NotStopped { message },
        };
    }
    match success(pod, step) {
        Some(main) => {
            let times = times(Some(main));
            let containers = pod.containers.len();
            match read_output(main, containers, step.output_format, step.output_max_bytes) {
                Ok(output) => Verdict::Success { output, times },
                Err(BadOutput { reason, message }) => Verdict::BadOutput { reason, message, times },
            }
        }
        None => Verdict::Failure(failure(pod, step)),
    }
}

/// Whether nothing of `pod` runs or will ever run, as far as the next attempt must know (R9): it has ended with all that was in
/// it, or it was deleted before it had a node and will not get one, or its node is lost.
pub fn stopped(pod: &PodEvidence) -> bool {
    match &pod.node {
        Node::Lost(_) => true,
        _ if pod.is_terminal() => ended(pod).is_ok(),
        Node::None => pod.deleting,
        Node::Named(_) => false,
    }
}

/// Whether `pod` was told to stop before it had ended by itself, so that exit 0 is no success (R10).
///
/// No clock is compared: the kubelet's last delete moves the deletionTimestamp. It writes the generation that it has seen into
/// the status before it stops anything, so a status of the generation before the deletion is that of a pod that had ended.
pub fn told_to_stop(pod: &PodEvidence) -> bool {
    let ended_unaware = pod.observed_generation == Some(STARTED_GENERATION) && pod.generation == STARTED_GENERATION + 1;
    let deleted = pod.deleting && !pod.ended_before_deletion && !ended_unaware;
    // The condition is set before a deletion that may then fail, so elsewhere it can be stale.
    let disrupted = pod.phase == PodPhase::Failed && pod.disruption.is_some();
    deleted || disrupted
}

/// A pod whose phase is not final.
fn unfinished(pod: &PodEvidence) -> Verdict {
    match &pod.node {
        Node::Lost(node) => return Verdict::Failure(node_lost(pod, node)),
        Node::None if pod.deleting => {
            let mut failure = told(pod);
            failure.message = format!("{} before it had a node: nothing ran", failure.message);
            return Verdict::Failure(failure);
        }
        _ => {}
    }
    let stopping = pod.deleting;
    let started = match main(pod).map(|main| &main.state) {
        Some(ContainerState::Running { started }) => *started,
        Some(ContainerState::Terminated(main)) => main.started,
        _ => {
            return Verdict::Waiting {
                waiting: waiting(pod),
                stopping,
            };
        }
    };
    Verdict::Running { started, stopping }
}

/// Whether a pod of a final phase has ended in truth, else what speaks against it.
///
/// Failed may be the word of the pod garbage collector, which does not ask the node: the process goes on. Then a container is
/// running by the kubelet's last word; or it was waiting by that, and may have begun since.
fn ended(pod: &PodEvidence) -> Result<(), String> {
    let node = node_name(pod);
    let mut containers = pod.containers.iter();
    if let Some(running) = containers.find(|container| matches!(container.state, ContainerState::Running { .. })) {
        return Err(format!(
            "the pod is {:?}, but its container {} was running by the last word of {node}",
            pod.phase, running.name
        ));
    }
    if pod.node == Node::None {
        return Ok(());
    }
    // What only the kubelet writes, or writes only when it knows of the deletion.
    let by_kubelet = pod.phase == PodPhase::Succeeded
        || !pod.reason.is_empty()
        || pod.containers.iter().all(|it| terminated(it).is_some())
        || failed_init(pod).is_some();
    let by_others = pod.deleting || pod.disruption.as_deref() == Some(BY_POD_GC);
    let kubelet_knows = pod.deleting && pod.observed_generation >= Some(pod.generation);
    match by_kubelet || !by_others || kubelet_knows {
        true => Ok(()),
        false => Err(format!(
            "the pod was made Failed without the word of {node}: a container may have begun since"
        )),
    }
}

/// The step's container, if the pod proves success (R6).
fn success<'a>(pod: &'a PodEvidence, step: &StepTemplate) -> Option<&'a Terminated> {
    let phase = match pod.phase {
        PodPhase::Succeeded => true,
        // A container that was injected failed, after ours had ended well.
        PodPhase::Failed if pod.reason.is_empty() => true,
        // The kubelet was away while the pod ended, and found the deadline passed.
        PodPhase::Failed if pod.reason == "DeadlineExceeded" => ended_in_time(pod),
        _ => false,
    };
    let main = main(pod)?;
    let once = main.restart_count == 0 && !main.ran_before;
    let main = terminated(main).filter(|main| main.exit_code == 0 && is_evidence(main))?;
    let init = step
        .init_containers
        .iter()
        .filter(|(_, sidecar)| !sidecar)
        .all(|(name, _)| {
            pod.containers
                .iter()
                .find(|it| it.kind == ContainerKind::Init && it.name == *name)
                .and_then(terminated)
                .is_some_and(|it| it.exit_code == 0)
        });
    (phase && once && init && !told_to_stop(pod)).then_some(main)
}

/// Why a pod that has ended is no success.
fn failure(pod: &PodEvidence, step: &StepTemplate) -> Failure {
    if told_to_stop(pod) {
        return told(pod);
    }
    let reason = pod.reason.as_str();
    let unreported = |it: &ContainerEvidence| it.state == ContainerState::Unreported;
    let refused = !matches!(reason, "" | "DeadlineExceeded");
    if refused && pod.containers.iter().all(unreported) {
        // Nothing ran. Another node may take it, so the step is not to blame.
        let message = format!("{} refused the pod", node_name(pod));
        return new(pod, StepReason::Evicted, true, said(&message, pod));
    }
    match reason {
        "DeadlineExceeded" if !ended_in_time(pod) => {
            let message = match pod.active_deadline_seconds {
                Some(seconds) => format!("not done after {seconds} s"),
                None => "not done in time".to_owned(),
            };
            return new(pod, StepReason::DeadlineExceeded, false, message);
        }
        // Without DisruptionTarget: the pod used more disk than it may.
        "Evicted" => return new(pod, StepReason::Evicted, false, said("evicted", pod)),
        _ => {}
    }
    let main = main(pod);
    let result = main.and_then(terminated).filter(|main| is_evidence(main));
    if let Some(failed) = result.filter(|main| main.exit_code != 0) {
        return exited(pod, failed, "");
    }
    if let Some((name, failed)) = failed_init(pod) {
        return exited(pod, failed, &format!("init container {name}: "));
    }
    let message = match (main, result) {
        (None, _) => format!("the pod has no container {MAIN_CONTAINER}"),
        (Some(main), Some(_)) if main.restart_count > 0 || main.ran_before => {
            "exit code 0, but the container was run more than once in its pod".to_owned()
        }
        (Some(_), Some(_)) if !reason.is_empty() => said("exit code 0", pod),
        (Some(_), Some(_)) => format!(
            "exit code 0, but not all init containers of the step ({}) are known to have ended well",
            names(step)
        ),
        (Some(_), None) => said("nobody knows whether the container ran, and how it ended", pod),
    };
    new(pod, StepReason::PodLost, true, message)
}

/// A pod that was told to stop: by whom.
fn told(pod: &PodEvidence) -> Failure {
    let node = node_name(pod);
    let (reason, message) = match (pod.disruption.as_deref(), &pod.node) {
        (_, Node::Lost(node)) => return node_lost(pod, node),
        (Some("EvictionByEvictionAPI"), _) => (
            StepReason::Drained,
            "evicted by an API call, as a drain does".to_owned(),
        ),
        (Some("PreemptionByScheduler"), _) => (
            StepReason::Preempted,
            format!("made room on {node} for a pod of higher priority"),
        ),
        (Some("DeletionByTaintManager"), _) => (
            StepReason::NodeLost,
            format!("{node} has a taint that the pod does not tolerate: it is unreachable, not ready or kept free"),
        ),
        (Some(BY_POD_GC), Node::Named(_)) => (StepReason::NodeLost, format!("{node} was deleted")),
        (Some("TerminationByKubelet"), _) => match pod.reason.as_str() {
            "Evicted" => (StepReason::Evicted, said("evicted", pod)),
            "Preempting" => (StepReason::Preempted, said("made room for a critical pod", pod)),
            _ => (StepReason::Drained, said(&format!("stopped by {node}"), pod)),
        },
        (Some(other), _) if !pod.deleting => (StepReason::PodDeleted, said(&format!("stopped ({other})"), pod)),
        _ => (StepReason::PodDeleted, "the pod was deleted".to_owned()),
    };
    let mut failure = new(pod, reason, true, message);
    if failure.exit_code == Some(0) {
        failure.message += "; exit code 0 after it was told to stop is no success";
    }
    failure
}

fn node_lost(pod: &PodEvidence, node: &str) -> Failure {
    let message = format!("node {node} is gone or out of service; the container may still run there");
    new(pod, StepReason::NodeLost, true, message)
}

/// A container that ended by itself and not with 0.
fn exited(pod: &PodEvidence, container: &Terminated, whose: &str) -> Failure {
    let code = container.exit_code;
    let reason = match container.reason.as_str() {
        "OOMKilled" => StepReason::OOMKilled,
        _ => StepReason::ExitCode,
    };
    let words = container.message.trim();
    let message = match (words, reason) {
        (words, _) if !words.is_empty() && !words.starts_with(UNREADABLE) => words.to_owned(),
        (_, StepReason::OOMKilled) => format!("out of memory (exit code {code})"),
        _ => format!("exit code {code}"),
    };
    Failure {
        exit_code: Some(code),
        ..new(pod, reason, false, format!("{whose}{message}"))
    }
}

/// A failure, with the code and the times of the step's container as far as they are known.
fn new(pod: &PodEvidence, reason: StepReason, disruption: bool, message: String) -> Failure {
    let main = main(pod).and_then(terminated);
    let main = main.filter(|main| is_evidence(main));
    Failure {
        reason,
        disruption,
        exit_code: main.map(|main| main.exit_code),
        message: cut(&message, MAX_MESSAGE),
        times: times(main),
    }
}

/// Why a pod has not begun: by the scheduler, by its containers, by its events.
fn waiting(pod: &PodEvidence) -> Option<Waiting> {
    if let Some(message) = &pod.unschedulable {
        return Some(Waiting::new(StepReason::Unschedulable, message));
    }
    let of_container = pod.containers.iter().find_map(|container| {
        let ContainerState::Waiting { reason, message } = &container.state else {
            return None;
        };
        let word = match reason.as_str() {
            // On its way.
            "" | "PodInitializing" | "ContainerCreating" => return None,
            "CreateContainerConfigError" => StepReason::ConfigMissing,
            "ErrImagePull"
            | "ImagePullBackOff"
            | "InvalidImageName"
            | "ErrImageNeverPull"
            | "ImageInspectError"
            | "RegistryUnavailable"
            | "SignatureValidationFailed" => StepReason::ImagePullFailing,
            _ => StepReason::Starting,
        };
        let message = match message.as_str() {
            "" => reason,
            message => message,
        };
        Some(Waiting::new(word, &format!("{}: {message}", container.name)))
    });
    of_container.or_else(|| pod.waiting.clone())
}

/// The step's container.
fn main(pod: &PodEvidence) -> Option<&ContainerEvidence> {
    pod.containers
        .iter()
        .find(|it| it.kind == ContainerKind::Regular && it.name == MAIN_CONTAINER)
}

fn terminated(container: &ContainerEvidence) -> Option<&Terminated> {
    match &container.state {
        ContainerState::Terminated(terminated) => Some(terminated),
        _ => None,
    }
}

/// Whether a terminated state speaks of a container that a runtime has made.
fn is_evidence(container: &Terminated) -> bool {
    container.has_id && container.reason != STATUS_UNKNOWN
}

/// The first init container that ended the pod's way to the step's own.
fn failed_init(pod: &PodEvidence) -> Option<(&str, &Terminated)> {
    pod.containers
        .iter()
        .filter(|it| it.kind == ContainerKind::Init)
        .filter_map(|it| Some((it.name.as_str(), terminated(it)?)))
        .find(|(_, it)| it.exit_code != 0 && is_evidence(it))
}

/// Whether all that was in the pod had ended before its deadline. Both times are the node's, so they can be compared.
fn ended_in_time(pod: &PodEvidence) -> bool {
    let (Some(start), Some(seconds)) = (pod.start_time, pod.active_deadline_seconds) else {
        return false;
    };
    let deadline = start.plus(seconds.saturating_mul(1000));
    pod.containers.iter().all(|container| {
        terminated(container)
            .and_then(|it| it.finished)
            .is_some_and(|finished| finished < deadline)
    })
}

fn times(main: Option<&Terminated>) -> Times {
    main.map_or_else(Times::default, |main| Times {
        started: main.started,
        finished: main.finished,
    })
}

/// `what`, and what the pod itself says about it.
fn said(what: &str, pod: &PodEvidence) -> String {
    let parts = [what, pod.reason.as_str(), pod.message.as_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

fn node_name(pod: &PodEvidence) -> String {
    match &pod.node {
        Node::Named(node) | Node::Lost(node) => format!("node {node}"),
        Node::None => "its node".to_owned(),
    }
}

fn names(step: &StepTemplate) -> String {
    let names: Vec<&str> = step.init_containers.iter().map(|(name, _)| name.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests;
