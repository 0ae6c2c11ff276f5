//! How long the controller takes from the end of one step to the start of the next, on a real control plane.
//!
//! It needs ONCILLA_TEST_KUBECONFIG, as the control-plane tests do; `make bench` sets it. The controller runs in this process, and
//! so does the simulated kubelet that ends each pod at once. Times are taken where the controller's client meets the wire.
//! The API server, etcd and the Job controller share the machine's cores with both.
#![allow(clippy::print_stdout, reason = "the figures are what this program is for")]

mod chain;
#[path = "../tests/support/mod.rs"]
mod support;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::runtime::wait::await_condition;
use oncilla::api::WorkflowRun;
use oncilla::api::names;
use oncilla::api::words::RunPhase;
use oncilla::client::request::Verb;
use oncilla::client::{Meter, Options, connect_through};
use oncilla::controller;
use serde_json::Value;
use support::cluster::{Cluster, Namespace};
use support::install::install;
use support::kubelet::Kubelet;
use support::story::Story;
use tokio::sync::Notify;
use tracing_subscriber::EnvFilter;
use wire::{Exchange, Wire};

/// Length of a chain, and how often it is run.
const CHAINS: [(usize, usize); 2] = [(10, 5), (100, 1)];
/// A chain that takes longer than this for each of its steps, and a minute, is stuck.
const STUCK: Duration = Duration::from_secs(10);

fn main() {
    // `cargo test --benches` runs benchmarks too; a time that nobody asked for is not worth a cluster.
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("latency: nothing measured; it runs with: cargo bench --bench latency");
        return;
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let cluster = Cluster::connect().await;
        install(&cluster).await;
        for (length, times) in CHAINS {
            let mut passages = Vec::new();
            let mut chains = Vec::new();
            for _ in 0..times {
                let chain = measure(&cluster, length).await;
                passages.extend(chain.passages.iter().copied());
                chains.push(chain);
            }
            print(length, &passages, &chains);
        }
    });
}

/// From the end of one step's pod to the start of the next step.
#[derive(Clone, Copy)]
struct Passage {
    /// The watch has brought the pod's end.
    ended: Instant,
    /// The status write, which records the end and names the next Job.
    commit_sent: Instant,
    commit_answered: Instant,
    create_sent: Instant,
    create_answered: Instant,
}

/// A chain that has been run.
struct Chain {
    passages: Vec<Passage>,
    /// From the run's create to its phase Succeeded, as a watch saw it.
    took: Duration,
    /// What the controller wrote: `patch workflowruns.oncilla.dev/status` and how often.
    writes: BTreeMap<String, u64>,
}

async fn measure(cluster: &Cluster, length: usize) -> Chain {
    let namespace = cluster.namespace("bench").await;
    let kubelet = Kubelet::start(cluster.admin.clone(), &namespace.name).terse();
    let add_one = |execution: &support::story::Execution| match execution.env["PREVIOUS"].parse::<u64>() {
        Ok(previous) => (0, (previous + 1).to_string()),
        Err(error) => (1, error.to_string()),
    };
    let kubelet = kubelet.otherwise(Story::compute(add_one));

    let wire = Wire::default();
    let options = Options {
        config: Some(cluster.config.clone()),
        ..Options::default()
    };
    let (client, meter) = connect_through(options, &wire).await.expect("a client");
    let only_here = controller::Options {
        namespace: Some(namespace.name.clone()),
        ..controller::Options::default()
    };
    let stop = Arc::new(Notify::new());
    let told = stop.clone();
    let counted = meter.clone();
    let at_work = tokio::spawn(controller::run(client, counted, only_here, async move {
        told.notified().await
    }));

    let began = Instant::now();
    namespace.create_run("chain", chain::spec(length)).await;
    let last = ends(&namespace, length).await;
    let took = began.elapsed();
    assert_eq!(last, length.to_string(), "the last step's output");

    // It ends what it is in the middle of: the last pods are released.
    stop.notify_one();
    at_work.await.expect("the controller does not panic").expect("it runs");
    assert_eq!(kubelet.ledger().len(), length, "each step ran once");
    let passages = passages(&wire, length);
    namespace.finish().await;
    Chain {
        passages,
        took,
        writes: writes(&meter),
    }
}

/// Waits until the chain has succeeded; its last step's output.
async fn ends(namespace: &Namespace, length: usize) -> String {
    let has_ended = |run: Option<&WorkflowRun>| {
        let status = run.and_then(|run| run.status.as_ref());
        status.is_some_and(|status| status.phase.is_final())
    };
    let limit = Duration::from_secs(60) + STUCK * u32::try_from(length).expect("a length");
    let run = tokio::time::timeout(limit, await_condition(namespace.api(), "chain", has_ended))
        .await
        .unwrap_or_else(|_| panic!("the chain of {length} has not ended after {limit:?}"))
        .expect("the run can be watched");
    let status = run.and_then(|run| run.status).expect("a status");
    assert_eq!(status.phase, RunPhase::Succeeded, "{}", support::runs::shown(&status));
    let last = support::runs::record(&status, &chain::name(length - 1));
    last.output.clone().unwrap_or_default()
}

