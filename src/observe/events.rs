//! Events as an explanation: why a Job has no pod, or why a pod's volumes cannot be mounted. Only events know.
//!
//! They are for people. Nothing is decided from them: they are lost and repeated at will.

use super::views::EventView;
use crate::api::words::StepReason;
use crate::evidence::{Waiting, cause};

/// Why the Job or pod that `events` are about has not begun, by the latest of them that says anything about it. None if the
/// latest says that it got on.
pub fn explain_events(events: &[EventView]) -> Option<Waiting> {
    let latest = events
        .iter()
        .filter(|event| BEGINNING.contains(&event.reason.as_str()))
        .max_by_key(|event| event.last_seen())?;
    let reason = match latest.reason.as_str() {
        "FailedCreate" => failed_create(&latest.message),
        "FailedMount" | "FailedAttachVolume" => failed_mount(&latest.message),
        "FailedCreatePodSandBox" => StepReason::Starting,
        _ => return None,
    };
    Some(Waiting::new(reason, cause(&latest.message)))
}

/// Reasons of events about the way of a Job's pod to its first container: the Job controller's, then the kubelet's.
const BEGINNING: &[&str] = &[
    "FailedCreate",
    "SuccessfulCreate",
    "FailedMount",
    "FailedAttachVolume",
    "SuccessfulAttachVolume",
    "FailedCreatePodSandBox",
    "Pulling",
    "Pulled",
    "Created",
    "Started",
];

/// What a no to the create of a pod means.
fn failed_create(message: &str) -> StepReason {
    let has = |part: &str| message.contains(part);
    if has("exceeded quota") || has("insufficient quota") {
        StepReason::QuotaExceeded
    } else if has("error looking up service account") || has("no PriorityClass with name") {
        StepReason::ConfigMissing
    } else if has("violates PodSecurity")
        || has("denied the request")
        || has("denied request")
        || has("failed calling webhook")
        || has("is forbidden")
        || has("is invalid")
    {
        StepReason::AdmissionDenied
    } else {
        StepReason::Starting
    }
}

/// What a volume that cannot be mounted lacks.
fn failed_mount(message: &str) -> StepReason {
    let message = message.to_ascii_lowercase();
    let names_config = ["secret", "configmap", "serviceaccount"]
        .iter()
        .any(|kind| message.contains(kind));
    let missing = message.contains("not found") || message.contains("non-existent");
    match names_config && missing {
        true => StepReason::ConfigMissing,
        false => StepReason::Starting,
    }
}
