//! The rules of the graph: which step may begin, and what becomes of one that may not.

use super::Run;
use crate::api::spec::{FailurePolicy, NeedsPolicy, OnStepFailure};
use crate::api::status::Record;
use crate::api::words::{StepPhase, StepReason};
use crate::expr::{ExprError, Scope};
use crate::plan::{self, StepPlan};

/// Why nothing new begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The run was cancelled, or its namespace is going.
    Cancelled,
    /// A step failed, and running ones go on to their end.
    Failed,
    /// A step failed, and running ones are stopped.
    FailedStopAll,
}

/// What the needs of a step say.
enum Needs {
    NotEnded,
    Hold,
    Skip(StepReason, String),
}

impl Run<'_> {
    /// Goes through the steps that have begun, and then through the others, each after those it needs: a failure that shows now
    /// stops what would begin now.
    pub(super) fn walk(&mut self) {
        let (begun, others): (Vec<_>, Vec<_>) = self
            .plan
            .steps
            .iter()
            .partition(|step| self.out.journal.steps.contains_key(&step.path));
        for step in begun {
            match self.out.journal.steps[&step.path].phase {
                phase if phase.is_final() => self.tidy(step),
                // Written by a newer version: not ours to judge.
                StepPhase::Unrecognized | StepPhase::InDoubt => {}
                _ => self.advance(step),
            }
        }
        for step in others {
            self.consider(step);
        }
    }

    /// Whether, and why, nothing new begins. It is asked step by step, since a failure earlier in this walk counts.
    pub(super) fn stop(&self) -> Option<Stop> {
        if self.out.journal.observed_cancel.is_some() || self.evidence.namespace_terminating {
            return Some(Stop::Cancelled);
        }
        match self.plan.on_step_failure {
            _ if !self.any_failed => None,
            OnStepFailure::Continue => None,
            OnStepFailure::Stop => Some(Stop::Failed),
            OnStepFailure::Cancel => Some(Stop::FailedStopAll),
        }
    }

    /// Whether the step failed in a way that fails the run.
    pub(super) fn failed(&self, step: &StepPlan) -> bool {
        step.failure_policy == FailurePolicy::Fail
            && self
                .out
                .journal
                .steps
                .get(&step.path)
                .is_some_and(|record| record.phase == StepPhase::Failed)
    }

    /// A step without a record: does it begin, is it skipped, or does it wait?
    fn consider(&mut self, step: &StepPlan) {
        match self.needs(step) {
            Needs::NotEnded => return,
            Needs::Skip(reason, message) => return self.skip(step, reason, message),
            Needs::Hold => {}
        }
        if self.stop().is_some() || self.control.suspend {
            return;
        }
        // Expressions read run.startTime, and from the first record on the spec is frozen.
        self.out.journal.start_time.get_or_insert(self.now);
        match self.may_begin(step) {
            Ok(true) => self.begin_attempt(step, None),
            Ok(false) => self.skip(step, StepReason::WhenFalse, format!("{} is false", shown(step))),
            Err(fault) => self.fail_unstarted(step, fault),
        }
    }

    fn needs(&self, step: &StepPlan) -> Needs {
        let mut records = Vec::with_capacity(step.needs.len());
        for &need in &step.needs {
            let need = &self.plan.steps[need];
            match self.out.journal.steps.get(&need.path) {
                Some(record) if record.phase.is_final() => records.push((need, record)),
                _ => return Needs::NotEnded,
            }
        }
        let failed = |need: &StepPlan, record: &Record| {
            matches!(record.phase, StepPhase::Failed | StepPhase::Cancelled)
                && need.failure_policy == FailurePolicy::Fail
                || record.phase == StepPhase::Cancelled
        };
        let skipped = |record: &Record| record.phase == StepPhase::Skipped;
        let first_failed = records.iter().find(|(need, record)| failed(need, record));
        let first_skipped = records.iter().find(|(_, record)| skipped(record));
        let any_failed = records.iter().any(|(_, record)| record.phase == StepPhase::Failed);
        match (step.needs_policy, first_failed, first_skipped) {
            (NeedsPolicy::AllFinished, _, _) => Needs::Hold,
            (NeedsPolicy::AnyFailed, _, _) if any_failed => Needs::Hold,
            (NeedsPolicy::AnyFailed, _, _) => Needs::Skip(StepReason::NeedSkipped, "no needed step failed".into()),
            (_, Some((need, record)), _) if record.phase == StepPhase::Cancelled => {
                Needs::Skip(StepReason::RunStopping, format!("{} is Cancelled", need.name))
            }
            (_, Some((need, record)), _) => {
                Needs::Skip(StepReason::NeedFailed, format!("{} is {}", need.name, record.phase))
            }
            (NeedsPolicy::AllSucceeded, None, Some((need, _))) => {
                Needs::Skip(StepReason::NeedSkipped, format!("{} is Skipped", need.name))
            }
            _ => Needs::Hold,
        }
    }

    /// `when`, and then everything else of the step that is an expression: an error in any of it is found before anything starts.
    fn may_begin(&self, step: &StepPlan) -> Result<bool, String> {
        let scope = self.scope(step, Some(1));
        if !step.when(&scope).map_err(|error| at("when", &error))? {
            return Ok(false);
        }
        self.check_expressions(step, &scope)?;
        Ok(true)
    }

    /// Evaluates all that an attempt needs, so that nothing is named that cannot be built.
    pub(super) fn check_expressions(&self, step: &StepPlan, scope: &Scope) -> Result<(), String> {
        let named = |field: &'static str| move |error: ExprError| at(field, &error);
        step.max_attempts(scope).map_err(named("retry.maxAttempts"))?;
        step.timeout_ms(scope).map_err(named("timeout"))?;
        step.start_timeout_ms(scope).map_err(named("startTimeout"))?;
        step.backoff(scope).map_err(named("retry.backoff"))?;
        step.render(scope)
            .map(drop)
            .map_err(|(path, error)| format!("{path}: {error}"))
    }

    /// What the step's expressions can read: params, the steps it needs, the run, the attempt.
    pub(super) fn scope(&self, step: &StepPlan, attempt: Option<i64>) -> Scope {
        let journal = &self.out.journal;
        plan::scope::scope(self.plan, &journal.steps, &step.reads, journal.start_time, attempt)
    }

    pub(super) fn skip(&mut self, step: &StepPlan, reason: StepReason, message: String) {
        let record = Record::without_job(StepPhase::Skipped, reason, Some(message));
        self.out.journal.steps.insert(step.path.clone(), record);
    }

    fn fail_unstarted(&mut self, step: &StepPlan, message: String) {
        let mut record = Record::without_job(StepPhase::Failed, StepReason::ExpressionError, Some(one_line(&message)));
        record.completion_time = Some(self.now);
        self.out.journal.steps.insert(step.path.clone(), record);
        self.note_failure(step);
    }

    /// Keeps the answer to "has a step failed the run?" as records change.
    pub(super) fn note_failure(&mut self, step: &StepPlan) {
        self.any_failed |= self.failed(step);
    }
}

/// An error with its field, which some messages name by themselves.
fn at(field: &str, error: &ExprError) -> String {
    let message = error.to_string();
    if message.starts_with(field) {
        message
    } else {
        format!("{field}: {message}")
    }
}

fn shown(step: &StepPlan) -> String {
    step.when
        .as_ref()
        .map_or_else(String::new, |when| when.source().trim().to_owned())
}

/// A message as the status has it: one line of at most 1,024 bytes.
pub(super) fn one_line(text: &str) -> String {
    const MOST: usize = 1_024;
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > MOST {
        let cut = (0..=MOST - 3).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0);
        line.truncate(cut);
        line.push_str("...");
    }
    line
}
