//! The status that is written: the journal, and all that is derived from it for people and for Kubernetes' own tools. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::api::status::{Condition, Counts, IdempotencyStatus, WorkflowRunStatus};
use crate::api::time::Time;
use crate::api::words::{ConditionType, RunPhase, RunReason, StepPhase};
use crate::journal::Journal;
use crate::plan::Plan;

/// The status to be written after `before`, with a greater revision. `plan` is none if the spec is not sound; `accepted` is
/// then the text of all its faults.
pub fn status(
    before: &WorkflowRunStatus,
    journal: &Journal,
    spec: Result<&Plan, &str>,
    now: Time,
) -> WorkflowRunStatus {
    let plan = spec.ok();
    let started = journal.start_time.is_some();
    let counts = plan.map(|plan| counts(plan, journal));
    let now = journal.latest().map_or(now, |latest| latest.max(now));
    WorkflowRunStatus {
        observed_generation: journal.observed_generation,
        phase: journal.phase,
        reason: journal.reason,
        message: journal.message.clone(),
        progress: counts.as_ref().map(progress),
        start_time: journal.start_time,
        completion_time: journal.completion_time,
        observed_cancel: journal.observed_cancel,
        revision: before.revision + 1,
        counts,
        params: before.params.clone().or_else(|| {
            plan.filter(|plan| started && !plan.params.is_empty())
                .map(|p| p.params.clone())
        }),
        idempotency: before.idempotency.clone().or_else(|| {
            let key = plan.filter(|_| started)?.idempotency_key.clone()?;
            Some(IdempotencyStatus { key })
        }),
        outputs: journal
            .outputs
            .as_deref()
            .and_then(|text| serde_json::from_str::<BTreeMap<String, Value>>(text).ok()),
        conditions: conditions(&before.conditions, journal, spec, now),
        steps: (!journal.steps.is_empty()).then(|| journal.steps.clone()),
    }
}

fn counts(plan: &Plan, journal: &Journal) -> Counts {
    let count = |phase| journal.count(phase) as i64;
    let total = plan.steps.len() as i64;
    let begun = journal.steps.len() as i64;
    Counts {
        total,
        pending: count(StepPhase::Pending) + (total - begun).max(0),
        running: count(StepPhase::Running),
        succeeded: count(StepPhase::Succeeded),
        failed: count(StepPhase::Failed),
        skipped: count(StepPhase::Skipped),
        cancelled: count(StepPhase::Cancelled),
        in_doubt: count(StepPhase::InDoubt),
    }
}

/// A number of steps, in words.
pub fn steps(n: usize) -> String {
    if n == 1 { "1 step".into() } else { format!("{n} steps") }
}

fn progress(counts: &Counts) -> String {
    let ended = counts.succeeded + counts.failed + counts.skipped + counts.cancelled;
    format!("{ended}/{}", counts.total)
}

fn conditions(before: &[Condition], journal: &Journal, spec: Result<&Plan, &str>, now: Time) -> Vec<Condition> {
    let reason = journal.reason.map_or("StepsRunning", RunReason::as_str);
    let message = journal.message.clone().unwrap_or_default();
    let ended = journal.phase.is_final();
    let by_hand = journal.phase == RunPhase::Suspended;
    let bad = matches!(journal.phase, RunPhase::Failed);
    let accepted = match spec {
        Ok(plan) => ("True", "Valid", steps(plan.steps.len())),
        Err(faults) => ("False", "InvalidSpec", faults.to_owned()),
    };
    let succeeded = match journal.phase {
        RunPhase::Succeeded => "True",
        phase if phase.is_final() => "False",
        _ => "Unknown",
    };
    let truth = |yes: bool| if yes { "True" } else { "False" };
    let rows = [
        (ConditionType::Accepted, accepted.0, accepted.1, accepted.2),
        (ConditionType::Succeeded, succeeded, reason, message.clone()),
        (ConditionType::Finished, truth(ended), reason, String::new()),
        (
            ConditionType::Reconciling,
            truth(!ended && !by_hand),
            reason,
            String::new(),
        ),
        (
            ConditionType::Stalled,
            truth(bad || by_hand),
            reason,
            if bad || by_hand { message } else { String::new() },
        ),
    ];
    rows.into_iter()
        .map(|(kind, status, reason, message)| {
            let same = before.iter().find(|old| old.r#type == kind && old.status == status);
            Condition {
                r#type: kind,
                status: status.to_owned(),
                reason: reason.to_owned(),
                message,
                observed_generation: Some(journal.observed_generation),
                last_transition_time: same.map_or(now, |old| old.last_transition_time),
            }
        })
        .collect()
}

/// The JSON merge patch (RFC 7396) that makes `after` out of `before`. What both leave out is not in it, so that fields
/// that a newer version wrote are kept.
pub fn merge_patch(before: &Value, after: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return after.clone();
    };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match old.get(key) {
            Some(same) if same == value => {}
            Some(other) => {
                patch.insert(key.clone(), merge_patch(other, value));
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_patch_names_only_what_changed() {
        let before = json!({"a": 1, "gone": true, "steps": {"x": {"phase": "Running", "jobName": "j"}, "y": {"phase": "Pending"}}});
        let after = json!({"a": 1, "steps": {"x": {"phase": "Succeeded"}, "y": {"phase": "Pending"}, "z": {"phase": "Pending"}}});
        assert_eq!(
            merge_patch(&before, &after),
            json!({"gone": null, "steps": {"x": {"phase": "Succeeded", "jobName": null}, "z": {"phase": "Pending"}}})
        );
    }

    #[test]
    fn lists_are_replaced_whole() {
        assert_eq!(
            merge_patch(&json!({"l": [1, 2]}), &json!({"l": [2]})),
            json!({"l": [2]})
        );
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let mut journal = Journal {
            phase: RunPhase::Running,
            reason: Some(RunReason::StepsRunning),
            ..Journal::default()
        };
        let first = conditions(&[], &journal, Err("f"), Time::from_millis(1_000));
        journal.message = Some("other words".into());
        let second = conditions(&first, &journal, Err("f"), Time::from_millis(2_000));
        assert_eq!(second[1].message, "other words");
        assert_eq!(second[1].last_transition_time, Time::from_millis(1_000));
        journal.phase = RunPhase::Succeeded;
        let third = conditions(&second, &journal, Err("f"), Time::from_millis(3_000));
        assert_eq!(
            (third[1].status.as_str(), third[1].last_transition_time),
            ("True", Time::from_millis(3_000))
        );
        assert_eq!(
            (third[4].status.as_str(), third[4].last_transition_time),
            ("False", Time::from_millis(1_000))
        );
    }
}
