//! A step with a record that has not ended: what its attempt's Job and pods say, and what follows.

use super::graph::{Stop, one_line};
use super::output::StepOutput;
use super::verdict::{self, StepTemplate, Times, Verdict};
use super::{
    CLOCK_SKEW, EARLIER_ATTEMPTS, Effect, FEW_EARLIER_ATTEMPTS, LOOK_AGAIN, MANY_STEPS, MAX_OUTPUTS, Query,
    RUNNING_WORTH_A_WRITE, Run, SHORT_MESSAGE, WORTH_A_QUESTION, WORTH_A_WRITE,
};
use crate::api::names::CREATE_WINDOW_SECONDS;
use crate::api::status::{EarlierAttempt, Record};
use crate::api::time::Time;
use crate::api::words::{StepPhase, StepReason};
use crate::evidence::{AttemptId, JobEvidence, JobState, Node, PodEvidence, Refusal, Waiting, cut};
use crate::plan::{self, StepPlan};

/// Bytes of `text` as a string in JSON.
fn written_as_json(text: &str) -> usize {
    let bytes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    });
    bytes.sum::<usize>() + 2
}

/// How an attempt ended without success.
struct Ended {
    reason: StepReason,
    /// For a cause outside the step: it does not count towards maxAttempts.
    disruption: bool,
    exit_code: Option<i32>,
    message: Option<String>,
    times: Times,
}

