//! One reconcile of one run: observe, decide, commit, act, until nothing more follows.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use kube::runtime::controller::Action;

use super::memory::{self, Memory, Planned};
use super::{Context, events};
use crate::act::{self, Outcome};
use crate::answer::{CommitMeaning, CreateMeaning};
use crate::api::time::Time;
use crate::api::words::StepReason;
use crate::commit::{self, Recorded};
use crate::decide::{self, Control, Decision, Input, Query};
use crate::evidence::{AttemptId, Evidence, Refusal, Waiting};
use crate::journal::Journal;
use crate::observe::live;
use crate::observe::views::RunView;
use crate::plan::{self, Plan, RunInfo};
use crate::report;

/// Decisions in one reconcile: each is one commit at most, so a run that fans out is not interrupted, and one that errs in
/// a circle does not hold a worker.
const ROUNDS: usize = 8;
/// Explanations read in one reconcile: a list of events is dear for the API server, and a fan-out may have a thousand pods.
const EXPLANATIONS: usize = 20;
/// The shortest and the longest wait before a create that quota or a policy refused is tried again: each try is a commit.
const NOT_NOW: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(300));
/// After a conflict, while the cache catches up.
const SOON: Duration = Duration::from_millis(50);
/// A run that nothing wakes is looked at again after this long.
const AT_LEAST: Duration = Duration::from_secs(300);

/// What ends a reconcile early. Each is tried again with a growing wait.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the status of the run cannot be read: {0}; it was written by another version or by hand")]
    Status(#[source] serde_json::Error),
    #[error("reading live: {0}")]
    Read(#[source] kube::Error),
    #[error("the API server refuses the status: {0}")]
    Refused(String),
    #[error("not allowed to write the status: {0}")]
    Forbidden(String),
    #[error("no answer: {0}")]
    Unknown(String),
    #[error(
        "the spec of this run, which has started, is not sound for this version of the controller: {0}; run the version that \
         started it"
    )]
    Unsound(String),
    #[error("a defect of the controller: {0}")]
    Panicked(String),
}

/// What a reconcile that came to its end leaves.
struct Settled {
    /// When to look again if nothing happens before; none: never.
    again: Option<Duration>,
    /// An effect had no answer.
    unanswered: bool,
}

/// Reconciles `run` once.
pub async fn reconcile(run: Arc<RunView>, context: Arc<Context>) -> Result<Action, Error> {
    let Some(uid) = run.metadata.uid.clone() else {
        return Ok(Action::await_change());
    };
    let memory = context.memory_of(&uid);
    if run.metadata.deletion_timestamp.is_some() {
        return super::sweep::release_deleted(&context, &run).await;
    }
    let result = guarded(rounds(&run, &context, &memory)).await;
    let mut memory = lock(&memory);
    let failed = result.as_ref().map_or(true, |settled| settled.unanswered);
    memory.failures = if failed { memory.failures.saturating_add(1) } else { 0 };
    let settled = result?;
    let retry = settled.unanswered.then(|| backoff(memory.failures));
    Ok(match [settled.again, retry].into_iter().flatten().min() {
        Some(wait) => Action::requeue(wait),
        None => Action::await_change(),
    })
}

/// A defect that one run brings to light must not stop the others.
async fn guarded<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let panicked = |panic: Box<dyn std::any::Any + Send>| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Error::Panicked(text.unwrap_or("a panic without words").to_owned()))
    };
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(panicked)
}

/// How long to wait after `failures` failed reconciles in a row.
pub fn backoff(failures: u32) -> Duration {
    Duration::from_millis(200)
        .saturating_mul(1 << failures.min(8))
        .min(Duration::from_secs(30))
}

pub(super) fn lock(memory: &Mutex<Memory>) -> std::sync::MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

