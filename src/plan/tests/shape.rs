//! What a spec may look like, and what names may stand in it.

use serde_json::json;

use super::*;

#[test]
fn a_spec_of_the_wrong_shape_is_faults_and_never_a_panic() {
    for (spec, expected) in [
        (json!(1), vec!["spec: must be an object, and is a number"]),
        (json!({}), vec!["spec.steps: a run needs at least one step"]),
        (
            json!({"steps": {}}),
            vec![
                "spec.steps: must be a list, and is an object",
                "spec.steps: a run needs at least one step",
            ],
        ),
        (
            json!({"steps": [3]}),
            vec!["spec.steps[0]: must be an object, and is a number"],
        ),
        (
            json!({"steps": [{}]}),
            vec![
                "spec.steps[0].name: a step needs a name",
                "spec.steps[0].container: a step needs a container",
            ],
        ),
        (
            json!({"steps": [step("a", json!({"retry": 3}))]}),
            vec!["spec.steps[0].retry: must be an object, and is a number"],
        ),
        (
            json!({"params": [], "idempotency": "x", "defaults": 1, "outputs": "y", "onStepFailure": "Retry", "steps": [step("a", json!({}))]}),
            vec![
                "spec.params: must be an object, and is a list",
                "spec.idempotency: must be an object, and is text",
                "spec.onStepFailure: unknown variant `Retry`, expected one of `Stop`, `Cancel`, `Continue`",
                "spec.defaults: must be an object, and is a number",
                "spec.outputs: must be an object, and is text",
            ],
        ),
        (
            json!({"defaults": {"container": [], "podTemplate": 1}, "steps": [step("a", json!({}))]}),
            vec![
                "spec.defaults.container: must be an object, and is a list",
                "spec.defaults.podTemplate: must be an object, and is a number",
            ],
        ),
        (
            json!({"steps": [{"name": 7, "container": {"image": "i"}, "needs": "b", "when": true, "needsPolicy": "Some", "failurePolicy": 1, "description": []}]}),
            vec![
                "spec.steps[0].name: must be text, and is a number",
                "spec.steps[0].description: must be text, and is a list",
                "spec.steps[0].needs: must be a list, and is text",
                "spec.steps[0].needsPolicy: unknown variant `Some`, expected one of `AllSucceeded`, `AllSucceededOrSkipped`, `AllFinished`, `AnyFailed`",
                "spec.steps[0].when: must be text, and is a boolean",
                "spec.steps[0].failurePolicy: invalid type: integer `1`, expected string or map",
            ],
        ),
    ] {
        assert_eq!(faults(spec), expected);
    }
}

#[test]
fn a_field_that_this_version_does_not_know_is_a_fault() {
    let spec = json!({
        "graphs": [], "defaults": {"output": {}}, "idempotency": {"ttl": "1h"},
        "steps": [step("a", json!({"need": [], "retry": {"rules": []}, "output": {"path": "x"}}))],
    });
    assert_eq!(
        faults(spec),
        [
            "spec.graphs: is no field that this version of Oncilla knows",
            "spec.idempotency.ttl: is no field that this version of Oncilla knows",
            "spec.defaults.output: is no field that this version of Oncilla knows",
            "spec.steps[0].need: is no field that this version of Oncilla knows; did you mean needs?",
            "spec.steps[0].output.path: is no field that this version of Oncilla knows",
            "spec.steps[0].retry.rules: is no field that this version of Oncilla knows",
        ]
    );
}

#[test]
fn control_makes_no_run_invalid() {
    let spec = json!({"control": {"suspend": "perhaps", "retry": []}, "steps": [step("a", json!({}))]});
    assert_eq!(faults(spec), [""; 0]);
}

#[test]
fn a_run_has_at_most_a_thousand_steps() {
    let many = |n| steps((0..n).map(|i| step(&format!("s{i}"), json!({}))).collect());
    assert_eq!(plan(many(1_000)).steps.len(), 1_000);
    assert_eq!(
        faults(many(1_001)),
        ["spec.steps: a run has at most 1000 steps, and this one 1001"]
    );
}

#[test]
fn large_defaults_are_not_copied_into_many_steps() {
    let spec = |steps: usize| {
        json!({
            "defaults": {"container": {"args": ["x".repeat(100_000)]}},
            "steps": (0..steps).map(|i| step(&format!("s{i}"), json!({}))).collect::<Vec<_>>(),
        })
    };
    assert_eq!(plan(spec(10)).steps.len(), 10);
    let faults = faults(spec(500));
    assert_eq!(faults.len(), 1);
    assert!(
        faults[0].starts_with("spec.defaults: container and podTemplate are too large"),
        "{faults:?}"
    );
}

#[test]
fn a_run_has_a_bounded_number_of_expressions() {
    // Five in the defaults are five in each step.
    let spec = |steps: usize, outputs: usize| {
        json!({
            "defaults": {"container": {"args": vec!["$[[ run.name ]]"; 5]}},
            "outputs": {"a": vec!["$[[ run.name ]]"; outputs]},
            "steps": (0..steps).map(|i| step(&format!("s{i}"), json!({}))).collect::<Vec<_>>(),
        })
    };
    assert_eq!(plan(spec(20, 100)).steps.len(), 20);
    let fault = |count: usize| {
        [format!(
            "spec: there are {count} expressions, and the limit is 20000; what the defaults hold counts in every step"
        )]
    };
    assert_eq!(faults(spec(20, 19_901)), fault(20_001));
    assert_eq!(faults(spec(1_000, 15_005)), fault(20_005));
}

#[test]
fn a_step_name_is_a_label_that_an_expression_can_name() {
    let rule = "a step's name has at most 63 small letters, digits and dashes, begins with a letter and does not end with a dash";
    let word = |name| format!("{name} is a word of the expression language and cannot be a step's name");
    for (name, fault) in [
        ("in", Some(word("in"))),
        ("true", Some(word("true"))),
        ("false", Some(word("false"))),
        ("null", Some(word("null"))),
        ("", Some(rule.to_owned())),
        ("1st", Some(rule.to_owned())),
        ("Charge", Some(rule.to_owned())),
        ("charge-", Some(rule.to_owned())),
        ("a.b", Some(rule.to_owned())),
        ("a$[[ 1 ]]", Some(rule.to_owned())),
        (&"a".repeat(64), Some(rule.to_owned())),
        (&"a".repeat(63), None),
        ("reserve-stock-2", None),
        ("if", None),
    ] {
        let expected: Vec<String> = fault
            .map(|fault| format!("spec.steps[0].name: {fault}"))
            .into_iter()
            .collect();
        assert_eq!(faults(steps(vec![step(name, json!({}))])), expected, "{name}");
    }
}

#[test]
fn two_steps_of_one_name_are_a_fault() {
    let spec = steps(vec![step("a", json!({})), step("b", json!({})), step("a", json!({}))]);
    assert_eq!(
        faults(spec),
        ["spec.steps[2].name: there are two steps a; the other is spec.steps[0]"]
    );
}

#[test]
fn a_param_is_an_identifier() {
    let spec = json!({"params": {"order-id": 1, "1st": 2, "_ok1": 3}, "steps": [step("a", json!({}))]});
    let rule = "a param's name is letters, digits and _, and begins with no digit, so that params.NAME can be written";
    assert_eq!(
        faults(spec),
        [
            format!("spec.params.1st: {rule}"),
            format!("spec.params.order-id: {rule}"),
        ]
    );
}
