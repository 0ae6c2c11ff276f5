//! The run as a whole: its phase while it goes on, and its end.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Run;
use super::graph::{Stop, one_line};
use crate::api::words::{RunPhase, RunReason, StepReason};
use crate::plan::{self, StepPlan};

impl Run<'_> {
    /// Records the run's phase, and its end if it has come.
    pub(super) fn end(&mut self) {
        let stop = self.stop();
        if stop.is_some() && !self.active() {
            self.skip_the_rest();
        }
        let journal = &self.out.journal;
        let ended = self
            .plan
            .steps
            .iter()
            .all(|step| journal.steps.get(&step.path).is_some_and(|r| r.phase.is_final()));
        if ended {
            return self.finish(stop);
        }
        let (phase, reason, message) = self.summary();
        let journal = &mut self.out.journal;
        journal.phase = phase;
        journal.reason = Some(reason);
        journal.message = Some(message);
    }

    /// Whether a step has begun and not ended.
    fn active(&self) -> bool {
        self.out.journal.steps.values().any(|record| !record.phase.is_final())
    }

    /// Steps that will not begin any more.
    fn skip_the_rest(&mut self) {
        let why = match self.out.journal.observed_cancel {
            Some(_) => "the run was cancelled",
            None if self.evidence.namespace_terminating => "the namespace is being deleted",
            None => "another step failed",
        };
        for step in &self.plan.steps {
            if !self.out.journal.steps.contains_key(&step.path) {
                self.skip(step, StepReason::RunStopping, format!("not begun: {why}"));
            }
        }
    }

    /// Phase, reason and message of a run that goes on.
    fn summary(&self) -> (RunPhase, RunReason, String) {
        let journal = &self.out.journal;
        if self.control.suspend && !self.has_attempt() {
            let message = "suspended: nothing starts until spec.control.suspend is false".to_owned();
            return (RunPhase::Suspended, RunReason::Suspended, message);
        }
        let phase = if journal.start_time.is_some() {
            RunPhase::Running
        } else {
            RunPhase::Pending
        };
        (phase, RunReason::StepsRunning, self.going_on())
    }

    /// Whether a step has an attempt that has not ended.
    fn has_attempt(&self) -> bool {
        self.out
            .journal
            .steps
            .values()
            .any(|record| !record.phase.is_final() && record.job_name.is_some())
    }

    /// What the run does now, in one line: first what a person may have to see to.
    fn going_on(&self) -> String {
        let journal = &self.out.journal;
        let mut names = Vec::new();
        let mut waiting: Option<String> = None;
        for step in &self.plan.steps {
            let Some(record) = journal.steps.get(&step.path).filter(|record| !record.phase.is_final()) else {
                continue;
            };
            match (&record.message, record.reason) {
                (Some(message), Some(reason)) if waiting.is_none() => {
                    waiting = Some(format!("{}: {reason}: {message}", step.path));
                }
                _ => names.push(step.path.as_str()),
            }
        }
        let prefix = match self.stop() {
            Some(Stop::Cancelled) => "stopping: ",
            Some(Stop::FailedStopAll | Stop::Failed) => "a step failed; ending: ",
            None if self.control.suspend => "suspending: ",
            None => "",
        };
        short(&match waiting {
            Some(waiting) => format!("{prefix}{waiting}"),
            None => format!("{prefix}{}", names.join(", ")),
        })
    }

    fn finish(&mut self, stop: Option<Stop>) {
        let cut = |reason: Option<StepReason>| {
            matches!(
                reason,
                Some(StepReason::RunStopping | StepReason::RunCancelled | StepReason::SiblingFailed)
            )
        };
        let was_cut = self.out.journal.steps.values().any(|record| cut(record.reason));
        let failed: Vec<&StepPlan> = self.plan.steps.iter().filter(|step| self.failed(step)).collect();
        let first_failure = failed.first().map(|step| {
            let record = &self.out.journal.steps[&step.path];
            let reason = record.reason.map_or("Failed", StepReason::as_str);
            let more = if failed.len() > 1 {
                format!(" (and {} more)", failed.len() - 1)
            } else {
                String::new()
            };
            match &record.message {
                Some(message) => format!("{}: {reason}: {message}{more}", step.path),
                None => format!("{}: {reason}{more}", step.path),
            }
        });
        let (mut phase, mut reason, mut message) = match (stop, first_failure) {
            (Some(Stop::Cancelled), _) if was_cut && self.out.journal.observed_cancel.is_none() => (
                RunPhase::Cancelled,
                RunReason::NamespaceTerminating,
                "the namespace is being deleted".to_owned(),
            ),
            (Some(Stop::Cancelled), _) if was_cut => (
                RunPhase::Cancelled,
                RunReason::Cancelled,
                "cancelled by spec.control.cancel".to_owned(),
            ),
            (_, Some(failure)) => (RunPhase::Failed, RunReason::StepFailed, failure),
            (_, None) => (RunPhase::Succeeded, RunReason::Completed, String::new()),
        };
        let (outputs, errors) = self.outputs(phase);
        if let (RunPhase::Succeeded, Some(error)) = (phase, errors.first()) {
            (phase, reason, message) = (RunPhase::Failed, RunReason::ExpressionError, error.clone());
        }
        let journal = &mut self.out.journal;
        journal.phase = phase;
        journal.reason = Some(reason);
        journal.message = Some(short(&message)).filter(|text| !text.is_empty());
        journal.completion_time.get_or_insert(self.now);
        journal.start_time.get_or_insert(self.now);
        journal.outputs = (!outputs.is_empty())
            .then(|| serde_json::to_string(&outputs).ok())
            .flatten();
    }

    /// The run's outputs. Of a run that did not succeed those that can be had.
    fn outputs(&self, phase: RunPhase) -> (BTreeMap<String, Value>, Vec<String>) {
        if self.plan.outputs.is_empty() {
            return Default::default();
        }
        let journal = &self.out.journal;
        let scope = plan::scope::scope_at_end(self.plan, &journal.steps, journal.start_time, phase.as_str());
        let mut outputs = BTreeMap::new();
        let mut errors = Vec::new();
        for (name, tree) in &self.plan.outputs {
            match tree.render(&scope) {
                Ok(value) => {
                    outputs.insert(name.clone(), value);
                }
                Err((path, error)) => {
                    let at = if path.is_empty() {
                        String::new()
                    } else {
                        format!(".{path}")
                    };
                    errors.push(format!("outputs.{name}{at}: {error}"));
                }
            }
        }
        (outputs, errors)
    }
}

/// A message for the MESSAGE column: one line of at most 120 characters.
pub(super) fn short(text: &str) -> String {
    const MOST: usize = 120;
    let line = one_line(text);
    if line.chars().count() <= MOST {
        return line;
    }
    line.chars().take(MOST - 3).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_of_at_most_120_characters() {
        assert_eq!(short("a\n b\t c"), "a b c");
        assert_eq!(short(&"ä".repeat(130)).chars().count(), 120);
    }
}
