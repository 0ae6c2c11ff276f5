//! Retries: the same key, a greater fence, and never two at once.

use serde_json::json;

use super::world::{World, step};
use crate::api::words::{RunPhase, StepPhase, StepReason};
use crate::decide::{Effect, Query};
use crate::evidence::{ContainerState, JobState, Node, PodPhase};

fn with(retry: serde_json::Value) -> World {
    World::new(json!({"steps": [step("a", json!({"retry": retry}))]}))
}

#[test]
fn one_attempt_is_all_there_is_unless_more_are_asked_for() {
    let mut world = World::new(json!({"steps": [step("a", json!({}))]}));
    world.settle();
    world.run("a", 3, "");
    assert_eq!(world.stands("a"), (StepPhase::Failed, StepReason::ExitCode));
    assert_eq!(world.record("a").exit_code, Some(3));
    world.ends(RunPhase::Failed);
}

#[test]
fn a_failed_attempt_is_followed_by_another_after_the_backoff() {
    let mut world = with(json!({"maxAttempts": 2, "backoff": {"initial": "10s", "jitterPercent": 0}}));
    world.settle();
    let fence = world.record("a").fence;
    world.run("a", 1, "connection reset");
    assert_eq!(world.stands("a"), (StepPhase::Pending, StepReason::Backoff));
    let due = world.wake.expect("it wakes when the next attempt is due");
    assert_eq!(due.since(world.now), 10_000);
    world.pass(9_999);
    assert_eq!(world.record("a").attempt, 1);
    world.pass(1);
    let record = world.record("a");
    assert_eq!((record.attempt, record.reason), (2, Some(StepReason::Starting)));
    assert!(record.fence > fence);
    assert_eq!(record.earlier_attempts.len(), 1);
    assert_eq!(record.earlier_attempts[0].message.as_deref(), Some("connection reset"));
    world.run("a", 0, "ok");
    world.ends(RunPhase::Succeeded);
    assert_eq!(world.record("a").attempt, 2);
    assert_eq!(world.executions, [("a".into(), 1), ("a".into(), 2)]);
}

#[test]
fn max_attempts_counts_the_first() {
    let mut world = with(json!({"maxAttempts": 3, "backoff": {"initial": "1s"}}));
    world.settle();
    for _ in 0..3 {
        world.run("a", 1, "");
        world.pass(3_600_000);
    }
    assert_eq!(world.stands("a"), (StepPhase::Failed, StepReason::ExitCode));
    assert_eq!((world.record("a").attempt, world.executions.len()), (3, 3));
}

#[test]
fn a_deleted_pod_has_a_number_but_does_not_count() {
    let mut world = World::new(json!({"steps": [step("a", json!({}))]}));
    world.settle();
    world.start("a");
    world.end("a", 137, "");
    let pod = world.pod("a");
    pod.deleting = true;
    pod.generation = 2;
    pod.observed_generation = Some(2);
    world.settle();
    let record = world.record("a");
    assert_eq!((record.phase, record.disruptions), (StepPhase::Pending, 1));
    assert_eq!(record.earlier_attempts[0].reason, StepReason::PodDeleted);
    world.pass(3_600_000);
    world.run("a", 0, "");
    world.ends(RunPhase::Succeeded);
    assert_eq!(world.record("a").attempt, 2);
}

#[test]
fn disruptions_have_a_limit_of_their_own() {
    let mut world = World::new(json!({"steps": [step("a", json!({}))]}));
    world.settle();
    let mut disruptions = 0;
    while world.record("a").phase == StepPhase::Pending {
        world.start("a");
        world.end("a", 137, "");
        let pod = world.pod("a");
        (pod.deleting, pod.generation, pod.observed_generation) = (true, 2, Some(2));
        world.settle();
        world.pass(3_600_000);
        disruptions += 1;
        assert!(disruptions < 100, "an endless loop");
    }
    assert_eq!(world.stands("a"), (StepPhase::Failed, StepReason::TooManyDisruptions));
    assert_eq!(disruptions, 11);
    assert_eq!(world.record("a").earlier_attempts.len(), 10);
}

#[test]
fn a_pod_that_is_terminal_but_runs_on_holds_the_next_attempt_back() {
    let mut world = with(json!({"maxAttempts": 3, "backoff": {"initial": "1s"}}));
    world.settle();
    world.start("a");
    // PodGC wrote Failed; the process runs on.
    let pod = world.pod("a");
    pod.phase = PodPhase::Failed;
    pod.disruption = Some("DeletionByPodGC".into());
    assert!(matches!(pod.containers[0].state, ContainerState::Running { .. }));
    world.pass(3_600_000);
    assert_eq!(world.record("a").attempt, 1);
    assert!(
        world
            .decide()
            .queries
            .iter()
            .any(|query| matches!(query, Query::Node { .. }))
    );
    world.pod("a").node = Node::Lost("n1".into());
    world.settle();
    world.pass(3_600_000);
    assert_eq!(world.record("a").attempt, 2);
    assert_eq!(world.record("a").earlier_attempts[0].reason, StepReason::NodeLost);
}

