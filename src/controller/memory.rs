//! What one process remembers of a run between reconciles. None of it is truth: losing it costs reads and writes, never
//! correctness.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::commit::Recorded;
use crate::evidence::{JobEvidence, Refusal};
use crate::observe::views::RunView;
use crate::plan::Plan;

/// How long what this process did is taken as done while the watch has not shown it.
const WATCH_LAG: Duration = Duration::from_secs(10);

/// Between two looks at the events of one Job or pod. Shorter than the wait that decide asks for.
const EXPLAIN_AGAIN: Duration = Duration::from_secs(9);

/// A sound spec's plan, or the text of its faults.
pub type Planned = Result<Arc<Plan>, String>;

#[derive(Default)]
pub struct Memory {
    plan: Option<(i64, Planned)>,
    latest: Option<Recorded>,
    jobs: BTreeMap<String, (Instant, JobEvidence)>,
    /// Pods, by UID, whose release was acknowledged and that the watch may still show as held.
    released: BTreeMap<String, Instant>,
    pub refusals: BTreeMap<String, Refusal>,
    /// How often in a row the create of a Job, by name, was not answered.
    unanswered: BTreeMap<String, u32>,
    pub namespace_terminating: bool,
    /// Jobs and pods, by UID, whose events were read, and when.
    explained: BTreeMap<String, Instant>,
    /// Failed reconciles in a row, for the backoff.
    pub failures: u32,
}

impl Memory {
    /// The plan of the run's spec, made once per generation.
    pub fn plan(&mut self, generation: i64, make: impl FnOnce() -> Planned) -> Planned {
        match &self.plan {
            Some((known, planned)) if *known == generation => planned.clone(),
            _ => {
                let planned = make();
                self.plan = Some((generation, planned.clone()));
                planned
            }
        }
    }

    /// Another plan for the same generation.
    pub fn replan(&mut self, generation: i64, plan: Arc<Plan>) {
        self.plan = Some((generation, Ok(plan)));
    }

    /// The newer of what the cache shows and what this process last wrote: the cache may lag behind our own commits.
    pub fn newest(&self, cached: Recorded) -> Recorded {
        match &self.latest {
            Some(latest) if latest.status.revision > cached.status.revision => {
                Recorded::read(latest.status.clone(), latest.resource_version.clone())
            }
            _ => cached,
        }
    }

    pub fn wrote(&mut self, recorded: &Recorded) {
        self.latest = Some(recorded.clone());
    }

    /// After a conflict or an unknown answer only the API server knows.
    pub fn forget_latest(&mut self) {
        self.latest = None;
    }

    pub fn created(&mut self, name: String, job: JobEvidence) {
        self.refusals.remove(&name);
        self.unanswered.remove(&name);
        self.jobs.insert(name, (Instant::now(), job));
    }

    /// The run has ended, and the cache knows: a plan is large, and ended runs are many.
    pub fn end(&mut self) {
        self.plan = None;
        self.latest = None;
        self.refusals.clear();
        self.unanswered.clear();
        self.explained.clear();
    }

    /// Whether the events of this Job or pod may be read now; notes that they are.
    pub fn may_explain(&mut self, uid: &str) -> bool {
        self.explained.retain(|_, at| at.elapsed() < EXPLAIN_AGAIN);
        if self.explained.contains_key(uid) {
            return false;
        }
        self.explained.insert(uid.to_owned(), Instant::now());
        true
    }

    /// Counts one more create of this Job without an answer; gives how many there were before it.
    pub fn unanswered(&mut self, name: &str) -> u32 {
        let count = self.unanswered.entry(name.to_owned()).or_default();
        let before = *count;
        *count = count.saturating_add(1);
        before
    }

    pub fn released(&mut self, uid: String) {
        self.released.retain(|_, at| at.elapsed() < WATCH_LAG);
        self.released.insert(uid, Instant::now());
    }

    /// Whether this process released the pod just now.
    pub fn has_released(&self, uid: &str) -> bool {
        self.released.get(uid).is_some_and(|at| at.elapsed() < WATCH_LAG)
    }

    /// Jobs that this process created or read just now and that the watch may not show yet.
    pub fn recent_jobs(&mut self) -> impl Iterator<Item = (&String, &JobEvidence)> {
        self.jobs.retain(|_, (at, _)| at.elapsed() < WATCH_LAG);
        self.jobs.iter().map(|(name, (_, job))| (name, job))
    }
}

/// What a status that was read says, and its version.
pub fn recorded(run: &RunView) -> Result<Recorded, serde_json::Error> {
    let status = if run.status.is_null() {
        Default::default()
    } else {
        serde_json::from_value(run.status.clone())?
    };
    Ok(Recorded::read(
        status,
        run.metadata.resource_version.clone().unwrap_or_default(),
    ))
}
