//! What expressions read when a run goes on, and what a step then is.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::*;
use crate::api::status::{OutputType, Record};
use crate::api::time::Time;
use crate::api::words::{StepPhase, StepReason};
use crate::expr::{ExprError, Scope};

fn succeeded(output: &str, output_type: OutputType) -> Record {
    Record {
        attempt: 2,
        exit_code: Some(0),
        output: Some(output.into()),
        output_type: Some(output_type),
        ..Record::without_job(StepPhase::Succeeded, StepReason::Completed, None)
    }
}

fn one(extra: Value) -> Plan {
    plan(
        json!({"params": {"cents": 1999, "price": 1.5, "yes": true, "list": [1], "port": 8080, "t": "90s", "n": 3, "zero": 0},
        "steps": [step("charge", json!({})), step("a", extra)]}),
    )
}

fn scope_of(plan: &Plan) -> Scope {
    let journal = BTreeMap::from([(
        "charge".to_owned(),
        succeeded(r#"{"paid": true, "id": 7, "big": 1.0}"#, OutputType::Json),
    )]);
    scope(
        plan,
        &journal,
        &plan.steps[1].reads,
        Some(Time::from_millis(1_795_946_400_000)),
        Some(2),
    )
}

#[test]
fn a_step_is_read_by_what_its_record_says() {
    let plan = plan(steps(vec![step("charge", json!({}))]));
    let value = |record: Option<Record>, expression: &str| -> Result<Value, ExprError> {
        let journal: BTreeMap<String, Record> =
            record.into_iter().map(|record| ("charge".to_owned(), record)).collect();
        let names = BTreeSet::from(["charge".to_owned()]);
        Expr::parse(expression)
            .unwrap()
            .eval(&scope(&plan, &journal, &names, None, None))
    };
    let json = || Some(succeeded(r#"{"paid": true, "ratio": 2.0}"#, OutputType::Json));
    let text = || Some(succeeded("0042", OutputType::Text));
    let failed = || {
        Some(Record {
            exit_code: Some(3),
            output: Some("not to be read".into()),
            ..Record::without_job(StepPhase::Failed, StepReason::ExitCode, None)
        })
    };
    for (record, expression, expected) in [
        (json(), "steps.charge.output.paid", json!(true)),
        (json(), "steps.charge.output.ratio + 1", json!(3)),
        (
            json(),
            "steps.charge.phase + steps.charge.reason",
            json!("SucceededCompleted"),
        ),
        (json(), "[steps.charge.exitCode, steps.charge.attempts]", json!([0, 2])),
        (text(), "steps.charge.output", json!("0042")),
        (failed(), "steps.charge.exitCode", json!(3)),
        (failed(), "steps.charge.reason", json!("ExitCode")),
        (failed(), "has(steps.charge.output)", json!(false)),
        (failed(), "steps.charge.?output.orValue('none')", json!("none")),
        (None, "steps.charge.phase", json!("Pending")),
        (None, "steps.charge.attempts", json!(0)),
    ] {
        assert_eq!(value(record, expression), Ok(expected), "{expression}");
    }
    // What a step that did not succeed wrote cannot be read.
    assert!(value(failed(), "steps.charge.output").is_err());
}

#[test]
fn the_run_and_the_attempt_are_read_when_they_are_known() {
    let plan = one(json!({"when": "$[[ run.startTime == '2026-11-29T10:00:00Z' && run.labels.team == 'shop' ]]"}));
    assert_eq!(plan.steps[1].when(&scope_of(&plan)), Ok(true));
    let number = Expr::parse("attempt.number").unwrap();
    assert_eq!(number.eval(&scope_of(&plan)), Ok(json!(2)));
    let none = scope(&plan, &BTreeMap::new(), &BTreeSet::new(), None, None);
    assert!(number.eval(&none).is_err());
}

#[test]
fn outputs_read_how_the_run_ended() {
    let plan = plan(json!({
        "outputs": {"end": "$[[ run.outcome + ' ' + run.failedSteps.join(',') + ' ' + steps.a.phase ]]"},
        "steps": [step("a", json!({})), step("b", json!({})), step("c", json!({}))],
    }));
    let failed = || Record::without_job(StepPhase::Failed, StepReason::ExitCode, None);
    let journal = BTreeMap::from([
        ("a".to_owned(), failed()),
        ("b".to_owned(), succeeded("x", OutputType::Text)),
        ("c".to_owned(), failed()),
    ]);
    let scope = scope_at_end(&plan, &journal, None, "Failed");
    assert_eq!(plan.outputs["end"].render(&scope), Ok(json!("Failed a,c Failed")));
}

#[test]
fn when_gives_true_or_false() {
    for (when, expected) in [
        ("params.yes", Ok(true)),
        ("steps.charge.output.paid && !params.yes", Ok(false)),
        ("params.cents", Err("must give true or false, and gives 1999")),
        ("'yes'", Err("must give true or false, and gives \"yes\"")),
        ("params.list", Err("must give true or false, and gives a list")),
    ] {
        let plan = one(json!({"when": format!("$[[ {when} ]]")}));
        let result = plan.steps[1].when(&scope_of(&plan)).map_err(|error| error.message);
        assert_eq!(result, expected.map_err(str::to_owned), "{when}");
    }
    let plan = one(json!({}));
    assert_eq!(plan.steps[1].when(&scope_of(&plan)), Ok(true));
}

#[test]
fn limits_are_evaluated_when_they_are_needed() {
    let plan = one(json!({
        "timeout": "$[[ params.t ]]", "startTimeout": "$[[ string(steps.charge.output.id) + 'm' ]]",
        "retry": {"maxAttempts": "$[[ params.n ]]", "backoff": {"initial": "$[[ '1' + 's' ]]", "max": "$[[ params.t ]]"}},
    }));
    let (step, scope) = (&plan.steps[1], scope_of(&plan));
    assert_eq!(step.timeout_ms(&scope), Ok(Some(90_000)));
    assert_eq!(step.start_timeout_ms(&scope), Ok(Some(420_000)));
    assert_eq!(step.max_attempts(&scope), Ok(3));
    assert_eq!(
        step.backoff(&scope),
        Ok(Backoff {
            initial: 1_000,
            factor: 2,
            max: 90_000,
            jitter_percent: 10
        })
    );

    let plan = one(json!({
        "timeout": "$[[ '0s' ]]", "startTimeout": "$[[ params.n ]]",
        "retry": {"maxAttempts": "$[[ params.zero ]]", "backoff": {"initial": "$[[ 'soon' ]]"}},
    }));
    let (step, scope) = (&plan.steps[1], scope_of(&plan));
    let duration = "one to four numbers with h, m, s or ms, such as 90s or 1h30m";
    let message = |result: Result<(), ExprError>| result.unwrap_err().message;
    assert_eq!(message(step.timeout_ms(&scope).map(drop)), "must be longer than 0");
    assert_eq!(
        message(step.start_timeout_ms(&scope).map(drop)),
        format!("must give a duration ({duration}), and gives 3")
    );
    assert_eq!(
        message(step.max_attempts(&scope).map(drop)),
        "must give an integer from 1 to 10000, and gives 0"
    );
    let plan = one(json!({"retry": {"maxAttempts": "$[[ 10000 + params.zero ]]"}}));
    assert_eq!(plan.steps[1].max_attempts(&scope_of(&plan)), Ok(10_000));
    let plan = one(json!({"retry": {"maxAttempts": "$[[ 10001 + params.zero ]]"}}));
    assert_eq!(
        message(plan.steps[1].max_attempts(&scope_of(&plan)).map(drop)),
        "must give an integer from 1 to 10000, and gives 10001"
    );
    assert_eq!(
        message(step.backoff(&scope).map(drop)),
        format!("initial must give a duration ({duration}), and gives \"soon\"")
    );
}

#[test]
fn string_fields_get_text() {
    let plan = one(json!({
        "container": {
            "args": ["$[[ params.cents ]]", "$[[ params.price ]]", "$[[ params.yes ]]", "$[[ toJson(params.list) ]]", "n=$[[ attempt.number ]]", "$$[[ x ]]"],
            "env": [{"name": "ID", "value": "$[[ steps.charge.output.id ]]"}],
            "resources": {"limits": {"cpu": "$[[ params.n ]]"}},
            "readinessProbe": {"httpGet": {"port": "$[[ params.port ]]"}},
        },
        "podTemplate": {"metadata": {"labels": {"cents": "$[[ params.cents ]]"}}},
    }));
    let (container, template) = plan.steps[1].render(&scope_of(&plan)).unwrap();
    assert_eq!(
        container["args"],
        json!(["1999", "1.5", "true", "[1]", "n=2", "$[[ x ]]"])
    );
    assert_eq!(container["env"], json!([{"name": "ID", "value": "7"}]));
    assert_eq!(container["resources"]["limits"]["cpu"], "3");
    assert_eq!(container["readinessProbe"]["httpGet"]["port"], 8080);
    assert_eq!(template["metadata"]["labels"]["cents"], "1999");
}

#[test]
fn what_cannot_be_rendered_says_where_and_what_to_do() {
    for (extra, place, message) in [
        (
            json!({"container": {"args": ["x", "$[[ params.list ]]"]}}),
            "spec.steps[1].container.args[1]",
            "gives a list, which is no text; write $[[ toJson(params.list) ]] for it as JSON",
        ),
        (
            json!({"container": {"env": [{"name": "A", "value": "$[[ steps.charge.output ]]"}]}}),
            "spec.steps[1].container.env[0].value",
            "gives an object, which is no text; write $[[ toJson(steps.charge.output) ]] for it as JSON",
        ),
        (
            json!({"podTemplate": {"metadata": {"annotations": {"a/b": "$[[ null ]]"}}}}),
            "spec.steps[1].podTemplate.metadata.annotations['a/b']",
            "gives null, which is no text; write $[[ toJson(null) ]] for it as JSON",
        ),
    ] {
        let plan = one(extra);
        let (at, error) = plan.steps[1].render(&scope_of(&plan)).unwrap_err();
        assert_eq!((at.as_str(), error.message.as_str()), (place, message));
    }
    let plan = one(json!({"container": {"args": ["$[[ steps.charge.output.nope ]]"]}}));
    let (at, _) = plan.steps[1].render(&scope_of(&plan)).unwrap_err();
    assert_eq!(at, "spec.steps[1].container.args[0]");
}

#[test]
fn an_error_in_what_the_defaults_say_names_the_defaults() {
    let plan = plan(json!({
        "params": {"list": []},
        "defaults": {"container": {"image": "i", "env": [{"name": "A", "value": "$[[ params.list ]]"}]}},
        "steps": [{"name": "a", "container": {"env": [{"name": "B", "value": "x"}]}}],
    }));
    let scope = scope(&plan, &BTreeMap::new(), &BTreeSet::new(), None, Some(1));
    let (at, _) = plan.steps[0].render(&scope).unwrap_err();
    assert_eq!(at, "spec.defaults.container.env[0].value");
}