#[test]
fn a_killed_pod_that_says_exit_0_is_no_success() {
    let mut world = with(json!({"maxAttempts": 2}));
    world.settle();
    world.start("a");
    world.end("a", 0, "half");
    let pod = world.pod("a");
    (pod.deleting, pod.generation, pod.observed_generation) = (true, 2, Some(2));
    world.settle();
    assert_eq!(world.record("a").phase, StepPhase::Pending);
    assert_eq!(world.record("a").output, None);
}

#[test]
fn the_failed_attempts_pod_is_let_go_when_its_end_is_recorded() {
    let mut world = with(json!({"maxAttempts": 2}));
    world.settle();
    world.run("a", 1, "");
    assert_eq!(world.record("a").earlier_attempts.len(), 1);
    assert!(!world.pod("a").held);
}

#[test]
fn max_attempts_may_be_an_expression() {
    let mut world = World::new(json!({
        "params": {"tries": 2},
        "steps": [step("a", json!({"retry": {"maxAttempts": "$[[ params.tries ]]", "backoff": {"initial": "1s"}}}))],
    }));
    world.settle();
    world.run("a", 1, "");
    world.pass(60_000);
    world.run("a", 1, "");
    assert_eq!(world.record("a").attempt, 2);
    world.ends(RunPhase::Failed);
}

/// A world whose first attempt has failed, with a Job that has not counted that.
fn failed_with_an_armed_job() -> World {
    let mut world = with(json!({"maxAttempts": 3, "backoff": {"initial": "0s"}}));
    world.settle();
    world.start("a");
    world.end("a", 1, "");
    for job in world.evidence.jobs.values_mut() {
        job.state = JobState::Active;
    }
    world
}

#[test]
fn the_next_attempt_waits_until_the_job_of_the_last_starts_no_pod_any_more() {
    let mut world = failed_with_an_armed_job();
    world.settle();
    let record = world.record("a");
    assert_eq!(
        (record.attempt, record.earlier_attempts.len()),
        (1, 1),
        "its end is recorded"
    );
    assert_eq!(world.created.len(), 1);
    // The Job controller counts the pod a moment later.
    for job in world.evidence.jobs.values_mut() {
        job.state = JobState::Failed;
    }
    world.settle();
    assert_eq!(world.record("a").attempt, 2);
}

#[test]
fn a_job_that_does_not_count_its_pod_is_ended_before_the_next_attempt() {
    let mut world = failed_with_an_armed_job();
    world.settle();
    assert!(world.wake.is_some_and(|wake| wake.since(world.now) <= 3_000));
    world.now = world.now.plus(3_000);
    let decision = world.look();
    assert!(
        matches!(&decision.effects[..], [Effect::CloseJob { .. }]),
        "{decision:#?}"
    );
    world.settle();
    assert_eq!(world.record("a").attempt, 2);
}

#[test]
fn a_job_that_was_suspended_cannot_be_resumed_beside_the_next_attempt() {
    let mut world = failed_with_an_armed_job();
    for job in world.evidence.jobs.values_mut() {
        job.suspended = true;
    }
    let decision = world.look();
    let deletes = |effect: &Effect| matches!(effect, Effect::DeleteJob { .. });
    assert!(decision.effects.iter().any(deletes), "{decision:#?}");
    assert!(!decision.effects.iter().any(Effect::starts));
    world.settle();
    assert_eq!((world.record("a").attempt, world.evidence.jobs.len()), (2, 1));
}

#[test]
fn pods_that_no_cache_shows_are_looked_for_before_the_next_attempt() {
    let mut world = with(json!({"maxAttempts": 3, "backoff": {"initial": "0s"}}));
    world.settle();
    world.start("a");
    world.end("a", 1, "");
    let decision = world.decide();
    assert_eq!(decision.journal.steps["a"].attempt, 1);
    let [Query::Attempt { attempt, .. }] = &decision.queries.iter().collect::<Vec<_>>()[..] else {
        panic!("{:?}", decision.queries);
    };
    assert_eq!(attempt.1, 1);
    assert_eq!(world.look().journal.steps["a"].attempt, 2);
}

#[test]
fn a_bad_output_is_no_reason_to_try_again_though_the_attempt_was_being_stopped() {
    let retry = json!({"maxAttempts": 3});
    let spec =
        json!({"steps": [step("a", json!({"retry": retry, "startTimeout": "10s", "output": {"format": "JSON"}}))]});
    let mut world = World::new(spec);
    world.settle();
    world.now = world.now.plus(10_000);
    let decision = world.decide();
    world.commit(&decision);
    assert_eq!(world.record("a").closing, Some(StepReason::StartDeadlineExceeded));
    world.start("a");
    world.end("a", 0, "no json");
    world.settle();
    assert_eq!(world.stands("a"), (StepPhase::Failed, StepReason::OutputInvalid));
}

#[test]
fn a_node_whose_clock_is_ahead_does_not_hold_the_run_up() {
    let mut world = with(json!({"maxAttempts": 2, "backoff": {"initial": "1s", "jitterPercent": 0}}));
    world.settle();
    let real = world.now;
    world.now = real.plus(3_600_000);
    world.start("a");
    world.end("a", 1, "");
    world.now = real.plus(5_000);
    world.settle();
    assert_eq!(world.record("a").earlier_attempts[0].completion_time, world.now);
    world.pass(1_000);
    assert_eq!(world.record("a").attempt, 2);
}
