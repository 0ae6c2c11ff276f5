//! commit: one conditional status write, and what it justifies.
//!
//! Nothing is done to the cluster that the journal does not already say. The types hold that: [`Justified`] effects can only
//! be had from [`Recorded`], and `Recorded` only from an acknowledged write or from a journal that was read.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::{Value, json};

use crate::answer::{self, CommitMeaning};
use crate::api::names::CREATE_WINDOW_SECONDS;
use crate::api::status::WorkflowRunStatus;
use crate::client;
use crate::decide::Effect;
use crate::observe::views::RunView;
use crate::report;

/// How long a commit justifies a start: a process that was paused longer has to commit again (R3).
const FRESH: Duration = Duration::from_secs(10);

/// A status that the API server holds.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub status: WorkflowRunStatus,
    pub resource_version: String,
    fresh: Option<Fresh>,
}

/// A commit of this very reconcile.
#[derive(Clone, Copy, Debug)]
struct Fresh {
    acknowledged: Instant,
    /// The API server's time of it.
    server_time: Timestamp,
}

/// An effect that what is recorded allows.
#[derive(Clone, Debug)]
pub struct Justified {
    effect: Effect,
    create_before: Option<Timestamp>,
}

impl Recorded {
    /// A status that was read, with nothing to write. It justifies everything but a start.
    pub fn read(status: WorkflowRunStatus, resource_version: String) -> Recorded {
        Recorded {
            status,
            resource_version,
            fresh: None,
        }
    }

    /// The effects that this record justifies now. A start without a fresh commit of its own is left out: it comes again.
    pub fn justify(&self, effects: Vec<Effect>) -> Vec<Justified> {
        let create_before = self
            .fresh
            .filter(|fresh| fresh.acknowledged.elapsed() < FRESH)
            .and_then(|fresh| {
                fresh
                    .server_time
                    .checked_add(SignedDuration::from_secs(CREATE_WINDOW_SECONDS))
                    .ok()
            });
        effects
            .into_iter()
            .filter(|effect| !effect.starts() || create_before.is_some())
            .map(|effect| Justified { effect, create_before })
            .collect()
    }
}

impl Justified {
    pub fn effect(&self) -> &Effect {
        &self.effect
    }

    /// When the API server begins to refuse what this effect creates; none for one that creates nothing.
    pub fn create_before(&self) -> Option<Timestamp> {
        self.create_before.filter(|_| self.effect.starts())
    }
}

/// Writes `after` over the status that the run had at `before`. Only what differs is sent, with the resourceVersion that was
/// decided from: a stale one is a conflict.
pub async fn commit(
    client: &Client,
    run: &RunView,
    before: &Recorded,
    after: WorkflowRunStatus,
) -> Result<Recorded, CommitMeaning> {
    let name = run.metadata.name.as_deref().unwrap_or_default();
    let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
    let (Ok(old), Ok(new)) = (serde_json::to_value(&before.status), serde_json::to_value(&after)) else {
        return Err(CommitMeaning::Refused {
            message: "the status cannot be written as JSON".into(),
        });
    };
    let patch = json!({
        "metadata": {"resourceVersion": before.resource_version},
        "status": report::merge_patch(&old, &new),
    });
    let answered = client::write::patch_status(client, namespace, name, &patch).await;
    match answered {
        Ok((object, server_time)) => Ok(Recorded {
            status: after,
            resource_version: resource_version(&object),
            fresh: Some(Fresh {
                acknowledged: Instant::now(),
                server_time: server_time.unwrap_or_else(Timestamp::now),
            }),
        }),
        Err(error) => Err(answer::commit(answer::classify::<()>(&Err(error)))),
    }
}

fn resource_version(object: &Value) -> String {
    object
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}
