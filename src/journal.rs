//! The journal: what is recorded of a run, without what is only derived from it. It is read from the status and never
//! guessed; what is not in it has not happened.

use std::collections::BTreeMap;

use crate::api::spec::Cancel;
use crate::api::status::{Record, WorkflowRunStatus};
use crate::api::time::Time;
use crate::api::words::{RunPhase, RunReason, StepPhase};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Journal {
    /// Grows with every write; 0 before the first.
    pub revision: i64,
    /// The generation of the spec that was decided on; -1 before the first.
    pub observed_generation: i64,
    pub phase: RunPhase,
    pub reason: Option<RunReason>,
    pub message: Option<String>,
    pub start_time: Option<Time>,
    pub completion_time: Option<Time>,
    pub observed_cancel: Option<Cancel>,
    /// What `spec.outputs` gave: a JSON object as text, its keys sorted.
    pub outputs: Option<String>,
    /// By path.
    pub steps: BTreeMap<String, Record>,
}

impl Default for Journal {
    fn default() -> Journal {
        Journal::of(&WorkflowRunStatus::default())
    }
}

impl Journal {
    /// The journal in a stored status.
    pub fn of(status: &WorkflowRunStatus) -> Journal {
        Journal {
            revision: status.revision,
            observed_generation: status.observed_generation,
            phase: status.phase,
            reason: status.reason,
            message: status.message.clone(),
            start_time: status.start_time,
            completion_time: status.completion_time,
            observed_cancel: status.observed_cancel,
            outputs: status
                .outputs
                .as_ref()
                .and_then(|outputs| serde_json::to_string(outputs).ok()),
            steps: status.steps.clone().unwrap_or_default(),
        }
    }

    /// The latest time that is recorded anywhere: time in the journal never goes back, whatever a clock does.
    pub fn latest(&self) -> Option<Time> {
        let steps = self.steps.values().flat_map(|record| {
            let earlier = record.earlier_attempts.last().map(|attempt| attempt.completion_time);
            [record.attempt_time, record.start_time, record.completion_time, earlier]
        });
        steps.chain([self.start_time, self.completion_time]).flatten().max()
    }

    /// How many steps have a record in `phase`.
    pub fn count(&self, phase: StepPhase) -> usize {
        self.steps.values().filter(|record| record.phase == phase).count()
    }

    /// Whether the run has ended for good. A run whose spec was refused may still be repaired: it never started.
    pub fn is_ended(&self) -> bool {
        self.phase.is_final() && self.reason != Some(RunReason::InvalidSpec)
    }
}
