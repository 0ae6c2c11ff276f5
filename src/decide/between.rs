//! From one attempt to the next: whether there is one, when, and what has to have stopped before.

use super::attempt::Ended;
use super::graph::{Stop, one_line};
use super::verdict;
use super::{Effect, LOOK_AGAIN, Query, Run, WORTH_A_QUESTION};
use crate::api::status::{EarlierAttempt, Record};
use crate::api::time::Time;
use crate::api::words::{StepPhase, StepReason};
use crate::evidence::{JobState, Node};
use crate::plan::{self, StepPlan};

impl<'a> Run<'a> {
    /// An attempt is over without success: is there another?
    pub(super) fn end_attempt(&mut self, step: &StepPlan, mut record: Record, ended: Ended) {
        // What Oncilla itself stopped ended for Oncilla's reason, whatever the pod says.
        let reason = record.closing.unwrap_or(ended.reason);
        let disruption = record.closing.is_none() && ended.disruption;
        record.start_time = self.started(ended.times.started).or(record.start_time);
        record.completion_time = Some(self.end_time(&record, ended.times.finished));
        record.exit_code = ended.exit_code;
        let message = match reason {
            StepReason::StartDeadlineExceeded => Some(match &record.message {
                Some(waited) => format!("not started within its startTimeout: {waited}"),
                None => "not started within its startTimeout".into(),
            }),
            StepReason::RunCancelled | StepReason::SiblingFailed => None,
            StepReason::JobRejected if record.closing.is_some() => record.message.clone(),
            _ => ended.message,
        };
        match reason {
            StepReason::RunCancelled | StepReason::SiblingFailed => {
                return self.finalize(step, record, StepPhase::Cancelled, reason, message);
            }
            reason if reason.is_permanent() => {
                return self.finalize(step, record, StepPhase::Failed, reason, message);
            }
            _ => {}
        }
        if disruption {
            record.disruptions += 1;
        }
        let scope = self.scope(step, Some(record.attempt));
        let most = step.max_attempts(&scope).unwrap_or(1);
        let no_more = if record.disruptions > step.max_disruptions {
            let last = message.as_deref().unwrap_or_default();
            let text = format!(
                "{} disruptions, more than {}; the last: {reason} {last}",
                record.disruptions, step.max_disruptions
            );
            Some((StepReason::TooManyDisruptions, Some(text)))
        } else if !disruption && record.attempt - record.disruptions >= most {
            Some((reason, message.clone()))
        } else if self.stop().is_some() {
            let text = message.as_deref().unwrap_or("failed");
            Some((reason, Some(format!("{text} (not tried again: the run is stopping)"))))
        } else {
            None
        };
        if let Some((reason, message)) = no_more {
            return self.finalize(step, record, StepPhase::Failed, reason, message);
        }
        record.earlier_attempts.push(EarlierAttempt {
            attempt: record.attempt,
            reason,
            exit_code: record.exit_code,
            message: message.as_deref().map(one_line).filter(|text| !text.is_empty()),
            start_time: record.start_time,
            completion_time: record.completion_time.unwrap_or(self.now),
        });
        record.phase = StepPhase::Pending;
        record.reason = Some(StepReason::Backoff);
        record.message = None;
        record.job_name = None;
        record.attempt_time = None;
        record.create_before = None;
        record.closing = None;
        record.start_time = None;
        record.completion_time = None;
        record.exit_code = None;
        self.release_earlier(step, &record);
        self.next_attempt(step, record);
    }

