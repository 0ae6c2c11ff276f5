//! A cluster of a few maps: it takes effects as the API server would, and its pods do what a test says.

use serde_json::{Value, json};

use crate::api::names::MAIN_CONTAINER;
use crate::api::status::Record;
use crate::api::time::Time;
use crate::api::words::{RunPhase, StepPhase, StepReason};
use crate::decide::{Control, Decision, Effect, Input, Query, decide};
use crate::evidence::{
    ContainerEvidence, ContainerKind, ContainerState, Evidence, JobEvidence, JobState, Node, PodEvidence, PodPhase,
    Terminated,
};
use crate::journal::Journal;
use crate::plan::{self, Plan, RunInfo};

pub const START: i64 = 1_795_946_400_000;

pub struct World {
    pub plan: Plan,
    pub journal: Journal,
    /// The truth; a decision sees all of it, unless a test hides some.
    pub evidence: Evidence,
    pub control: Control,
    pub now: Time,
    /// Every Job that was created, in order.
    pub created: Vec<String>,
    /// Every pod that was started: (step, attempt).
    pub executions: Vec<(String, i64)>,
    pub wake: Option<Time>,
    uids: u64,
}

pub fn plan_of(spec: Value) -> Plan {
    let run = RunInfo {
        name: "run".into(),
        namespace: "ns".into(),
        uid: "uid-1".into(),
        labels: Default::default(),
    };
    match plan::build(&run, &spec) {
        Ok(plan) => plan,
        Err(faults) => {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            panic!("the spec of this test has faults: {faults:#?}")
        }
    }
}

/// A step with an image and whatever `more` adds.
pub fn step(name: &str, more: Value) -> Value {
    let mut step = json!({"name": name, "container": {"image": "busybox"}});
    for (key, value) in more.as_object().into_iter().flatten() {
        step[key] = value.clone();
    }
    step
}

impl World {
    pub fn new(spec: Value) -> World {
        World {
            plan: plan_of(spec),
            journal: Journal::default(),
            evidence: Evidence::default(),
            control: Control::default(),
            now: Time::from_millis(START),
            created: Vec::new(),
            executions: Vec::new(),
            wake: None,
            uids: 0,
        }
    }

    pub fn decide(&self) -> Decision {
        decide(&Input {
            plan: &self.plan,
            journal: &self.journal,
            evidence: &self.evidence,
            control: self.control,
            generation: 1,
            now: self.now,
        })
    }

    /// Decides, answers live questions with the truth, commits, and applies the effects, until nothing changes.
    pub fn settle(&mut self) {
        for _ in 0..50 {
            let before = (self.journal.clone(), self.evidence.clone());
            let decision = self.look();
            self.commit(&decision);
            for effect in &decision.effects {
                self.apply(effect);
            }
            self.evidence.live.clear();
            if (&self.journal, &self.evidence) == (&before.0, &before.1) {
                return;
            }
        }
        panic!("decide does not come to rest: {:#?}", self.journal);
    }

    /// Decides, with live questions answered.
    pub fn look(&mut self) -> Decision {
        let decision = self.decide();
        let questions: Vec<Query> = decision.queries.iter().cloned().collect();
        for question in &questions {
            if let Query::Attempt { attempt, .. } = question {
                self.evidence.live.insert(attempt.clone());
            }
        }
        if questions.is_empty() { decision } else { self.decide() }
    }

    pub fn commit(&mut self, decision: &Decision) {
        check_ratchet(&self.journal, &decision.journal);
        let starts = decision.effects.iter().any(Effect::starts);
        if decision.journal != self.journal || starts {
            self.journal = decision.journal.clone();
            self.journal.revision += 1;
        }
        self.wake = decision.wake;
    }

