//! Suspend, cancel, a namespace that goes, and a spec that is not sound.

use serde_json::json;

use super::world::{World, step};
use crate::api::spec::Cancel;
use crate::api::words::{RunPhase, RunReason, StepPhase, StepReason};
use crate::decide::{Effect, refuse};
use crate::journal::Journal;

fn chain() -> World {
    World::new(json!({"steps": [step("a", json!({})), step("b", json!({"needs": ["a"]}))]}))
}

#[test]
fn suspend_lets_running_steps_end_and_starts_nothing() {
    let mut world = chain();
    world.settle();
    world.start("a");
    world.control.suspend = true;
    world.settle();
    assert_eq!(world.journal.phase, RunPhase::Running);
    world.end("a", 0, "");
    world.settle();
    assert_eq!(
        (world.journal.phase, world.journal.reason),
        (RunPhase::Suspended, Some(RunReason::Suspended))
    );
    assert!(!world.journal.steps.contains_key("b"));
    world.control.suspend = false;
    world.settle();
    world.run("b", 0, "");
    world.ends(RunPhase::Succeeded);
}

#[test]
fn a_run_that_is_suspended_from_the_start_has_not_started() {
    let mut world = chain();
    world.control.suspend = true;
    world.settle();
    assert_eq!(world.journal.phase, RunPhase::Suspended);
    assert_eq!((world.journal.start_time, world.created.len()), (None, 0));
}

#[test]
fn a_suspended_run_does_not_retry() {
    let mut world = World::new(json!({"steps": [step("a", json!({"retry": {"maxAttempts": 2}}))]}));
    world.settle();
    world.start("a");
    world.control.suspend = true;
    world.end("a", 1, "");
    world.settle();
    world.pass(3_600_000);
    assert_eq!(world.stands("a"), (StepPhase::Pending, StepReason::RunSuspended));
    world.control.suspend = false;
    world.settle();
    assert_eq!(world.record("a").attempt, 2);
}

#[test]
fn cancel_closes_what_runs_and_skips_the_rest() {
    let mut world = chain();
    world.settle();
    world.start("a");
    world.control.cancel = Some(Cancel::Graceful);
    let decision = world.decide();
    assert_eq!(decision.journal.observed_cancel, Some(Cancel::Graceful));
    assert_eq!(decision.journal.steps["a"].closing, Some(StepReason::RunCancelled));
    assert!(
        matches!(&decision.effects[..], [Effect::CloseJob { .. }]),
        "suspend or delete would not count: {decision:?}"
    );
    world.settle();
    assert_eq!(world.stands("a"), (StepPhase::Cancelled, StepReason::RunCancelled));
    assert_eq!(world.stands("b"), (StepPhase::Skipped, StepReason::RunStopping));
    world.ends(RunPhase::Cancelled);
}

#[test]
fn a_cancellation_that_is_taken_out_again_stays() {
    let mut world = chain();
    world.settle();
    world.start("a");
    world.control.cancel = Some(Cancel::Graceful);
    let decision = world.decide();
    world.commit(&decision);
    world.control.cancel = None;
    world.settle();
    world.ends(RunPhase::Cancelled);
}

#[test]
fn cancel_works_on_a_run_that_is_suspended_or_has_not_begun() {
    let mut world = chain();
    world.control.suspend = true;
    world.settle();
    world.control.cancel = Some(Cancel::Immediate);
    world.settle();
    world.ends(RunPhase::Cancelled);
    assert_eq!(world.created.len(), 0);
}

#[test]
fn a_success_that_came_before_the_stop_counts() {
    let mut world = chain();
    world.settle();
    world.start("a");
    world.control.cancel = Some(Cancel::Graceful);
    world.end("a", 0, "done");
    world.settle();
    assert_eq!(world.stands("a").0, StepPhase::Succeeded);
    world.ends(RunPhase::Cancelled);
}

