//! Events on the run: what changed in the journal, for `kubectl describe`. What to say is pure; failing to say it fails
//! nothing.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType};
use kube::{Resource, ResourceExt};

use super::Context;
use crate::api::status::Record;
use crate::api::words::{RunPhase, RunReason, StepPhase, StepReason};
use crate::journal::Journal;
use crate::observe::views::RunView;
use crate::report;

/// Most bytes of an event's note that the API server takes.
const NOTE: usize = 1_024;

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Which part of the status it is about. Events that agree in this and in their reason are told as one that repeats, with the
    /// words of the first.
    pub about: String,
    pub warning: bool,
    pub reason: &'static str,
    pub note: String,
}

/// What is worth telling of the step from one journal to the next.
pub fn told(before: &Journal, after: &Journal) -> Vec<Told> {
    let mut told = Vec::new();
    if before.start_time.is_none() && after.start_time.is_some() {
        told.push(Told {
            about: "status".into(),
            warning: false,
            reason: "Started",
            note: "the first step is recorded; the spec is frozen".into(),
        });
    }
    for (path, record) in &after.steps {
        told.extend(told_of_step(path, before.steps.get(path), record));
    }
    let was = (before.phase, before.reason);
    let is = (after.phase, after.reason);
    if was != is && (after.phase.is_final() || after.phase == RunPhase::Suspended) {
        told.push(Told {
            about: "status".into(),
            warning: after.phase == RunPhase::Failed,
            reason: after.reason.map_or("Completed", RunReason::as_str),
            note: after
                .message
                .clone()
                .unwrap_or_else(|| format!("{} ended", report::steps(after.steps.len()))),
        });
    }
    told
}

fn told_of_step(path: &str, before: Option<&Record>, after: &Record) -> Option<Told> {
    let attempts = |record: Option<&Record>| record.map_or(0, |r| r.earlier_attempts.last().map_or(0, |a| a.attempt));
    if let Some(last) = after
        .earlier_attempts
        .last()
        .filter(|last| last.attempt > attempts(before))
    {
        let message = last.message.as_deref().unwrap_or_default();
        let note = format!(
            "{path}: attempt {} ended: {message}; it is tried again with the same key",
            last.attempt
        );
        return Some(Told {
            about: format!("status.steps{{{path}}}.earlierAttempts{{{}}}", last.attempt),
            warning: true,
            reason: last.reason.as_str(),
            note,
        });
    }
    let reason = after.reason?;
    if before.is_some_and(|before| before.phase == after.phase && before.reason == after.reason) {
        return None;
    }
    let waits = matches!(
        reason,
        StepReason::Unschedulable
            | StepReason::ImagePullFailing
            | StepReason::ConfigMissing
            | StepReason::QuotaExceeded
            | StepReason::AdmissionDenied
    );
    let message = after.message.as_deref().unwrap_or_default();
    match after.phase {
        StepPhase::Failed => Some(Told {
            about: format!("status.steps{{{path}}}"),
            warning: true,
            reason: reason.as_str(),
            note: format!("{path}: failed: {message}"),
        }),
        StepPhase::Pending if waits => Some(Told {
            about: format!("status.steps{{{path}}}"),
            warning: true,
            reason: reason.as_str(),
            note: format!("{path}: waits: {message}"),
        }),
        _ => None,
    }
}

/// What is worth telling of a spec that is not sound: its faults, as many as an event holds, once for each edit.
pub fn told_of_spec(before: &Journal, after: &Journal, faults: &str) -> Option<Told> {
    let of = |journal: &Journal| (journal.reason, journal.observed_generation);
    let refused = after.reason == Some(RunReason::InvalidSpec) && of(before) != of(after);
    refused.then(|| Told {
        about: format!("metadata.generation{{{}}}", after.observed_generation),
        warning: true,
        reason: RunReason::InvalidSpec.as_str(),
        note: faults.to_owned(),
    })
}