    /// What the API server, the Job controller and the kubelet make of an effect.
    pub fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::CreateJob { path } => {
                let record = &self.journal.steps[path];
                let name = record
                    .job_name
                    .clone()
                    .expect("a Job that is created is named in the journal");
                let attempt = (plan::names::path_hash(path), record.attempt);
                if !self.evidence.jobs.contains_key(&name) {
                    self.created.push(name.clone());
                    let uid = self.uid();
                    self.evidence.jobs.insert(name, job(uid, attempt));
                }
            }
            Effect::CloseJob { name, uid } => {
                let Some(job) = self.evidence.jobs.get_mut(name).filter(|job| job.uid == *uid) else {
                    return;
                };
                job.closing = true;
                job.state = JobState::Failed;
                let attempt = job.attempt.clone();
                for pod in self
                    .evidence
                    .pods
                    .iter_mut()
                    .filter(|pod| pod.attempt == attempt && !is_terminal(pod))
                {
                    stop(pod, 143);
                }
            }
            Effect::DeleteJob { name, uid } => {
                if self.evidence.jobs.get(name).is_some_and(|job| job.uid == *uid) {
                    self.evidence.jobs.remove(name);
                }
            }
            Effect::DeletePod { uid, .. } => {
                for pod in self
                    .evidence
                    .pods
                    .iter_mut()
                    .filter(|pod| pod.uid == *uid && !is_terminal(pod))
                {
                    stop(pod, 143);
                }
            }
            Effect::ReleasePod { uid, .. } => {
                for pod in self.evidence.pods.iter_mut().filter(|pod| pod.uid == *uid) {
                    pod.held = false;
                }
                self.evidence.pods.retain(|pod| pod.held || !pod.deleting);
            }
        }
    }

    fn uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids + 1)
    }

    /// The Job controller makes the pod of the step's current Job, and the kubelet starts it.
    pub fn start(&mut self, path: &str) {
        let record = &self.journal.steps[path];
        let name = record
            .job_name
            .clone()
            .unwrap_or_else(|| panic!("{path} has no Job: {record:#?}"));
        let job = self
            .evidence
            .jobs
            .get(&name)
            .unwrap_or_else(|| panic!("the Job of {path} was not created"));
        let attempt = job.attempt.clone();
        assert!(!job.closing, "a closed Job starts no pod");
        let uid = self.uid();
        self.executions.push((path.to_owned(), attempt.1));
        self.evidence.pods.push(pod(
            uid,
            attempt,
            ContainerState::Running {
                started: Some(self.now),
            },
            self.now,
        ));
        self.evidence.pods.sort();
    }

    /// The latest pod of the step ends with `exit_code` and `output`.
    pub fn end(&mut self, path: &str, exit_code: i32, output: &str) {
        self.now = self.now.plus(1_000);
        let now = self.now;
        let pod = self.pod(path);
        pod.phase = if exit_code == 0 {
            PodPhase::Succeeded
        } else {
            PodPhase::Failed
        };
        let started = pod.start_time;
        pod.containers[0].state = ContainerState::Terminated(Terminated {
            exit_code,
            reason: if exit_code == 0 {
                "Completed".into()
            } else {
                "Error".into()
            },
            message: output.into(),
            started,
            finished: Some(now),
            has_id: true,
        });
        let attempt = pod.attempt.clone();
        for job in self.evidence.jobs.values_mut().filter(|job| job.attempt == attempt) {
            job.state = if exit_code == 0 {
                JobState::Complete
            } else {
                JobState::Failed
            };
        }
    }

    /// The latest pod of the step.
    pub fn pod(&mut self, path: &str) -> &mut PodEvidence {
        let hash = plan::names::path_hash(path);
        let pods = self.evidence.pods.iter_mut().filter(|pod| pod.attempt.0 == hash);
        pods.max_by_key(|pod| pod.attempt.1)
            .unwrap_or_else(|| panic!("{path} has no pod"))
    }

    /// Runs the step to its end and decides.
    pub fn run(&mut self, path: &str, exit_code: i32, output: &str) {
        self.start(path);
        self.end(path, exit_code, output);
        self.settle();
    }

    pub fn pass(&mut self, millis: i64) {
        self.now = self.now.plus(millis);
        self.settle();
    }

    pub fn record(&self, path: &str) -> &Record {
        self.journal
            .steps
            .get(path)
            .unwrap_or_else(|| panic!("{path} has no record: {:#?}", self.journal))
    }

    pub fn stands(&self, path: &str) -> (StepPhase, StepReason) {
        let record = self.record(path);
        (record.phase, record.reason.expect("a record has a reason"))
    }

    pub fn ends(&self, phase: RunPhase) {
        assert_eq!(self.journal.phase, phase, "{:#?}", self.journal);
        assert!(self.journal.completion_time.is_some());
        let held: Vec<_> = self.evidence.pods.iter().filter(|pod| pod.held).collect();
        assert!(held.is_empty(), "still held: {held:#?}");
    }
}

