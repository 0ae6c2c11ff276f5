//! A step that cannot begin says why, in the words of the node or the scheduler, until it can.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PostParams;
use oncilla::api::words::StepReason::*;
use oncilla::api::words::{RunPhase, StepPhase};
use serde_json::json;

use crate::rig::{Rig, attempts, executions, message, output, script, spec};
use crate::support::runs::record;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_said_until_it_is_there() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("missing").await;
    let volume = json!({
        "container": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        "podTemplate": {"spec": {"volumes": [{"name": "v", "secret": {"secretName": "later"}}]}},
    });
    let variable =
        json!({"container": {"env": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "later", "key": "k"}}}]}});
    let variables = json!({"container": {"envFrom": [{"configMapRef": {"name": "later-too"}}]}});
    let steps = vec![
        script("volume", "cat /v/k > $ONCILLA_OUTPUT", volume),
        script("variable", "echo $K > $ONCILLA_OUTPUT", variable),
        script("variables", "echo $K > $ONCILLA_OUTPUT", variables),
    ];
    namespace.create_run("missing", spec(steps, json!({}))).await;
    for (step, words) in [
        ("volume", "later"),
        ("variable", "secret \"later\""),
        ("variables", "configmap \"later-too\""),
    ] {
        let waits = namespace
            .stands("missing", step, StepPhase::Pending, ConfigMissing)
            .await;
        assert!(message(&waits).contains(words), "{step}: {}", message(&waits));
    }
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "later"}, "stringData": {"k": "here"}})).unwrap();
    namespace.api().create(&PostParams::default(), &secret).await.unwrap();
    let config: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "later-too"}, "data": {"K": "here"}})).unwrap();
    namespace.api().create(&PostParams::default(), &config).await.unwrap();
    let status = namespace.ends("missing", RunPhase::Succeeded).await;
    for step in ["volume", "variable", "variables"] {
        assert_eq!(
            (output(record(&status, step)), record(&status, step).attempt),
            ("here", 1)
        );
    }
    rig.finish(namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_starts_says_why_and_can_be_cancelled() {
    let rig = Rig::ready().await;
    let namespace = rig.namespace("never").await;
    let unpullable = |image| json!({"container": {"image": image}});
    let steps = vec![
        // Nothing listens there.
        script("image", "true", unpullable("127.0.0.1:9/no-such-image:1")),
        script("name", "true", unpullable("No Such Image")),
        script(
            "cpu",
            "true",
            json!({"container": {"resources": {"requests": {"cpu": 1000}}}}),
        ),
        script(
            "node",
            "true",
            json!({"podTemplate": {"spec": {"nodeSelector": {"no-such-label": "x"}}}}),
        ),
    ];
    namespace.create_run("never", spec(steps, json!({}))).await;
    for (step, reason, words) in [
        ("image", ImagePullFailing, "no-such-image"),
        ("name", ImagePullFailing, "No Such Image"),
        ("cpu", Unschedulable, "Insufficient cpu"),
        ("node", Unschedulable, "node affinity/selector"),
    ] {
        let waits = namespace.stands("never", step, StepPhase::Pending, reason).await;
        assert!(message(&waits).contains(words), "{step}: {}", message(&waits));
    }
    // The run says it as well, where kubectl get shows it.
    let waits = namespace
        .until("never", "it says why it waits", |status| status.message.is_some())
        .await;
    let said = waits.message.unwrap();
    assert!(
        said.contains("ImagePullFailing") || said.contains("Unschedulable"),
        "{said}"
    );
    namespace
        .patch_run("never", json!({"spec": {"control": {"cancel": "Graceful"}}}))
        .await
        .unwrap();
    let status = namespace.ends("never", RunPhase::Cancelled).await;
    for step in ["image", "name", "cpu", "node"] {
        assert_eq!(record(&status, step).reason, Some(RunCancelled), "{step}");
    }
    assert_eq!(executions(&namespace, "never").await, attempts(&[]));
    rig.finish(namespace).await;
}