/// The API server does not take the status, which is seen nowhere else.
pub fn refused(message: &str) -> Told {
    Told {
        about: "status".into(),
        warning: true,
        reason: "StatusRefused",
        note: format!("the run cannot go on: the API server refuses its status: {message}"),
    }
}

/// Tells it.
pub async fn publish(context: &Context, run: &RunView, all: &[Told]) {
    let reference = run.object_ref(&());
    for told in all {
        let mut note = told.note.clone();
        if note.len() > NOTE {
            let cut = (0..=NOTE).rev().find(|&at| note.is_char_boundary(at)).unwrap_or(0);
            note.truncate(cut);
        }
        let event = Event {
            type_: if told.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: told.reason.to_owned(),
            note: Some(note),
            action: "Reconcile".into(),
            secondary: Some(ObjectReference {
                field_path: Some(told.about.clone()),
                ..reference.clone()
            }),
        };
        if let Err(error) = context.recorder.publish(&event, &reference).await {
            tracing::warn!(run = %run.name_any(), %error, "an event was not written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::time::Time;

    #[test]
    fn a_chain_that_goes_well_tells_its_start_and_its_end() {
        let idle = Journal::default();
        let mut going = idle.clone();
        going.start_time = Some(Time::from_millis(1));
        going.phase = RunPhase::Running;
        going.steps.insert(
            "a".into(),
            Record::without_job(StepPhase::Pending, StepReason::Starting, None),
        );
        let mut done = going.clone();
        done.phase = RunPhase::Succeeded;
        done.reason = Some(RunReason::Completed);
        done.steps.insert(
            "a".into(),
            Record::without_job(StepPhase::Succeeded, StepReason::Completed, None),
        );
        let reasons = |told: Vec<Told>| told.into_iter().map(|t| (t.reason, t.warning)).collect::<Vec<_>>();
        assert_eq!(reasons(told(&idle, &going)), [("Started", false)]);
        assert_eq!(reasons(told(&going, &done)), [("Completed", false)]);
        assert_eq!(told(&done, &done), []);
    }

    #[test]
    fn events_of_two_steps_or_of_two_attempts_are_not_taken_for_one() {
        let failed = |message: &str| {
            let text = Some(message.to_owned());
            Record::without_job(StepPhase::Failed, StepReason::ExitCode, text)
        };
        let before = Journal::default();
        let mut after = before.clone();
        after.steps.insert("a".into(), failed("a"));
        after.steps.insert("b".into(), failed("b"));
        let told = told(&before, &after);
        assert_eq!((told.len(), told[0].reason), (2, told[1].reason));
        assert_ne!(told[0].about, told[1].about);
    }

    #[test]
    fn the_faults_of_a_spec_are_told_once_for_each_edit() {
        let before = Journal::default();
        let mut after = before.clone();
        assert_eq!(told_of_spec(&before, &after, "f"), None);
        (after.reason, after.observed_generation) = (Some(RunReason::InvalidSpec), 1);
        let first = told_of_spec(&before, &after, "spec.a: x; spec.b: y").unwrap();
        assert_eq!(
            (first.reason, first.note.as_str()),
            ("InvalidSpec", "spec.a: x; spec.b: y")
        );
        assert_eq!(told_of_spec(&after, &after, "f"), None);
        let mut edited = after.clone();
        edited.observed_generation = 2;
        let second = told_of_spec(&after, &edited, "f").unwrap();
        assert_ne!(first.about, second.about);
    }

    #[test]
    fn what_a_step_waits_for_is_told_once() {
        let mut before = Journal::default();
        before.steps.insert(
            "a".into(),
            Record::without_job(StepPhase::Pending, StepReason::Starting, None),
        );
        let mut after = before.clone();
        let waits = Record::without_job(
            StepPhase::Pending,
            StepReason::ImagePullFailing,
            Some("not found".into()),
        );
        after.steps.insert("a".into(), waits);
        assert_eq!(told(&before, &after)[0].note, "a: waits: not found");
        assert_eq!(told(&after, &after), []);
    }
}
