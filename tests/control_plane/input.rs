//! Bad input: what a schema cannot say ends the run before it begins, with every fault and its place.

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use oncilla::api::words::{ConditionType, RunPhase, RunReason};
use serde_json::json;

use crate::support::cluster::{Cluster, Namespace};
use crate::support::install::Oncilla;
use crate::support::kubelet::Kubelet;
use crate::support::runs::step;

#[tokio::test(flavor = "multi_thread")]
async fn a_spec_with_faults_fails_at_once_names_them_all_and_may_be_repaired() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("faults").await;
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name);
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    let spec = json!({
        "params": {"paid": true},
        "steps": [
            step("a", json!({"needs": ["c"]})),
            step("b", json!({"needs": ["a"]})),
            step("c", json!({"needs": ["b"]})),
            step("reserve-stock", json!({"needs": ["none"]})),
            step("d", json!({"when": "$[[ steps['reserve-stok'].output == 1 ]]"})),
            step("e", json!({"when": "$[[ params.payd ]]"})),
            step("f", json!({"when": "$[[ 1 + ]]"})),
            step("in", json!({})),
        ],
    });
    namespace.create_run("faults", spec).await;
    let status = namespace.ends("faults", RunPhase::Failed).await;
    assert_eq!((status.reason, status.start_time), (Some(RunReason::InvalidSpec), None));
    let accepted = status
        .conditions
        .iter()
        .find(|condition| condition.r#type == ConditionType::Accepted)
        .unwrap();
    assert_eq!(accepted.status, "False");
    for words in [
        "a -> c -> b -> a",
        "spec.steps[3].needs[0]",
        "steps['reserve-stock']",
        "params.paid",
        "spec.steps[6].when",
        "spec.steps[7].name",
    ] {
        assert!(accepted.message.contains(words), "no {words:?} in {}", accepted.message);
    }
    assert_eq!(kubelet.ledger(), []);
    namespace
        .patch_run("faults", json!({"spec": {"steps": [step("a", json!({}))]}}))
        .await
        .unwrap();
    namespace
        .until("faults", "it runs after the repair", |status| {
            status.phase == RunPhase::Succeeded
        })
        .await;
    oncilla.stop().await;
    namespace.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_runs_bad_spec_or_odd_status_does_not_keep_others_from_running() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("odd").await;
    let _kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name);
    crate::support::install::install(&cluster).await;
    // A status that no version of the controller writes.
    namespace
        .create_run("odd", json!({"steps": [step("a", json!({}))]}))
        .await;
    let odd = json!({"status": {"revision": 7, "steps": {"a": {"phase": "Levitating", "attempt": 3, "fence": 9}}}});
    let runs: Api<oncilla::api::WorkflowRun> = namespace.api();
    runs.patch_status("odd", &Default::default(), &kube::api::Patch::Merge(odd))
        .await
        .unwrap();
    let bomb = format!("$[[ ['xxxxxxxxxx']{} == [] ]]", ".map(a,a+a)".repeat(26));
    namespace
        .create_run("bomb", json!({"steps": [step("a", json!({"when": bomb}))]}))
        .await;
    namespace
        .create_run("sound", json!({"steps": [step("a", json!({}))]}))
        .await;
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    namespace.ends("sound", RunPhase::Succeeded).await;
    let bomb = namespace.ends("bomb", RunPhase::Failed).await;
    assert_eq!(bomb.reason, Some(RunReason::InvalidSpec));
    let jobs = namespace.api::<k8s_openapi::api::batch::v1::Job>();
    let of_odd = jobs
        .list(&ListParams::default().labels("oncilla.dev/run=odd"))
        .await
        .unwrap();
    assert!(of_odd.items.is_empty(), "a record of another version is left alone");
    oncilla.stop().await;
    namespace.finish().await;
}

/// What stands in Accepted.
async fn refusal(namespace: &Namespace, run: &str) -> String {
    let status = namespace.ends(run, RunPhase::Failed).await;
    assert_eq!(
        (status.reason, status.start_time),
        (Some(RunReason::InvalidSpec), None),
        "{run}"
    );
    let message = status.message.unwrap_or_default();
    assert!(
        message.chars().count() <= 120 && !message.contains('\n'),
        "{run}: {message}"
    );
    let mut conditions = status.conditions.into_iter();
    let accepted = conditions
        .find(|condition| condition.r#type == ConditionType::Accepted)
        .unwrap();
    assert_eq!(
        (accepted.status.as_str(), accepted.reason.as_str()),
        ("False", "InvalidSpec"),
        "{run}"
    );
    accepted.message
}

/// The events that say that a run was refused; all are written when the controller has stopped.
async fn warnings(namespace: &Namespace, run: &str) -> Vec<String> {
    let events = namespace.api::<Event>().list(&ListParams::default()).await.unwrap();
    let events = events.items.into_iter().filter(|event| {
        event.regarding.as_ref().and_then(|it| it.name.as_deref()) == Some(run)
            && (event.type_.as_deref(), event.reason.as_deref()) == (Some("Warning"), Some("InvalidSpec"))
    });
    events.filter_map(|event| event.note).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spec_of_many_faults_is_refused_in_bounded_words() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("many").await;
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name);
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    let long = "x".repeat(400);
    let steps: Vec<_> = (0..120)
        .map(|i| {
            step(
                &format!("s{i}"),
                json!({"when": format!("$[[ params.nope{i} == '{long}' && {long} ]]")}),
            )
        })
        .collect();
    namespace.create_run("many", json!({"steps": steps})).await;
    let message = refusal(&namespace, "many").await;
    assert!(
        message.contains("spec.steps[0].when: there is no param nope0"),
        "{message}"
    );
    assert!(message.ends_with("and 190 more faults"), "{message}");
    // What a condition may hold, by Kubernetes' conventions.
    assert!(message.len() <= 32_768, "{}", message.len());
    assert_eq!(kubelet.ledger(), []);
    oncilla.stop().await;
    let notes = warnings(&namespace, "many").await;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].contains("spec.steps[1].when") && notes[0].len() <= 1_024,
        "{notes:?}"
    );
    namespace.finish().await;
}

