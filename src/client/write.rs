//! Everything that Oncilla changes: the commit and the effects.
//!
//! Each effect names the object by UID, so that a late or repeated one cannot meet another object of the same name, and
//! none has an inverse (R13). What the answers mean is in [`crate::answer`]: `commit`, `create` and `effect`.

use http::Method;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

use super::retry::Retry;
use super::send::send;
use super::{JOBS, PODS, RUNS, Resource, write_query};
use crate::api::names;

/// The commit: a merge patch of a run's status, sent once. With `metadata.resourceVersion` in `merge_patch` it is refused
/// unless the run is still the one that was decided from. Returns the run as stored, and the API server's clock at the
/// acknowledgement, in whole seconds.
pub async fn patch_status(
    client: &Client,
    namespace: &str,
    name: &str,
    merge_patch: &Value,
) -> Result<(Value, Option<Timestamp>), kube::Error> {
    let uri = format!("{}/status{}", RUNS.object(Some(namespace), name)?, write_query());
    let reply = send(client, Method::PATCH, &uri, MERGE, merge_patch).await?;
    Ok((reply.object, reply.date))
}

/// Creates a Job, sent once. Returns it as stored: webhooks may have changed it.
pub async fn create_job(client: &Client, namespace: &str, job: &Value) -> Result<Value, kube::Error> {
    let uri = format!("{}{}", JOBS.collection(Some(namespace))?, write_query());
    Ok(send(client, Method::POST, &uri, JSON, job).await?.object)
}

/// Closes an attempt for good: its Job ends a second after it has started, and starts no pod after that. Does nothing to a
/// suspended Job; such a one is deleted instead.
pub async fn close_job(client: &Client, namespace: &str, name: &str, uid: &str) -> Result<(), kube::Error> {
    let patch = json!({"metadata": {"uid": uid}, "spec": {"activeDeadlineSeconds": 1}});
    patch_object(client, JOBS, namespace, name, &patch).await
}

/// Takes our finalizer, and no other, off a pod. Writing the list of finalizers would take the Job controller's away too,
/// and make it run a step that has succeeded once more.
pub async fn release_pod(client: &Client, namespace: &str, name: &str, uid: &str) -> Result<(), kube::Error> {
    let patch = json!({"metadata": {
        "uid": uid,
        "$deleteFromPrimitiveList/finalizers": [names::FINALIZER_EVIDENCE],
    }});
    patch_object(client, PODS, namespace, name, &patch).await
}

/// Deletes a Job and, in the background, its pods.
pub async fn delete_job(client: &Client, namespace: &str, name: &str, uid: &str) -> Result<(), kube::Error> {
    delete(client, JOBS, namespace, name, uid).await
}

/// Deletes a pod with the grace that its spec gives it.
pub async fn delete_pod(client: &Client, namespace: &str, name: &str, uid: &str) -> Result<(), kube::Error> {
    delete(client, PODS, namespace, name, uid).await
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

async fn patch_object(
    client: &Client,
    resource: Resource,
    namespace: &str,
    name: &str,
    patch: &Value,
) -> Result<(), kube::Error> {
    let uri = resource.object(Some(namespace), name)? + &write_query();
    Retry::default()
        .run(&uri, || send::<Value>(client, Method::PATCH, &uri, STRATEGIC, patch))
        .await
        .map(drop)
}

async fn delete(
    client: &Client,
    resource: Resource,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<(), kube::Error> {
    let uri = resource.object(Some(namespace), name)?;
    // Without a propagation policy the pods of a Job stay, without an owner, and run on.
    let options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": uid},
    });
    Retry::default()
        .run(&uri, || send::<Value>(client, Method::DELETE, &uri, JSON, &options))
        .await
        .map(drop)
}
