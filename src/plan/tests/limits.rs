//! Defaults, limits, images.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::*;

#[test]
fn defaults_lie_under_every_step() {
    let plan = plan(json!({
        "defaults": {
            "timeout": "5m", "startTimeout": "10m", "retry": {"maxAttempts": 5, "backoff": {"initial": "1s"}},
            "container": {"image": "shop:1.8", "env": [{"name": "A", "value": "1"}]},
            "podTemplate": {"spec": {"initContainers": [{"name": "relay", "image": "r", "restartPolicy": "Always"}]}},
        },
        "steps": [
            {"name": "a", "container": {}},
            {"name": "b", "timeout": "1s", "retry": {"backoff": {"factor": 3}}, "container": {"image": "other", "env": [{"name": "B", "value": "2"}]},
             "podTemplate": {"spec": {"initContainers": [{"name": "setup", "image": "s"}]}}},
        ],
    }));
    let scope = scope(&plan, &BTreeMap::new(), &BTreeSet::new(), None, Some(1));
    let [a, b] = plan.steps.as_slice() else { panic!() };
    assert_eq!(a.timeout_ms(&scope), Ok(Some(300_000)));
    assert_eq!(a.start_timeout_ms(&scope), Ok(Some(600_000)));
    assert_eq!(a.max_attempts(&scope), Ok(5));
    assert_eq!(
        a.render(&scope).unwrap().0,
        json!({"image": "shop:1.8", "env": [{"name": "A", "value": "1"}]})
    );
    assert_eq!(a.init_containers, [("relay".to_owned(), true)]);

    assert_eq!(b.timeout_ms(&scope), Ok(Some(1_000)));
    assert_eq!(b.start_timeout_ms(&scope), Ok(Some(600_000)));
    // retry is replaced whole.
    assert_eq!(b.max_attempts(&scope), Ok(1));
    assert_eq!(
        b.backoff(&scope),
        Ok(Backoff {
            initial: 2_000,
            factor: 3,
            max: 300_000,
            jitter_percent: 10
        })
    );
    assert_eq!(
        b.render(&scope).unwrap().0,
        json!({"image": "other", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]})
    );
    assert_eq!(
        b.init_containers,
        [("relay".to_owned(), true), ("setup".to_owned(), false)]
    );
}

#[test]
fn a_fault_in_the_defaults_is_told_once_and_there() {
    let spec = json!({
        "defaults": {
            "timeout": "soon", "retry": {"maxAttempts": 0},
            "container": {"image": "i", "env": [{"name": "ONCILLA_X"}], "args": ["$[[ params.x ]]"]},
            "podTemplate": {"spec": {"nodeName": "n"}},
        },
        "steps": [{"name": "a", "container": {}}, {"name": "b", "container": {"env": [{"name": "B"}]}}],
    });
    assert_eq!(
        faults(spec),
        [
            "spec.defaults.timeout: is no duration; write one to four numbers with h, m, s or ms, such as 90s or 1h30m, or one $[[ … ]]",
            "spec.defaults.retry.maxAttempts: must be an integer from 1 to 10000, and is 0",
            "spec.defaults.podTemplate.spec.nodeName: is not supported: it would pass the scheduler by; use nodeSelector or affinity",
            "spec.defaults.container.env[0].name: names that begin with ONCILLA_ are Oncilla's",
            "spec.defaults.container.args[0]: there is no param x",
        ]
    );
}

#[test]
fn a_step_needs_an_image_from_somewhere() {
    let fault = |i: usize| {
        format!(
            "spec.steps[{i}].container.image: the step has no image, neither here nor in spec.defaults.container.image"
        )
    };
    assert_eq!(
        faults(steps(vec![
            json!({"name": "a", "container": {"args": []}}),
            json!({"name": "b", "container": {"image": ""}}),
            json!({"name": "c", "container": {"image": "$[[ run.name ]]"}}),
        ])),
        [fault(0), fault(1)]
    );
}

