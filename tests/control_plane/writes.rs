//! What a run costs, counted at the wire.

use oncilla::api::words::RunPhase;
use oncilla::client::Meter;
use serde_json::json;

use crate::support::cluster::{Cluster, wait_for};
use crate::support::install::Oncilla;
use crate::support::kubelet::Kubelet;
use crate::support::runs::step;

/// Writes that the controller sent, as verb and resource.
fn writes(meter: &Meter) -> Vec<(String, u64)> {
    let mut writes: Vec<(String, u64)> = Vec::new();
    for (key, count) in meter.snapshot() {
        let verb = key.verb.to_string();
        if ["create", "update", "patch", "delete", "deletecollection"].contains(&verb.as_str()) {
            writes.push((format!("{verb} {}/{}", key.resource, key.subresource), count));
        }
    }
    writes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_a_chain_takes_three_writes_and_a_run_four_more() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("writes").await;
    let _kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name);
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    const STEPS: u64 = 10;
    let steps: Vec<_> = (0..STEPS)
        .map(|n| match n {
            0 => step("s0", json!({})),
            n => step(&format!("s{n}"), json!({"needs": [format!("s{}", n - 1)]})),
        })
        .collect();
    namespace.create_run("chain", json!({"steps": steps})).await;
    namespace.ends("chain", RunPhase::Succeeded).await;
    let released = |meter: &Meter| {
        let writes = writes(meter);
        writes
            .iter()
            .filter(|(what, _)| what.starts_with("patch pods"))
            .map(|(_, n)| n)
            .sum::<u64>()
    };
    wait_for("all pods are released", async || match released(&oncilla.meter) {
        STEPS => Ok(()),
        n => Err(format!("{n} releases: {:?}", writes(&oncilla.meter))),
    })
    .await;
    let meter = oncilla.meter.clone();
    oncilla.stop().await;
    let writes = writes(&meter);
    let total: u64 = writes.iter().map(|(_, n)| n).sum();
    // A step that the simulated kubelet held for three seconds on a busy machine was written as Running: one more each.
    let status = namespace.status_of("chain").await;
    let lived = status
        .steps
        .as_ref()
        .unwrap()
        .values()
        .filter(|record| record.pod_uid.is_some())
        .count() as u64;
    assert!(
        total <= 3 * STEPS + 4 + lived,
        "{total} writes, {lived} steps written as Running: {writes:#?}"
    );
    let commits: u64 = writes
        .iter()
        .filter(|(what, _)| what.contains("workflowruns"))
        .map(|(_, n)| n)
        .sum();
    assert!(commits <= STEPS + 1 + lived, "{commits} commits: {writes:#?}");
    namespace.finish().await;
}
