//! A step with a record that has not ended: what its attempt's Job and pods say, and what follows.

use super::graph::one_line;
use super::output::StepOutput;
use super::verdict::{self, StepTemplate, Times, Verdict};
use super::{Effect, LOOK_AGAIN, Query, RUNNING_WORTH_A_WRITE, Run, WORTH_A_QUESTION, WORTH_A_WRITE};
use crate::api::status::Record;
use crate::api::words::{StepPhase, StepReason};
use crate::evidence::{AttemptId, JobEvidence, JobState, Node, PodEvidence, Refusal, Waiting};
use crate::plan::StepPlan;

/// How an attempt ended without success.
pub(super) struct Ended {
    pub(super) reason: StepReason,
    /// For a cause outside the step: it does not count towards maxAttempts.
    pub(super) disruption: bool,
    pub(super) exit_code: Option<i32>,
    pub(super) message: Option<String>,
    pub(super) times: Times,
}

impl Ended {
    pub(super) fn without_pod(reason: StepReason, message: impl Into<String>) -> Ended {
        let message = Some(message.into());
        Ended {
            reason,
            disruption: reason.is_disruption(),
            exit_code: None,
            message,
            times: Times::default(),
        }
    }
}

/// What a verdict has to know of the step.
pub(super) fn template(step: &StepPlan) -> StepTemplate {
    StepTemplate {
        init_containers: step.init_containers.clone(),
        output_format: step.output_format,
        output_max_bytes: step.output_max_bytes,
    }
}

/// What the pods of the current attempt say together.
enum Pods<'a> {
    None,
    /// At least one may still run.
    Going {
        pod: &'a PodEvidence,
        verdict: Verdict,
    },
    /// All have stopped, none with success.
    Ended(Ended),
    /// One ended with exit 0 and an output that cannot be kept.
    BadOutput(Ended),
}

impl<'a> Run<'a> {
    /// A step that is Pending or Running.
    pub(super) fn advance(&mut self, step: &StepPlan) {
        let mut record = self.out.journal.steps[&step.path].clone();
        if let Some((output, times)) = self.first_success(step) {
            return self.succeed(step, record, output, times);
        }
        self.release_earlier(step, &record);
        if record.job_name.is_none() {
            return self.next_attempt(step, record);
        }
        let id: AttemptId = (step.hash.clone(), record.attempt);
        let job = self.job(step, &record);
        if let Some((_, job)) = job.filter(|(_, job)| !job.faults.is_empty() && record.closing.is_none()) {
            record.closing = Some(StepReason::JobRejected);
            record.message = Some(one_line(&job.faults.join("; ")));
        }
        self.want_closed(step, &mut record);
        match self.pods(step, &record) {
            Pods::BadOutput(ended) => {
                // The effect is there: whatever was to be stopped came to its end before, and must not be tried again.
                record.closing = None;
                self.end_attempt(step, record, ended);
            }
            Pods::Going { pod, verdict } => self.going(step, record, job, pod, &verdict),
            Pods::Ended(ended) if record.closing.is_none() => self.end_attempt(step, record, ended),
            Pods::Ended(ended) => self.closing(step, record, &id, job, Some(ended)),
            Pods::None if record.closing.is_some() => self.closing(step, record, &id, job, None),
            Pods::None => self.no_pod(step, record, &id, job),
        }
    }

    /// The first valid success is the result, of whichever pod of whichever attempt (R7).
    fn first_success(&self, step: &StepPlan) -> Option<(StepOutput, Times)> {
        let template = template(step);
        let successes = self
            .pods_of(step)
            .iter()
            .filter_map(|pod| match verdict::verdict(pod, &template) {
                Verdict::Success { output, times } => Some((output, times)),
                _ => None,
            });
        successes.min_by_key(|(_, times)| times.finished)
    }

    pub(super) fn job(&self, step: &StepPlan, record: &Record) -> Option<(&'a str, &'a JobEvidence)> {
        self.jobs_of(step)
            .iter()
            .copied()
            .find(|(_, job)| job.attempt.1 == record.attempt)
    }

    pub(super) fn has_started(&self, step: &StepPlan, record: &Record) -> bool {
        let template = template(step);
        let waits = |pod: &PodEvidence| matches!(verdict::verdict(pod, &template), Verdict::Waiting { .. });
        let own = self.pods_of(step).iter().filter(|pod| pod.attempt.1 == record.attempt);
        record.start_time.is_some() || own.into_iter().any(|pod| !waits(pod))
    }

