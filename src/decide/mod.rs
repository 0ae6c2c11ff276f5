//! decide: what follows from what is recorded and what has happened. Pure: no IO, no clock, no randomness.
//!
//! `decide` takes a plan, the journal, the evidence and the time, and gives the next journal, the effects that it justifies,
//! the questions that must be answered before more can be said, and when to look again if nothing happens before.

mod attempt;
mod between;
mod closing;
mod ends;
mod graph;
pub mod output;
mod record;
#[cfg(test)]
mod tests;
pub mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use crate::api::spec::Cancel;
use crate::api::time::Time;
use crate::api::words::{RunPhase, RunReason};
use crate::evidence::{AttemptId, Evidence, JobEvidence, PodEvidence};
use crate::journal::Journal;
use crate::plan::{Plan, StepPlan};

/// What people may change while a run goes on: `spec.control`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Control {
    pub suspend: bool,
    pub cancel: Option<Cancel>,
}

/// Everything a decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub plan: &'a Plan,
    pub journal: &'a Journal,
    pub evidence: &'a Evidence,
    pub control: Control,
    /// `metadata.generation` of the spec that the plan was made from.
    pub generation: i64,
    pub now: Time,
}

/// What follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Decision {
    /// To be committed if it differs from what was read, or if an effect starts something.
    pub journal: Journal,
    /// In the order in which they are to be sent.
    pub effects: Vec<Effect>,
    /// To be answered at once, and decided again with the answers.
    pub queries: BTreeSet<Query>,
    /// When to decide again if nothing happens before.
    pub wake: Option<Time>,
}

/// Something to be done to the cluster. No effect has an inverse, so a late or repeated one changes nothing (R13).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// Create the Job that the step's record names. The only effect that starts something.
    CreateJob { path: String },
    /// Make an attempt's Job end: it will start no pod any more.
    CloseJob { name: String, uid: String },
    /// Delete a Job that a deadline does not end, since it is suspended.
    DeleteJob { name: String, uid: String },
    /// Stop a pod whose step is decided.
    DeletePod { name: String, uid: String },
    /// Take our finalizer off a pod whose outcome is recorded.
    ReleasePod { name: String, uid: String },
}

impl Effect {
    /// Whether it needs a commit of this very reconcile before it (R3).
    pub fn starts(&self) -> bool {
        matches!(self, Effect::CreateJob { .. })
    }
}

/// A question that only the API server itself can answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Query {
    /// Read an attempt's Job by name and its pods by label, live (R5).
    Attempt {
        attempt: AttemptId,
        job_name: Option<String>,
    },
    /// Why has this Job no pod, or why has this pod not begun? Only its events say.
    Explain { name: String, uid: String, is_pod: bool },
    /// Is the pod's node still there?
    Node { name: String },
}

/// Milliseconds an attempt waits before what it waits for is worth a write.
const WORTH_A_WRITE: i64 = 1_000;
/// Milliseconds a container runs before that is worth a write. The kubelet's times are whole seconds, and it tells of an end a second
/// or two late: with less, steps that end at once would be written as Running too.
const RUNNING_WORTH_A_WRITE: i64 = 3_000;
/// Milliseconds after which a Job without a pod is asked for its reason.
const WORTH_A_QUESTION: i64 = 3_000;
/// Milliseconds between two looks at something that no watch reports.
const LOOK_AGAIN: i64 = 10_000;
/// Milliseconds of difference between this clock and the API server's that closing an attempt allows for.
const CLOCK_SKEW: i64 = 30_000;
/// Most entries in `earlierAttempts`.
const EARLIER_ATTEMPTS: usize = 10;
/// Most bytes of all outputs of a run together, as JSON writes them: spec and status are one object, and the API server takes
/// no more than 1.5 MiB.
const MAX_OUTPUTS: usize = 512 * 1_024;
/// A run of more steps keeps less of each, for the same reason.
const MANY_STEPS: usize = 200;
/// Most entries in `earlierAttempts` of a step of such a run.
const FEW_EARLIER_ATTEMPTS: usize = 2;
/// Most bytes of a message of such a run.
const SHORT_MESSAGE: usize = 200;

