//! A plan that was made runs to its end: whatever its expressions say and its steps give, deciding neither panics nor hangs.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::api::status::{OutputType, Record};
use crate::api::time::Time;
use crate::api::words::{StepPhase, StepReason};
use crate::decide::{Control, Effect, Input, Query, decide};
use crate::evidence::Evidence;
use crate::journal::Journal;

/// Expressions that mean something in most places, sound and unsound when they are evaluated.
const EXPRESSIONS: [&str; 30] = [
    "true",
    "params.flag",
    "params.n",
    "params.n / (params.n - params.n)",
    "params.list[params.n]",
    "params.list.map(x, x + x)",
    "params.deep.a.b",
    "params.?nope.orValue(null)",
    "has(params.nope)",
    "'nope' in params",
    "toJson(params)",
    "fromJson(params.text)",
    "params.text + params.n",
    "params.text.split('')",
    "'5s'",
    "params.n * 9223372036854775807",
    "attempt.number",
    "run.name",
    "run.labels['team']",
    "run.startTime",
    "steps.s0.output",
    "steps.s0.output.a",
    "steps.s0.phase == 'Succeeded'",
    "steps.s0.?output.?a.orValue(1)",
    "steps.s1.output.size() > 1",
    "steps.s1.exitCode",
    "steps.s2.reason",
    "string(steps.s2.attempts) + 's'",
    "['xxxxxxxxxx'].map(a, a + a).map(a, a + a)",
    "steps.s0.output.map(x, steps.s1.output.map(y, x))",
];

const OUTPUTS: [&str; 12] = [
    "",
    "null",
    "{}",
    "{\"a\":1}",
    "{\"a\":{\"a\":\"$[[ x ]]\"}}",
    "[1,2,3]",
    "1e999",
    "12345678901234567890",
    "\"x\"",
    "no JSON",
    "\u{0}é",
    "[[[[[[[[[[[[[[]]]]]]]]]]]]]]",
];

/// An expression that can be read in step `index`; in outputs all steps can.
fn expression(index: usize, in_attempt: bool) -> impl Strategy<Value = &'static str> {
    let known = move |expression: &&str| {
        let later = (index..4).any(|step| expression.contains(&format!("steps.s{step}")));
        !later && (in_attempt || !expression.contains("attempt"))
    };
    prop::sample::select(EXPRESSIONS.into_iter().filter(known).collect::<Vec<_>>())
}

fn string(index: usize, in_attempt: bool) -> impl Strategy<Value = String> {
    (expression(index, in_attempt), 0..4u8).prop_map(|(expression, form)| match form {
        0 => format!("a $[[ {expression} ]] b"),
        1 => format!("$$[[ $[[ {expression} ]]$[[ {expression} ]]"),
        _ => format!("$[[ {expression} ]]"),
    })
}

fn exactly_one(index: usize) -> impl Strategy<Value = String> {
    expression(index, false).prop_map(|expression| format!("$[[ {expression} ]]"))
}

/// A step that is sound, unless what it says can be known to be too dear.
fn any_step(index: usize) -> impl Strategy<Value = Value> {
    let name = format!("s{index}");
    let needs = prop::collection::btree_set(0..index.max(1), 0..3);
    let policy = prop::sample::select(vec![
        "AllSucceeded",
        "AllSucceededOrSkipped",
        "AllFinished",
        "AnyFailed",
    ]);
    let when = prop::option::weighted(0.3, exactly_one(index));
    let limits = prop::collection::vec(prop::option::weighted(0.15, exactly_one(index)), 5);
    let texts = prop::collection::vec(string(index, true), 0..3);
    (needs, policy, when, limits, texts, any::<bool>()).prop_map(move |(needs, policy, when, limits, texts, ignore)| {
        let needs: Vec<String> = needs.iter().map(|need| format!("s{need}")).filter(|need| *need != name).collect();
        let mut step = json!({
            "name": name, "needs": needs, "needsPolicy": policy, "failurePolicy": if ignore { "Ignore" } else { "Fail" },
            "container": {"image": "i", "args": texts},
            "podTemplate": {"metadata": {"annotations": {"a": texts.first().map_or("x", String::as_str)}}},
        });
        step["when"] = json!(when);
        let fields = [
            "/timeout", "/startTimeout", "/retry/maxAttempts", "/retry/backoff/initial", "/retry/backoff/max",
        ];
        step["retry"] = json!({"backoff": {}});
        for (field, limit) in fields.iter().zip(limits) {
            let (holder, key) = field.rsplit_once('/').unwrap_or_default();
            if let Some(holder) = step.pointer_mut(holder) {
                holder[key] = json!(limit);
            }
        }
        step
    })
}

