//! The idempotency key, and the keys of steps.

use serde_json::{Value, json};

use super::*;

#[test]
fn the_key_is_evaluated_over_params_and_run() {
    let with = |key: &str| json!({"params": {"order": 1042, "list": [], "empty": ""}, "idempotency": {"key": key}, "steps": [step("a", json!({}))]});
    for (key, value) in [
        ("order-$[[ params.order ]]", "order-1042"),
        ("$[[ params.order ]]", "1042"),
        (
            "$[[ run.namespace ]]/$[[ run.name ]]/$[[ run.labels.team ]]",
            "shop/order-1042/shop",
        ),
        ("plain", "plain"),
    ] {
        assert_eq!(plan(with(key)).idempotency_key.as_deref(), Some(value), "{key}");
    }
    let empty = "is empty, and all runs with an empty key would be one piece of work; leave it out, or give it a text";
    for (key, fault) in [
        ("$[[ params.empty ]]", empty),
        ("", empty),
        (
            "$[[ params.list ]]",
            "gives a list, which is no text; write $[[ toJson(params.list) ]] for it as JSON",
        ),
        (
            &"x".repeat(257),
            "has 257 bytes, and the limit is 256; use a digest or the number of what it is about",
        ),
    ] {
        assert_eq!(faults(with(key)), [format!("spec.idempotency.key: {fault}")], "{key}");
    }
    // An error of the evaluation is a fault.
    assert_eq!(faults(with("$[[ 1 / 0 ]]")).len(), 1);
}

#[test]
fn runs_of_one_lineage_have_the_same_keys() {
    let spec = |key: Option<&str>| {
        let mut spec = steps(vec![step("a", json!({}))]);
        if let Some(key) = key {
            overlay(&mut spec, json!({"idempotency": {"key": key}}));
        }
        spec
    };
    let key = |run: &RunInfo, spec: Value| build(run, &spec).unwrap().steps[0].key.clone();
    let again = RunInfo {
        name: "order-1042-again".into(),
        uid: "another".into(),
        ..run()
    };
    let elsewhere = RunInfo {
        namespace: "test".into(),
        ..run()
    };
    assert_eq!(key(&run(), spec(Some("k"))), key(&again, spec(Some("k"))));
    assert_ne!(key(&run(), spec(Some("k"))), key(&run(), spec(Some("l"))));
    assert_ne!(key(&run(), spec(Some("k"))), key(&elsewhere, spec(Some("k"))));
    assert_ne!(key(&run(), spec(None)), key(&again, spec(None)));
    assert_eq!(key(&run(), spec(None)), key(&elsewhere, spec(None)));
}
