//! What a step costs the controller apart from the API server: from the bytes of the watch event that shows its pod ended to
//! the bytes of the status write and of the next Job's create. And what a plan and its expressions cost.

mod chain;

use std::collections::BTreeMap;

use divan::{Bencher, black_box};
use jiff::Timestamp;
use kube::runtime::watcher::Event;
use oncilla::api::status::{Record, WorkflowRunStatus};
use oncilla::api::time::Time;
use oncilla::build;
use oncilla::controller::memory;
use oncilla::decide::{Control, Decision, Effect, Input, decide};
use oncilla::evidence::Evidence;
use oncilla::expr::{Expr, Scope};
use oncilla::journal::Journal;
use oncilla::observe::index::Index;
use oncilla::observe::views::{JobView, PodView, RunView};
use oncilla::plan::{self, Plan, RunInfo};
use oncilla::report;
use serde_json::{Value, json};

fn main() {
    divan::main();
}

/// 2026-11-29, in milliseconds.
const START: i64 = 1_795_946_400_000;

fn run_info() -> RunInfo {
    RunInfo {
        name: "chain".into(),
        namespace: "bench".into(),
        uid: "5f0f7d6a-6f0e-4a5d-9f68-0d0f2a1b3c4d".into(),
        labels: BTreeMap::new(),
    }
}

fn plan_of(spec: &Value) -> Plan {
    plan::build(&run_info(), spec).unwrap_or_else(|faults| panic!("the chain has faults: {faults:?}"))
}

/// A run in the middle of its chain, as a controller knows it.
struct Middle {
    plan: Plan,
    run: RunView,
    index: Index,
    now: Time,
    /// What the watch says of the middle step's pod while it runs and when it has ended.
    running: Vec<u8>,
    ended: Vec<u8>,
}

impl Middle {
    /// A chain of `length` steps of which the first half has succeeded, and the next step runs.
    fn of(length: usize) -> Middle {
        let spec = chain::spec(length);
        let mut middle = Middle {
            plan: plan_of(&spec),
            run: RunView {
                spec,
                ..RunView::default()
            },
            index: Index::new(),
            now: Time::from_millis(START),
            running: Vec::new(),
            ended: Vec::new(),
        };
        // The watches have listed: nothing is there yet.
        let listed = [Event::Init, Event::InitDone];
        for event in listed {
            middle.index.on_job(event);
        }
        for event in [Event::Init, Event::InitDone] {
            middle.index.on_pod(event);
        }
        for n in 0..=length / 2 {
            let (decision, status) = middle.decided();
            middle.record(&status);
            for effect in &decision.effects {
                middle.carry_out(effect, &status, n);
            }
            if n < length / 2 {
                middle.show(&middle.ended);
            }
        }
        middle
    }

    /// One decision and the status that it asks for.
    fn decided(&self) -> (Decision, WorkflowRunStatus) {
        let before = self.status();
        let decision = self.decide(&before, &self.evidence());
        let status = report::status(&before, &decision.journal, Ok(&self.plan), self.now);
        (decision, status)
    }

    fn status(&self) -> WorkflowRunStatus {
        memory::recorded(&self.run).expect("a status of ours").status
    }

    fn evidence(&self) -> Evidence {
        self.index.evidence(&self.plan.run.namespace, &self.plan.run.uid)
    }

    fn decide(&self, before: &WorkflowRunStatus, evidence: &Evidence) -> Decision {
        decide(&Input {
            plan: &self.plan,
            journal: &Journal::of(before),
            evidence,
            control: Control::default(),
            generation: 1,
            now: self.now,
        })
    }

    /// The cached run shows this status.
    fn record(&mut self, status: &WorkflowRunStatus) {
        self.run.status = to_value(status);
    }

    /// The watch shows the pod like this.
    fn show(&self, pod: &[u8]) {
        self.index.on_pod(Event::Apply(pod_of(pod)));
    }

