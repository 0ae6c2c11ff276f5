//! Stopping: an attempt that is not wanted any more, and what is left of a step that has ended.

use super::attempt::Ended;
use super::graph::Stop;
use super::verdict;
use super::{CLOCK_SKEW, Effect, Run};
use crate::api::status::Record;
use crate::api::words::StepReason;
use crate::evidence::{AttemptId, JobEvidence, JobState};
use crate::plan::StepPlan;

impl<'a> Run<'a> {
    /// Whether the attempt has to be stopped; recorded before anything is done about it.
    pub(super) fn want_closed(&mut self, step: &StepPlan, record: &mut Record) {
        if record.closing.is_some() {
            return;
        }
        record.closing = match self.stop() {
            Some(Stop::Cancelled) => Some(StepReason::RunCancelled),
            Some(Stop::FailedStopAll) => Some(StepReason::SiblingFailed),
            Some(Stop::Failed) | None => None,
        };
        if record.closing.is_some() || self.has_started(step, record) {
            return;
        }
        let scope = self.scope(step, Some(record.attempt));
        if let (Ok(Some(limit)), Some(named)) = (step.start_timeout_ms(&scope), record.attempt_time) {
            let deadline = named.plus(limit);
            if self.now >= deadline {
                record.closing = Some(StepReason::StartDeadlineExceeded);
            } else {
                self.wake_at(deadline);
            }
        }
    }

    /// An attempt that is to be stopped and of which no pod runs: over when no pod of it can start any more (R9).
    pub(super) fn closing(
        &mut self,
        step: &StepPlan,
        record: Record,
        id: &AttemptId,
        job: Option<(&'a str, &'a JobEvidence)>,
        ended: Option<Ended>,
    ) {
        self.close(step, &record, job);
        let closed = match job {
            Some((_, job)) => job.deleting || job.state != JobState::Active,
            None => {
                // A create that was sent may still arrive until the API server refuses it.
                let refused = record.create_before.map_or(self.now, |time| time.plus(CLOCK_SKEW));
                if record.job_uid.is_none() && self.now < refused {
                    self.wake_at(refused);
                    false
                } else {
                    true
                }
            }
        };
        if !closed || !self.read_live(id, &record) {
            return self.write(step, record);
        }
        let ended = ended.unwrap_or_else(|| {
            let reason = record.closing.unwrap_or(StepReason::PodLost);
            Ended::without_pod(reason, record.message.clone().unwrap_or_default())
        });
        self.end_attempt(step, record, ended);
    }

    /// Sees to it that the attempt's Job ends; one that is not seen is looked for.
    pub(super) fn close(&mut self, step: &StepPlan, record: &Record, job: Option<(&'a str, &'a JobEvidence)>) {
        match job {
            Some((name, job)) => self.stop_job(name, job),
            None => {
                self.read_live(&(step.hash.clone(), record.attempt), record);
            }
        }
    }

    /// Makes a Job end. `suspend` is never used for that: it counts nothing, and resuming is a second pod.
    pub(super) fn stop_job(&mut self, name: &str, job: &JobEvidence) {
        let (name, uid) = (name.to_owned(), job.uid.clone());
        if job.deleting || job.state != JobState::Active {
        } else if job.suspended {
            // Also if it has its deadline: that would not end it.
            self.act(Effect::DeleteJob { name, uid });
        } else if !job.closing {
            self.act(Effect::CloseJob { name, uid });
        }
    }

    /// A step that has ended: other live pods are deleted, Jobs that could still start one are closed, pods are released.
    pub(super) fn tidy(&mut self, step: &StepPlan) {
        for (name, job) in self.jobs_of(step).to_vec() {
            let own: Vec<_> = self
                .pods_of(step)
                .iter()
                .filter(|pod| pod.attempt == job.attempt)
                .collect();
            let could_start = own.is_empty() || own.iter().any(|pod| !verdict::stopped(pod));
            if could_start {
                self.stop_job(name, job);
            }
        }
        for pod in self.pods_of(step).to_vec() {
            let (name, uid) = (pod.name.clone(), pod.uid.clone());
            if !verdict::stopped(pod) && !pod.deleting {
                self.act(Effect::DeletePod {
                    name: name.clone(),
                    uid: uid.clone(),
                });
            }
            if pod.held {
                self.act(Effect::ReleasePod { name, uid });
            }
        }
    }

    pub(super) fn tidy_all(&mut self) {
        for step in &self.plan.steps {
            self.tidy(step);
        }
    }
}