/// What only the controller can refuse, because a schema does not see it, or a client did not ask the schema.
#[tokio::test(flavor = "multi_thread")]
async fn dear_expressions_odd_params_and_expressions_out_of_place_are_refused() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("dear").await;
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name);
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    let in_step = |more| json!({"steps": [step("a", more)]});
    let sum = |terms: usize| format!("$[[ {} > 0 ]]", vec!["1"; terms].join(" + "));
    let bomb = format!("$[[ ['xxxxxxxxxx']{} == [] ]]", ".map(a,a+a)".repeat(26));
    assert!(bomb.len() < 320);
    let mut refused = Vec::new();
    for (name, spec, words) in [
        (
            "bomb",
            in_step(json!({"when": bomb})),
            vec!["too dear: with these params", "and the limit is 1"],
        ),
        (
            "sum",
            in_step(json!({"when": sum(2_000)})),
            vec!["has 8003 characters, and the limit is 1024"],
        ),
        (
            "deep",
            in_step(json!({"when": format!("$[[ {}1{} > 0 ]]", "(".repeat(400), ")".repeat(400))})),
            vec!["nested too deeply"],
        ),
        (
            "params",
            json!({"params": {"a-b": 1, "": 2, "1a": 3, "list": ["$[[ 1 ]]"]}, "steps": [step("true", json!({}))]}),
            vec![
                "spec.params.a-b: a param's name",
                "spec.params['']: a param's name",
                "spec.params.1a: a param's name",
                "spec.params.list[0]: a run's params are values",
                "spec.steps[0].name: true is a word",
            ],
        ),
        (
            "empty-key",
            json!({"idempotency": {"key": "$[[ params.e ]]"}, "params": {"e": ""}, "steps": [step("a", json!({}))]}),
            vec!["spec.idempotency.key: is empty"],
        ),
        (
            "long-key",
            json!({"idempotency": {"key": "$[[ params.k + params.k ]]"}, "params": {"k": "k".repeat(129)}, "steps": [step("a", json!({}))]}),
            vec!["spec.idempotency.key: has 258 bytes, and the limit is 256"],
        ),
        (
            "never",
            in_step(json!({
                "container": {
                    "image": "i", "imagePullPolicy": "$[[ 'Always' ]]", "env": [{"name": "$[[ 'A' ]]"}],
                    "volumeMounts": [{"name": "v", "mountPath": "$[[ '/oncilla' ]]"}],
                },
                "podTemplate": {"metadata": {"labels": {"$[[ 'a' ]]": "x"}}, "spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            })),
            vec![
                "imagePullPolicy: cannot",
                "env[0].name: cannot",
                "mountPath: cannot",
                "a key cannot hold an expression",
            ],
        ),
    ] {
        namespace.create_run(name, spec).await;
        refused.push(name);
        let message = refusal(&namespace, name).await;
        for words in words {
            assert!(message.contains(words), "{name}: no {words:?} in {message}");
        }
    }
    // As long as a sum can be: it is evaluated, and the next run is served.
    namespace
        .create_run("longest-sum", in_step(json!({"when": sum(252)})))
        .await;
    namespace.ends("longest-sum", RunPhase::Succeeded).await;
    assert_eq!(kubelet.ledger().len(), 1);
    oncilla.stop().await;
    for name in refused {
        let notes = warnings(&namespace, name).await;
        assert_eq!(notes.len(), 1, "{name}: {notes:?}");
    }
    namespace.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn params_reach_a_step_as_the_api_server_stores_them() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("params").await;
    let _kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name);
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    let spec = json!({
        "params": {
            "none": null, "one": 1.0, "big": 12345678901234567890u64, "exact": 9007199254740993i64, "huge": 1e300,
            "list": [null, {"none": null, "x": 2.0}], "in": "kept", "true": false,
        },
        "steps": [step("a", json!({"container": {"image": "step:1", "args": [
            "$[[ toJson(params) ]]", "$[[ params['in'] ]]", "$[[ params['true'] ]]", "$[[ has(params.none) ]]",
        ]}}))],
    });
    namespace.create_run("params", spec).await;
    let status = namespace.ends("params", RunPhase::Succeeded).await;
    let params = json!(status.params);
    assert_eq!(params["one"], json!(1));
    assert_eq!(params["exact"], json!(9007199254740993i64));
    assert_eq!(params["list"], json!([null, {"x": 2}]));
    assert_eq!(
        (params.get("none"), &params["in"], &params["true"]),
        (None, &json!("kept"), &json!(false))
    );
    let jobs = namespace.api::<k8s_openapi::api::batch::v1::Job>();
    let job = jobs.list(&ListParams::default()).await.unwrap().items.remove(0);
    let args = job.spec.unwrap().template.spec.unwrap().containers[0]
        .args
        .clone()
        .unwrap();
    assert_eq!(args[1..], ["kept", "false", "false"]);
    // What a step reads is what is recorded; a number beyond 64 bits is written with an exponent.
    let mut seen: serde_json::Value = serde_json::from_str(&args[0]).unwrap();
    assert_eq!(seen["big"].as_f64(), params["big"].as_f64());
    seen["big"] = params["big"].clone();
    assert_eq!(seen, params);
    oncilla.stop().await;
    namespace.finish().await;
}