impl Ended {
    fn without_pod(reason: StepReason, message: impl Into<String>) -> Ended {
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
fn template(step: &StepPlan) -> StepTemplate {
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
    /// Names an attempt in the journal; the Job is created after the commit.
    pub(super) fn begin_attempt(&mut self, step: &StepPlan, before: Option<Record>) {
        let mut record = before.unwrap_or_else(|| Record::without_job(StepPhase::Pending, StepReason::Starting, None));
        record.phase = StepPhase::Pending;
        record.reason = Some(StepReason::Starting);
        record.message = None;
        record.attempt += 1;
        record.fence = self.now.millis().max(record.fence + 1);
        record.job_name = Some(plan::names::job_name(
            &self.plan.run.name,
            &step.name,
            &self.plan.run.uid,
            &step.path,
            record.attempt,
        ));
        record.job_uid = None;
        record.pod_uid = None;
        record.attempt_time = Some(self.now);
        record.create_before = None;
        record.closing = None;
        record.start_time = None;
        record.completion_time = None;
        record.exit_code = None;
        self.create(step, &mut record);
        self.write(step, record);
    }

    /// Has the Job that the record names created after the commit.
    fn create(&mut self, step: &StepPlan, record: &mut Record) {
        record.create_before = Some(self.now.plus(CREATE_WINDOW_SECONDS * 1_000));
        self.act(Effect::CreateJob {
            path: step.path.clone(),
        });
    }

    fn write(&mut self, step: &StepPlan, mut record: Record) {
        let many = self.plan.steps.len() > MANY_STEPS;
        let most = if many { FEW_EARLIER_ATTEMPTS } else { EARLIER_ATTEMPTS };
        let surplus = record.earlier_attempts.len().saturating_sub(most);
        record.earlier_attempts.drain(..surplus);
        if many {
            let earlier = record.earlier_attempts.iter_mut().map(|attempt| &mut attempt.message);
            for message in earlier.chain([&mut record.message]).flatten() {
                *message = cut(message, SHORT_MESSAGE);
            }
        }
        self.out.journal.steps.insert(step.path.clone(), record);
    }

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

    fn succeed(&mut self, step: &StepPlan, mut record: Record, output: StepOutput, times: Times) {
        record.start_time = self.started(times.started).or(record.start_time);
        record.completion_time = Some(self.end_time(&record, times.finished));
        record.exit_code = Some(0);
        let recorded = self.outputs.unwrap_or_else(|| {
            let records = self.out.journal.steps.values();
            let outputs = records.filter_map(|record| record.output.as_deref());
            outputs.map(written_as_json).sum()
        });
        let together = recorded + written_as_json(&output.text);
        self.outputs = Some(recorded);
        if together > MAX_OUTPUTS {
            // A status that is too large could never be written again, and the run would stand still for ever.
            let message = format!(
                "the outputs of this run would have {together} bytes together, limit {MAX_OUTPUTS}: keep large results elsewhere \
                 and give where they are"
            );
            return self.finalize(
                step,
                record,
                StepPhase::Failed,
                StepReason::OutputTooLarge,
                Some(message),
            );
        }
        self.outputs = Some(together);
        record.output = Some(output.text);
        record.output_type = Some(output.output_type);
        self.finalize(step, record, StepPhase::Succeeded, StepReason::Completed, None);
    }

    /// Puts a record into its last form and sees to what is left of the step.
    fn finalize(
        &mut self,
        step: &StepPlan,
        mut record: Record,
        phase: StepPhase,
        reason: StepReason,
        message: Option<String>,
    ) {
        record.phase = phase;
        record.reason = Some(reason);
        record.message = message.map(|text| one_line(&text)).filter(|text| !text.is_empty());
        record.job_name = None;
        record.attempt_time = None;
        record.create_before = None;
        record.closing = None;
        record.completion_time.get_or_insert(self.now);
        self.write(step, record);
        self.note_failure(step);
        self.tidy(step);
    }

    /// A start as it is recorded: a node whose clock is ahead must not take the journal's time with it, for every wait would then
    /// last until the clocks agree again.
    fn started(&self, started: Option<Time>) -> Option<Time> {
        started.map(|time| time.min(self.now))
    }

    /// The recorded end never lies before the recorded start, nor in this journal's future.
    fn end_time(&self, record: &Record, finished: Option<Time>) -> Time {
        let end = finished.unwrap_or(self.now).min(self.now);
        record.start_time.map_or(end, |start| end.max(start))
    }

    fn job(&self, step: &StepPlan, record: &Record) -> Option<(&'a str, &'a JobEvidence)> {
        self.jobs_of(step)
            .iter()
            .copied()
            .find(|(_, job)| job.attempt.1 == record.attempt)
    }

    /// Whether the attempt has to be stopped; recorded before anything is done about it.
    fn want_closed(&mut self, step: &StepPlan, record: &mut Record) {
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

    fn has_started(&self, step: &StepPlan, record: &Record) -> bool {
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
    fn read_live(&mut self, id: &AttemptId, record: &Record) -> bool {
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

    /// An attempt that is to be stopped and of which no pod runs: over when no pod of it can start any more (R9).
    fn closing(
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
    fn close(&mut self, step: &StepPlan, record: &Record, job: Option<(&'a str, &'a JobEvidence)>) {
        match job {
            Some((name, job)) => self.stop_job(name, job),
            None => {
                self.read_live(&(step.hash.clone(), record.attempt), record);
            }
        }
    }

    /// An attempt is over without success: is there another?
    fn end_attempt(&mut self, step: &StepPlan, mut record: Record, ended: Ended) {
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
    fn next_attempt(&mut self, step: &StepPlan, mut record: Record) {
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
    fn disarmed(&mut self, step: &StepPlan, record: &Record, ended: Time) -> bool {
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

    /// Makes a Job end. `suspend` is never used for that: it counts nothing, and resuming is a second pod.
    fn stop_job(&mut self, name: &str, job: &JobEvidence) {
        let (name, uid) = (name.to_owned(), job.uid.clone());
        if job.deleting || job.state != JobState::Active {
        } else if job.suspended {
            // Also if it has its deadline: that would not end it.
            self.act(Effect::DeleteJob { name, uid });
        } else if !job.closing {
            self.act(Effect::CloseJob { name, uid });
        }
    }

    /// Pods of attempts whose end is recorded need not be kept any more.
    fn release_earlier(&mut self, step: &StepPlan, record: &Record) {
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