/// The rules that the API server enforces, whatever decide gives.
pub fn check_ratchet(before: &Journal, after: &Journal) {
    if before.phase == RunPhase::Succeeded {
        assert_eq!(before, after, "a run that succeeded stays as it is");
    }
    if let Some(start) = before.start_time {
        assert_eq!(after.start_time, Some(start), "startTime is set once");
    }
    for (path, old) in &before.steps {
        let new = after
            .steps
            .get(path)
            .unwrap_or_else(|| panic!("the record of {path} vanished"));
        if old == new {
            continue;
        }
        assert_ne!(old.phase, StepPhase::Succeeded, "{path} succeeded, and is changed");
        assert!(new.attempt >= old.attempt, "{path}: the attempt goes back");
        assert!(new.fence >= old.fence, "{path}: the fence goes back");
        if new.attempt == old.attempt {
            assert!(
                old.job_uid.is_none() || new.job_uid == old.job_uid,
                "{path}: jobUID changes"
            );
            assert!(
                old.pod_uid.is_none() || new.pod_uid == old.pod_uid,
                "{path}: podUID changes"
            );
        } else {
            assert!(new.fence > old.fence, "{path}: a new attempt without a greater fence");
        }
    }
}

pub fn is_terminal(pod: &PodEvidence) -> bool {
    matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)
}

fn stop(pod: &mut PodEvidence, exit_code: i32) {
    pod.deleting = true;
    pod.generation = 2;
    pod.observed_generation = Some(2);
    pod.phase = PodPhase::Failed;
    let started = pod.start_time;
    pod.containers[0].state = ContainerState::Terminated(Terminated {
        exit_code,
        reason: "Error".into(),
        started,
        finished: started,
        has_id: true,
        ..Terminated::default()
    });
}

pub fn job(uid: String, attempt: (String, i64)) -> JobEvidence {
    JobEvidence {
        uid,
        attempt,
        deleting: false,
        suspended: false,
        closing: false,
        state: JobState::Active,
        created: None,
        waiting: None,
        faults: Vec::new(),
    }
}

pub fn pod(uid: String, attempt: (String, i64), state: ContainerState, now: Time) -> PodEvidence {
    PodEvidence {
        attempt,
        name: format!("pod-{uid}"),
        uid,
        phase: if matches!(state, ContainerState::Running { .. }) {
            PodPhase::Running
        } else {
            PodPhase::Pending
        },
        reason: String::new(),
        message: String::new(),
        generation: 1,
        observed_generation: Some(1),
        deleting: false,
        ended_before_deletion: false,
        held: true,
        node: Node::Named("n1".into()),
        start_time: Some(now),
        active_deadline_seconds: None,
        disruption: None,
        unschedulable: None,
        waiting: None,
        containers: vec![ContainerEvidence {
            name: MAIN_CONTAINER.into(),
            kind: ContainerKind::Regular,
            state,
            restart_count: 0,
            ran_before: false,
        }],
    }
}
