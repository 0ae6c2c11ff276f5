//! Controllers that die, answers that are lost, two controllers at once: nothing completed runs again.

use std::collections::BTreeMap;

use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use kube::api::ListParams;
use kube::runtime::watcher::watch_object;
use oncilla::api::spec::WorkflowRun;
use oncilla::api::words::{RunPhase, StepPhase, StepReason};
use oncilla::client::request::{Request, Verb};
use serde_json::json;

use crate::support::cluster::{Cluster, Namespace, wait_for};
use crate::support::faults::{Fault, Faults};
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
    wait_for("the Job is complete", async || {
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

fn status_write(request: &Request) -> bool {
    request.verb == Verb::Patch && request.resource.starts_with("workflowruns") && request.subresource == "status"
}

fn job_create(request: &Request) -> bool {
    request.verb == Verb::Create && request.resource == "jobs.batch"
}

fn release(request: &Request) -> bool {
    request.verb == Verb::Patch && request.resource == "pods"
}

/// Every revision of the run that a watch shows until it ends.
async fn revisions(namespace: &Namespace, name: &str) -> Vec<i64> {
    let mut seen = Vec::new();
    let mut versions = std::pin::pin!(watch_object(namespace.api::<WorkflowRun>(), name));
    while let Some(version) = versions.next().await {
        let Ok(Some(run)) = version else { continue };
        let status = run.status.unwrap_or_default();
        seen.push(status.revision);
        if status.phase.is_final() {
            break;
        }
    }
    seen
}

/// A chain of three steps whose requests meet `fault`, `times` of them: the run ends well, no step runs twice, and its
/// revision only grows.
async fn chain_meets(purpose: &str, times: usize, fault: Fault, matches: fn(&Request) -> bool) {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace(purpose).await;
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name);
    let faults = Faults::default();
    faults.inject(times, fault, matches);
    let oncilla = Oncilla::start_with(&cluster, &namespace, &faults).await;
    namespace.create_run(purpose, chain(3)).await;
    let (status, revisions) = tokio::join!(
        namespace.ends(purpose, RunPhase::Succeeded),
        revisions(&namespace, purpose)
    );
    wait_for("every fault is met", async || match faults.left() {
        0 => Ok(()),
        n => Err(format!("{n} left")),
    })
    .await;
    each_once(&kubelet.ledger(), 3);
    assert!(revisions.is_sorted_by(|a, b| a < b), "{revisions:?}");
    assert!(status.revision >= 4, "three steps are named and the last is recorded");
    let jobs = namespace.api::<Job>().list(&ListParams::default()).await.unwrap();
    assert_eq!(jobs.items.len(), 3);
    wait_for("no pod is held", async || {
        let pods: Vec<k8s_openapi::api::core::v1::Pod> =
            namespace.api().list(&ListParams::default()).await.unwrap().items;
        let held = |pod: &&k8s_openapi::api::core::v1::Pod| {
            let finalizers = pod.metadata.finalizers.iter().flatten();
            finalizers.into_iter().any(|name| name == "oncilla.dev/evidence")
        };
        match pods.iter().find(held) {
            None => Ok(()),
            Some(pod) => Err(format!("{:?}", pod.metadata.name)),
        }
    })
    .await;
    oncilla.stop().await;
    namespace.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_write_whose_answer_is_lost_is_looked_up_and_not_guessed() {
    chain_meets("lost-status", 4, Fault::AnswerLost, status_write).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_answer_is_lost_is_found_and_not_repeated() {
    chain_meets("lost-create", 3, Fault::AnswerLost, job_create).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_whose_answer_is_lost_is_sent_again() {
    chain_meets("lost-release", 5, Fault::AnswerLost, release).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_never_arrived_is_sent_again_under_the_same_name() {
    chain_meets("unsent-create", 3, Fault::NotSent, job_create).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_takes_no_jobs_for_a_while_costs_time_only() {
    chain_meets("500-create", 4, Fault::Refused(500, "InternalError"), job_create).await;
}

/// More than one reconcile tries by itself: what follows then must not be forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_takes_no_status_for_a_while_costs_time_only() {
    chain_meets("503-status", 9, Fault::Refused(503, "ServiceUnavailable"), status_write).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_the_api_server_does_not_take_now_comes_again() {
    chain_meets("429-release", 9, Fault::Refused(429, "TooManyRequests"), release).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_about_one_step_does_not_hold_up_the_others() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("unread").await;
    let gate = Gate::closed();
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name).story("b", Story::succeed("").held_by(&gate));
    let faults = Faults::default();
    const MANY: usize = 1_000;
    faults.inject(MANY, Fault::Refused(403, "Forbidden"), |request| {
        request.verb == Verb::List && request.resource.starts_with("events")
    });
    let oncilla = Oncilla::start_with(&cluster, &namespace, &faults).await;
    // The Job controller makes no pod for an account that is not there; only events say so.
    let spec = json!({"steps": [
        step("a", json!({"podTemplate": {"spec": {"serviceAccountName": "missing"}}})),
        step("b", json!({})),
        step("c", json!({"needs": ["b"]})),
    ]});
    namespace.create_run("unread", spec).await;
    wait_for("the events are asked for", async || match faults.left() {
        MANY => Err("not yet".into()),
        _ => Ok(()),
    })
    .await;
    gate.open();
    namespace
        .stands("unread", "c", StepPhase::Succeeded, StepReason::Completed)
        .await;
    assert_eq!(kubelet.executions("a"), []);
    oncilla.stop().await;
    namespace.finish().await;
}
