//! validate: a spec made into a plan. All faults are found at once, and nothing starts unless there are none.
//!
//! A plan is pure data: parsed expressions, the graph, keys. It is made once per generation of a run.

pub mod backoff;
pub mod duration;
mod expressions;
pub mod fault;
mod fits;
mod graph;
mod limits;
mod merge;
pub mod names;
mod params;
mod place;
mod pod;
mod read;
pub mod scope;
mod steps;
mod templates;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

pub use backoff::{Backoff, wait_ms};
pub use fault::Fault;
pub use names::{job_name, path_hash, step_key};
pub use place::Origins;
pub use validate::{build, faults};

use crate::api::spec::{FailurePolicy, NeedsPolicy, OnStepFailure, OutputFormat};
use crate::expr::{Expr, Tree};

/// A sound spec.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The run that it is a plan for.
    pub run: RunInfo,
    /// `spec.params`, numbers normalised, nulls kept out.
    pub params: BTreeMap<String, Value>,
    /// The same as one object: `params` as expressions read it.
    pub inputs: Arc<Value>,
    pub on_step_failure: OnStepFailure,
    /// In an order in which every step comes after those it needs.
    pub steps: Vec<StepPlan>,
    /// `spec.outputs`.
    pub outputs: BTreeMap<String, Tree>,
    /// The names of the steps that `outputs` read.
    pub output_reads: BTreeSet<String>,
    /// `idempotency.key` as given, evaluated over params and run; None: the run's UID is its identity.
    pub idempotency_key: Option<String>,
}

impl Plan {
    /// The same plan for a run that was started with this `idempotency.key`. What a key is made from may change while a run goes on
    /// (its labels), and the steps' keys must not.
    pub fn with_recorded_key(mut self, key: &str) -> Plan {
        let namespace = self.run.namespace.as_str();
        for step in &mut self.steps {
            step.key = step_key(names::Lineage::Key { namespace, key }, &step.path);
        }
        self.idempotency_key = Some(key.to_owned());
        self
    }
}

/// What identifies a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunInfo {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    /// Read by expressions as run.labels.
    pub labels: BTreeMap<String, String>,
}

/// A step of a sound spec, with `defaults` merged in.
#[derive(Clone, Debug)]
pub struct StepPlan {
    pub name: String,
    /// Where the step stands in the run: its key in `status.steps`.
    pub path: String,
    /// Where it is written, for messages: `spec.steps[2]`.
    pub place: String,
    /// The path's hash, as the label has it.
    pub hash: String,
    /// The idempotency key: the same in every attempt and re-submission.
    pub key: String,
    /// Positions in `Plan::steps`, written and implied by expressions, in order, each once.
    pub needs: Vec<usize>,
    /// The names of the steps that its expressions read.
    pub reads: BTreeSet<String>,
    pub needs_policy: NeedsPolicy,
    pub when: Option<Expr>,
    pub failure_policy: FailurePolicy,
    pub max_attempts: IntPlan,
    pub max_disruptions: i64,
    pub backoff: BackoffPlan,
    pub timeout: Option<DurationPlan>,
    pub start_timeout: Option<DurationPlan>,
    pub output_format: OutputFormat,
    /// Bytes.
    pub output_max_bytes: usize,
    /// The merged container and pod template, with templates in their strings.
    pub container: Tree,
    pub pod_template: Tree,
    /// Init containers of our template: name, and whether it is a sidecar.
    pub init_containers: Vec<(String, bool)>,
    /// Where the parts of `container` and `pod_template` are written in the spec.
    pub origins: Origins,
}

/// An integer, or an expression that gives one when it is needed.
#[derive(Clone, Debug)]
pub enum IntPlan {
    Fixed(i64),
    Expr(Expr),
}

/// A length of time in milliseconds, or an expression that gives its text when it is needed.
#[derive(Clone, Debug)]
pub enum DurationPlan {
    Fixed(i64),
    Expr(Expr),
}

#[derive(Clone, Debug)]
pub struct BackoffPlan {
    pub initial: DurationPlan,
    pub factor: i64,
    pub max: DurationPlan,
    pub jitter_percent: i64,
}
