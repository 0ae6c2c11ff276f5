//! What a decision writes about a step: the name of an attempt, and the record's last form.

use super::graph::one_line;
use super::output::StepOutput;
use super::verdict::Times;
use super::{EARLIER_ATTEMPTS, Effect, FEW_EARLIER_ATTEMPTS, MANY_STEPS, MAX_OUTPUTS, Run, SHORT_MESSAGE};
use crate::api::names::CREATE_WINDOW_SECONDS;
use crate::api::status::Record;
use crate::api::time::Time;
use crate::api::words::{StepPhase, StepReason};
use crate::evidence::cut;
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
    pub(super) fn create(&mut self, step: &StepPlan, record: &mut Record) {
        record.create_before = Some(self.now.plus(CREATE_WINDOW_SECONDS * 1_000));
        self.act(Effect::CreateJob {
            path: step.path.clone(),
        });
    }

    pub(super) fn write(&mut self, step: &StepPlan, mut record: Record) {
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

    pub(super) fn succeed(&mut self, step: &StepPlan, mut record: Record, output: StepOutput, times: Times) {
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
    pub(super) fn finalize(
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
    pub(super) fn started(&self, started: Option<Time>) -> Option<Time> {
        started.map(|time| time.min(self.now))
    }

    /// The recorded end never lies before the recorded start, nor in this journal's future.
    pub(super) fn end_time(&self, record: &Record, finished: Option<Time>) -> Time {
        let end = finished.unwrap_or(self.now).min(self.now);
        record.start_time.map_or(end, |start| end.max(start))
    }
}
