//! The simulated kubelet against the real Job controller: what later tests rest on.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use oncilla::answer::{Answer, CreateMeaning, EffectMeaning, classify, create, effect};
use oncilla::client::{read, write};
use serde_json::{Value, json};

use crate::support::cluster::{Cluster, Namespace, wait_for, watch_until};
use crate::support::gate::Gate;
use crate::support::kubelet::Kubelet;
use crate::support::story::Story;

/// A Job as Oncilla makes it, for attempt 1 of `step`.
fn job(step: &str) -> Value {
    let labels = json!({"oncilla.dev/step": step, "oncilla.dev/attempt": "1"});
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": step, "labels": labels},
        "spec": {
            "backoffLimit": 0, "completions": 1, "parallelism": 1, "podReplacementPolicy": "Failed",
            "template": {
                "metadata": {"labels": labels, "finalizers": ["oncilla.dev/evidence"]},
                "spec": {
                    "restartPolicy": "Never", "terminationGracePeriodSeconds": 5,
                    "containers": [{
                        "name": "main", "image": "step:1", "command": ["work"], "args": [step],
                        "env": [{"name": "ONCILLA_IDEMPOTENCY_KEY", "value": format!("key-{step}")},
                                {"name": "ONCILLA_FENCE", "value": "7"}, {"name": "N", "value": "41"}],
                    }],
                },
            },
        },
    })
}

async fn begin(client: &Client, namespace: &Namespace, step: &str) -> String {
    let stored = write::create_job(client, &namespace.name, &job(step)).await;
    stored.unwrap()["metadata"]["uid"].as_str().unwrap().to_string()
}

