//! What Oncilla records: a WorkflowRun's `status`. `steps` is the journal; everything else is derived from it or set once.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::schema;
use super::spec::Cancel;
use super::time::Time;
use super::words::{ConditionType, RunPhase, RunReason, StepPhase, StepReason};

/// What has happened, as the API server guards it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::status_rules()))]
pub struct WorkflowRunStatus {
    /// The generation of the spec that this status speaks of; -1 before the controller has seen the run.
    #[serde(default = "unobserved")]
    pub observed_generation: i64,
    /// A summary for people; programs read the conditions.
    #[serde(default = "pending")]
    pub phase: RunPhase,
    /// Why the run is in its phase, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<RunReason>,
    /// The same for people, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Ended steps of all steps, as 2/6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// When the run's first step was recorded. Set once; from here on the spec is frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// The cancellation that was observed; it stays when spec.control.cancel is taken out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_cancel: Option<Cancel>,
    /// Grows with every write of the status.
    #[serde(default)]
    pub revision: i64,
    /// How many steps are in each phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// The params as they were resolved at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub params: Option<BTreeMap<String, Value>>,
    /// The run's identity as it was resolved at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<IdempotencyStatus>,
    /// What spec.outputs gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub outputs: Option<BTreeMap<String, Value>>,
    /// Accepted, Succeeded, Finished, Reconciling, Stalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// A record a step, by the step's path; a step that has not begun has none. An object and not a list, because the rule that
    /// no record may vanish is affordable for the API server only over an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::journal")]
    pub steps: Option<BTreeMap<String, Record>>,
}

fn unobserved() -> i64 {
    -1
}

fn pending() -> RunPhase {
    RunPhase::Pending
}

impl Default for WorkflowRunStatus {
    fn default() -> Self {
        WorkflowRunStatus {
            observed_generation: unobserved(),
            phase: pending(),
            reason: None,
            message: None,
            progress: None,
            start_time: None,
            completion_time: None,
            observed_cancel: None,
            revision: 0,
            counts: None,
            params: None,
            idempotency: None,
            outputs: None,
            conditions: Vec::new(),
            steps: None,
        }
    }
}

/// The run's identity as it was resolved at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdempotencyStatus {
    /// The lineage that the steps' keys are made from.
    pub key: String,
}

/// How many steps are in each phase. Steps that have no record yet count as pending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// All steps.
    pub total: i64,
    /// Steps that wait for other steps, or whose attempt has no running container yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pending: i64,
    /// Steps whose container runs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub running: i64,
    /// Steps whose result is recorded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub succeeded: i64,
    /// Steps that ended badly.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: i64,
    /// Steps that never had to run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: i64,
    /// Steps that were stopped, or not started, because the run was.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cancelled: i64,
    /// Steps whose effect may or may not have happened.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_doubt: i64,
}

fn is_zero(n: &i64) -> bool {
    *n == 0
}

/// One aspect of the run, as Kubernetes' own tools read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Accepted, Succeeded, Finished, Reconciling or Stalled.
    pub r#type: ConditionType,
    /// True, False or Unknown.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people; empty if there is nothing to add.
    pub message: String,
    /// The generation of the spec that this condition speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When its status last changed.
    pub last_transition_time: Time,
}

/// A step's record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// An older CRD would otherwise delete from a record what it does not know, also from one that is final.
#[schemars(extend(
    "x-kubernetes-preserve-unknown-fields" = true,
    "x-kubernetes-validations" = schema::record_rules()
))]
pub struct Record {
    /// Where the step stands.
    pub phase: StepPhase,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<StepReason>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The attempt's number, from 1; 0 if the step never had a Job.
    pub attempt: i64,
    /// Grows with every attempt, also over re-submissions: a writer with an older one must lose. 0 if the step never had a Job.
    pub fence: i64,
    /// Attempts so far that ended for a cause outside the step.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub disruptions: i64,
    /// The attempt's Job; gone when the step has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    /// The Job's UID. Once set it stays, until another attempt.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "jobUID")]
    #[schemars(length(max = schema::UID_MAX))]
    pub job_uid: Option<String>,
    /// The UID of the attempt's pod. Once set it stays, until another attempt.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "podUID")]
    #[schemars(length(max = schema::UID_MAX))]
    pub pod_uid: Option<String>,
    /// When the attempt was recorded; gone when the step has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_time: Option<Time>,
    /// The latest time at which the API server may still accept the attempt's Job, by this controller's clock; gone when the step
    /// runs or has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_before: Option<Time>,
    /// Why the attempt is being stopped; set before anything is done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closing: Option<StepReason>,
    /// When the attempt's container started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// The container's exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The step's own bytes. A string also where it is JSON: structured JSON would be changed on its way through the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// How to read output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_type: Option<OutputType>,
    /// The attempts before this one, the latest last; at most 10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_attempts: Vec<EarlierAttempt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum OutputType {
    #[serde(rename = "JSON")]
    Json,
    Text,
}

/// An attempt that ended without success.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EarlierAttempt {
    /// The attempt's number.
    pub attempt: i64,
    /// Why it ended, in one word.
    pub reason: StepReason,
    /// The container's exit code, if it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it ended, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When its container started; absent if it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    pub completion_time: Time,
}

impl Record {
    /// A record in `phase` of a step that never had a Job.
    pub fn without_job(phase: StepPhase, reason: StepReason, message: Option<String>) -> Record {
        Record {
            phase,
            reason: Some(reason),
            message,
            attempt: 0,
            fence: 0,
            disruptions: 0,
            job_name: None,
            job_uid: None,
            pod_uid: None,
            attempt_time: None,
            create_before: None,
            closing: None,
            start_time: None,
            completion_time: None,
            exit_code: None,
            output: None,
            output_type: None,
            earlier_attempts: Vec::new(),
        }
    }
}
