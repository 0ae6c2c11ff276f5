//! No input makes validation panic, and every graph is ordered or its circles are named.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// JSON that now and then has the words of a spec, so that it gets past the first checks.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "a",
        "b",
        "steps",
        "name",
        "container",
        "image",
        "env",
        "value",
        "podTemplate",
        "spec",
        "metadata",
        "labels",
        "initContainers",
        "when",
        "needs",
        "retry",
        "backoff",
        "maxAttempts",
        "initial",
        "timeout",
        "output",
        "outputs",
        "maxBytes",
        "defaults",
        "params",
        "idempotency",
        "key",
        "volumes",
        "volumeMounts",
        "mountPath",
        "restartPolicy",
        "args",
        "$[[ params.a ]]",
        "$[[ steps.a.output ]]",
        "$[[ steps.a-b ]]",
        "$[[ ( ]]",
        "$[[",
        "$[[ run.name ]]x",
        "1s",
        "0s",
        "/oncilla",
        "ONCILLA_A",
        "main",
        "Always",
        "",
        "é\n\u{0}",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// A spec whose steps have the right fields with anything in them.
fn any_spec() -> impl Strategy<Value = Value> {
    let field = prop::sample::select(vec![
        "needs",
        "needsPolicy",
        "when",
        "container",
        "podTemplate",
        "output",
        "retry",
        "timeout",
        "startTimeout",
        "failurePolicy",
        "name",
    ]);
    let step = prop::collection::btree_map(field.prop_map(str::to_owned), any_json(), 0..5).prop_map(|fields| {
        let mut step = json!({"name": "a", "container": {"image": "i"}});
        overlay(&mut step, Value::Object(fields.into_iter().collect()));
        step
    });
    (prop::collection::vec(step, 0..4), any_json(), any_json(), any_json()).prop_map(|(steps, defaults, params, outputs)| {
        json!({"steps": steps, "defaults": {"container": defaults.clone(), "podTemplate": defaults}, "params": params, "outputs": outputs})
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn no_json_makes_it_panic(spec in prop_oneof![any_json(), any_spec()]) {
        if let Err(faults) = build(&run(), &spec) {
            prop_assert!(!faults.is_empty());
            prop_assert!(faults.len() <= fault::MAX_FAULTS + 1);
            for fault in faults {
                prop_assert!(fault.message.chars().count() <= fault::MAX_CHARS && !fault.message.contains('\n'));
                prop_assert!(fault.path.starts_with("spec"), "{fault}");
            }
        }
    }

    #[test]
    fn in_any_graph_a_step_comes_after_what_it_needs(
        needs in (1..10usize).prop_flat_map(|n| prop::collection::vec((prop::collection::btree_set(0..n, 0..3), any::<bool>()), n)),
    ) {
        let name = |i: usize| format!("s{i}");
        let spec = steps(needs.iter().enumerate().map(|(i, (needs, implied))| {
            let names: Vec<String> = needs.iter().filter(|need| **need != i).map(|need| name(*need)).collect();
            // The same graph, written as needs or implied by expressions.
            match implied {
                false => step(&name(i), json!({"needs": names})),
                true => step(&name(i), json!({"container": {"args": names.iter().map(|name| format!("$[[ steps.{name}.phase ]]")).collect::<Vec<_>>()}})),
            }
        }).collect());
        match build(&run(), &spec) {
            Ok(plan) => {
                prop_assert_eq!(plan.steps.len(), needs.len());
                for (at, step) in plan.steps.iter().enumerate() {
                    let index: usize = step.name[1..].parse().unwrap();
                    let expected: BTreeSet<String> = needs[index].0.iter().filter(|need| **need != index).map(|need| name(*need)).collect();
                    let found: BTreeSet<String> = step.needs.iter().map(|need| plan.steps[*need].name.clone()).collect();
                    prop_assert_eq!(found, expected);
                    prop_assert!(step.needs.iter().all(|need| *need < at));
                }
            }
            Err(faults) => {
                for fault in faults {
                    let (_, circle) = fault.message.split_once("can never start: ").expect("only circles are wrong here");
                    let circle: Vec<usize> = circle.split(" -> ").map(|name| name[1..].parse().unwrap()).collect();
                    prop_assert!(circle.len() >= 3 && circle.first() == circle.last());
                    for pair in circle.windows(2) {
                        prop_assert!(needs[pair[0]].0.contains(&pair[1]));
                    }
                }
            }
        }
    }
}
