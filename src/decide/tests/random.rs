//! Random graphs, random pods, lost effects, stale and forgetful controllers: whatever happens, nothing completed runs again.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{World, check_ratchet, is_terminal, step};
use crate::api::words::{RunPhase, StepPhase};
use crate::decide::Effect;
use crate::evidence::{ContainerState, JobState};
use crate::journal::Journal;

/// What happens next; numbers choose among what can.
#[derive(Clone, Debug)]
enum Happening {
    /// A whole reconcile. Bit n of `lost`: effect n is not sent.
    Reconcile {
        lost: u8,
    },
    /// A reconcile of a controller that still sees the journal of some time ago; its commit is refused.
    StaleReconcile {
        ago: u8,
    },
    /// The Job controller makes the pod of a Job that has none.
    StartPod {
        which: u8,
    },
    /// A running pod ends.
    EndPod {
        which: u8,
        exit_code: i32,
    },
    /// Somebody deletes a running pod; it may still say exit 0.
    KillPod {
        which: u8,
        exit_code: i32,
    },
    /// An effect that was sent earlier arrives a second time.
    Repeat {
        which: u8,
    },
    Pass {
        seconds: u16,
    },
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        4 => any::<u8>().prop_map(|lost| Happening::Reconcile { lost: if lost % 3 == 0 { lost } else { 0 } }),
        1 => any::<u8>().prop_map(|ago| Happening::StaleReconcile { ago }),
        4 => any::<u8>().prop_map(|which| Happening::StartPod { which }),
        4 => (any::<u8>(), prop_oneof![3 => Just(0), 1 => 1..4i32]).prop_map(|(which, exit_code)| Happening::EndPod { which, exit_code }),
        1 => (any::<u8>(), prop_oneof![Just(0), Just(137)]).prop_map(|(which, exit_code)| Happening::KillPod { which, exit_code }),
        1 => any::<u8>().prop_map(|which| Happening::Repeat { which }),
        2 => (1..600u16).prop_map(|seconds| Happening::Pass { seconds }),
    ];
    prop::collection::vec(one, 0..120)
}

/// Up to 6 steps, each needing some of those before it.
fn specs() -> impl Strategy<Value = Value> {
    let one = (any::<u8>(), 0..4u8, 1..4i64, any::<bool>());
    (prop::collection::vec(one, 1..6), 0..3usize).prop_map(|(steps, on_failure)| {
        let steps: Vec<Value> = steps
            .iter()
            .enumerate()
            .map(|(i, (needs, policy, tries, ignore))| {
                let needs: Vec<String> = (0..i)
                    .filter(|j| needs >> j & 1 == 1)
                    .map(|j| format!("s{j}"))
                    .collect();
                let policy =
                    ["AllSucceeded", "AllSucceededOrSkipped", "AllFinished", "AnyFailed"][usize::from(*policy)];
                let mut more = json!({"retry": {"maxAttempts": tries, "backoff": {"initial": "1s"}}});
                if !needs.is_empty() {
                    more["needs"] = json!(needs);
                    more["needsPolicy"] = json!(policy);
                }
                if *ignore {
                    more["failurePolicy"] = json!("Ignore");
                }
                step(&format!("s{i}"), more)
            })
            .collect();
        let on_failure = ["Stop", "Cancel", "Continue"][on_failure];
        json!({"onStepFailure": on_failure, "steps": steps})
    })
}

struct Story {
    world: World,
    history: Vec<Journal>,
    sent: Vec<Effect>,
}

impl Story {
    fn new(spec: Value) -> Story {
        Story {
            world: World::new(spec),
            history: vec![Journal::default()],
            sent: Vec::new(),
        }
    }

    fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::Reconcile { lost } => self.reconcile(*lost),
            Happening::StaleReconcile { ago } => self.stale(usize::from(*ago)),
            Happening::StartPod { which } => {
                let hash_of: BTreeMap<String, String> = self
                    .world
                    .plan
                    .steps
                    .iter()
                    .map(|step| (step.hash.clone(), step.path.clone()))
                    .collect();
                let idle: Vec<String> = self
                    .world
                    .evidence
                    .jobs
                    .iter()
                    .filter(|(name, job)| {
                        let path = &hash_of[&job.attempt.0];
                        let current = self.world.journal.steps[path].job_name.as_ref() == Some(*name);
                        let has_pod = self.world.evidence.pods.iter().any(|pod| pod.attempt == job.attempt);
                        current && !has_pod && !job.closing && job.state == JobState::Active
                    })
                    .map(|(_, job)| hash_of[&job.attempt.0].clone())
                    .collect();
                if let Some(path) = pick(&idle, *which) {
                    self.world.start(path);
                }
            }
            Happening::EndPod { which, exit_code } => self.end(*which, *exit_code, false),
            Happening::KillPod { which, exit_code } => self.end(*which, *exit_code, true),
            Happening::Repeat { which } => {
                // A create that arrives late again finds its name taken, or its time over.
                if let Some(effect) = pick(&self.sent, *which).filter(|effect| !effect.starts()).cloned() {
                    self.world.apply(&effect);
                }
            }
            Happening::Pass { seconds } => self.world.now = self.world.now.plus(i64::from(*seconds) * 1_000),
        }
    }

    fn reconcile(&mut self, lost: u8) {
        let decision = self.world.look();
        self.judge(&decision.journal, &decision.effects);
        self.world.commit(&decision);
        self.history.push(self.world.journal.clone());
        for (n, effect) in decision.effects.iter().enumerate() {
            if lost >> (n % 8) & 1 == 0 {
                self.world.apply(effect);
                self.sent.push(effect.clone());
            }
        }
        self.world.evidence.live.clear();
    }

    /// A controller with an old cache: its commit conflicts, so it starts nothing, but effects that need no commit go out.
    fn stale(&mut self, ago: usize) {
        let old = &self.history[self.history.len() - 1 - ago.min(self.history.len() - 1)];
        let now = std::mem::replace(&mut self.world.journal, old.clone());
        let decision = self.world.look();
        self.world.journal = now;
        self.world.evidence.live.clear();
        if decision.journal == *old {
            for effect in decision.effects.iter().filter(|effect| !effect.starts()) {
                self.world.apply(effect);
            }
        }
    }

    fn end(&mut self, which: u8, exit_code: i32, killed: bool) {
        let going: Vec<String> = self
            .world
            .evidence
            .pods
            .iter()
            .filter(|pod| !is_terminal(pod) && matches!(pod.containers[0].state, ContainerState::Running { .. }))
            .map(|pod| pod.uid.clone())
            .collect();
        let Some(uid) = pick(&going, which) else { return };
        let at = self.world.evidence.pods.iter().position(|pod| pod.uid == *uid).unwrap();
        let hash = self.world.evidence.pods[at].attempt.0.clone();
        let path = self
            .world
            .plan
            .steps
            .iter()
            .find(|step| step.hash == hash)
            .unwrap()
            .path
            .clone();
        self.world.end(&path, exit_code, "out");
        if which.is_multiple_of(3) {
            // The Job controller counts the pod later, or never: the pod was taken from it, or it is suspended.
            let attempt = self.world.evidence.pods[at].attempt.clone();
            for job in self
                .world
                .evidence
                .jobs
                .values_mut()
                .filter(|job| job.attempt == attempt)
            {
                (job.state, job.suspended) = (JobState::Active, which.is_multiple_of(2));
            }
        }
        if killed {
            let pod = self.world.evidence.pods.iter_mut().find(|pod| pod.uid == *uid).unwrap();
            (pod.deleting, pod.generation, pod.observed_generation) = (true, 2, Some(2));
        }
    }

    /// What must hold of every decision.
    fn judge(&self, next: &Journal, effects: &[Effect]) {
        check_ratchet(&self.world.journal, next);
        for effect in effects {
            match effect {
                Effect::CreateJob { path } => {
                    let record = &next.steps[path];
                    assert!(
                        record.job_name.is_some() && record.phase == StepPhase::Pending,
                        "{record:#?}"
                    );
                    let going = self.world.evidence.pods.iter().filter(|pod| {
                        self.world
                            .plan
                            .steps
                            .iter()
                            .any(|step| step.path == *path && step.hash == pod.attempt.0)
                    });
                    let hash = crate::plan::names::path_hash(path);
                    for job in self.world.evidence.jobs.values().filter(|job| job.attempt.0 == hash) {
                        let over = job.attempt.1 == record.attempt || job.deleting || job.state != JobState::Active;
                        assert!(over, "{path} starts beside a Job that may start a pod: {job:#?}");
                    }
                    for pod in going {
                        assert!(
                            crate::decide::verdict::stopped(pod),
                            "{path} starts beside a pod that runs: {pod:#?}"
                        );
                    }
                }
                Effect::ReleasePod { uid, .. } => {
                    let pod = self.world.evidence.pods.iter().find(|pod| pod.uid == *uid).unwrap();
                    let step = self
                        .world
                        .plan
                        .steps
                        .iter()
                        .find(|step| step.hash == pod.attempt.0)
                        .unwrap();
                    let record = &next.steps[&step.path];
                    let recorded = record.phase.is_final()
                        || record.attempt > pod.attempt.1
                        || record.attempt == pod.attempt.1 && record.job_name.is_none();
                    assert!(recorded, "released before its end was recorded: {record:#?}");
                }
                _ => {}
            }
        }
    }

    /// With nothing lost any more and pods that succeed, every run ends.
    fn finish(&mut self) {
        for _ in 0..200 {
            self.reconcile(0);
            for n in 0..8 {
                self.happen(&Happening::StartPod { which: n });
            }
            for n in 0..8 {
                self.happen(&Happening::EndPod { which: n, exit_code: 0 });
            }
            self.world.now = self.world.now.plus(60_000);
            if self.world.journal.is_ended() {
                self.reconcile(0);
                return;
            }
        }
        panic!(
            "the run does not end: {:#?}\n{:#?}",
            self.world.journal, self.world.evidence
        );
    }
}

fn pick<T>(items: &[T], which: u8) -> Option<&T> {
    (!items.is_empty()).then(|| &items[usize::from(which) % items.len()])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn nothing_completed_runs_again_and_every_run_ends(spec in specs(), happenings in happenings()) {
        let mut story = Story::new(spec);
        for happening in &happenings {
            story.happen(happening);
        }
        story.finish();
        let world = &story.world;
        prop_assert!(matches!(world.journal.phase, RunPhase::Succeeded | RunPhase::Failed));
        // Each execution was named by the journal, and none came twice.
        let mut executions = world.executions.clone();
        executions.sort();
        let all = executions.len();
        executions.dedup();
        prop_assert_eq!(executions.len(), all, "an attempt ran twice");
        for (path, attempt) in &executions {
            prop_assert!(world.journal.steps[path].attempt >= *attempt);
        }
        prop_assert!(world.evidence.pods.iter().all(|pod| !pod.held), "a pod is held for ever");
    }

    #[test]
    fn deciding_twice_gives_the_same(spec in specs(), happenings in happenings()) {
        let mut story = Story::new(spec);
        for happening in &happenings {
            story.happen(happening);
            prop_assert_eq!(story.world.decide(), story.world.decide());
        }
    }
}
