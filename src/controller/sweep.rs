//! Pods of runs that are gone, or going: nothing reads what they say any more, so nothing holds them (R8b).

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::runtime::controller::Action;

use super::Context;
use super::reconcile::Error;
use crate::act::{self, Outcome};
use crate::client::{read, write};
use crate::observe::evidence::RunRef;
use crate::observe::views::RunView;

/// Between two looks at everything: a deletion that no watch showed is seen by then.
const EVERY: Duration = Duration::from_secs(60);
/// Before a release that was not answered is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// A run with a deletionTimestamp never comes back: its unfinished Jobs are on their way out, and its pods are let go, since in
/// a foreground deletion the run waits for them.
pub async fn release_deleted(context: &Context, run: &RunView) -> Result<Action, Error> {
    let uid = run.metadata.uid.as_deref().unwrap_or_default();
    let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
    let left = !release_all(context, namespace, uid).await;
    Ok(if left {
        Action::requeue(AGAIN)
    } else {
        Action::await_change()
    })
}

/// Releases what is held for runs that are gone: at the start, whenever a run is deleted, and every minute.
pub async fn sweep(context: Arc<Context>) {
    loop {
        let mut again = EVERY;
        // A deletion that fell into a gap of the watch is told by nothing else.
        context.forget_unknown();
        for RunRef { namespace, name, uid } in context.index.runs_with_held_pods() {
            if context.is_known(&namespace, &name, &uid) {
                continue;
            }
            match is_gone(&context, &namespace, &name, &uid).await {
                Ok(true) => {
                    context.forget(&uid);
                    if !release_all(&context, &namespace, &uid).await {
                        again = again.min(AGAIN);
                    }
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(run = %name, %namespace, %error, "cannot tell whether a run is gone");
                    again = again.min(AGAIN);
                }
            }
        }
        // A run that is deleted now, or the next look at everything.
        let _ = tokio::time::timeout(again, context.run_deleted.notified()).await;
    }
}

/// By a live read, since a cache can be behind.
async fn is_gone(context: &Context, namespace: &str, name: &str, uid: &str) -> Result<bool, kube::Error> {
    let run: Option<RunView> = match read::get_run(&context.client, namespace, name).await {
        // A label that is no name at all, on a pod that some other hand made: no run has it.
        Err(kube::Error::BuildRequest(_)) => None,
        answer => answer?,
    };
    Ok(run.is_none_or(|run| run.uid().as_deref() != Some(uid)))
}

/// Whether every pod of the run is released.
pub(super) async fn release_all(context: &Context, namespace: &str, uid: &str) -> bool {
    let mut all = true;
    for pod in context.index.held_pods(namespace, uid) {
        let answer = write::release_pod(&context.client, namespace, &pod.name, &pod.uid).await;
        let outcome = act::effect("release pod", &pod.name, &answer);
        if !matches!(outcome, Outcome::Done) {
            tracing::warn!(pod = %pod.name, %namespace, ?outcome, "a pod of a run that is gone is still held");
            all = false;
        }
    }
    all
}