#[test]
fn limits_make_sense() {
    let duration =
        "is no duration; write one to four numbers with h, m, s or ms, such as 90s or 1h30m, or one $[[ … ]]";
    for (extra, expected) in [
        (json!({"timeout": "90s", "startTimeout": "1h30m"}), vec![]),
        (json!({"timeout": "90"}), vec![format!("timeout: {duration}")]),
        (json!({"startTimeout": "1d"}), vec![format!("startTimeout: {duration}")]),
        (
            json!({"timeout": 90}),
            vec!["timeout: must be text, and is a number".into()],
        ),
        (
            json!({"timeout": "0s", "startTimeout": "0m0s"}),
            vec![
                "timeout: must be longer than 0; leave it out for no limit".into(),
                "startTimeout: must be longer than 0; leave it out for no limit".into(),
            ],
        ),
        (
            json!({"retry": {"maxAttempts": 1, "backoff": {"initial": "0s", "max": "0s", "factor": 1, "jitterPercent": 0}}}),
            vec![],
        ),
        (
            json!({"retry": {"maxAttempts": -1, "backoff": {"factor": 0, "jitterPercent": 101, "max": "long"}}}),
            vec![
                "retry.maxAttempts: must be an integer from 1 to 10000, and is -1".into(),
                "retry.backoff.factor: must be an integer from 1 to 100, and is 0".into(),
                format!("retry.backoff.max: {duration}"),
                "retry.backoff.jitterPercent: must be an integer from 0 to 100, and is 101".into(),
            ],
        ),
        (
            json!({"retry": {"maxAttempts": 1.5, "backoff": {"factor": "2"}}}),
            vec![
                "retry.maxAttempts: must be an integer from 1 to 10000, and is 1.5".into(),
                "retry.backoff.factor: must be an integer from 1 to 100, and is text".into(),
            ],
        ),
        (
            json!({"retry": {"backoff": {"initial": "2m", "max": "1m"}}}),
            vec!["retry.backoff.initial: 2m is longer than max (1m)".into()],
        ),
        (
            json!({"retry": {"backoff": {"initial": "10m"}}}),
            vec!["retry.backoff.initial: 10m is longer than max (5m, its default)".into()],
        ),
        (json!({"retry": {"backoff": {"initial": "$[[ '10m' ]]"}}}), vec![]),
        (
            json!({"output": {"from": "File", "format": "JSON", "maxBytes": 4095}}),
            vec![],
        ),
        (
            json!({"output": {"maxBytes": 4096}}),
            vec!["output.maxBytes: must be an integer from 1 to 4095".into()],
        ),
        (
            json!({"output": {"maxBytes": 0}}),
            vec!["output.maxBytes: must be an integer from 1 to 4095".into()],
        ),
        (
            json!({"output": {"from": "Log", "format": "YAML", "maxBytes": "1"}}),
            vec![
                "output.from: unknown variant `Log`, expected `File`".into(),
                "output.format: unknown variant `YAML`, expected one of `Auto`, `JSON`, `Text`".into(),
                "output.maxBytes: must be an integer from 1 to 4095".into(),
            ],
        ),
    ] {
        let expected: Vec<String> = expected
            .into_iter()
            .map(|fault| format!("spec.steps[0].{fault}"))
            .collect();
        assert_eq!(faults(steps(vec![step("a", extra.clone())])), expected, "{extra}");
    }
}

#[test]
fn many_containers_leave_less_room_for_the_output() {
    let with = |inits: usize, output: Value| {
        let inits: Vec<Value> = (0..inits)
            .map(|i| json!({"name": format!("i{i}"), "image": "i"}))
            .collect();
        steps(vec![step(
            "a",
            json!({"output": output, "podTemplate": {"spec": {"initContainers": inits}}}),
        )])
    };
    for (inits, limit) in [(0, 4_095), (2, 4_095), (3, 3_071), (5, 2_047)] {
        assert_eq!(plan(with(inits, json!({}))).steps[0].output_max_bytes, limit, "{inits}");
    }
    assert_eq!(
        faults(with(3, json!({"maxBytes": 4000}))),
        ["spec.steps[0].output.maxBytes: must be an integer from 1 to 3071, as 4 containers share 12288 bytes"]
    );
}
