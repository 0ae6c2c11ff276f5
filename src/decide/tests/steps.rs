//! One step: from its name in the journal to its recorded end.

use serde_json::json;

use super::world::{START, World, step};
use crate::api::time::Time;
use crate::api::words::{RunPhase, StepPhase, StepReason};
use crate::decide::{Effect, Query};
use crate::evidence::{JobState, Node, PodPhase, Refusal, Waiting};

fn one() -> World {
    World::new(json!({"steps": [step("a", json!({}))]}))
}

#[test]
fn an_attempt_is_named_before_its_job_is_created() {
    let world = one();
    let decision = world.decide();
    let record = &decision.journal.steps["a"];
    assert_eq!(
        (record.phase, record.attempt, record.fence),
        (StepPhase::Pending, 1, START)
    );
    assert!(record.job_name.as_ref().is_some_and(|name| name.starts_with("run-a-")));
    assert_eq!(decision.effects, [Effect::CreateJob { path: "a".into() }]);
    assert_eq!(decision.journal.start_time, Some(Time::from_millis(START)));
}

#[test]
fn one_commit_records_a_step_and_names_the_next() {
    let mut world = World::new(json!({"steps": [step("a", json!({})), step("b", json!({"needs": ["a"]}))]}));
    world.settle();
    world.start("a");
    world.end("a", 0, "out");
    let decision = world.decide();
    assert_eq!(decision.journal.steps["a"].phase, StepPhase::Succeeded);
    assert_eq!(decision.journal.steps["a"].output.as_deref(), Some("out"));
    assert_eq!(decision.journal.steps["b"].phase, StepPhase::Pending);
    assert!(matches!(&decision.effects[..], [Effect::CreateJob { path }, Effect::ReleasePod { .. }] if path == "b"));
}

