//! act: sends effects. What an answer means is decided in [`crate::answer`]; here it only becomes a fact for the next decision.

use futures::{FutureExt, StreamExt, stream};
use kube::Client;
use serde_json::Value;

use crate::answer::{self, CreateMeaning, EffectMeaning};
use crate::api::status::WorkflowRunStatus;
use crate::build;
use crate::client::write;
use crate::commit::Justified;
use crate::decide::Effect;
use crate::plan::{self, Plan};

/// Requests under way at once for one run.
const AT_ONCE: usize = 8;

/// What came of an effect.
#[derive(Debug)]
pub enum Outcome {
    /// It holds, whoever did it.
    Done,
    /// This pod no longer holds our finalizer.
    Released { uid: String },
    /// The Job was created and is stored like this.
    Created { name: String, job: Box<Value> },
    /// The Job cannot be made out of the spec; nothing was sent.
    NotBuilt { name: String, message: String },
    /// The create was answered with something else.
    NotCreated { name: String, meaning: CreateMeaning },
    /// It is not known whether it holds: it comes again with the next reconcile.
    Unknown { what: String },
    /// The API server will not have it, and asking again does not help.
    Refused { what: String, message: String },
}

/// Sends the effects of one commit. They are independent of each other, so creates do not wait for releases.
pub async fn act(client: &Client, plan: &Plan, status: &WorkflowRunStatus, effects: &[Justified]) -> Vec<Outcome> {
    let requests: Vec<_> = effects
        .iter()
        .map(|effect| send(client, plan, status, effect).boxed())
        .collect();
    stream::iter(requests).buffered(AT_ONCE).collect().await
}

async fn send(client: &Client, plan: &Plan, status: &WorkflowRunStatus, justified: &Justified) -> Outcome {
    let namespace = plan.run.namespace.as_str();
    match justified.effect() {
        Effect::CreateJob { path } => create(client, plan, status, justified, path).await,
        Effect::CloseJob { name, uid } => {
            effect("close Job", name, &write::close_job(client, namespace, name, uid).await)
        }
        Effect::DeleteJob { name, uid } => effect(
            "delete Job",
            name,
            &write::delete_job(client, namespace, name, uid).await,
        ),
        Effect::DeletePod { name, uid } => effect(
            "delete pod",
            name,
            &write::delete_pod(client, namespace, name, uid).await,
        ),
        Effect::ReleasePod { name, uid } => {
            let answer = write::release_pod(client, namespace, name, uid).await;
            match effect("release pod", name, &answer) {
                Outcome::Done => Outcome::Released { uid: uid.clone() },
                other => other,
            }
        }
    }
}

/// What the answer to anything but a create means.
pub fn effect(verb: &str, name: &str, result: &Result<(), kube::Error>) -> Outcome {
    let what = format!("{verb} {name}");
    match answer::effect(answer::classify(result)) {
        EffectMeaning::Done => Outcome::Done,
        EffectMeaning::Retry { message } => Outcome::Unknown {
            what: format!("{what}: {message}"),
        },
        EffectMeaning::Refused { message } => Outcome::Refused { what, message },
    }
}

async fn create(
    client: &Client,
    plan: &Plan,
    status: &WorkflowRunStatus,
    justified: &Justified,
    path: &str,
) -> Outcome {
    let Some(create_before) = justified.create_before() else {
        return Outcome::Unknown {
            what: format!("create the Job of {path}: no commit of its own"),
        };
    };
    let step = plan.steps.iter().find(|step| step.path == path);
    let record = status.steps.as_ref().and_then(|steps| steps.get(path));
    let (Some(step), Some(record)) = (step, record) else {
        return Outcome::Unknown {
            what: format!("create the Job of {path}: it has no record"),
        };
    };
    let name = record.job_name.clone().unwrap_or_default();
    let empty = Default::default();
    let records = status.steps.as_ref().unwrap_or(&empty);
    let scope = plan::scope::scope(plan, records, &step.reads, status.start_time, Some(record.attempt));
    let job = match build::job(plan, step, record, &scope, create_before) {
        Ok(job) => job,
        Err(error) => {
            let message = error.to_string();
            return Outcome::NotBuilt { name, message };
        }
    };
    match write::create_job(client, &plan.run.namespace, &job).await {
        Ok(job) => Outcome::Created {
            name,
            job: Box::new(job),
        },
        Err(error) => {
            let meaning = answer::create(answer::classify::<()>(&Err(error)));
            Outcome::NotCreated { name, meaning }
        }
    }
}
