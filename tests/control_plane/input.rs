//! Bad input: what a schema cannot say ends the run before it begins, with every fault and its place.

use kube::api::{Api, ListParams};
use oncilla::api::words::{ConditionType, RunPhase, RunReason};
use serde_json::json;

use crate::support::cluster::Cluster;
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
