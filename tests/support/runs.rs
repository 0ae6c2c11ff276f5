//! WorkflowRuns for tests: making them, and waiting for what becomes of them.

use kube::api::{Patch, PatchParams, PostParams};
use oncilla::api::WorkflowRun;
use oncilla::api::status::{Record, WorkflowRunStatus};
use oncilla::api::words::{RunPhase, StepPhase, StepReason};
use serde_json::{Value, json};

use super::cluster::{Namespace, watch_until};

impl Namespace {
    /// Creates a run; the API server must take it.
    pub async fn create_run(&self, name: &str, spec: Value) -> WorkflowRun {
        let run = json!({"apiVersion": "oncilla.dev/v1alpha1", "kind": "WorkflowRun", "metadata": {"name": name}, "spec": spec});
        let run: WorkflowRun = serde_json::from_value(run).expect("a run");
        let created = self.api::<WorkflowRun>().create(&PostParams::default(), &run).await;
        created.unwrap_or_else(|error| panic!("run {name}: {error}"))
    }

    pub async fn status_of(&self, name: &str) -> WorkflowRunStatus {
        let run = self.api::<WorkflowRun>().get(name).await;
        run.unwrap_or_else(|error| panic!("run {name}: {error}"))
            .status
            .unwrap_or_default()
    }

    /// Merges `patch` into the run, as `kubectl patch --type=merge` does.
    pub async fn patch_run(&self, name: &str, patch: Value) -> Result<WorkflowRun, kube::Error> {
        self.api::<WorkflowRun>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
    }

    /// Waits until the run's status is so.
    pub async fn until(&self, name: &str, what: &str, test: impl Fn(&WorkflowRunStatus) -> bool) -> WorkflowRunStatus {
        watch_until(what, &self.api::<WorkflowRun>(), name, |run| {
            let status = run.and_then(|run| run.status.clone()).unwrap_or_default();
            if test(&status) { Ok(status) } else { Err(shown(&status)) }
        })
        .await
    }

    /// Waits until the run has ended, and checks how.
    pub async fn ends(&self, name: &str, phase: RunPhase) -> WorkflowRunStatus {
        let status = self
            .until(name, &format!("{name} ends"), |status| status.phase.is_final())
            .await;
        assert_eq!(status.phase, phase, "{}", shown(&status));
        status
    }

    /// Waits until the step stands so.
    pub async fn stands(&self, name: &str, path: &str, phase: StepPhase, reason: StepReason) -> Record {
        let what = format!("{path} is {phase}/{reason}");
        let is = |status: &WorkflowRunStatus| {
            status
                .steps
                .as_ref()?
                .get(path)
                .filter(|r| r.phase == phase && r.reason == Some(reason))
                .cloned()
        };
        is(&self.until(name, &what, |status| is(status).is_some()).await).expect("it was there")
    }
}

/// A step with an image and whatever `more` adds.
pub fn step(name: &str, more: Value) -> Value {
    let mut step = json!({"name": name, "container": {"image": "step:1"}});
    for (key, value) in more.as_object().into_iter().flatten() {
        step[key] = value.clone();
    }
    step
}

pub fn record<'a>(status: &'a WorkflowRunStatus, path: &str) -> &'a Record {
    let steps = status
        .steps
        .as_ref()
        .unwrap_or_else(|| panic!("no records: {}", shown(status)));
    steps
        .get(path)
        .unwrap_or_else(|| panic!("no record of {path}: {}", shown(status)))
}

pub fn shown(status: &WorkflowRunStatus) -> String {
    serde_json::to_string_pretty(status).unwrap_or_default()
}