    /// What the API server and the node make of an effect.
    fn carry_out(&mut self, effect: &Effect, status: &WorkflowRunStatus, n: usize) {
        match effect {
            Effect::CreateJob { path } => {
                let manifest = self.job(path, status);
                let job: JobView = serde_json::from_value(stored(&manifest, &format!("job-uid-{n}"))).expect("a Job");
                self.index.on_job(Event::Apply(job));
                self.running = pod(&manifest, n, &running());
                self.ended = pod(&manifest, n, &ended(n));
                self.show(&self.running);
            }
            Effect::ReleasePod { .. } => {
                let mut pod = pod_of(&self.ended);
                pod.metadata.finalizers = None;
                self.index.on_pod(Event::Apply(pod));
            }
            other => panic!("a chain without trouble has no effect {other:?}"),
        }
    }

    fn job(&self, path: &str, status: &WorkflowRunStatus) -> Value {
        let step = self.plan.steps.iter().find(|step| step.path == path).expect("a step");
        let empty = BTreeMap::new();
        let records: &BTreeMap<String, Record> = status.steps.as_ref().unwrap_or(&empty);
        let record = &records[path];
        let scope = plan::scope::scope(
            &self.plan,
            records,
            &step.reads,
            status.start_time,
            Some(record.attempt),
        );
        let create_before = Timestamp::from_millisecond(self.now.millis() + 60_000).expect("a time");
        build::job(&self.plan, step, record, &scope, create_before).expect("the chain's expressions hold")
    }

    /// The pod runs again, for another measurement of its end.
    fn rewind(&self) -> &Middle {
        self.index.on_pod(Event::Delete(pod_of(&self.ended)));
        self.show(&self.running);
        self
    }
}

fn to_value(status: &WorkflowRunStatus) -> Value {
    serde_json::to_value(status).expect("a status is JSON")
}

fn pod_of(bytes: &[u8]) -> PodView {
    serde_json::from_slice(bytes).expect("a pod")
}

fn stored(manifest: &Value, uid: &str) -> Value {
    let mut object = manifest.clone();
    object["metadata"]["uid"] = uid.into();
    object["metadata"]["resourceVersion"] = "1000".into();
    object["metadata"]["creationTimestamp"] = Time::from_millis(START).to_string().into();
    object
}

/// The pod of step number `n`, as the watch sends it.
fn pod(job: &Value, n: usize, status: &Value) -> Vec<u8> {
    let template = &job["spec"]["template"];
    let mut object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"], "status": status});
    object["metadata"]["name"] = format!("{}-x{n}", job["metadata"]["name"].as_str().expect("a name")).into();
    object["metadata"]["namespace"] = job["metadata"]["namespace"].clone();
    object["metadata"]["generation"] = 1.into();
    object["spec"]["nodeName"] = "node".into();
    stored(&object, &format!("pod-uid-{n}")).to_string().into_bytes()
}

fn running() -> Value {
    let started = Time::from_millis(START).to_string();
    json!({
        "phase": "Running", "startTime": started, "observedGeneration": 1,
        "containerStatuses": [{"name": "main", "restartCount": 0, "state": {"running": {"startedAt": started}}}],
    })
}

fn ended(n: usize) -> Value {
    let at = Time::from_millis(START).to_string();
    json!({
        "phase": "Succeeded", "startTime": at, "observedGeneration": 1,
        "containerStatuses": [{"name": "main", "restartCount": 0, "state": {"terminated": {
            "exitCode": 0, "reason": "Completed", "message": format!("{}\n", n + 1), "startedAt": at, "finishedAt": at,
            "containerID": "containerd://0123456789abcdef",
        }}}],
    })
}

/// The bytes of the conditional status write.
fn patch(before: &WorkflowRunStatus, after: &WorkflowRunStatus) -> Vec<u8> {
    let patch = json!({
        "metadata": {"resourceVersion": "1000"},
        "status": report::merge_patch(&to_value(before), &to_value(after)),
    });
    serde_json::to_vec(&patch).expect("a patch is JSON")
}

/// Path of the step that the decision starts.
fn next(decision: &Decision) -> &str {
    let starts = decision.effects.iter().find_map(|effect| match effect {
        Effect::CreateJob { path } => Some(path.as_str()),
        _ => None,
    });
    starts.expect("the end of a step starts the next one")
}