    /// Between two attempts: the next one begins when its time has come and every earlier pod has stopped (R9).
    pub(super) fn next_attempt(&mut self, step: &StepPlan, mut record: Record) {
        let Some(last) = record.earlier_attempts.last().cloned() else {
            // Only a hand can have made such a record; the attempt it names is taken as over.
            return self.begin_attempt(step, Some(record));
        };
        if let Some(stop) = self.stop() {
            let message = last.message.clone().unwrap_or_default();
            record.exit_code = last.exit_code;
            record.start_time = last.start_time;
            record.completion_time = Some(last.completion_time);
            record.earlier_attempts.pop();
            return match stop {
                Stop::Cancelled => self.finalize(
                    step,
                    record,
                    StepPhase::Cancelled,
                    StepReason::RunCancelled,
                    Some(message),
                ),
                _ => {
                    let text = format!("{message} (not tried again: the run is stopping)");
                    self.finalize(step, record, StepPhase::Failed, last.reason, Some(text))
                }
            };
        }
        if self.control.suspend {
            record.reason = Some(StepReason::RunSuspended);
            record.message = Some(format!(
                "attempt {} waits for spec.control.suspend: false",
                record.attempt + 1
            ));
            return self.write(step, record);
        }
        let scope = self.scope(step, Some(record.attempt));
        let wait = match step.backoff(&scope) {
            Ok(backoff) => plan::wait_ms(backoff, &step.key, record.attempt),
            Err(error) => {
                let message = format!("retry.backoff: {error}");
                return self.finalize(
                    step,
                    record,
                    StepPhase::Failed,
                    StepReason::ExpressionError,
                    Some(message),
                );
            }
        };
        let due = last.completion_time.plus(wait);
        let going = self.pods_of(step).iter().copied().find(|pod| !verdict::stopped(pod));
        if let Some(pod) = going {
            record.reason = Some(StepReason::Backoff);
            record.message = Some(one_line(&format!(
                "waits for pod {} of attempt {} to stop",
                pod.name, pod.attempt.1
            )));
            if let Node::Named(name) = &pod.node {
                self.ask(Query::Node { name: name.clone() });
            }
            self.wake_at(self.clock.plus(LOOK_AGAIN));
            return self.write(step, record);
        }
        if self.now < due {
            let failed = last.message.as_deref().unwrap_or("failed");
            record.reason = Some(StepReason::Backoff);
            record.message = Some(one_line(&format!(
                "attempt {} ({}): {failed}; the next at {due}",
                last.attempt, last.reason
            )));
            self.wake_at(due);
            return self.write(step, record);
        }
        if !self.disarmed(step, &record, last.completion_time) {
            return self.write(step, record);
        }
        let scope = self.scope(step, Some(record.attempt + 1));
        match self.check_expressions(step, &scope) {
            Ok(()) => self.begin_attempt(step, Some(record)),
            Err(message) => {
                self.finalize(
                    step,
                    record,
                    StepPhase::Failed,
                    StepReason::ExpressionError,
                    Some(message),
                );
            }
        }
    }

    /// Whether no earlier attempt can start a pod any more. A Job that has not counted its pod yet, that is suspended or whose pod
    /// was taken from it makes another one as soon as it can, and that would run beside the next attempt (R9).
    pub(super) fn disarmed(&mut self, step: &StepPlan, record: &Record, ended: Time) -> bool {
        let by_itself = ended.plus(WORTH_A_QUESTION);
        let mut disarmed = true;
        for &(name, job) in self.jobs_of(step).to_vec().iter() {
            if job.attempt.1 > record.attempt || job.deleting || job.state != JobState::Active {
                continue;
            }
            disarmed = false;
            if job.suspended || self.now >= by_itself {
                self.stop_job(name, job);
                self.wake_at(self.clock.plus(LOOK_AGAIN));
            } else {
                self.wake_at(by_itself);
            }
        }
        // A second pod of the attempt may not have come into the cache yet.
        disarmed && self.read_live(&(step.hash.clone(), record.attempt), record)
    }

    /// Pods of attempts whose end is recorded need not be kept any more.
    pub(super) fn release_earlier(&mut self, step: &StepPlan, record: &Record) {
        for pod in self.pods_of(step).to_vec() {
            let recorded =
                pod.attempt.1 < record.attempt || pod.attempt.1 == record.attempt && record.job_name.is_none();
            if recorded && pod.held && verdict::stopped(pod) {
                self.act(Effect::ReleasePod {
                    name: pod.name.clone(),
                    uid: pod.uid.clone(),
                });
            }
        }
    }
}