/// Waits until the Job has ended, and says how.
async fn ended(namespace: &Namespace, step: &str) -> String {
    watch_until("the Job has ended", &namespace.api::<Job>(), step, |job| {
        let status = job.and_then(|job| job.status.clone()).unwrap_or_default();
        let conditions = status.conditions.clone().unwrap_or_default();
        conditions
            .iter()
            .find(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")
            .map(|c| c.type_.clone())
            .ok_or(format!("{status:?}"))
    })
    .await
}

async fn pod(client: &Client, namespace: &Namespace, step: &str) -> Option<Pod> {
    let selector = format!("oncilla.dev/step={step}");
    let mut pods = read::list_pods(client, Some(&namespace.name), &selector).await.unwrap();
    pods.pop()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("")
}

fn main_state(pod: &Pod) -> Value {
    let status = serde_json::to_value(&pod.status).unwrap();
    status["containerStatuses"][0]["state"].clone()
}

#[tokio::test]
async fn steps_end_as_their_stories_say() {
    let cluster = Cluster::connect().await;
    let (client, _) = cluster.client().await;
    let namespace = cluster.namespace("stories").await;
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name)
        .story("good", Story::succeed(r#"{"paid":true}"#))
        .story("bad", Story::exit_saying(3, "no money"))
        .story("fat", Story::oom_killed())
        .story(
            "sum",
            Story::compute(|run| {
                let n: i64 = run.env["N"].parse().unwrap();
                (0, (n + 1).to_string())
            }),
        );

    for step in ["good", "bad", "fat", "sum"] {
        begin(&client, &namespace, step).await;
    }
    for (step, end, phase_word, code, reason, message) in [
        (
            "good",
            "Complete",
            "Succeeded",
            0,
            "Completed",
            json!(r#"{"paid":true}"#),
        ),
        ("bad", "Failed", "Failed", 3, "Error", json!("no money")),
        ("fat", "Failed", "Failed", 137, "OOMKilled", Value::Null),
        ("sum", "Complete", "Succeeded", 0, "Completed", json!("42")),
    ] {
        assert_eq!(ended(&namespace, step).await, end, "{step}");
        let pod = pod(&client, &namespace, step).await.expect("our finalizer keeps it");
        assert_eq!(phase(&pod), phase_word, "{step}");
        let terminated = &main_state(&pod)["terminated"];
        assert_eq!(terminated["exitCode"], code, "{step}");
        assert_eq!(terminated["reason"], reason, "{step}");
        assert_eq!(terminated["message"], message, "{step}");
        assert!(terminated["containerID"].is_string(), "{step}");
        let status = pod.status.unwrap();
        assert_eq!(status.observed_generation, pod.metadata.generation, "{step}");
        assert!(status.start_time.is_some(), "{step}");
    }
    let executions = kubelet.executions("good");
    assert_eq!(executions.len(), 1);
    assert_eq!(executions[0].key, "key-good");
    assert_eq!(executions[0].fence, "7");
    assert_eq!(executions[0].argv, ["work", "good"]);
    assert_eq!(kubelet.ledger().len(), 4);
    namespace.finish().await;
}

#[tokio::test]
async fn a_held_step_runs_until_its_gate_opens() {
    let cluster = Cluster::connect().await;
    let (client, _) = cluster.client().await;
    let namespace = cluster.namespace("held").await;
    let (scheduled, pulled, done) = (Gate::closed(), Gate::closed(), Gate::closed());
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name)
        .story("big", Story::unschedulable("0/1 nodes: no room").until(&scheduled))
        .story("far", Story::image_pull_failing("no such image").until(&pulled))
        .story("slow", Story::succeed("").held_by(&done));
    for step in ["big", "far", "slow"] {
        begin(&client, &namespace, step).await;
    }

    wait_for("big is unschedulable", async || {
        let pod = pod(&client, &namespace, "big").await.ok_or("no pod")?;
        let conditions = pod.status.unwrap().conditions.unwrap_or_default();
        let said = conditions.iter().any(|c| {
            c.type_ == "PodScheduled"
                && c.reason.as_deref() == Some("Unschedulable")
                && c.message.as_deref() == Some("0/1 nodes: no room")
        });
        said.then_some(()).ok_or(format!("{conditions:?}"))
    })
    .await;
    wait_for("the image of far cannot be pulled", async || {
        let pod = pod(&client, &namespace, "far").await.ok_or("no pod")?;
        let state = main_state(&pod);
        let said = state["waiting"] == json!({"reason": "ImagePullBackOff", "message": "no such image"});
        said.then_some(()).ok_or(state.to_string())
    })
    .await;
    done.reached(1).await;
    wait_for("slow is Running", async || {
        let pod = pod(&client, &namespace, "slow").await.ok_or("no pod")?;
        (phase(&pod) == "Running").then_some(()).ok_or(phase(&pod).to_string())
    })
    .await;
    let started: Vec<String> = kubelet.ledger().into_iter().map(|run| run.step).collect();
    assert_eq!(started, ["slow"]);

    for gate in [&scheduled, &pulled, &done] {
        gate.open();
    }
    for step in ["big", "far", "slow"] {
        assert_eq!(ended(&namespace, step).await, "Complete", "{step}");
    }
    kubelet.executed(3).await;
    namespace.finish().await;
}

#[tokio::test]
async fn a_stopped_step_says_that_it_was_told_to() {
    let cluster = Cluster::connect().await;
    let (client, _) = cluster.client().await;
    let namespace = cluster.namespace("stopped").await;
    let gate = Gate::closed();
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name)
        .story("lazy", Story::hang().when_stopped(0, "partial"))
        .story("shot", Story::pod_deleted())
        .story("early", Story::succeed("done").held_by(&gate).unaware_of_deletion());
    let uid = begin(&client, &namespace, "lazy").await;
    begin(&client, &namespace, "shot").await;
    begin(&client, &namespace, "early").await;

    // Closed by its Job's deadline: the Job controller deletes the pod.
    wait_for("lazy is Running", async || {
        let pod = pod(&client, &namespace, "lazy").await.ok_or("no pod")?;
        (phase(&pod) == "Running").then_some(()).ok_or(phase(&pod).to_string())
    })
    .await;
    write::close_job(&client, &namespace.name, "lazy", &uid).await.unwrap();
    for step in ["lazy", "shot"] {
        assert_eq!(ended(&namespace, step).await, "Failed", "{step}");
        let pod = pod(&client, &namespace, step).await.expect("our finalizer keeps it");
        assert!(pod.metadata.deletion_timestamp.is_some(), "{step}");
        let status = pod.status.as_ref().unwrap();
        assert_eq!(pod.metadata.generation, Some(2), "{step}");
        assert_eq!(status.observed_generation, Some(2), "{step}: it knew");
    }
    let lazy = pod(&client, &namespace, "lazy").await.unwrap();
    assert_eq!(main_state(&lazy)["terminated"]["message"], "partial");

    // One that had finished before the kubelet knew of the deletion says so by the generation.
    gate.reached(1).await;
    let running = pod(&client, &namespace, "early").await.unwrap();
    let (name, uid) = (running.metadata.name.unwrap(), running.metadata.uid.unwrap());
    write::delete_pod(&client, &namespace.name, &name, &uid).await.unwrap();
    gate.open();
    wait_for("early has succeeded", async || {
        let pod = pod(&client, &namespace, "early").await.ok_or("no pod")?;
        (phase(&pod) == "Succeeded")
            .then_some(())
            .ok_or(phase(&pod).to_string())
    })
    .await;
    let early = pod(&client, &namespace, "early").await.unwrap();
    assert!(early.metadata.deletion_timestamp.is_some());
    assert_eq!(early.metadata.generation, Some(2));
    assert_eq!(early.status.unwrap().observed_generation, Some(1));
    assert_eq!(kubelet.ledger().len(), 3);

    // Released, it goes.
    let (name, uid) = (lazy.metadata.name.unwrap(), lazy.metadata.uid.unwrap());
    write::release_pod(&client, &namespace.name, &name, &uid).await.unwrap();
    wait_for("lazy's pod is gone", async || {
        match pod(&client, &namespace, "lazy").await {
            None => Ok(()),
            Some(pod) => Err(format!("{:?}", pod.metadata)),
        }
    })
    .await;
    namespace.finish().await;
}

#[tokio::test]
async fn the_real_api_server_answers_as_the_document_says() {
    let cluster = Cluster::connect().await;
    let (client, _) = cluster.client().await;
    let namespace = cluster.namespace("answers").await;
    let ns = &namespace.name.clone();
    let kubelet = Kubelet::start(cluster.admin.clone(), ns).story("kept", Story::succeed("1"));
    let uid = begin(&client, &namespace, "kept").await;
    let other = "00000000-0000-0000-0000-000000000000";

    let meaning = |result| create(classify(&result));
    let again = meaning(write::create_job(&client, ns, &job("kept")).await);
    assert!(matches!(again, CreateMeaning::Exists { .. }), "{again:?}");
    let mut misspelt = job("misspelt");
    misspelt["spec"]["template"]["spec"]["containers"][0]["imagee"] = "x".into();
    let rejected = meaning(write::create_job(&client, ns, &misspelt).await);
    assert!(
        matches!(&rejected, CreateMeaning::Rejected { message } if message.contains("imagee")),
        "{rejected:?}"
    );
    let rejected = meaning(write::create_job(&client, ns, &job("Bad_Name")).await);
    assert!(matches!(rejected, CreateMeaning::Rejected { .. }), "{rejected:?}");
    let gone = meaning(write::create_job(&client, "no-such-namespace", &job("x")).await);
    assert_eq!(gone, CreateMeaning::NamespaceGone);

    // A pod keeps its finalizers but for ours, also when it is released twice.
    assert_eq!(ended(&namespace, "kept").await, "Complete");
    let pod = pod(&client, &namespace, "kept").await.unwrap();
    let name = pod.metadata.name.unwrap();
    let pod_uid = pod.metadata.uid.unwrap();
    let wrong = write::release_pod(&client, ns, &name, other).await;
    assert_eq!(classify(&wrong), Answer::OtherObject);
    let kept: Option<Pod> = read::get_pod(&client, ns, &name).await.unwrap();
    assert!(
        kept.unwrap()
            .metadata
            .finalizers
            .unwrap()
            .contains(&"oncilla.dev/evidence".to_string())
    );
    for _ in 0..2 {
        write::release_pod(&client, ns, &name, &pod_uid).await.unwrap();
    }
    let released: Option<Pod> = read::get_pod(&client, ns, &name).await.unwrap();
    assert_eq!(released.unwrap().metadata.finalizers, None);

    // Effects on another object of that name change nothing.
    for result in [
        write::close_job(&client, ns, "kept", other).await,
        write::delete_job(&client, ns, "kept", other).await,
        write::delete_pod(&client, ns, &name, other).await,
    ] {
        assert_eq!(classify(&result), Answer::OtherObject);
        assert_eq!(effect(classify(&result)), EffectMeaning::Done);
    }
    let stored: Job = read::get_job(&client, ns, "kept").await.unwrap().unwrap();
    assert_eq!(stored.metadata.uid.as_deref(), Some(uid.as_str()));
    assert_eq!(stored.spec.unwrap().active_deadline_seconds, None);

    write::delete_job(&client, ns, "kept", &uid).await.unwrap();
    wait_for("the Job is gone", async || {
        match read::get_job::<Job>(&client, ns, "kept").await.unwrap() {
            None => Ok(()),
            Some(job) => Err(format!("{:?}", job.metadata)),
        }
    })
    .await;
    let late = write::delete_job(&client, ns, "kept", &uid).await;
    assert_eq!(effect(classify(&late)), EffectMeaning::Done);

    // Quota says no for now.
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
                       "spec": {"hard": {"count/jobs.batch": "0"}}});
    let quotas = namespace.api::<k8s_openapi::api::core::v1::ResourceQuota>();
    quotas
        .create(&Default::default(), &serde_json::from_value(quota).unwrap())
        .await
        .unwrap();
    wait_for("the quota counts", async || {
        let quota = quotas.get("q").await.map_err(|e| e.to_string())?;
        let hard = quota.status.and_then(|status| status.hard);
        hard.map(|_| ()).ok_or("not yet".to_string())
    })
    .await;
    let refused = meaning(write::create_job(&client, ns, &job("over")).await);
    assert!(
        matches!(&refused, CreateMeaning::NotNow(waiting) if waiting.reason.as_str() == "QuotaExceeded"),
        "{refused:?}"
    );
    drop(kubelet);

    // The namespace goes, and something in it holds it for as long as the test looks.
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hold", "finalizers": ["example.com/hold"]}});
    let configs = namespace.api::<k8s_openapi::api::core::v1::ConfigMap>();
    configs
        .create(&Default::default(), &serde_json::from_value(config).unwrap())
        .await
        .unwrap();
    namespace.finish().await;
    let ending = meaning(write::create_job(&client, ns, &job("over")).await);
    assert_eq!(ending, CreateMeaning::NamespaceTerminating);
    let release = json!({"metadata": {"finalizers": null}});
    configs
        .patch("hold", &Default::default(), &kube::api::Patch::Merge(release))
        .await
        .unwrap();
}