async fn rounds(run: &RunView, context: &Context, memory: &Mutex<Memory>) -> Result<Settled, Error> {
    const GONE: Settled = Settled {
        again: None,
        unanswered: false,
    };
    let mut run = std::borrow::Cow::Borrowed(run);
    let mut lost_answers = 0;
    let mut unanswered = false;
    for _ in 0..ROUNDS {
        let recorded = lock(memory).newest(memory::recorded(&run).map_err(Error::Status)?);
        let planned = plan_of(&run, &recorded, memory);
        let (decision, journal) = match &planned {
            Ok(plan) => decide_live(&run, plan, &recorded, context, memory).await,
            Err(faults) => {
                let journal = Journal::of(&recorded.status);
                (decide::refuse(&journal, faults, generation(&run)), journal)
            }
        };
        let wake = decision.wake;
        let starts = decision.effects.iter().any(decide::Effect::starts);
        let recorded = if decision.journal != journal || starts {
            let spec = planned.as_ref().map(Arc::as_ref).map_err(String::as_str);
            let after = report::status(&recorded.status, &decision.journal, spec, now());
            match commit::commit(&context.client, &run, &recorded, after).await {
                Ok(written) => {
                    lock(memory).wrote(&written);
                    written
                }
                Err(CommitMeaning::Gone) => return Ok(GONE),
                Err(CommitMeaning::Refused { message }) => {
                    lock(memory).forget_latest();
                    events::publish(context, &run, &[events::refused(&message)]).await;
                    return Err(Error::Refused(message));
                }
                Err(CommitMeaning::Forbidden { message }) => return Err(Error::Forbidden(message)),
                Err(
                    meaning @ (CommitMeaning::Acknowledged | CommitMeaning::Conflict | CommitMeaning::Unknown { .. }),
                ) => {
                    // Written or not, by us or by another: only the API server knows, and it is asked before anything follows.
                    lock(memory).forget_latest();
                    if let CommitMeaning::Unknown { message } = meaning {
                        lost_answers += 1;
                        if lost_answers > 1 {
                            return Err(Error::Unknown(message));
                        }
                        tracing::warn!(%message, "the answer to a status write was lost; reading the run");
                    }
                    match refetch(context, &run).await? {
                        Some(fresh) => run = std::borrow::Cow::Owned(fresh),
                        None => return Ok(GONE),
                    }
                    continue;
                }
            }
        } else {
            recorded
        };
        let plan = match &planned {
            Ok(plan) => plan,
            Err(faults) if recorded.status.start_time.is_none() => {
                let told = events::told_of_spec(&journal, &decision.journal, faults);
                events::publish(context, &run, told.as_slice()).await;
                return Ok(GONE);
            }
            Err(_) if decision.journal.is_ended() => {
                let released = super::sweep::release_all(context, &namespace(&run), &uid(&run)).await;
                return Ok(Settled {
                    again: None,
                    unanswered: !released,
                });
            }
            Err(faults) => return Err(Error::Unsound(faults.clone())),
        };
        let idle = decision.effects.is_empty();
        let justified = recorded.justify(decision.effects);
        let outcomes = act::act(&context.client, plan, &recorded.status, &justified).await;
        // What people are told must not keep a step from starting.
        events::publish(context, &run, &events::told(&journal, &decision.journal)).await;
        let after = settle(plan, outcomes, context, memory, &recorded).await;
        unanswered |= after.unanswered;
        if after.again {
            continue;
        }
        if idle && journal.is_ended() && memory::recorded(&run).is_ok_and(|cached| cached.status == recorded.status) {
            // Nothing is left to do for it. What its Jobs and pods may still say wakes it.
            lock(memory).end();
            return Ok(Settled {
                again: None,
                unanswered,
            });
        }
        let wait = wake.map_or(AT_LEAST, until).min(AT_LEAST);
        return Ok(Settled {
            again: Some(after.requeue.map_or(wait, |requeue| requeue.min(wait))),
            unanswered,
        });
    }
    Ok(Settled {
        again: Some(SOON),
        unanswered,
    })
}

/// Decides, answers what that asks, and decides again, until no new question comes.
async fn decide_live(
    run: &RunView,
    plan: &Plan,
    recorded: &Recorded,
    context: &Context,
    memory: &Mutex<Memory>,
) -> (Decision, Journal) {
    let journal = Journal::of(&recorded.status);
    let mut evidence = observe(plan, context, memory);
    let mut asked: BTreeSet<Query> = BTreeSet::new();
    let mut explained = 0;
    loop {
        let input = Input {
            plan,
            journal: &journal,
            evidence: &evidence,
            control: control(run),
            generation: generation(run),
            now: now(),
        };
        let decision = decide::decide(&input);
        let new: Vec<Query> = decision.queries.difference(&asked).cloned().collect();
        if new.is_empty() {
            return (decision, journal);
        }
        for query in new {
            let wanted = match &query {
                Query::Explain { uid, .. } => explained < EXPLANATIONS && lock(memory).may_explain(uid),
                Query::Attempt { .. } | Query::Node { .. } => true,
            };
            explained += usize::from(wanted && matches!(query, Query::Explain { .. }));
            // One that is not answered holds up what depends on it, and nothing else; decide asks again.
            if wanted
                && let Err(error) =
                    live::answer(&context.client, &plan.run, &query, &mut evidence, &context.index).await
            {
                tracing::warn!(run = %plan.run.name, ?query, %error, "cannot read live");
            }
            asked.insert(query);
        }
    }
}