#[test]
fn a_run_of_one_step_succeeds() {
    let mut world = one();
    world.settle();
    world.run("a", 0, r#"{"x":1}"#);
    world.ends(RunPhase::Succeeded);
    let record = world.record("a");
    assert_eq!(
        (record.exit_code, record.output.as_deref()),
        (Some(0), Some(r#"{"x":1}"#))
    );
    assert_eq!((record.job_name.as_ref(), record.attempt_time), (None, None));
}

#[test]
fn a_pod_is_released_only_with_its_outcome_recorded() {
    let mut world = one();
    world.settle();
    world.start("a");
    world.settle();
    assert!(world.pod("a").held, "a running pod is held");
    world.end("a", 0, "");
    let decision = world.decide();
    assert!(
        decision
            .effects
            .iter()
            .all(|effect| !matches!(effect, Effect::ReleasePod { .. }))
            || decision.journal.steps["a"].phase == StepPhase::Succeeded
    );
}

#[test]
fn a_job_whose_create_was_lost_is_looked_for_live_and_created_under_the_same_name() {
    let mut world = one();
    let first = world.decide();
    world.commit(&first);
    // The process dies here. Another one reads the journal.
    let decision = world.decide();
    assert!(decision.effects.is_empty(), "absence in a cache proves nothing");
    assert!(matches!(decision.queries.first(), Some(Query::Attempt { .. })));
    let decision = world.look();
    assert_eq!(decision.effects, [Effect::CreateJob { path: "a".into() }]);
    assert_eq!(decision.journal.steps["a"].job_name, first.journal.steps["a"].job_name);
    assert_eq!(decision.journal.steps["a"].attempt, 1);
}

#[test]
fn a_job_that_is_gone_with_its_pods_is_a_lost_attempt() {
    let mut world = one();
    world.settle();
    world.start("a");
    world.pass(4_000);
    assert_eq!(world.stands("a"), (StepPhase::Running, StepReason::Started));
    world.evidence.jobs.clear();
    world.evidence.pods.clear();
    world.settle();
    let record = world.record("a");
    assert_eq!((record.attempt, record.disruptions), (1, 1));
    assert_eq!(record.earlier_attempts[0].reason, StepReason::PodLost);
    world.pass(600_000);
    assert_eq!(world.record("a").attempt, 2);
}

#[test]
fn the_job_of_an_attempt_that_vanished_is_judged_by_its_pods() {
    let mut world = one();
    world.settle();
    world.start("a");
    world.end("a", 0, "kept");
    world.evidence.jobs.clear();
    world.settle();
    world.ends(RunPhase::Succeeded);
    assert_eq!(world.record("a").output.as_deref(), Some("kept"));
}

#[test]
fn a_success_of_an_older_attempt_is_the_result_if_none_was_recorded() {
    let mut world = World::new(json!({"steps": [step("a", json!({"retry": {"maxAttempts": 3}}))]}));
    world.settle();
    world.start("a");
    world.pod("a").node = Node::Lost("n1".into());
    world.settle();
    world.pass(600_000);
    world.start("a");
    assert_eq!(world.record("a").attempt, 2);
    // The node comes back, and its pod had succeeded.
    let hash = crate::plan::names::path_hash("a");
    let now = world.now;
    let mut late = super::world::pod(
        "late".into(),
        (hash, 1),
        crate::evidence::ContainerState::Unreported,
        now,
    );
    late.phase = PodPhase::Succeeded;
    late.containers[0].state = crate::evidence::ContainerState::Terminated(crate::evidence::Terminated {
        reason: "Completed".into(),
        message: "first".into(),
        started: Some(now),
        finished: Some(now),
        has_id: true,
        ..Default::default()
    });
    world.evidence.pods.push(late);
    world.settle();
    world.ends(RunPhase::Succeeded);
    assert_eq!(
        (world.record("a").output.as_deref(), world.record("a").attempt),
        (Some("first"), 2)
    );
    let live = world.evidence.pods.iter().find(|pod| pod.attempt.1 == 2);
    assert!(live.is_none_or(|pod| pod.deleting), "the other pod is stopped");
}

#[test]
fn what_was_recorded_stays_when_another_pod_succeeds_later() {
    let mut world = one();
    world.settle();
    world.run("a", 0, "first");
    let before = world.journal.clone();
    let hash = crate::plan::names::path_hash("a");
    let mut again = world.evidence.pods.first().cloned().unwrap_or_else(|| {
        super::world::pod(
            "x".into(),
            (hash, 1),
            crate::evidence::ContainerState::Unreported,
            world.now,
        )
    });
    again.uid = "another".into();
    again.held = true;
    world.evidence.pods.push(again);
    world.settle();
    assert_eq!(world.journal, before);
    assert!(world.evidence.pods.iter().all(|pod| !pod.held));
}

#[test]
fn running_is_written_only_when_the_step_lives_long_enough() {
    let mut world = one();
    world.settle();
    world.start("a");
    world.pass(2_900);
    assert_eq!(world.stands("a"), (StepPhase::Pending, StepReason::Starting));
    assert!(world.wake.is_some());
    world.pass(100);
    assert_eq!(world.stands("a"), (StepPhase::Running, StepReason::Started));
    assert!(world.record("a").pod_uid.is_some() && world.record("a").job_uid.is_some());
}

#[test]
fn a_job_that_the_api_server_will_never_take_fails_the_step() {
    let mut world = one();
    let first = world.decide();
    world.commit(&first);
    let name = first.journal.steps["a"].job_name.clone().unwrap();
    world.evidence.refusals.insert(
        name,
        Refusal::Rejected {
            message: "spec.template is wrong".into(),
        },
    );
    world.settle();
    assert_eq!(world.stands("a"), (StepPhase::Failed, StepReason::JobRejected));
    assert_eq!(
        world.journal.message.as_deref(),
        Some("a: JobRejected: spec.template is wrong")
    );
}

#[test]
fn a_create_that_quota_refuses_waits_and_says_so() {
    let mut world = one();
    let first = world.decide();
    world.commit(&first);
    let name = first.journal.steps["a"].job_name.clone().unwrap();
    let waiting = Waiting {
        reason: StepReason::QuotaExceeded,
        message: "exceeded quota: jobs".into(),
    };
    let again = world.now.plus(15_000);
    world
        .evidence
        .refusals
        .insert(name.clone(), Refusal::NotNow { waiting, again });
    let decision = world.decide();
    world.commit(&decision);
    assert!(decision.effects.is_empty());
    assert_eq!(decision.wake, Some(again));
    assert_eq!(world.stands("a"), (StepPhase::Pending, StepReason::QuotaExceeded));
    world.now = again;
    let decision = world.look();
    assert_eq!(decision.effects, [Effect::CreateJob { path: "a".into() }]);
    assert_eq!(decision.journal.steps["a"].job_name, Some(name));
}

#[test]
fn a_create_without_an_answer_is_tried_again_after_a_wait_and_never_blindly() {
    let mut world = one();
    let first = world.decide();
    world.commit(&first);
    let name = first.journal.steps["a"].job_name.clone().unwrap();
    let waiting = Waiting {
        reason: StepReason::Starting,
        message: "500 InternalError: failed calling webhook".into(),
    };
    let again = world.now.plus(400);
    let unanswered = Refusal::Unanswered { waiting, again };
    world.evidence.refusals.insert(name, unanswered);
    // The commit before the create wakes the run at once: it must not lead to the next create.
    let decision = world.look();
    assert_eq!((decision.effects.len(), decision.wake), (0, Some(again)));
    assert_eq!(decision.journal, world.journal, "nothing to write");
    world.now = again;
    let blind = world.decide();
    assert!(blind.effects.is_empty(), "it may be there: {:?}", blind.effects);
    assert_eq!(blind.queries.len(), 1);
    assert_eq!(world.look().effects, [Effect::CreateJob { path: "a".into() }]);
}

#[test]
fn a_wait_of_this_process_goes_by_its_clock_and_not_by_the_journals() {
    let mut world = one();
    let first = world.decide();
    world.commit(&first);
    let name = first.journal.steps["a"].job_name.clone().unwrap();
    // A controller whose clock was ahead wrote the journal.
    world.now = Time::from_millis(START - 3_600_000);
    let waiting = Waiting {
        reason: StepReason::Starting,
        message: "no answer".into(),
    };
    let again = world.now.plus(400);
    let unanswered = Refusal::Unanswered { waiting, again };
    world.evidence.refusals.insert(name, unanswered);
    let decision = world.look();
    assert_eq!((decision.effects.len(), decision.wake), (0, Some(again)));
}

#[test]
fn a_create_that_was_refused_ends_the_step_only_if_no_job_is_there() {
    let mut world = one();
    let first = world.decide();
    world.commit(&first);
    let name = first.journal.steps["a"].job_name.clone().unwrap();
    for refusal in [
        Refusal::Rejected { message: "no".into() },
        Refusal::NameTaken { message: "no".into() },
        Refusal::NotBuilt { message: "no".into() },
    ] {
        world.evidence.refusals.insert(name.clone(), refusal);
        let blind = world.decide();
        assert_eq!(blind.journal.steps["a"].phase, StepPhase::Pending);
        assert_eq!(
            blind.queries.len(),
            1,
            "another controller's create may have been taken"
        );
    }
    world.settle();
    assert_eq!(world.stands("a"), (StepPhase::Failed, StepReason::ExpressionError));
}

#[test]
fn a_job_without_a_pod_is_asked_for_its_reason() {
    let mut world = one();
    world.settle();
    let decision = world.decide();
    assert!(decision.queries.is_empty() && decision.wake.is_some());
    world.now = world.now.plus(3_000);
    let asks = world.decide().queries;
    assert!(
        asks.iter()
            .any(|query| matches!(query, Query::Explain { is_pod: false, .. })),
        "{asks:?}"
    );
    for job in world.evidence.jobs.values_mut() {
        job.waiting = Some(Waiting {
            reason: StepReason::AdmissionDenied,
            message: "violates PodSecurity".into(),
        });
    }
    world.settle();
    assert_eq!(world.stands("a"), (StepPhase::Pending, StepReason::AdmissionDenied));
    assert_eq!(
        world.journal.message.as_deref(),
        Some("a: AdmissionDenied: violates PodSecurity")
    );
}

#[test]
fn a_job_that_somebody_changed_is_stopped_and_said() {
    let mut world = one();
    world.settle();
    for job in world.evidence.jobs.values_mut() {
        job.faults = vec!["spec.backoffLimit is 6, not 0: an admission webhook may have changed it".into()];
    }
    world.settle();
    assert_eq!(world.stands("a"), (StepPhase::Failed, StepReason::JobRejected));
    assert!(
        world
            .record("a")
            .message
            .as_ref()
            .unwrap()
            .contains("backoffLimit is 6")
    );
    assert!(world.evidence.jobs.values().all(|job| job.closing));
}

#[test]
fn a_start_deadline_closes_the_attempt_and_says_what_it_waited_for() {
    let mut world = World::new(json!({"steps": [step("a", json!({"startTimeout": "10s"}))]}));
    world.settle();
    assert!(world.wake.is_some_and(|wake| wake <= Time::from_millis(START + 10_000)));
    for job in world.evidence.jobs.values_mut() {
        job.waiting = Some(Waiting {
            reason: StepReason::QuotaExceeded,
            message: "exceeded quota: pods".into(),
        });
    }
    world.pass(4_000);
    assert_eq!(world.stands("a"), (StepPhase::Pending, StepReason::QuotaExceeded));
    world.pass(6_000);
    assert_eq!(
        world.stands("a"),
        (StepPhase::Failed, StepReason::StartDeadlineExceeded)
    );
    let message = world.record("a").message.clone().unwrap();
    assert_eq!(message, "not started within its startTimeout: exceeded quota: pods");
    assert!(world.evidence.jobs.values().all(|job| job.state == JobState::Failed));
}

#[test]
fn a_step_that_started_in_time_has_no_start_deadline_any_more() {
    let mut world = World::new(json!({"steps": [step("a", json!({"startTimeout": "10s"}))]}));
    world.settle();
    world.start("a");
    world.pass(60_000);
    assert_eq!(world.stands("a"), (StepPhase::Running, StepReason::Started));
}

#[test]
fn a_bad_output_fails_the_step_for_good_since_its_effect_is_there() {
    let spec = json!({"steps": [step("a", json!({"output": {"format": "JSON"}, "retry": {"maxAttempts": 5}}))]});
    let mut world = World::new(spec);
    world.settle();
    world.run("a", 0, "no json");
    assert_eq!(world.stands("a"), (StepPhase::Failed, StepReason::OutputInvalid));
    assert_eq!(world.record("a").attempt, 1);
    assert_eq!(world.record("a").exit_code, Some(0));
    world.ends(RunPhase::Failed);
}

#[test]
fn a_clock_that_goes_back_does_not_take_the_journal_back() {
    let mut world = World::new(json!({"steps": [step("a", json!({})), step("b", json!({"needs": ["a"]}))]}));
    world.settle();
    world.start("a");
    world.end("a", 0, "");
    let end = world.now;
    world.now = Time::from_millis(START - 3_600_000);
    world.settle();
    assert!(world.record("a").completion_time.unwrap() >= Time::from_millis(START));
    assert!(world.record("b").attempt_time.unwrap() >= world.record("a").completion_time.unwrap());
    assert!(world.record("b").fence >= START, "a fence never goes back: {end}");
}

#[test]
fn outputs_that_no_status_can_hold_together_fail_the_step_and_not_the_write() {
    let steps: Vec<_> = (0..140).map(|n| step(&format!("s{n}"), json!({}))).collect();
    let mut world = World::new(json!({"onStepFailure": "Continue", "steps": steps}));
    world.settle();
    for n in 0..140 {
        world.run(&format!("s{n}"), 0, &"x".repeat(4_000));
    }
    world.ends(RunPhase::Failed);
    let outputs: usize = world
        .journal
        .steps
        .values()
        .filter_map(|record| record.output.as_ref())
        .map(String::len)
        .sum();
    assert!((500_000..=512 * 1_024).contains(&outputs), "{outputs}");
    assert_eq!(world.stands("s139"), (StepPhase::Failed, StepReason::OutputTooLarge));
}

#[test]
fn a_run_of_very_many_steps_keeps_less_of_each() {
    let retry = json!({"retry": {"maxAttempts": 9, "backoff": {"initial": "0s"}}});
    let mut steps: Vec<_> = (1..300)
        .map(|n| step(&format!("s{n}"), json!({"needs": ["s0"]})))
        .collect();
    steps.push(step("s0", retry));
    let mut world = World::new(json!({"steps": steps}));
    world.settle();
    for _ in 0..4 {
        world.run("s0", 1, &"why ".repeat(200));
        world.pass(60_000);
    }
    let earlier = &world.record("s0").earlier_attempts;
    assert_eq!((earlier.len(), earlier[1].attempt), (2, 4));
    assert!(
        earlier
            .iter()
            .all(|attempt| attempt.message.as_ref().is_some_and(|text| text.len() <= 200))
    );
}
