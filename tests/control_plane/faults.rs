//! Controllers that die, answers that are lost, two controllers at once: nothing completed runs again.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use kube::api::ListParams;
use oncilla::api::words::RunPhase;
use serde_json::json;

use crate::support::cluster::Cluster;
use crate::support::gate::Gate;
use crate::support::install::Oncilla;
use crate::support::kubelet::Kubelet;
use crate::support::runs::step;
use crate::support::story::{Execution, Story};

fn chain(n: usize) -> serde_json::Value {
    let steps: Vec<_> = (0..n)
        .map(|i| match i {
            0 => step("s0", json!({})),
            i => step(&format!("s{i}"), json!({"needs": [format!("s{}", i - 1)]})),
        })
        .collect();
    json!({"steps": steps})
}

fn each_once(ledger: &[Execution], steps: usize) {
    let mut counts: BTreeMap<(&str, i64), usize> = BTreeMap::new();
    for entry in ledger {
        *counts.entry((&entry.path, entry.attempt)).or_default() += 1;
    }
    assert_eq!(counts.len(), steps, "{counts:#?}");
    assert!(counts.values().all(|count| *count == 1), "{counts:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_killed_at_every_step_never_runs_one_twice() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("killed").await;
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name);
    const STEPS: usize = 8;
    let mut oncilla = Oncilla::start(&cluster, &namespace).await;
    namespace.create_run("killed", chain(STEPS)).await;
    for n in 1..=STEPS {
        kubelet.executed(n).await;
        oncilla.kill().await;
        oncilla = Oncilla::start(&cluster, &namespace).await;
    }
    namespace.ends("killed", RunPhase::Succeeded).await;
    each_once(&kubelet.ledger(), STEPS);
    oncilla.stop().await;
    namespace.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_controllers_at_work_are_slower_and_not_wrong() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("two").await;
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name)
        .story("s1", Story::exit(1).then(Story::succeed("second")));
    let one = Oncilla::start(&cluster, &namespace).await;
    let two = Oncilla::start(&cluster, &namespace).await;
    let mut spec = chain(6);
    spec["defaults"] = json!({"retry": {"maxAttempts": 2, "backoff": {"initial": "100ms"}}});
    namespace.create_run("two", spec).await;
    namespace.ends("two", RunPhase::Succeeded).await;
    each_once(&kubelet.ledger(), 7);
    let jobs = namespace.api::<Job>().list(&ListParams::default()).await.unwrap();
    assert_eq!(jobs.items.len(), 7);
    one.stop().await;
    two.stop().await;
    namespace.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_while_no_controller_is_there_is_recorded_by_the_next() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("away").await;
    let gate = Gate::closed();
    let kubelet =
        Kubelet::start(cluster.admin.clone(), &namespace.name).story("s0", Story::succeed("kept").held_by(&gate));
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    namespace.create_run("away", chain(2)).await;
    gate.reached(1).await;
    oncilla.kill().await;
    gate.open();
    crate::support::cluster::wait_for("the Job is complete", async || {
        let jobs = namespace.api::<Job>().list(&ListParams::default()).await.unwrap();
        let done = jobs
            .items
            .iter()
            .any(|job| job.status.as_ref().and_then(|status| status.succeeded) == Some(1));
        if done {
            Ok(())
        } else {
            Err(format!(
                "{:?}",
                jobs.items.iter().map(|job| &job.status).collect::<Vec<_>>()
            ))
        }
    })
    .await;
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    let status = namespace.ends("away", RunPhase::Succeeded).await;
    assert_eq!(
        crate::support::runs::record(&status, "s0").output.as_deref(),
        Some("kept")
    );
    each_once(&kubelet.ledger(), 2);
    oncilla.stop().await;
    namespace.finish().await;
}
