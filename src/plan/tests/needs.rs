//! What needs what, written or implied.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

#[test]
fn needs_name_steps_that_exist() {
    let with = |needs: Value| {
        steps(vec![
            step("charge", json!({})),
            step("reserve-stock", json!({})),
            step("audit", json!({"needs": needs})),
        ])
    };
    for (needs, expected) in [
        (json!(["charge", "reserve-stock", "charge"]), vec![]),
        (
            json!(["chrage", "reserve_stock", "refund"]),
            vec![
                "spec.steps[2].needs[0]: there is no step chrage; did you mean charge?",
                "spec.steps[2].needs[1]: there is no step reserve_stock; did you mean reserve-stock?",
                "spec.steps[2].needs[2]: there is no step refund",
            ],
        ),
        (
            json!(["audit"]),
            vec!["spec.steps[2].needs[0]: a step cannot need itself"],
        ),
        (
            json!(["$[[ params.x ]]", 1]),
            vec![
                "spec.steps[2].needs[0]: is the name of a step, written out: it cannot hold an expression",
                "spec.steps[2].needs[1]: must be the name of a step, and is a number",
            ],
        ),
    ] {
        assert_eq!(faults(with(needs)), expected);
    }
}

#[test]
fn steps_come_after_those_they_need_and_else_stay_in_their_order() {
    let plan = plan(steps(vec![
        step(
            "report",
            json!({"needs": ["charge", "charge"], "when": "$[[ steps.reserve.phase == 'Succeeded' ]]"}),
        ),
        step("charge", json!({})),
        step(
            "reserve",
            json!({"container": {"args": ["$[[ steps.charge.output ]]"]}}),
        ),
        step("audit", json!({})),
    ]));
    let names: Vec<&str> = plan.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["charge", "reserve", "report", "audit"]);
    let needs: Vec<&[usize]> = plan.steps.iter().map(|step| step.needs.as_slice()).collect();
    assert_eq!(needs, [&[][..], &[0], &[0, 1], &[]]);
    let reads = |step: usize| plan.steps[step].reads.iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(reads(2), ["reserve"]);
}

#[test]
fn every_expression_of_a_step_makes_needs() {
    let reads_charge = "$[[ steps.charge.output ]]";
    for (what, extra) in [
        ("when", json!({"when": reads_charge})),
        (
            "container",
            json!({"container": {"env": [{"name": "A", "value": reads_charge}]}}),
        ),
        (
            "podTemplate",
            json!({"podTemplate": {"metadata": {"labels": {"a": reads_charge}}}}),
        ),
        ("timeout", json!({"timeout": reads_charge})),
        ("startTimeout", json!({"startTimeout": reads_charge})),
        ("maxAttempts", json!({"retry": {"maxAttempts": reads_charge}})),
        ("backoff", json!({"retry": {"backoff": {"initial": reads_charge}}})),
    ] {
        let plan = plan(steps(vec![step("a", extra), step("charge", json!({}))]));
        assert_eq!(plan.steps[0].name, "charge", "{what}");
        assert_eq!(plan.steps[1].needs, [0], "{what}");
    }
    // Outputs come when all have ended.
    let plan = plan(json!({"outputs": {"a": reads_charge}, "steps": [step("charge", json!({}))]}));
    assert_eq!(plan.output_reads, BTreeSet::from(["charge".to_owned()]));
}

#[test]
fn a_circle_is_named_in_order() {
    let spec = steps(vec![
        step("free", json!({})),
        step("a", json!({"needs": ["b"]})),
        step("b", json!({"when": "$[[ steps.c.output ]]"})),
        step("c", json!({"container": {"args": ["$[[ steps['a'].output ]]"]}})),
        step("d", json!({"needs": ["e", "a"]})),
        step("e", json!({"needs": ["d"]})),
    ]);
    assert_eq!(
        faults(spec),
        [
            "spec.steps[1]: steps that need each other can never start: a -> b -> c -> a",
            "spec.steps[4]: steps that need each other can never start: d -> e -> d",
        ]
    );
}