fn any_sound_spec() -> impl Strategy<Value = Value> {
    let steps: Vec<_> = (0..4).map(any_step).collect();
    let outputs = prop::collection::btree_map("[a-c]{1,2}", string(4, false), 0..3);
    let on_failure = prop::sample::select(vec!["Stop", "Cancel", "Continue"]);
    (steps, outputs, on_failure).prop_map(|(steps, outputs, on_failure)| {
        json!({
            "params": {"flag": true, "n": 3, "list": [1, "x", null], "deep": {"a": {}}, "text": "{\"a\": [1.0, 1e300]}"},
            "onStepFailure": on_failure, "steps": steps, "outputs": outputs,
        })
    })
}

/// What the next attempt does: whether it succeeds, and what it writes.
type Ends = Vec<(bool, usize, bool)>;

fn ends() -> impl Strategy<Value = Ends> {
    prop::collection::vec((prop::bool::weighted(0.8), 0..OUTPUTS.len(), any::<bool>()), 40)
}

/// The record of an attempt that has ended in one way or the other.
fn ended(record: &Record, (succeeds, output, is_json): (bool, usize, bool), now: Time) -> Record {
    let mut record = record.clone();
    (
        record.job_name,
        record.attempt_time,
        record.create_before,
        record.message,
    ) = (None, None, None, None);
    record.completion_time = Some(now);
    if succeeds {
        (record.phase, record.reason) = (StepPhase::Succeeded, Some(StepReason::Completed));
        record.output = Some(OUTPUTS[output].to_owned());
        record.output_type = Some(if is_json { OutputType::Json } else { OutputType::Text });
        record.exit_code = Some(0);
    } else {
        (record.phase, record.reason) = (StepPhase::Failed, Some(StepReason::ExitCode));
        record.exit_code = Some(1);
    }
    record
}

fn run_to_the_end(plan: &Plan, ends: &Ends) -> Journal {
    let mut journal = Journal::default();
    let mut evidence = Evidence::default();
    let mut ends = ends.iter().cycle();
    for round in 0..60 {
        let now = Time::from_millis(1_795_946_400_000 + round * 1_000_000);
        let look = |evidence: &Evidence| {
            decide(&Input {
                plan,
                journal: &journal,
                evidence,
                control: Control::default(),
                generation: 1,
                now,
            })
        };
        let questions = look(&evidence).queries;
        evidence
            .live
            .extend(questions.into_iter().filter_map(|query| match query {
                Query::Attempt { attempt, .. } => Some(attempt),
                _ => None,
            }));
        let decision = look(&evidence);
        journal = decision.journal;
        for effect in &decision.effects {
            if let Effect::CreateJob { path } = effect {
                let record = journal.steps[path].clone();
                let step = plan.steps.iter().find(|step| step.path == *path).unwrap();
                let scope = scope(
                    plan,
                    &journal.steps,
                    &step.reads,
                    journal.start_time,
                    Some(record.attempt),
                );
                // What could not be built would have failed the step before it was recorded.
                crate::build::job(plan, step, &record, &scope, jiff::Timestamp::UNIX_EPOCH).unwrap();
                let end = ends.next().copied().unwrap_or_default();
                journal.steps.insert(path.clone(), ended(&record, end, now));
            }
        }
        if journal.is_ended() {
            return journal;
        }
    }
    panic!("the run does not end: {journal:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_that_was_made_runs_to_its_end(spec in any_sound_spec(), ends in ends()) {
        if let Ok(plan) = build(&run(), &spec) {
            let journal = run_to_the_end(&plan, &ends);
            for step in &plan.steps {
                let record = journal.steps.get(&step.path);
                prop_assert!(record.is_some_and(|record| record.phase.is_final()), "{}: {record:?}", step.path);
                let message = record.and_then(|record| record.message.as_deref()).unwrap_or_default();
                prop_assert!(message.chars().count() <= 2_000 && !message.contains('\n'), "{message}");
            }
        }
    }
}

/// So that the test above is about something.
#[test]
fn many_of_the_specs_are_sound() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let sound = (0..200)
        .filter(|_| build(&run(), &any_sound_spec().new_tree(&mut runner).unwrap().current()).is_ok())
        .count();
    assert!(sound > 100, "{sound}");
}