/// From the end of a pod in the middle of a chain to what is sent, for runs of so many inline steps.
mod step {
    use super::*;

    const LENGTHS: [usize; 2] = [10, 100];

    #[divan::bench(args = LENGTHS)]
    fn from_event_to_create(bencher: Bencher, length: usize) {
        let middle = Middle::of(length);
        bencher.with_inputs(|| middle.rewind()).bench_refs(|middle| {
            middle.show(black_box(&middle.ended));
            let before = middle.status();
            let decision = middle.decide(&before, &middle.evidence());
            let status = report::status(&before, &decision.journal, Ok(&middle.plan), middle.now);
            let patch = patch(&before, &status);
            let job = middle.job(next(&decision), &status).to_string();
            (patch, job)
        });
    }

    /// The event is read and taken into the index, and the run's evidence is taken out of it.
    #[divan::bench(args = LENGTHS)]
    fn observe(bencher: Bencher, length: usize) {
        let middle = Middle::of(length);
        bencher.with_inputs(|| middle.rewind()).bench_refs(|middle| {
            middle.show(black_box(&middle.ended));
            middle.evidence()
        });
    }

    /// The cached status is read.
    #[divan::bench(args = LENGTHS)]
    fn read_status(bencher: Bencher, length: usize) {
        let middle = Middle::of(length);
        bencher.bench(|| black_box(&middle).status());
    }

    #[divan::bench(args = LENGTHS)]
    fn decide(bencher: Bencher, length: usize) {
        let middle = Middle::of(length);
        middle.show(&middle.ended);
        let (before, evidence) = (middle.status(), middle.evidence());
        bencher.bench(|| middle.decide(black_box(&before), black_box(&evidence)));
    }

    /// The status is made, and the patch that writes it.
    #[divan::bench(args = LENGTHS)]
    fn report(bencher: Bencher, length: usize) {
        let middle = Middle::of(length);
        middle.show(&middle.ended);
        let before = middle.status();
        let journal = middle.decide(&before, &middle.evidence()).journal;
        bencher.bench(|| {
            let after = report::status(black_box(&before), &journal, Ok(&middle.plan), middle.now);
            patch(&before, &after)
        });
    }

    /// The next Job.
    #[divan::bench(args = LENGTHS)]
    fn build(bencher: Bencher, length: usize) {
        let middle = Middle::of(length);
        middle.show(&middle.ended);
        let (decision, status) = middle.decided();
        let path = next(&decision);
        bencher.bench(|| middle.job(black_box(path), &status).to_string());
    }
}

/// A spec made into a plan, once for each run.
#[divan::bench(args = [10, 100, 1_000])]
fn plan_build(bencher: Bencher, length: usize) {
    let (run, spec) = (run_info(), chain::spec(length));
    bencher.bench(|| plan::build(&run, black_box(&spec)));
}

/// Expressions as people write them.
mod expression {
    use super::*;

    const SOURCES: [&str; 4] = [
        "steps.charge.output",
        "params.notify && steps.charge.output.cents > 1000",
        "params.items.filter(i, i.qty > 0).map(i, i.cents * i.qty)",
        "toJson(params)",
    ];

    fn scope() -> Scope {
        let items: Vec<Value> = (0..10)
            .map(|n| json!({"sku": format!("A-{n}"), "qty": n, "cents": 100 * n}))
            .collect();
        Scope::new()
            .with("params", json!({"notify": true, "items": items}))
            .with("steps", json!({"charge": {"output": {"cents": 1999}}}))
    }

    #[divan::bench(args = SOURCES)]
    fn parse(source: &str) -> Expr {
        Expr::parse(source).expect("it is sound")
    }

    #[divan::bench(args = SOURCES)]
    fn eval(bencher: Bencher, source: &str) {
        let (expr, scope) = (Expr::parse(source).expect("it is sound"), scope());
        bencher.bench(|| black_box(&expr).eval(&scope).expect("it has a value"));
    }
}
