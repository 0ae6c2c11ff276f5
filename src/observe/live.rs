//! Questions that only the API server itself can answer: an attempt whose Job a cache does not show, a node that may be gone,
//! a Job without a pod. What is read here is added to the evidence, for the next decision.

use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::events::explain_events;
use super::evidence::{RunRef, belongs_to, job_evidence, pod_evidence};
use super::index::Index;
use super::views::{EventView, JobView, PodView};
use crate::api::names::{LABEL_ATTEMPT, LABEL_RUN_UID, LABEL_STEP_HASH};
use crate::client::read;
use crate::decide::Query;
use crate::evidence::{AttemptId, Evidence, JobEvidence, Node, Waiting};
use crate::plan::RunInfo;

/// Kubernetes' taint of a node that somebody declared dead.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The Job controller's own label: a pod that lost ours is still found by it.
const LABEL_CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
/// Most events read about one object.
const EVENTS: u32 = 50;

/// Answers `query` and adds the answer to `evidence`. What events say goes to `index` too, so that it is not asked again
/// at every reconcile.
pub async fn answer(
    client: &Client,
    run: &RunInfo,
    query: &Query,
    evidence: &mut Evidence,
    index: &Index,
) -> Result<(), kube::Error> {
    match query {
        Query::Attempt { attempt, job_name } => read_attempt(client, run, attempt, job_name.as_deref(), evidence).await,
        Query::Explain { name, uid, is_pod } => {
            let waiting = explain(client, run, uid).await?;
            let run = RunRef {
                namespace: run.namespace.clone(),
                uid: run.uid.clone(),
                name: run.name.clone(),
            };
            if *is_pod {
                index.explain_pod(&run, name, uid, waiting.clone());
                evidence
                    .pods
                    .iter_mut()
                    .filter(|pod| pod.uid == *uid)
                    .for_each(|pod| pod.waiting.clone_from(&waiting));
            } else {
                index.explain_job(&run, name, uid, waiting.clone());
                evidence
                    .jobs
                    .values_mut()
                    .filter(|job| job.uid == *uid)
                    .for_each(|job| job.waiting.clone_from(&waiting));
            }
            Ok(())
        }
        Query::Node { name } => {
            if is_lost(client, name).await? {
                let lost = Node::Lost(name.clone());
                let there = evidence
                    .pods
                    .iter_mut()
                    .filter(|pod| pod.node == Node::Named(name.clone()));
                there.for_each(|pod| pod.node = lost.clone());
            }
            Ok(())
        }
    }
}

/// An attempt's Job by name and its pods by label. The Job first: a pod that it starts in between is then seen.
async fn read_attempt(
    client: &Client,
    run: &RunInfo,
    attempt: &AttemptId,
    job_name: Option<&str>,
    evidence: &mut Evidence,
) -> Result<(), kube::Error> {
    let mut found = None;
    if let Some(name) = job_name {
        let job: Option<JobView> = read::get_job(client, &run.namespace, name).await?;
        // Of another owner: no evidence, and the create of ours will say so.
        if let Some(job) = job
            .filter(|job| belongs_to(job, &run.uid, attempt))
            .as_ref()
            .and_then(job_evidence)
        {
            found = Some((name, job));
        }
    }
    let (hash, number) = attempt;
    let selector = format!(
        "{LABEL_RUN_UID}={},{LABEL_STEP_HASH}={hash},{LABEL_ATTEMPT}={number}",
        run.uid
    );
    let mut pods: Vec<PodView> = read::list_pods(client, Some(&run.namespace), &selector).await?;
    if let (true, Some((_, job))) = (pods.is_empty(), &found) {
        let uid = &job.uid;
        pods = read::list_pods(client, Some(&run.namespace), &format!("{LABEL_CONTROLLER_UID}={uid}")).await?;
        for pod in &mut pods {
            let labels = pod.metadata.labels.get_or_insert_default();
            labels.insert(LABEL_RUN_UID.into(), run.uid.clone());
            labels.insert(LABEL_STEP_HASH.into(), hash.clone());
            labels.insert(LABEL_ATTEMPT.into(), number.to_string());
        }
    }
    // All is read before anything of the evidence is replaced: half an answer is none.
    if job_name.is_some() {
        evidence.jobs.retain(|_, job| job.attempt != *attempt);
    }
    if let Some((name, job)) = found {
        evidence.jobs.insert(name.to_owned(), job);
    }
    let known = std::mem::take(&mut evidence.pods);
    let (before, mut kept): (Vec<_>, Vec<_>) = known.into_iter().partition(|pod| pod.attempt == *attempt);
    for mut pod in pods.iter().filter_map(pod_evidence) {
        if let Some(earlier) = before.iter().find(|earlier| earlier.uid == pod.uid) {
            pod.ended_before_deletion |= earlier.ended_before_deletion || earlier.is_terminal() && !earlier.deleting;
            pod.waiting.clone_from(&earlier.waiting);
        }
        kept.push(pod);
    }
    kept.sort_by(|a, b| (&a.attempt, &a.uid).cmp(&(&b.attempt, &b.uid)));
    evidence.pods = kept;
    evidence.live.insert(attempt.clone());
    Ok(())
}

/// Why the object has not begun, by its events.
async fn explain(client: &Client, run: &RunInfo, uid: &str) -> Result<Option<Waiting>, kube::Error> {
    let events: Api<EventView> = Api::namespaced(client.clone(), &run.namespace);
    let about = ListParams::default()
        .fields(&format!("involvedObject.uid={uid}"))
        .limit(EVENTS);
    let events = events.list(&about).await?;
    Ok(explain_events(&events.items))
}

/// Whether the node will never report again: its object is gone, or somebody declared it out of service.
async fn is_lost(client: &Client, name: &str) -> Result<bool, kube::Error> {
    let node: Option<KubeNode> = read::get_node(client, name).await?;
    let Some(node) = node else { return Ok(true) };
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    Ok(taints.iter().any(|taint| taint.key == OUT_OF_SERVICE))
}

/// A Job as a create was answered.
pub fn created(job: Value) -> Option<JobEvidence> {
    let job: JobView = serde_json::from_value(job).ok()?;
    job_evidence(&job)
}

/// What holds the name of a Job that could not be created.
pub enum Existing {
    /// The very attempt's Job: the answer to an earlier create was lost, or another controller was faster.
    Ours(Box<JobEvidence>),
    /// Nothing any more.
    Gone,
    /// Something else.
    Foreign(String),
}

/// Reads what holds the name: it is adopted only if run, attempt and owner match (R4).
pub async fn existing_job(
    client: &Client,
    run: &RunInfo,
    name: &str,
    attempt: &AttemptId,
) -> Result<Existing, kube::Error> {
    let job: Option<JobView> = read::get_job(client, &run.namespace, name).await?;
    let Some(job) = job else { return Ok(Existing::Gone) };
    if belongs_to(&job, &run.uid, attempt)
        && let Some(job) = job_evidence(&job)
    {
        return Ok(Existing::Ours(Box::new(job)));
    }
    let owner = job
        .owner_references()
        .iter()
        .map(|owner| format!("{} {}", owner.kind, owner.name))
        .next();
    Ok(Existing::Foreign(format!(
        "Job {name} exists and is not this attempt's: its owner is {}; delete it, and create the run anew",
        owner.as_deref().unwrap_or("nobody")
    )))
}