    fn pods(&self, step: &StepPlan, record: &Record) -> Pods<'a> {
        let template = template(step);
        let mut last: Option<Ended> = None;
        let mut bad = None;
        for &pod in self.pods_of(step).iter().filter(|pod| pod.attempt.1 == record.attempt) {
            match verdict::verdict(pod, &template) {
                going @ (Verdict::Waiting { .. } | Verdict::Running { .. } | Verdict::NotStopped { .. }) => {
                    return Pods::Going { pod, verdict: going };
                }
                Verdict::BadOutput { reason, message, times } => {
                    let message = Some(message);
                    bad = Some(Ended {
                        reason,
                        disruption: false,
                        exit_code: Some(0),
                        message,
                        times,
                    });
                }
                Verdict::Failure(failure) => {
                    let ended = Ended {
                        reason: failure.reason,
                        disruption: failure.disruption,
                        exit_code: failure.exit_code,
                        message: Some(failure.message).filter(|text| !text.is_empty()),
                        times: failure.times,
                    };
                    if last
                        .as_ref()
                        .is_none_or(|last| last.times.finished <= ended.times.finished)
                    {
                        last = Some(ended);
                    }
                }
                // Taken before this is asked.
                Verdict::Success { .. } => {}
            }
        }
        match (bad, last) {
            (Some(bad), _) => Pods::BadOutput(bad),
            (None, Some(last)) => Pods::Ended(last),
            (None, None) => Pods::None,
        }
    }

    /// A pod that may still run.
    fn going(
        &mut self,
        step: &StepPlan,
        mut record: Record,
        job: Option<(&'a str, &'a JobEvidence)>,
        pod: &PodEvidence,
        verdict: &Verdict,
    ) {
        if record.closing.is_some() {
            self.close(step, &record, job);
            let id = (step.hash.clone(), record.attempt);
            let orphan = match job {
                Some((_, job)) => job.state != JobState::Active,
                None => self.evidence.live.contains(&id),
            };
            if orphan && !pod.deleting {
                // No Job that will stop it: deleted with its pods orphaned, or ended without them.
                let (name, uid) = (pod.name.clone(), pod.uid.clone());
                self.act(Effect::DeletePod { name, uid });
            }
        }
        let stopping = pod.deleting || record.closing.is_some();
        if (stopping || matches!(verdict, Verdict::NotStopped { .. }))
            && let Node::Named(name) = &pod.node
        {
            // Only its node can stop it, if that is still there.
            self.ask(Query::Node { name: name.clone() });
            self.wake_at(self.clock.plus(LOOK_AGAIN));
        }
        match verdict {
            Verdict::Running { started, .. } => {
                let started = self.started(*started);
                let worth = started.unwrap_or(self.now).plus(RUNNING_WORTH_A_WRITE);
                if record.phase == StepPhase::Running || self.now >= worth {
                    record.phase = StepPhase::Running;
                    record.reason = Some(StepReason::Started);
                    record.message = match &pod.node {
                        Node::Named(node) if pod.deleting => Some(format!(
                            "its pod {} was told to stop; waits for node {node} to say that it has",
                            pod.name
                        )),
                        _ => None,
                    };
                    record.start_time = record.start_time.or(started);
                    record.pod_uid.get_or_insert_with(|| pod.uid.clone());
                    if let Some((_, job)) = job {
                        record.create_before = None;
                        record.job_uid.get_or_insert_with(|| job.uid.clone());
                    }
                } else {
                    self.wake_at(worth);
                }
            }
            Verdict::Waiting {
                waiting: Some(waiting), ..
            } => self.explain(&mut record, waiting),
            Verdict::Waiting { waiting: None, .. } => {
                // Volumes that cannot be mounted show in the pod's events only.
                let worth = record.attempt_time.unwrap_or(self.now).plus(WORTH_A_QUESTION);
                if self.now >= worth {
                    self.ask(Query::Explain {
                        name: pod.name.clone(),
                        uid: pod.uid.clone(),
                        is_pod: true,
                    });
                    self.wake_at(self.clock.plus(LOOK_AGAIN));
                } else {
                    self.wake_at(worth);
                }
            }
            Verdict::NotStopped { message } => record.message = Some(one_line(message)),
            _ => {}
        }
        self.write(step, record);
    }

    /// Says what the step waits for, once it has waited long enough for that to be worth a write.
    fn explain(&mut self, record: &mut Record, waiting: &Waiting) {
        if record.closing.is_some() || record.phase == StepPhase::Running {
            return;
        }
        let worth = record.attempt_time.unwrap_or(self.now).plus(WORTH_A_WRITE);
        if self.now < worth {
            return self.wake_at(worth);
        }
        // The kubelet's two messages about an image take turns; the one that says why stays.
        let vague = waiting.reason == StepReason::ImagePullFailing && waiting.message.contains("Back-off");
        if vague && record.reason == Some(waiting.reason) && record.message.is_some() {
            return;
        }
        record.reason = Some(waiting.reason);
        record.message = Some(one_line(&waiting.message));
    }

    /// An attempt without a pod that nobody wants stopped.
    fn no_pod(&mut self, step: &StepPlan, mut record: Record, id: &AttemptId, job: Option<(&'a str, &'a JobEvidence)>) {
        let name = record.job_name.clone().unwrap_or_default();
        match job {
            Some((_, job)) if job.deleting || job.state != JobState::Active => {
                // A finished Job without a pod proves nothing until that is read live (R5).
                if !self.read_live(id, &record) {
                    return self.write(step, record);
                }
                let how = match (job.deleting, job.state) {
                    (true, _) => "its Job was deleted",
                    (_, JobState::Complete) => "its Job is complete",
                    _ => "its Job has failed",
                };
                self.end_attempt(
                    step,
                    record,
                    Ended::without_pod(StepReason::PodLost, format!("{how}, and no pod of it is left")),
                );
            }
            Some((_, job)) => {
                if let Some(waiting) = &job.waiting {
                    self.explain(&mut record, waiting);
                    self.wake_at(self.clock.plus(LOOK_AGAIN));
                }
                let worth = job
                    .created
                    .or(record.attempt_time)
                    .unwrap_or(self.now)
                    .plus(WORTH_A_QUESTION);
                if self.now >= worth {
                    self.ask(Query::Explain {
                        name,
                        uid: job.uid.clone(),
                        is_pod: false,
                    });
                    self.wake_at(self.clock.plus(LOOK_AGAIN));
                } else {
                    self.wake_at(worth);
                }
                self.write(step, record);
            }
            None => self.no_job(step, record, id, &name),
        }
    }

    /// An attempt of which neither a pod nor a Job is seen, and which nobody wants stopped.
    fn no_job(&mut self, step: &StepPlan, mut record: Record, id: &AttemptId, name: &str) {
        let refusal = self.evidence.refusals.get(name);
        match refusal {
            Some(Refusal::NotNow { waiting, again }) if self.clock < *again => {
                record.reason = Some(waiting.reason);
                record.message = Some(one_line(&waiting.message));
                self.wake_at(*again);
                return self.write(step, record);
            }
            Some(Refusal::Unanswered { waiting, again }) if self.clock < *again => {
                self.explain(&mut record, waiting);
                self.wake_at(*again);
                return self.write(step, record);
            }
            _ => {}
        }
        // Whatever was answered, the Job may be there by now: of another controller, or of a create whose answer was lost. Admission
        // speaks before the API server looks whether the name is taken.
        if !self.read_live(id, &record) {
            return self.write(step, record);
        }
        let ended = match refusal {
            Some(Refusal::Rejected { message }) => Some(Ended::without_pod(StepReason::JobRejected, message.clone())),
            Some(Refusal::NameTaken { message }) => Some(Ended::without_pod(StepReason::JobNameTaken, message.clone())),
            Some(Refusal::NotBuilt { message }) => {
                Some(Ended::without_pod(StepReason::ExpressionError, message.clone()))
            }
            _ if record.job_uid.is_some() => Some(Ended::without_pod(
                StepReason::PodLost,
                "its Job is gone, and no pod of it is left",
            )),
            _ => None,
        };
        match ended {
            Some(ended) => self.end_attempt(step, record, ended),
            None => {
                // Named, and never created as far as anyone can tell: the answer was lost, or the controller before it asked.
                self.create(step, &mut record);
                self.write(step, record);
            }
        }
    }

    /// Whether the attempt was read live in this reconcile; asks for it if not.
    pub(super) fn read_live(&mut self, id: &AttemptId, record: &Record) -> bool {
        let live = self.evidence.live.contains(id);
        if !live {
            self.ask(Query::Attempt {
                attempt: id.clone(),
                job_name: record.job_name.clone(),
            });
            self.wake_at(self.clock.plus(LOOK_AGAIN));
        }
        live
    }
}