#[test]
fn a_run_whose_steps_have_all_succeeded_is_not_cancelled() {
    let mut world = World::new(json!({"steps": [step("a", json!({}))]}));
    world.settle();
    world.start("a");
    world.control.cancel = Some(Cancel::Graceful);
    world.end("a", 0, "");
    world.settle();
    world.ends(RunPhase::Succeeded);
}

#[test]
fn an_attempt_whose_job_was_never_seen_is_closed_only_when_no_create_can_arrive() {
    let mut world = chain();
    let first = world.decide();
    world.commit(&first);
    world.control.cancel = Some(Cancel::Graceful);
    let decision = world.look();
    assert!(decision.effects.is_empty());
    assert_eq!(
        decision.journal.steps["a"].phase,
        StepPhase::Pending,
        "a create may be under way"
    );
    world.commit(&decision);
    world.evidence.live.clear();
    let wake = decision.wake.expect("it looks again");
    assert_eq!(wake.since(world.now).min(10_000), 10_000);
    world.pass(95_000);
    assert_eq!(world.stands("a"), (StepPhase::Cancelled, StepReason::RunCancelled));
    world.ends(RunPhase::Cancelled);
}

#[test]
fn a_suspended_job_is_deleted_since_a_deadline_does_not_end_it() {
    let mut world = chain();
    world.settle();
    for job in world.evidence.jobs.values_mut() {
        job.suspended = true;
    }
    world.control.cancel = Some(Cancel::Graceful);
    let decision = world.decide();
    assert!(
        matches!(&decision.effects[..], [Effect::DeleteJob { .. }]),
        "{:?}",
        decision.effects
    );
}

#[test]
fn a_namespace_that_is_being_deleted_ends_the_run_instead_of_retrying() {
    let mut world = World::new(json!({"steps": [step("a", json!({"retry": {"maxAttempts": 5}}))]}));
    world.settle();
    world.start("a");
    world.evidence.namespace_terminating = true;
    world.settle();
    assert_eq!(
        (world.journal.phase, world.journal.reason),
        (RunPhase::Cancelled, Some(RunReason::NamespaceTerminating))
    );
    assert_eq!(world.created.len(), 1);
}

#[test]
fn a_spec_with_faults_ends_the_run_before_it_began_and_may_be_repaired() {
    let refused = refuse(&Journal::default(), "spec.steps[0].needs[0]: no step named x", 1);
    assert_eq!(
        (refused.journal.phase, refused.journal.reason),
        (RunPhase::Failed, Some(RunReason::InvalidSpec))
    );
    assert_eq!(
        (refused.journal.start_time, refused.journal.completion_time),
        (None, None)
    );
    assert!(refused.effects.is_empty());
    let mut world = chain();
    world.journal = refused.journal;
    world.settle();
    assert_eq!(world.journal.phase, RunPhase::Running);
    world.run("a", 0, "");
    world.run("b", 0, "");
    world.ends(RunPhase::Succeeded);
}

#[test]
fn a_job_that_was_suspended_while_it_was_being_closed_is_deleted() {
    let mut world = chain();
    world.settle();
    for job in world.evidence.jobs.values_mut() {
        (job.suspended, job.closing) = (true, true);
    }
    world.control.cancel = Some(Cancel::Graceful);
    let decision = world.decide();
    assert!(
        matches!(&decision.effects[..], [Effect::DeleteJob { .. }]),
        "{decision:#?}"
    );
}

#[test]
fn a_pod_without_a_job_is_deleted_when_it_is_to_stop() {
    let mut world = chain();
    world.settle();
    world.start("a");
    world.evidence.jobs.clear();
    world.control.cancel = Some(Cancel::Graceful);
    assert!(
        world.decide().effects.is_empty(),
        "the cache alone does not say that it has no Job"
    );
    let decision = world.look();
    assert!(
        matches!(&decision.effects[..], [Effect::DeletePod { .. }]),
        "{decision:#?}"
    );
    world.settle();
    world.pass(120_000);
    world.ends(RunPhase::Cancelled);
}
