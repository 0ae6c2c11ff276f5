//! Runs from their creation to their end.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use oncilla::api::WorkflowRun;
use oncilla::api::names::FINALIZER_EVIDENCE;
use oncilla::api::words::{ConditionType, RunPhase, RunReason, StepPhase, StepReason};
use oncilla::plan::names::{job_name, path_hash};
use serde_json::json;

use crate::support::cluster::{Cluster, wait_for};
use crate::support::gate::Gate;
use crate::support::install::Oncilla;
use crate::support::kubelet::Kubelet;
use crate::support::runs::{record, step};
use crate::support::story::Story;

#[tokio::test(flavor = "multi_thread")]
async fn a_diamond_runs_in_order_and_passes_outputs_on() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("diamond").await;
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name)
        .story("top", Story::succeed(r#"{"n": 20}"#))
        .story(
            "left",
            Story::compute(|it| (0, (it.argv[1].parse::<i64>().unwrap() + 1).to_string())),
        )
        .story("right", Story::succeed("right\n"))
        .story("bottom", Story::compute(|it| (0, it.env["IN"].clone())));
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    let spec = json!({
        "params": {"who": "world"},
        "steps": [
            step("top", json!({})),
            step("left", json!({"container": {"image": "i", "args": ["add", "$[[ steps.top.output.n ]]"]}})),
            step("right", json!({"needs": ["top"]})),
            step("bottom", json!({"container": {"image": "i", "env": [
                {"name": "IN", "value": "$[[ steps.left.output ]] $[[ steps.right.output ]] $[[ params.who ]]"},
            ]}})),
        ],
        "outputs": {"all": "$[[ steps.bottom.output ]]", "n": "$[[ steps.top.output.n ]]"},
    });
    namespace.create_run("diamond", spec).await;
    let status = namespace.ends("diamond", RunPhase::Succeeded).await;
    assert_eq!(status.outputs.as_ref().unwrap()["all"], json!("21 right world"));
    assert_eq!(status.outputs.as_ref().unwrap()["n"], json!(20));
    assert_eq!(status.progress.as_deref(), Some("4/4"));
    assert_eq!(status.params.as_ref().unwrap()["who"], json!("world"));
    let order: Vec<String> = kubelet.ledger().into_iter().map(|entry| entry.step).collect();
    assert_eq!(
        (order.len(), order[0].as_str(), order[3].as_str()),
        (4, "top", "bottom")
    );
    for (kind, expected) in [
        (ConditionType::Accepted, "True"),
        (ConditionType::Succeeded, "True"),
        (ConditionType::Finished, "True"),
        (ConditionType::Reconciling, "False"),
        (ConditionType::Stalled, "False"),
    ] {
        let condition = status
            .conditions
            .iter()
            .find(|condition| condition.r#type == kind)
            .unwrap();
        assert_eq!(condition.status, expected, "{kind}");
    }
    // Every pod is let go, and only by our own hand: the Job controller counted each.
    wait_for("nothing is held", async || {
        let pods = namespace.api::<Pod>().list(&ListParams::default()).await.unwrap();
        let held = pods.items.iter().filter(|pod| {
            pod.metadata
                .finalizers
                .as_ref()
                .is_some_and(|all| all.iter().any(|f| f == FINALIZER_EVIDENCE))
        });
        match held.count() {
            0 => Ok(()),
            n => Err(format!("{n} held")),
        }
    })
    .await;
    oncilla.stop().await;
    namespace.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_is_followed_by_one_with_the_same_key_and_a_greater_fence() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("retry").await;
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name).story(
        "a",
        Story::exit_saying(3, "connection reset").then(Story::succeed("ok")),
    );
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    let retry = json!({"maxAttempts": 3, "backoff": {"initial": "200ms"}});
    namespace
        .create_run("retry", json!({"steps": [step("a", json!({"retry": retry}))]}))
        .await;
    let status = namespace.ends("retry", RunPhase::Succeeded).await;
    let a = record(&status, "a");
    assert_eq!((a.attempt, a.output.as_deref()), (2, Some("ok")));
    assert_eq!(
        (a.earlier_attempts[0].exit_code, a.earlier_attempts[0].reason),
        (Some(3), StepReason::ExitCode)
    );
    assert_eq!(a.earlier_attempts[0].message.as_deref(), Some("connection reset"));
    let ran = kubelet.executions("a");
    assert_eq!(ran.len(), 2);
    assert_eq!(ran[0].key, ran[1].key);
    assert!(ran[0].fence.parse::<i64>().unwrap() < ran[1].fence.parse::<i64>().unwrap());
    oncilla.stop().await;
    namespace.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_deleted_before_it_answers_is_tried_again() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("deleted").await;
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name)
        .story("a", Story::hang().when_stopped(137, "").then(Story::succeed("ok")));
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    let retry = json!({"maxAttempts": 2, "backoff": {"initial": "100ms"}});
    namespace
        .create_run("deleted", json!({"steps": [step("a", json!({"retry": retry}))]}))
        .await;
    kubelet.executed(1).await;
    let pod = kubelet.executions("a")[0].pod.clone();
    namespace
        .api::<Pod>()
        .delete(&pod, &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    let status = namespace.ends("deleted", RunPhase::Succeeded).await;
    let a = record(&status, "a");
    assert_eq!((a.attempt, a.disruptions), (2, 1));
    assert_eq!(a.earlier_attempts[0].reason, StepReason::PodDeleted);
    let ran = kubelet.executions("a");
    assert_eq!((ran.len(), &ran[0].key), (2, &ran[1].key));
    oncilla.stop().await;
    namespace.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_stops_what_runs() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("cancel").await;
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name).story("a", Story::hang());
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    namespace
        .create_run(
            "cancel",
            json!({"steps": [step("a", json!({})), step("b", json!({"needs": ["a"]}))]}),
        )
        .await;
    kubelet.executed(1).await;
    namespace
        .patch_run("cancel", json!({"spec": {"control": {"cancel": "Graceful"}}}))
        .await
        .unwrap();
    let status = namespace.ends("cancel", RunPhase::Cancelled).await;
    assert_eq!(status.reason, Some(RunReason::Cancelled));
    assert_eq!(record(&status, "a").phase, StepPhase::Cancelled);
    assert_eq!(record(&status, "b").reason, Some(StepReason::RunStopping));
    assert_eq!(kubelet.ledger().len(), 1);
    oncilla.stop().await;
    namespace.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suspend_lets_running_steps_end_and_holds_the_next_back() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("suspend").await;
    let gate = Gate::closed();
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name).story("a", Story::succeed("1").held_by(&gate));
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    namespace
        .create_run(
            "suspend",
            json!({"steps": [step("a", json!({})), step("b", json!({"needs": ["a"]}))]}),
        )
        .await;
    gate.reached(1).await;
    namespace
        .patch_run("suspend", json!({"spec": {"control": {"suspend": true}}}))
        .await
        .unwrap();
    namespace
        .until("suspend", "the controller has seen it", |status| {
            status.observed_generation == 2
        })
        .await;
    gate.open();
    let status = namespace
        .until("suspend", "suspended", |status| status.phase == RunPhase::Suspended)
        .await;
    assert_eq!(record(&status, "a").phase, StepPhase::Succeeded);
    assert!(!status.steps.as_ref().unwrap().contains_key("b"));
    namespace
        .patch_run("suspend", json!({"spec": {"control": {"suspend": false}}}))
        .await
        .unwrap();
    namespace.ends("suspend", RunPhase::Succeeded).await;
    assert_eq!(kubelet.ledger().len(), 2);
    oncilla.stop().await;
    namespace.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_run_leaves_nothing_behind() {
    let cluster = Cluster::connect().await;
    for (policy, params) in [
        ("background", DeleteParams::background()),
        ("foreground", DeleteParams::foreground()),
    ] {
        let namespace = cluster.namespace(policy).await;
        let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name).story("b", Story::hang());
        let oncilla = Oncilla::start(&cluster, &namespace).await;
        namespace
            .create_run(
                "gone",
                json!({"steps": [step("a", json!({})), step("b", json!({"needs": ["a"]}))]}),
            )
            .await;
        kubelet.executed(2).await;
        namespace.api::<WorkflowRun>().delete("gone", &params).await.unwrap();
        wait_for("run, Jobs and pods are gone", async || {
            let left = namespace
                .api::<Pod>()
                .list(&ListParams::default())
                .await
                .unwrap()
                .items
                .len()
                + namespace
                    .api::<Job>()
                    .list(&ListParams::default())
                    .await
                    .unwrap()
                    .items
                    .len()
                + namespace
                    .api::<WorkflowRun>()
                    .list(&ListParams::default())
                    .await
                    .unwrap()
                    .items
                    .len();
            if left == 0 {
                Ok(())
            } else {
                Err(format!("{policy}: {left} objects left"))
            }
        })
        .await;
        oncilla.stop().await;
        namespace.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_deleted_while_no_controller_is_there_is_tidied_up_at_the_next_start() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("swept").await;
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name).story("a", Story::hang());
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    namespace
        .create_run("swept", json!({"steps": [step("a", json!({}))]}))
        .await;
    kubelet.executed(1).await;
    oncilla.kill().await;
    namespace
        .api::<WorkflowRun>()
        .delete("swept", &DeleteParams::background())
        .await
        .unwrap();
    wait_for("the pod has been told to stop", async || {
        let pods = namespace.api::<Pod>().list(&ListParams::default()).await.unwrap();
        let stopping = pods.items.iter().all(|pod| pod.metadata.deletion_timestamp.is_some());
        if stopping { Ok(()) } else { Err("not yet".into()) }
    })
    .await;
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    wait_for("the pod is gone", async || {
        let left = namespace
            .api::<Pod>()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len();
        if left == 0 {
            Ok(())
        } else {
            Err(format!("{left} pods left"))
        }
    })
    .await;
    oncilla.stop().await;
    namespace.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_somebody_else_under_our_name_is_refused_and_left_alone() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("taken").await;
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name);
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    let spec = json!({"control": {"suspend": true}, "steps": [step("a", json!({}))]});
    let run = namespace.create_run("taken", spec).await;
    let name = job_name("taken", "a", run.metadata.uid.as_deref().unwrap(), "a", 1);
    let theirs: Job = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"suspend": true, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "x", "image": "y"}]}}},
    }))
    .unwrap();
    let theirs = namespace
        .api::<Job>()
        .create(
            &PostParams {
                field_manager: Some("somebody".into()),
                ..PostParams::default()
            },
            &theirs,
        )
        .await
        .unwrap();
    namespace
        .patch_run("taken", json!({"spec": {"control": {"suspend": false}}}))
        .await
        .unwrap();
    let status = namespace.ends("taken", RunPhase::Failed).await;
    let a = record(&status, "a");
    assert_eq!(a.reason, Some(StepReason::JobNameTaken));
    assert!(a.message.as_ref().unwrap().contains(&name), "{:?}", a.message);
    let now = namespace.api::<Job>().get(&name).await.unwrap().metadata;
    assert_eq!(
        (now.generation, now.uid),
        (theirs.metadata.generation, theirs.metadata.uid),
        "it was touched"
    );
    assert_eq!(
        (now.labels, now.finalizers),
        (theirs.metadata.labels, theirs.metadata.finalizers)
    );
    assert_eq!(kubelet.ledger(), []);
    oncilla.stop().await;
    namespace.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_exceeds_its_timeout_fails() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("timeout").await;
    let _kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name).story("a", Story::hang());
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    namespace
        .create_run("timeout", json!({"steps": [step("a", json!({"timeout": "1s"}))]}))
        .await;
    let status = namespace.ends("timeout", RunPhase::Failed).await;
    assert_eq!(record(&status, "a").reason, Some(StepReason::DeadlineExceeded));
    oncilla.stop().await;
    namespace.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_come_from_the_idempotency_key_and_not_from_the_run() {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("lineage").await;
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name);
    let oncilla = Oncilla::start(&cluster, &namespace).await;
    let spec = |order: &str| json!({"params": {"order": order}, "idempotency": {"key": "order-$[[ params.order ]]"}, "steps": [step("a", json!({}))]});
    for (name, order) in [("one", "1"), ("again", "1"), ("two", "2")] {
        namespace.create_run(name, spec(order)).await;
        let status = namespace.ends(name, RunPhase::Succeeded).await;
        assert_eq!(status.idempotency.unwrap().key, format!("order-{order}"));
    }
    let keys: Vec<String> = kubelet.executions("a").into_iter().map(|entry| entry.key).collect();
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[0], keys[2]);
    assert_eq!(path_hash("a").len(), 32);
    oncilla.stop().await;
    namespace.finish().await;
}
