//! A waiting step says why, in words.

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::PostParams;
use oncilla::api::words::{RunPhase, StepPhase, StepReason};
use serde_json::json;

use crate::support::cluster::Cluster;
use crate::support::gate::Gate;
use crate::support::install::Oncilla;
use crate::support::kubelet::Kubelet;
use crate::support::runs::step;
use crate::support::story::Story;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pod_waits_for_is_said_until_it_is_there() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("waits").await;
    let gate = Gate::closed();
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name)
        .story(
            "image",
            Story::image_pull_failing("Back-off pulling image \"step:1\": not found").until(&gate),
        )
        .story(
            "node",
            Story::unschedulable("0/1 nodes are available: 1 Insufficient memory.").until(&gate),
        )
        .story(
            "config",
            Story::config_missing("secret \"shop-db\" not found").until(&gate),
        );
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    let steps = [
        step("image", json!({})),
        step("node", json!({})),
        step("config", json!({})),
    ];
    namespace.create_run("waits", json!({"steps": steps})).await;
    for (path, reason, word) in [
        ("image", StepReason::ImagePullFailing, "not found"),
        ("node", StepReason::Unschedulable, "Insufficient memory"),
        ("config", StepReason::ConfigMissing, "shop-db"),
    ] {
        let record = namespace.stands("waits", path, StepPhase::Pending, reason).await;
        assert!(record.message.as_ref().unwrap().contains(word), "{:?}", record.message);
    }
    let status = namespace.status_of("waits").await;
    let message = status.message.unwrap();
    assert!(
        message.contains(": ImagePullFailing: ") || message.contains(": "),
        "{message}"
    );
    gate.open();
    namespace.ends("waits", RunPhase::Succeeded).await;
    assert_eq!(kubelet.ledger().len(), 3);
    oncilla.stop().await;
    namespace.finish().await;
}

fn quota(name: &str, hard: serde_json::Value) -> ResourceQuota {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"hard": hard}})).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_on_jobs_is_waited_for_and_said() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("quota-jobs").await;
    let _kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name);
    let quotas = namespace.api::<ResourceQuota>();
    quotas
        .create(&PostParams::default(), &quota("none", json!({"count/jobs.batch": "0"})))
        .await
        .unwrap();
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    namespace
        .create_run("quota", json!({"steps": [step("a", json!({}))]}))
        .await;
    let record = namespace
        .stands("quota", "a", StepPhase::Pending, StepReason::QuotaExceeded)
        .await;
    assert!(
        record.message.as_ref().unwrap().contains("count/jobs.batch"),
        "{:?}",
        record.message
    );
    quotas.delete("none", &Default::default()).await.unwrap();
    namespace.ends("quota", RunPhase::Succeeded).await;
    oncilla.stop().await;
    namespace.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_on_pods_is_found_in_the_events_of_the_job() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("quota-pods").await;
    let _kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name);
    let quotas = namespace.api::<ResourceQuota>();
    quotas
        .create(&PostParams::default(), &quota("none", json!({"pods": "0"})))
        .await
        .unwrap();
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    namespace
        .create_run("quota", json!({"steps": [step("a", json!({}))]}))
        .await;
    let record = namespace
        .stands("quota", "a", StepPhase::Pending, StepReason::QuotaExceeded)
        .await;
    assert!(
        record.message.as_ref().unwrap().contains("pods"),
        "{:?}",
        record.message
    );
    oncilla.stop().await;
    namespace.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_timeout_ends_what_never_starts() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("start").await;
    let never = Gate::closed();
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name)
        .story("a", Story::image_pull_failing("not found").until(&never));
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    namespace
        .create_run("start", json!({"steps": [step("a", json!({"startTimeout": "2s"}))]}))
        .await;
    let status = namespace.ends("start", RunPhase::Failed).await;
    let record = crate::support::runs::record(&status, "a");
    assert_eq!(record.reason, Some(StepReason::StartDeadlineExceeded), "{record:#?}");
    assert_eq!(kubelet.ledger(), []);
    oncilla.stop().await;
    namespace.finish().await;
}