/// What the watches show of the run, and what this process knows beyond that.
fn observe(plan: &Plan, context: &Context, memory: &Mutex<Memory>) -> Evidence {
    let mut evidence = context.index.evidence(&plan.run.namespace, &plan.run.uid);
    let mut memory = lock(memory);
    for (name, job) in memory.recent_jobs() {
        evidence.jobs.entry(name.clone()).or_insert_with(|| job.clone());
    }
    for pod in evidence.pods.iter_mut().filter(|pod| pod.held) {
        pod.held = !memory.has_released(&pod.uid);
    }
    evidence.refusals = memory.refusals.clone();
    evidence.namespace_terminating = memory.namespace_terminating;
    evidence
}

/// What follows from the answers to the effects.
#[derive(Default)]
struct After {
    /// Decide again at once: something is known that was not.
    again: bool,
    unanswered: bool,
    requeue: Option<Duration>,
}

impl After {
    fn requeue(&mut self, wait: Duration) {
        self.requeue = Some(self.requeue.map_or(wait, |known| known.min(wait)));
    }
}

async fn settle(
    plan: &Plan,
    outcomes: Vec<Outcome>,
    context: &Context,
    memory: &Mutex<Memory>,
    recorded: &Recorded,
) -> After {
    let mut after = After::default();
    for outcome in outcomes {
        match outcome {
            Outcome::Done => {}
            Outcome::Released { uid } => lock(memory).released(uid),
            Outcome::Created { name, job } => match live::created(*job) {
                Some(job) => {
                    // A Job that a webhook changed is seen to at once.
                    after.again |= !job.faults.is_empty();
                    lock(memory).created(name, job);
                }
                None => after.requeue(SOON),
            },
            Outcome::NotBuilt { name, message } => {
                lock(memory).refusals.insert(name, Refusal::NotBuilt { message });
                after.again = true;
            }
            Outcome::NotCreated { name, meaning } => {
                let Some(attempt) = attempt_named(plan, recorded, &name) else {
                    continue;
                };
                not_created(plan, name, attempt, meaning, context, memory, &mut after).await;
            }
            Outcome::Unknown { what } => {
                tracing::warn!(%what, "no answer; it is looked at again");
                after.unanswered = true;
            }
            Outcome::Refused { what, message } => {
                tracing::error!(%what, %message, "refused");
                after.requeue(Duration::from_secs(30));
            }
        }
    }
    after
}

/// The attempt whose Job has this name in the journal, and when it was named.
fn attempt_named(plan: &Plan, recorded: &Recorded, name: &str) -> Option<(AttemptId, Option<Time>)> {
    let steps = recorded.status.steps.as_ref()?;
    let (path, record) = steps
        .iter()
        .find(|(_, record)| record.job_name.as_deref() == Some(name))?;
    let step = plan.steps.iter().find(|step| step.path == *path)?;
    Some(((step.hash.clone(), record.attempt), record.attempt_time))
}

async fn not_created(
    plan: &Plan,
    name: String,
    (attempt, named): (AttemptId, Option<Time>),
    meaning: CreateMeaning,
    context: &Context,
    memory: &Mutex<Memory>,
    after: &mut After,
) {
    let refusal = match meaning {
        CreateMeaning::Exists { .. } => match live::existing_job(&context.client, &plan.run, &name, &attempt).await {
            Ok(live::Existing::Ours(job)) => {
                lock(memory).created(name, *job);
                after.again = true;
                return;
            }
            Ok(live::Existing::Foreign(message)) => Refusal::NameTaken { message },
            Ok(live::Existing::Gone) => unanswered(&name, "what had the Job's name is gone; it is tried again", memory),
            Err(error) => unanswered(
                &name,
                &format!("what has the Job's name cannot be read: {error}"),
                memory,
            ),
        },
        CreateMeaning::Rejected { message } => Refusal::Rejected { message },
        CreateMeaning::NotNow(waiting) => Refusal::NotNow {
            waiting,
            again: now().plus(not_now(named.map_or(0, |named| now().since(named))).as_millis() as i64),
        },
        CreateMeaning::NamespaceTerminating => {
            lock(memory).namespace_terminating = true;
            after.again = true;
            return;
        }
        // Answered with yes elsewhere; and a run whose namespace is gone is gone.
        CreateMeaning::Created | CreateMeaning::NamespaceGone => return,
        // Nothing was created, and the record has to be renewed; the next create may come too late again.
        CreateMeaning::TooLate => unanswered(&name, "the create of the Job came too late; it is tried again", memory),
        CreateMeaning::Unknown { message } => {
            tracing::warn!(job = %name, %message, "no answer to the create of a Job; it is read before it is sent again");
            unanswered(&name, &message, memory)
        }
    };
    lock(memory).refusals.insert(name, refusal);
    after.again = true;
}