/// What the wire saw, by step: every step but the last is followed by another.
fn passages(wire: &Wire, length: usize) -> Vec<Passage> {
    let ends = ends_of_pods(wire);
    let exchanges = wire.exchanges();
    let is_create = |it: &&Exchange| it.request.verb == Verb::Create && it.request.resource == "jobs.batch";
    let creates: BTreeMap<String, &Exchange> = exchanges
        .iter()
        .filter(is_create)
        .filter_map(|it| Some((path_of(&serde_json::from_slice(&it.body).ok()?)?, it)))
        .collect();
    let commits: Vec<&Exchange> = exchanges
        .iter()
        .filter(|it| it.request.verb == Verb::Patch && it.request.resource.starts_with("workflowruns."))
        .collect();
    (1..length)
        .map(|n| {
            let ended = ends[&chain::name(n - 1)];
            let create = creates[&chain::name(n)];
            // The last one before the create is the one that named it.
            let commit = commits
                .iter()
                .rfind(|commit| commit.answered <= create.sent)
                .expect("nothing is created before a commit");
            assert!(commit.sent >= ended, "what was not known cannot be recorded");
            Passage {
                ended,
                commit_sent: commit.sent,
                commit_answered: commit.answered,
                create_sent: create.sent,
                create_answered: create.answered,
            }
        })
        .collect()
}

/// When the watch first showed the pod of each step ended.
fn ends_of_pods(wire: &Wire) -> BTreeMap<String, Instant> {
    let mut ends = BTreeMap::new();
    for line in wire.lines().iter().filter(|line| line.resource == "pods") {
        let event: Value = serde_json::from_slice(&line.text).expect("a watch sends JSON");
        let pod = &event["object"];
        let has_ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        if let Some(path) = path_of(pod).filter(|_| has_ended) {
            ends.entry(path).or_insert(line.received);
        }
    }
    ends
}

fn path_of(object: &Value) -> Option<String> {
    let path = object["metadata"]["annotations"][names::ANNOTATION_STEP_PATH].as_str()?;
    Some(path.to_owned())
}

fn writes(meter: &Meter) -> BTreeMap<String, u64> {
    let mut writes = BTreeMap::new();
    for (key, count) in meter.snapshot().into_iter().filter(|(key, _)| key.verb.is_write()) {
        let part = match key.subresource.as_str() {
            "" => String::new(),
            part => format!("/{part}"),
        };
        *writes
            .entry(format!("{} {}{part}", key.verb, key.resource))
            .or_default() += count;
    }
    writes
}

type Part = (&'static str, fn(&Passage) -> Duration);

/// The parts that a passage consists of, and what they add up to.
const PARTS: [Part; 6] = [
    ("pod's end seen, to the next Job's create sent", |it| {
        it.create_sent - it.ended
    }),
    ("  pod's end seen, to status write sent", |it| it.commit_sent - it.ended),
    ("  status write sent, to its answer", |it| {
        it.commit_answered - it.commit_sent
    }),
    ("  its answer, to the create sent", |it| {
        it.create_sent - it.commit_answered
    }),
    ("the same apart from the status write", |it| {
        (it.commit_sent - it.ended) + (it.create_sent - it.commit_answered)
    }),
    ("the create sent, to its answer", |it| {
        it.create_answered - it.create_sent
    }),
];

fn print(length: usize, passages: &[Passage], chains: &[Chain]) {
    println!();
    println!(
        "chain of {length} inline steps, {} times: {} passages from one step to the next",
        chains.len(),
        passages.len()
    );
    println!("{}", machine());
    println!("{:50} {:>12} {:>12}", "", "median ms", "p90 ms");
    for (what, part) in PARTS {
        let mut times: Vec<Duration> = passages.iter().map(part).collect();
        times.sort();
        println!(
            "{what:50} {:>12.2} {:>12.2}",
            ms(rank(&times, 50)),
            ms(rank(&times, 90))
        );
    }
    let mut took: Vec<Duration> = chains.iter().map(|chain| chain.took).collect();
    took.sort();
    println!(
        "{:50} {:>12.0} {:>12.0}",
        "the whole run",
        ms(rank(&took, 50)),
        ms(rank(&took, 90))
    );
    let runs = chains.len() as f64;
    for what in chains
        .iter()
        .flat_map(|chain| chain.writes.keys())
        .collect::<std::collections::BTreeSet<_>>()
    {
        let all: u64 = chains.iter().filter_map(|chain| chain.writes.get(what)).sum();
        let each = all as f64 / runs;
        println!("{:50} {each:>12.1}   a run, {:.2} a step", what, each / length as f64);
    }
}

/// What else kept the machine busy decides about these figures.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    format!("{cores} cores, load {load}")
}

/// The smallest time that `percent` of them do not exceed; they are sorted.
fn rank(times: &[Duration], percent: usize) -> Duration {
    let index = (times.len() * percent).div_ceil(100).max(1) - 1;
    times[index]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
