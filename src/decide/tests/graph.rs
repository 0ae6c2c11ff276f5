//! The rules of the graph.

use serde_json::{Value, json};

use super::world::{World, step};
use crate::api::words::{RunPhase, StepPhase, StepReason};
use crate::decide::Effect;

fn run(spec: Value, ends: &[(&str, i32, &str)]) -> World {
    let mut world = World::new(spec);
    world.settle();
    for (path, exit_code, output) in ends {
        world.run(path, *exit_code, output);
    }
    world
}

#[test]
fn independent_steps_begin_together_in_one_commit() {
    let world = World::new(
        json!({"steps": [step("a", json!({})), step("b", json!({})), step("c", json!({"needs": ["a", "b"]}))]}),
    );
    let decision = world.decide();
    assert_eq!(decision.effects.len(), 2);
    assert_eq!(decision.journal.steps.keys().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn a_step_waits_for_all_that_it_needs() {
    let spec = json!({"steps": [step("a", json!({})), step("b", json!({})), step("c", json!({"needs": ["a", "b"]}))]});
    let mut world = run(spec, &[("a", 0, "")]);
    assert!(!world.journal.steps.contains_key("c"));
    world.run("b", 0, "");
    assert_eq!(world.stands("c"), (StepPhase::Pending, StepReason::Starting));
}

#[test]
fn a_step_named_in_an_expression_is_needed() {
    let spec = json!({"steps": [
        step("a", json!({})),
        step("b", json!({"container": {"image": "i", "args": ["$[[ steps.a.output.n ]]"]}})),
    ]});
    let mut world = run(spec, &[]);
    assert!(!world.journal.steps.contains_key("b"));
    world.run("a", 0, r#"{"n": 3}"#);
    world.run("b", 0, "");
    world.ends(RunPhase::Succeeded);
}

#[test]
fn when_false_skips_and_the_run_still_succeeds() {
    let spec = json!({"params": {"notify": false}, "steps": [
        step("a", json!({})),
        step("b", json!({"needs": ["a"], "when": "$[[ params.notify ]]"})),
        step("c", json!({"needs": ["b"]})),
        step("d", json!({"needs": ["b"], "needsPolicy": "AllSucceededOrSkipped"})),
    ]});
    let mut world = run(spec, &[("a", 0, "")]);
    assert_eq!(world.stands("b"), (StepPhase::Skipped, StepReason::WhenFalse));
    assert_eq!(world.stands("c"), (StepPhase::Skipped, StepReason::NeedSkipped));
    assert_eq!(world.stands("d"), (StepPhase::Pending, StepReason::Starting));
    world.run("d", 0, "");
    world.ends(RunPhase::Succeeded);
    assert_eq!(world.executions.len(), 2);
}

#[test]
fn when_that_errs_fails_the_step_and_starts_nothing() {
    let spec = json!({"steps": [step("a", json!({})), step("b", json!({"when": "$[[ steps.a.output.x > 1 ]]"}))]});
    let world = run(spec, &[("a", 0, "{}")]);
    assert_eq!(world.stands("b"), (StepPhase::Failed, StepReason::ExpressionError));
    assert!(
        world.record("b").message.as_ref().unwrap().starts_with("when: "),
        "{:?}",
        world.record("b").message
    );
    assert_eq!(world.executions.len(), 1);
    world.ends(RunPhase::Failed);
}

#[test]
fn when_must_give_a_boolean() {
    let spec = json!({"steps": [step("a", json!({"when": "$[[ 1 + 1 ]]"}))]});
    let world = run(spec, &[]);
    assert_eq!(
        world.record("a").message.as_deref(),
        Some("when: must give true or false, and gives 2")
    );
}

#[test]
fn when_is_read_before_anything_else_of_the_step() {
    let spec = json!({"steps": [
        step("a", json!({})),
        step("b", json!({"when": "$[[ false ]]", "container": {"image": "$[[ steps.a.output.image ]]"}})),
    ]});
    let world = run(spec, &[("a", 0, "none")]);
    assert_eq!(world.stands("b"), (StepPhase::Skipped, StepReason::WhenFalse));
}

#[test]
fn an_expression_that_errs_fails_the_step_before_it_is_named() {
    let spec = json!({"steps": [
        step("a", json!({})),
        step("b", json!({"container": {"image": "i", "args": ["$[[ steps.a.output.none ]]"]}, "retry": {"maxAttempts": 5}})),
    ]});
    let world = run(spec, &[("a", 0, "{}")]);
    assert_eq!(world.stands("b"), (StepPhase::Failed, StepReason::ExpressionError));
    assert_eq!((world.record("b").attempt, world.created.len()), (0, 1));
    let message = world.record("b").message.clone().unwrap();
    assert!(message.contains("args[0]"), "{message}");
}

#[test]
fn by_default_a_failure_lets_running_steps_end_and_starts_nothing_new() {
    let spec = json!({"steps": [
        step("a", json!({})), step("b", json!({})), step("c", json!({"needs": ["b"]})), step("d", json!({"needs": ["a"]})),
    ]});
    let mut world = World::new(spec);
    world.settle();
    world.start("b");
    world.run("a", 1, "");
    assert_eq!(world.journal.phase, RunPhase::Running);
    assert_eq!(world.stands("d"), (StepPhase::Skipped, StepReason::NeedFailed));
    assert!(!world.pod("b").deleting);
    world.end("b", 0, "");
    world.settle();
    assert_eq!(world.stands("b").0, StepPhase::Succeeded);
    assert_eq!(world.stands("c"), (StepPhase::Skipped, StepReason::RunStopping));
    world.ends(RunPhase::Failed);
}

#[test]
fn on_step_failure_cancel_stops_running_steps() {
    let spec = json!({"onStepFailure": "Cancel", "steps": [step("a", json!({})), step("b", json!({}))]});
    let mut world = World::new(spec);
    world.settle();
    world.start("b");
    world.run("a", 1, "");
    assert_eq!(world.stands("b"), (StepPhase::Cancelled, StepReason::SiblingFailed));
    world.ends(RunPhase::Failed);
}

#[test]
fn on_step_failure_continue_lets_other_branches_go_on() {
    let spec = json!({"onStepFailure": "Continue", "steps": [
        step("a", json!({})), step("b", json!({})), step("c", json!({"needs": ["b"]})), step("d", json!({"needs": ["a"]})),
        step("e", json!({"needs": ["a"], "needsPolicy": "AnyFailed"})),
    ]});
    let mut world = run(spec, &[("a", 1, ""), ("b", 0, ""), ("c", 0, "")]);
    assert_eq!(world.stands("d"), (StepPhase::Skipped, StepReason::NeedFailed));
    world.run("e", 0, "");
    world.ends(RunPhase::Failed);
    assert!(world.journal.message.as_ref().unwrap().starts_with("a: ExitCode"));
}

#[test]
fn failure_policy_ignore_counts_as_succeeded() {
    let spec = json!({"steps": [step("a", json!({"failurePolicy": "Ignore"})), step("b", json!({"needs": ["a"]}))]});
    let world = run(spec, &[("a", 1, ""), ("b", 0, "")]);
    assert_eq!(world.stands("a").0, StepPhase::Failed);
    world.ends(RunPhase::Succeeded);
}

#[test]
fn any_failed_is_skipped_when_nothing_failed() {
    let spec = json!({"steps": [step("a", json!({})), step("b", json!({"needs": ["a"], "needsPolicy": "AnyFailed"}))]});
    let world = run(spec, &[("a", 0, "")]);
    assert_eq!(world.stands("b"), (StepPhase::Skipped, StepReason::NeedSkipped));
    world.ends(RunPhase::Succeeded);
}

#[test]
fn outputs_are_evaluated_at_the_end() {
    let spec = json!({
        "steps": [step("a", json!({})), step("b", json!({"needs": ["a"]}))],
        "outputs": {"n": "$[[ steps.a.output.n + 1 ]]", "text": "b said $[[ steps.b.output ]]", "list": [1, "$[[ steps.a.phase ]]"]},
    });
    let world = run(spec, &[("a", 0, r#"{"n": 41}"#), ("b", 0, "hello\n")]);
    world.ends(RunPhase::Succeeded);
    let outputs: Value = serde_json::from_str(world.journal.outputs.as_deref().unwrap()).unwrap();
    assert_eq!(
        outputs,
        json!({"n": 42, "text": "b said hello", "list": [1, "Succeeded"]})
    );
}

#[test]
fn an_output_of_the_run_that_errs_fails_it_and_says_where() {
    let spec = json!({"steps": [step("a", json!({}))], "outputs": {"n": {"deep": "$[[ steps.a.output.n ]]"}}});
    let world = run(spec, &[("a", 0, "{}")]);
    world.ends(RunPhase::Failed);
    let message = world.journal.message.clone().unwrap();
    assert!(message.starts_with("outputs.n.deep: "), "{message}");
}

#[test]
fn a_failed_run_gives_the_outputs_that_it_has() {
    let spec = json!({
        "onStepFailure": "Continue",
        "steps": [step("a", json!({})), step("b", json!({}))],
        "outputs": {"a": "$[[ steps.a.output ]]", "b": "$[[ steps.b.output ]]"},
    });
    let world = run(spec, &[("a", 0, "fine"), ("b", 1, "")]);
    world.ends(RunPhase::Failed);
    assert_eq!(world.journal.outputs.as_deref(), Some(r#"{"a":"fine"}"#));
}

#[test]
fn a_failure_that_shows_now_stops_what_would_begin_now() {
    let spec = json!({"steps": [
        step("a", json!({})),
        step("b", json!({"needs": ["a"]})),
        step("c", json!({})),
    ]});
    let mut world = World::new(spec);
    world.settle();
    world.start("a");
    world.start("c");
    world.end("a", 0, "");
    world.end("c", 1, "");
    world.settle();
    assert_eq!(world.stands("b"), (StepPhase::Skipped, StepReason::RunStopping));
}

#[test]
fn creates_go_before_what_only_tidies_up() {
    let spec = json!({"steps": [step("a", json!({})), step("b", json!({"needs": ["a"]}))]});
    let mut world = World::new(spec);
    world.settle();
    world.start("a");
    world.end("a", 0, "");
    let effects = world.look().effects;
    assert!(
        matches!(&effects[..], [Effect::CreateJob { .. }, Effect::ReleasePod { .. }]),
        "{effects:?}"
    );
}
