//! The manifest of an attempt.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::*;
use crate::api::words::{StepPhase, StepReason};
use crate::plan::{self, RunInfo};

fn record() -> Record {
    Record {
        attempt: 2,
        fence: 1_795_946_400_000,
        job_name: Some("order-1042-charge-2f7a3c9d0e41b6588a1c93d0e4f72b15".into()),
        ..Record::without_job(StepPhase::Pending, StepReason::Starting, None)
    }
}

/// The Job of the second attempt of a run's only step.
fn job_of(step: Value) -> Result<Value, BuildError> {
    let run = RunInfo {
        name: "order-1042".into(),
        namespace: "shop".into(),
        uid: "0b6a1f0e-58d5-4a70-a7e8-0d5e7c1f9a11".into(),
        labels: BTreeMap::new(),
    };
    let spec = json!({
        "params": {"order": "1042", "cents": 1999, "list": [], "t": "nope"},
        "idempotency": {"key": "order-$[[ params.order ]]"},
        "steps": [step],
    });
    let plan = plan::build(&run, &spec).unwrap();
    let scope = plan::scope::scope(&plan, &BTreeMap::new(), &BTreeSet::new(), None, Some(2));
    job(
        &plan,
        &plan.steps[0],
        &record(),
        &scope,
        "2026-11-29T10:01:00Z".parse().unwrap(),
    )
}

fn pod(step: Value) -> Value {
    job_of(step).unwrap()["spec"]["template"]["spec"].clone()
}

#[test]
fn the_job_of_an_attempt() {
    let step = json!({
        "name": "charge",
        "timeout": "90500ms",
        "container": {
            "image": "shop:1.8",
            "command": ["charge", "$[[ params.order ]]"],
            "env": [{"name": "CENTS", "value": "$[[ params.cents ]]"}, {"name": "ATTEMPT", "value": "$(ONCILLA_ATTEMPT)"}],
        },
        "podTemplate": {
            "metadata": {"labels": {"team": "shop"}, "annotations": {"note": "x"}},
            "spec": {
                "serviceAccountName": "shop-steps",
                "initContainers": [{"name": "relay", "image": "relay:2", "restartPolicy": "Always", "env": [{"name": "A", "value": "1"}]}],
            },
        },
    });
    let expected: Value = serde_json::from_str(include_str!("golden-job.json")).unwrap();
    let job = job_of(step).unwrap();
    assert_eq!(job, expected, "{}", serde_json::to_string_pretty(&job).unwrap());
}

#[test]
fn a_manifest_is_a_job_as_kubernetes_knows_it() {
    let job = job_of(json!({"name": "charge", "container": {"image": "i"}})).unwrap();
    let typed: k8s_openapi::api::batch::v1::Job = serde_json::from_value(job.clone()).unwrap();
    // Nothing is lost on the way: every field is one that the API server takes under strict validation.
    assert_eq!(serde_json::to_value(typed).unwrap(), job);
}

#[test]
fn a_pod_has_no_token_and_no_links_unless_it_is_asked_for() {
    for (spec, token, links) in [
        (json!({}), json!(false), json!(false)),
        (json!({"serviceAccountName": "deployer"}), json!(null), json!(false)),
        (json!({"serviceAccountName": ""}), json!(false), json!(false)),
        (
            json!({"automountServiceAccountToken": true, "enableServiceLinks": true}),
            json!(true),
            json!(true),
        ),
        (
            json!({"serviceAccountName": "deployer", "automountServiceAccountToken": false}),
            json!(false),
            json!(false),
        ),
    ] {
        let pod = pod(json!({"name": "charge", "container": {"image": "i"}, "podTemplate": {"spec": spec}}));
        assert_eq!(pod["automountServiceAccountToken"], token, "{spec}");
        assert_eq!(pod["enableServiceLinks"], links, "{spec}");
    }
}

#[test]
fn a_timeout_is_whole_seconds_rounded_up() {
    for (timeout, seconds) in [
        ("1ms", 1),
        ("1s", 1),
        ("1s1ms", 2),
        ("5m", 300),
        ("99999h", 359_996_400),
    ] {
        let pod = pod(json!({"name": "charge", "timeout": timeout, "container": {"image": "i"}}));
        assert_eq!(pod["activeDeadlineSeconds"], seconds, "{timeout}");
    }
    let pod = pod(json!({"name": "charge", "container": {"image": "i"}}));
    assert!(pod.get("activeDeadlineSeconds").is_none());
}

#[test]
fn oncilla_s_variables_come_first_in_every_container() {
    let pod = pod(json!({
        "name": "charge",
        "container": {"image": "i", "env": [{"name": "A", "value": "1"}]},
        "podTemplate": {"spec": {"initContainers": [{"name": "setup", "image": "s", "env": [{"name": "B", "value": "2"}]}]}},
    }));
    let variables = |container: &Value| -> Vec<String> {
        let env = container["env"].as_array().unwrap();
        env.iter().map(|v| v["name"].as_str().unwrap().to_owned()).collect()
    };
    let shared = [
        "ONCILLA_IDEMPOTENCY_KEY",
        "ONCILLA_ATTEMPT",
        "ONCILLA_FENCE",
        "ONCILLA_RUN",
        "ONCILLA_STEP",
    ];
    assert_eq!(
        variables(&pod["containers"][0]),
        [&shared[..], &["ONCILLA_OUTPUT", "A"]].concat()
    );
    // The file of the output is in the main container only.
    assert_eq!(variables(&pod["initContainers"][0]), [&shared[..], &["B"]].concat());
}

#[test]
fn an_attempt_without_a_recorded_name_has_no_job() {
    let run = RunInfo::default();
    let plan = plan::build(&run, &json!({"steps": [{"name": "a", "container": {"image": "i"}}]})).unwrap();
    let scope = plan::scope::scope(&plan, &BTreeMap::new(), &BTreeSet::new(), None, Some(1));
    let record = Record {
        job_name: None,
        ..record()
    };
    assert_eq!(
        job(&plan, &plan.steps[0], &record, &scope, jiff::Timestamp::UNIX_EPOCH),
        Err(BuildError::Unnamed { step: "a".into() })
    );
}

#[test]
fn an_expression_that_fails_says_where() {
    for (step, message) in [
        (
            json!({"name": "charge", "container": {"image": "i", "args": ["$[[ params.list ]]"]}}),
            "spec.steps[0].container.args[0]: gives a list, which is no text; write $[[ toJson(params.list) ]] for it as JSON",
        ),
        (
            json!({"name": "charge", "timeout": "$[[ params.t ]]", "container": {"image": "i"}}),
            "spec.steps[0].timeout: must give a duration (one to four numbers with h, m, s or ms, such as 90s or 1h30m), and gives \"nope\"",
        ),
    ] {
        assert_eq!(job_of(step).unwrap_err().to_string(), message);
    }
}