/// Decides.
pub fn decide(input: &Input<'_>) -> Decision {
    let mut run = Run::new(input);
    if input.journal.is_ended() {
        run.tidy_all();
    } else {
        run.observe_control();
        run.walk();
        run.end();
    }
    // What starts something is what a run waits for; the rest is independent of it.
    run.out.effects.sort_by_key(|effect| !effect.starts());
    run.out
}

/// What follows from a spec that is not sound: the run ends before it began, and an edit of the spec may repair it.
pub fn refuse(journal: &Journal, faults: &str, generation: i64) -> Decision {
    let mut next = journal.clone();
    if journal.start_time.is_none() {
        next.observed_generation = generation;
        next.phase = RunPhase::Failed;
        next.reason = Some(RunReason::InvalidSpec);
        // All of them stand in the condition Accepted.
        next.message = Some(ends::short(faults));
    }
    Decision {
        journal: next,
        ..Decision::default()
    }
}

/// A decision in the making.
struct Run<'a> {
    plan: &'a Plan,
    evidence: &'a Evidence,
    control: Control,
    generation: i64,
    /// Journal time: never before what is recorded.
    now: Time,
    /// Time as it is told: what only this process waits for goes by it, also when the journal is ahead of it.
    clock: Time,
    /// Pods by the hash of their step's path.
    pods: BTreeMap<&'a str, Vec<&'a PodEvidence>>,
    /// Jobs by the hash of their step's path.
    jobs: BTreeMap<&'a str, Vec<(&'a str, &'a JobEvidence)>>,
    /// A step has failed in a way that fails the run.
    any_failed: bool,
    /// Bytes of all outputs in the journal, as JSON writes them; counted when the first is added.
    outputs: Option<usize>,
    out: Decision,
    /// What `out.effects` holds.
    asked_for: BTreeSet<Effect>,
}

impl<'a> Run<'a> {
    fn new(input: &Input<'a>) -> Run<'a> {
        let mut pods: BTreeMap<&str, Vec<&PodEvidence>> = BTreeMap::new();
        for pod in &input.evidence.pods {
            pods.entry(&pod.attempt.0).or_default().push(pod);
        }
        let mut jobs: BTreeMap<&str, Vec<(&str, &JobEvidence)>> = BTreeMap::new();
        for (name, job) in &input.evidence.jobs {
            jobs.entry(&job.attempt.0).or_default().push((name, job));
        }
        let mut run = Run {
            plan: input.plan,
            evidence: input.evidence,
            control: input.control,
            generation: input.generation,
            now: input.journal.latest().map_or(input.now, |latest| latest.max(input.now)),
            clock: input.now,
            pods,
            jobs,
            any_failed: false,
            outputs: None,
            out: Decision {
                journal: input.journal.clone(),
                ..Decision::default()
            },
            asked_for: BTreeSet::new(),
        };
        run.any_failed = run.plan.steps.iter().any(|step| run.failed(step));
        run
    }

    fn pods_of(&self, step: &StepPlan) -> &[&'a PodEvidence] {
        self.pods.get(step.hash.as_str()).map_or(&[], Vec::as_slice)
    }

    fn jobs_of(&self, step: &StepPlan) -> &[(&'a str, &'a JobEvidence)] {
        self.jobs.get(step.hash.as_str()).map_or(&[], Vec::as_slice)
    }

    /// What people asked for is recorded before anything is done about it.
    fn observe_control(&mut self) {
        let journal = &mut self.out.journal;
        journal.observed_generation = self.generation;
        if let Some(cancel) = self.control.cancel {
            // Immediate may follow Graceful; nothing takes a cancellation back.
            journal.observed_cancel = Some(journal.observed_cancel.map_or(cancel, |observed| observed.max(cancel)));
        }
        if journal.reason == Some(RunReason::InvalidSpec) {
            // The spec was repaired.
            journal.phase = RunPhase::Pending;
            journal.reason = None;
            journal.message = None;
        }
    }

    fn wake_at(&mut self, time: Time) {
        let time = time.max(self.clock.plus(1));
        self.out.wake = Some(self.out.wake.map_or(time, |wake| wake.min(time)));
    }

    fn ask(&mut self, query: Query) {
        self.out.queries.insert(query);
    }

    fn act(&mut self, effect: Effect) {
        if self.asked_for.insert(effect.clone()) {
            self.out.effects.push(effect);
        }
    }
}