/// How long to wait after a refusal for now, `waited` milliseconds after the attempt was named: it adds a quarter at most to what a
/// step waits, and a step that waits for days does not write every few seconds.
fn not_now(waited: i64) -> Duration {
    let quarter = Duration::from_millis(waited.max(0).unsigned_abs() / 4);
    quarter.clamp(NOT_NOW.0, NOT_NOW.1)
}

/// A create that decides nothing is tried again after a growing wait. Without it the commit before each try would itself wake the
/// run for the next.
fn unanswered(name: &str, message: &str, memory: &Mutex<Memory>) -> Refusal {
    let wait = backoff(lock(memory).unanswered(name));
    Refusal::Unanswered {
        waiting: Waiting::new(StepReason::Starting, message),
        again: now().plus(wait.as_millis() as i64),
    }
}

fn plan_of(run: &RunView, recorded: &Recorded, memory: &Mutex<Memory>) -> Planned {
    let planned = lock(memory).plan(generation(run), || {
        let info = RunInfo {
            name: run.metadata.name.clone().unwrap_or_default(),
            namespace: run.metadata.namespace.clone().unwrap_or_default(),
            uid: run.metadata.uid.clone().unwrap_or_default(),
            labels: run.metadata.labels.clone().unwrap_or_default(),
        };
        plan::build(&info, &run.spec).map(Arc::new).map_err(|faults| {
            let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
            lines.join("; ")
        })
    });
    match (planned, &recorded.status.idempotency) {
        (Ok(plan), Some(recorded)) if plan.idempotency_key.as_deref() != Some(recorded.key.as_str()) => {
            let plan = Arc::new(Plan::clone(&plan).with_recorded_key(&recorded.key));
            lock(memory).replan(generation(run), plan.clone());
            Ok(plan)
        }
        (planned, _) => planned,
    }
}

/// `spec.control`, which may change while the run goes on.
fn control(run: &RunView) -> Control {
    let field = |name: &str| run.spec.pointer(&format!("/control/{name}")).cloned();
    Control {
        suspend: field("suspend").and_then(|value| value.as_bool()).unwrap_or(false),
        cancel: field("cancel").and_then(|value| serde_json::from_value(value).ok()),
    }
}

fn generation(run: &RunView) -> i64 {
    run.metadata.generation.unwrap_or(0)
}

fn namespace(run: &RunView) -> String {
    run.metadata.namespace.clone().unwrap_or_default()
}

fn uid(run: &RunView) -> String {
    run.metadata.uid.clone().unwrap_or_default()
}

async fn refetch(context: &Context, run: &RunView) -> Result<Option<RunView>, Error> {
    let name = run.metadata.name.as_deref().unwrap_or_default();
    let fresh: Option<RunView> = crate::client::read::get_run(&context.client, &namespace(run), name)
        .await
        .map_err(Error::Read)?;
    Ok(fresh.filter(|fresh| fresh.metadata.uid == run.metadata.uid))
}

fn now() -> Time {
    Timestamp::now().into()
}

fn until(time: Time) -> Duration {
    Duration::from_millis(time.since(now()).max(1).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_for_now_is_asked_again_less_and_less_often() {
        for (waited, wait) in [(-5, 15), (0, 15), (120_000, 30), (3_600_000, 300)] {
            assert_eq!(not_now(waited), Duration::from_secs(wait));
        }
    }

    #[test]
    fn the_keys_of_a_started_run_stay_when_its_labels_change() {
        let run = |label: &str| RunView {
            metadata: serde_json::from_value(serde_json::json!({
                "name": "r", "namespace": "n", "uid": "u", "generation": 1, "labels": {"order": label},
            }))
            .unwrap(),
            spec: serde_json::json!({
                "idempotency": {"key": "order-$[[ run.labels.order ]]"},
                "steps": [{"name": "a", "container": {"image": "i"}}],
            }),
            ..RunView::default()
        };
        let key = |label: &str, recorded: &Recorded| {
            let plan = plan_of(&run(label), recorded, &Mutex::default()).unwrap();
            (plan.idempotency_key.clone(), plan.steps[0].key.clone())
        };
        let mut recorded = Recorded::read(Default::default(), String::new());
        let before = key("1042", &recorded);
        assert_ne!(before, key("1043", &recorded), "nothing has begun");
        recorded.status.idempotency = Some(crate::api::status::IdempotencyStatus {
            key: "order-1042".into(),
        });
        assert_eq!(before, key("1043", &recorded));
    }

    #[tokio::test]
    async fn a_panic_in_one_run_is_an_error_of_that_run() {
        let result = guarded::<()>(async { panic!("index out of bounds") }).await;
        assert!(matches!(result, Err(Error::Panicked(text)) if text == "index out of bounds"));
        assert!(guarded(async { Ok(1) }).await.is_ok());
    }
}
