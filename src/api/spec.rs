//! What people write: a WorkflowRun's `spec`.
//!
//! No field has a default in the schema: a manifest's digest must not change with a newer CRD. What Oncilla assumes for a
//! field that is left out is said beside it.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::schema;
use super::status::WorkflowRunStatus;

/// A workflow's steps, run as Jobs, with each step's output recorded in the status.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "oncilla.dev",
    version = "v1alpha1",
    kind = "WorkflowRun",
    plural = "workflowruns",
    shortname = "wfr",
    category = "oncilla",
    namespaced,
    doc = "A workflow's steps, run as Jobs. Each step's output is recorded in the status, and a step that is recorded as succeeded never runs again.",
    status = "WorkflowRunStatus",
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Steps", "type": "string", "jsonPath": ".status.progress", "description": "Ended steps of all steps."}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Started", "type": "date", "jsonPath": ".status.startTime", "priority": 1}"#,
    printcolumn = r#"{"name": "Finished", "type": "date", "jsonPath": ".status.completionTime", "priority": 1}"#,
    printcolumn = r#"{"name": "Key", "type": "string", "jsonPath": ".status.idempotency.key", "priority": 1}"#,
    // Last, because a long one would push the others off the screen.
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message", "description": "Why the run is in its phase."}"#
)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowRunSpec {
    /// Values for the steps: any JSON object whose keys are identifiers. Expressions read them as params.NAME.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub params: Option<BTreeMap<String, Value>>,

    /// What makes two runs the same piece of work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<Idempotency>,

    /// What a failed step does to the rest of the run. Stop (default): nothing new starts, running steps end. Cancel: running
    /// steps are stopped too. Continue: steps that do not need the failed one go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_step_failure: Option<OnStepFailure>,

    /// What every step starts from; a step's own field wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Defaults>,

    /// The steps. A step starts when the steps it needs have ended; their order here means nothing.
    #[schemars(
        length(min = 1, max = schema::STEPS_MAX),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub steps: Vec<Step>,

    /// Named results of the run, evaluated when the steps have ended: any JSON, with expressions in its strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub outputs: Option<BTreeMap<String, Value>>,

    /// The part meant to be changed by hand or by tools while the run goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
}

/// The run's identity towards the outside world.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Idempotency {
    /// The lineage that the steps' idempotency keys are made from, within the namespace. Unset: the run's UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum OnStepFailure {
    #[default]
    Stop,
    Cancel,
    Continue,
}

/// What every step starts from. `retry` is replaced whole by a step's own, single values are replaced, `container` and
/// `podTemplate` are merged as Kubernetes merges them: env and volumes by name, mounts by path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Defaults {
    /// Longest time of one attempt, from the moment the node accepts its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub timeout: Option<String>,
    /// Longest time from the attempt's record to its container's start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub start_timeout: Option<String>,
    /// When a failed attempt is followed by another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Fields of the steps' containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::container")]
    pub container: Option<Value>,
    /// Fields of the steps' pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::pod_template")]
    pub pod_template: Option<Value>,
}

/// One step: a container that runs to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The step's name, unique in its list. Expressions read it as steps.NAME, or steps['NAME'] if it has a dash.
    #[schemars(schema_with = "schema::step_name")]
    pub name: String,
    /// What the step is for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Names of steps that must have ended before this one starts. A step named in an expression is needed too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::step_names")]
    pub needs: Option<Vec<String>>,
    /// How the needed steps must have ended. Default AllSucceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_policy: Option<NeedsPolicy>,
    /// Exactly one expression that gives true or false; false skips the step. It is read before anything else of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::expression")]
    pub when: Option<String>,
    /// The container that does the work: Kubernetes' own Container without what Oncilla decides.
    #[schemars(schema_with = "schema::container")]
    pub container: Value,
    /// The pod around it: Kubernetes' own PodTemplateSpec without containers and what Oncilla decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::pod_template")]
    pub pod_template: Option<Value>,
    /// Where the step's result comes from and what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// When a failed attempt is followed by another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Longest time of one attempt, from the moment the node accepts its pod, in whole seconds rounded up. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub timeout: Option<String>,
    /// Longest time from the attempt's record to its container's start. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub start_timeout: Option<String>,
    /// What the step's failure means. Fail (default): the run fails. Ignore: it counts as succeeded for the run and for needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum NeedsPolicy {
    #[default]
    AllSucceeded,
    AllSucceededOrSkipped,
    AllFinished,
    AnyFailed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    #[default]
    Fail,
    Ignore,
}

/// A step's result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// File (default): what the step wrote to the file named by ONCILLA_OUTPUT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<OutputFrom>,
    /// Auto (default): a JSON object or list if it is one, else text without its last line ends. JSON: any JSON value.
    /// Text: as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<OutputFormat>,
    /// Most bytes of the output. Default 4095. With more than three containers in the pod the limit is lower: 12288 shared by all of them, less one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = schema::OUTPUT_MAX))]
    pub max_bytes: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum OutputFrom {
    #[default]
    File,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum OutputFormat {
    #[default]
    Auto,
    #[serde(rename = "JSON")]
    Json,
    Text,
}

/// When a failed attempt is followed by another, under the same idempotency key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Most attempts, the first included. Default 1. Attempts that ended for a cause outside the step (eviction, drain, a lost
    /// node) have numbers but do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::attempts")]
    pub max_attempts: Option<IntOrExpression>,
    /// The wait between attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
}

/// The wait before attempt n+1: initial times factor to the power of n-1, at most max, plus up to jitterPercent of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backoff {
    /// The first wait. Default 2s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub initial: Option<String>,
    /// What each wait is multiplied by. Default 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub factor: Option<i64>,
    /// The longest wait, before jitter. Default 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub max: Option<String>,
    /// Most that is added to a wait, in percent of it. Default 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub jitter_percent: Option<i64>,
}

/// An integer, or one expression that gives one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrExpression {
    Int(i64),
    Expression(String),
}

/// Changed by hand or by tools while the run goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Control {
    /// While true nothing new starts; running steps end. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Ends the run. Graceful: running steps are stopped, and what has to run at the end of a run still runs. Immediate: nothing
    /// else runs. Final once observed: taking it out again does nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Cancel>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Cancel {
    Graceful,
    Immediate,
}
