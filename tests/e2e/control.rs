//! Runs and namespaces that are stopped and deleted while containers run.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace as NamespaceObject, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use oncilla::api::WorkflowRun;
use oncilla::api::words::StepReason::*;
use oncilla::api::words::{RunPhase, StepPhase};
use serde_json::json;

use crate::rig::{Rig, attempts, jobs, script, spec};
use crate::support::cluster::{Namespace, wait_for};
use crate::support::runs::record;

/// Waits until the namespace has no Job and no pod.
async fn empty(namespace: &Namespace) {
    wait_for("nothing is left", async || {
        let jobs = namespace
            .api::<Job>()
            .list(&ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let pods = namespace
            .api::<Pod>()
            .list(&ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        match jobs.items.len() + pods.items.len() {
            0 => Ok(()),
            _ => Err(format!("{:#?}\n{:#?}", jobs.items, pods.items)),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_container_is_told_to_stop_and_what_it_says_then_is_no_success() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("cancel").await;
    let polite = "trap 'echo stopped > $ONCILLA_OUTPUT; exit 0' TERM; touch /tmp/ready; sleep 600 & wait";
    let steps = vec![
        script(
            "polite",
            polite,
            json!({"podTemplate": {"spec": {"terminationGracePeriodSeconds": 30}}}),
        ),
        script("deaf", "trap '' TERM; touch /tmp/ready; sleep 600", json!({})),
        script("next", "true", json!({"needs": ["polite"]})),
    ];
    namespace.create_run("cancel", spec(steps, json!({}))).await;
    for step in ["polite", "deaf"] {
        let pod = rig.running_pod(&namespace, "cancel", step).await;
        let ready = "until [ -e /tmp/ready ]; do sleep 0.1; done";
        rig.exec(&namespace, &pod, ready).await;
    }
    namespace
        .patch_run("cancel", json!({"spec": {"control": {"cancel": "Graceful"}}}))
        .await
        .unwrap();
    let status = namespace.ends("cancel", RunPhase::Cancelled).await;
    for (step, code) in [("polite", Some(0)), ("deaf", Some(137))] {
        let record = record(&status, step);
        let is = (record.phase, record.reason, record.exit_code, record.output.as_deref());
        assert_eq!(is, (StepPhase::Cancelled, Some(RunCancelled), code, None), "{step}");
    }
    assert_eq!(record(&status, "next").reason, Some(RunStopping));
    assert_eq!(jobs(&namespace, "cancel").await, attempts(&["polite", "deaf"]));
    wait_for("no pod of it is left that has not ended", async || {
        let pods = namespace
            .api::<Pod>()
            .list(&ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let phases: Vec<_> = pods
            .items
            .iter()
            .filter_map(|pod| pod.status.as_ref()?.phase.clone())
            .collect();
        let ended = phases.iter().all(|phase| phase == "Succeeded" || phase == "Failed");
        if ended { Ok(()) } else { Err(format!("{phases:?}")) }
    })
    .await;
    rig.finish(namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_run_leaves_nothing() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("deletion").await;
    let steps = vec![
        script("ended", "echo 1 > $ONCILLA_OUTPUT", json!({})),
        script("runs", "sleep 600", json!({"needs": ["ended"]})),
        script(
            "waits",
            "true",
            json!({"container": {"image": "127.0.0.1:9/no-such-image:1"}}),
        ),
    ];
    namespace.create_run("deletion", spec(steps, json!({}))).await;
    namespace.stands("deletion", "runs", StepPhase::Running, Started).await;
    namespace
        .stands("deletion", "waits", StepPhase::Pending, ImagePullFailing)
        .await;
    rig.kubectl_in(&namespace, "delete wfr deletion").await;
    empty(&namespace).await;

    // The same in the foreground: the run stays until everything of it is gone.
    let steps = vec![
        script("ended", "true", json!({})),
        script("runs", "sleep 600", json!({"needs": ["ended"]})),
    ];
    namespace.create_run("foreground", spec(steps, json!({}))).await;
    namespace
        .stands("foreground", "runs", StepPhase::Running, Started)
        .await;
    rig.kubectl_in(&namespace, "delete wfr foreground --cascade=foreground")
        .await;
    empty(&namespace).await;
    let runs = namespace
        .api::<WorkflowRun>()
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(runs.items.len(), 0);
    rig.finish(namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_deleted_with_a_run_in_it_goes() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("goes").await;
    let steps = vec![
        script("a", "echo 1 > $ONCILLA_OUTPUT", json!({})),
        script("b", "sleep 600", json!({"needs": ["a"]})),
    ];
    namespace.create_run("run", spec(steps, json!({}))).await;
    namespace.stands("run", "b", StepPhase::Running, Started).await;
    let namespaces: Api<NamespaceObject> = Api::all(rig.cluster.admin.clone());
    namespaces
        .delete(&namespace.name, &DeleteParams::background())
        .await
        .unwrap();
    wait_for("the namespace is gone", async || {
        match namespaces.get_opt(&namespace.name).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:#?}")),
        }
    })
    .await;
}
