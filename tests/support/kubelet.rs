//! A simulated kubelet and scheduler: plays the stories that a test gives it, on a control plane without nodes.
//!
//! It binds pods to a Node object that exists for it, and writes their status as the real kubelet does. Each start of a
//! step's main container is an entry in its ledger, which nothing ever takes back: what a test counts to know whether a step
//! ran again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use oncilla::answer::{self, EffectMeaning};
use oncilla::api::names;
use oncilla::client::retry::Retry;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::pod_status::{State, Status, second};
use super::story::{End, Execution, ObstacleKind, Part, Story};

/// The node that pods are bound to, unless a test names another.
pub const NODE: &str = "sim-node";

/// A kubelet for one namespace; it stops when it is dropped.
pub struct Kubelet {
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

struct Shared {
    client: Client,
    namespace: String,
    node: String,
    stories: Mutex<HashMap<String, Story>>,
    default: Mutex<Story>,
    terse: Mutex<bool>,
    ledger: Mutex<Vec<Execution>>,
    count: watch::Sender<usize>,
    faults: Mutex<Vec<String>>,
}

impl Kubelet {
    /// Starts to play the pods of `namespace` on [`NODE`]. Steps without a story succeed without an output.
    pub fn start(client: Client, namespace: &str) -> Kubelet {
        Kubelet::start_on(client, namespace, NODE)
    }

    /// The same on a node of that name, for tests that take the node away.
    pub fn start_on(client: Client, namespace: &str, node: &str) -> Kubelet {
        let shared = Arc::new(Shared {
            client,
            namespace: namespace.to_string(),
            node: node.to_string(),
            stories: Mutex::default(),
            default: Mutex::new(Story::succeed("")),
            terse: Mutex::new(false),
            ledger: Mutex::default(),
            count: watch::Sender::new(0),
            faults: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        let this = shared.clone();
        tasks.spawn(async move {
            this.join().await;
            tokio::join!(this.beat(), this.clone().watch());
        });
        Kubelet { shared, _tasks: tasks }
    }

    /// What happens to the step of this name, or of this path if the name has a slash.
    pub fn story(self, step: &str, story: Story) -> Kubelet {
        self.tell(step, story);
        self
    }

    /// The same while it is at work, for pods that it has not seen yet.
    pub fn tell(&self, step: &str, story: Story) {
        let mut stories = self.shared.stories.lock().unwrap();
        stories.insert(step.to_string(), story);
    }

    /// What happens to the steps without a story of their own.
    pub fn otherwise(self, story: Story) -> Kubelet {
        *self.shared.default.lock().unwrap() = story;
        self
    }

    /// Writes only the last status of a container that is not held up, as the kubelet does for one that ends at once. Saves
    /// two writes a pod in long runs.
    pub fn terse(self) -> Kubelet {
        *self.shared.terse.lock().unwrap() = true;
        self
    }

    /// Every start of a main container so far, in order.
    pub fn ledger(&self) -> Vec<Execution> {
        self.shared.ledger.lock().unwrap().clone()
    }

    /// The starts of the step of this name or path.
    pub fn executions(&self, step: &str) -> Vec<Execution> {
        let mut ledger = self.ledger();
        ledger.retain(|execution| execution.step == step || execution.path == step);
        ledger
    }

    /// Waits until the ledger has `n` entries.
    pub async fn executed(&self, n: usize) {
        let mut count = self.shared.count.subscribe();
        let _ = count.wait_for(|count| *count >= n).await;
    }

    /// What it could not do. Empty unless the control plane or a story is broken.
    pub fn faults(&self) -> Vec<String> {
        self.shared.faults.lock().unwrap().clone()
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        let faults = self.faults();
        if !std::thread::panicking() {
            assert!(faults.is_empty(), "the simulated kubelet failed: {faults:#?}");
        }
    }
}

impl Shared {
    /// One request, sent again while its outcome is unknown. None: what it was about is gone.
    async fn send(&self, method: Method, path: &str, content: &str, body: Value) -> Option<Value> {
        let bytes = serde_json::to_vec(&body).expect("a value is JSON");
        let result = Retry::default()
            .run(path, || async {
                let request = http::Request::builder()
                    .method(method.clone())
                    .uri(path)
                    .header("content-type", content)
                    .body(bytes.clone())
                    .map_err(kube::Error::HttpError)?;
                self.client.request::<Value>(request).await
            })
            .await;
        match answer::effect(answer::classify(&result)) {
            EffectMeaning::Done => result.ok(),
            EffectMeaning::Retry { message } | EffectMeaning::Refused { message } => {
                self.fault(format!("{method} {path}: {message}"));
                None
            }
        }
    }

    fn fault(&self, fault: String) {
        self.faults.lock().unwrap().push(fault);
    }

    /// Makes the Node object, unless another kubelet has.
    async fn join(&self) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": self.node, "labels": {"kubernetes.io/hostname": self.node}},
        });
        let request = http::Request::post("/api/v1/nodes")
            .header("content-type", JSON)
            .body(node.to_string().into_bytes())
            .expect("a request");
        match self.client.request::<Value>(request).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => self.fault(format!("node {}: {error}", self.node)),
        }
        let now = second(Timestamp::now());
        let status = json!({"status": {
            "capacity": {"cpu": "64", "memory": "256Gi", "pods": "10000"},
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "10000"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated",
                            "lastHeartbeatTime": now, "lastTransitionTime": now}],
        }});
        let path = format!("/api/v1/nodes/{}/status", self.node);
        self.send(Method::PATCH, &path, STRATEGIC, status).await;
    }

    /// Renews the node's lease: without it the node counts as lost after 40 s.
    async fn beat(&self) {
        let path = format!(
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{}?fieldManager=sim&force=true",
            self.node
        );
        let mut beat = tokio::time::interval(Duration::from_secs(10));
        loop {
            beat.tick().await;
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": self.node, "namespace": "kube-node-lease"},
                "spec": {"holderIdentity": self.node, "leaseDurationSeconds": 40,
                         "renewTime": format!("{:.6}", Timestamp::now())},
            });
            self.send(Method::PATCH, &path, "application/apply-patch+yaml", lease)
                .await;
        }
    }

    /// Gives each pod of the namespace an actor that plays it.
    async fn watch(self: Arc<Self>) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        // Without a wait between its tries a watch that fails at once, as when the runtime ends, would never yield.
        let events = watcher::watcher(pods, watcher::Config::default()).default_backoff();
        pin_mut!(events);
        let mut actors = JoinSet::new();
        let mut known: HashMap<String, watch::Sender<Pod>> = HashMap::new();
        while let Some(event) = events.next().await {
            // The watcher begins again by itself after an error.
            match event {
                Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                    let uid = pod.metadata.uid.clone().unwrap_or_default();
                    match known.get(&uid) {
                        Some(sender) => {
                            sender.send_replace(pod);
                        }
                        None => {
                            let (sender, receiver) = watch::channel(pod);
                            known.insert(uid, sender);
                            let actor = Actor::new(self.clone(), receiver);
                            actors.spawn(async move {
                                let _ = actor.play().await;
                            });
                        }
                    }
                }
                Ok(Event::Delete(pod)) => {
                    known.remove(pod.metadata.uid.as_deref().unwrap_or(""));
                }
                Ok(Event::Init | Event::InitDone) | Err(_) => {}
            }
            while actors.try_join_next().is_some() {}
        }
    }
}

const JSON: &str = "application/json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The pod is no longer there to be played.
struct PodGone;

/// Plays one pod.
struct Actor {
    shared: Arc<Shared>,
    pod: watch::Receiver<Pod>,
    path: String,
    uid: String,
}

/// What the kubelet knows of a pod that it has accepted.
struct Run {
    part: Part,
    start_time: Timestamp,
    /// When the pod's own deadline ends it.
    ends_at: Option<tokio::time::Instant>,
    /// The generation that it was accepted with.
    generation: i64,
}

/// Why a container goes no further.
enum Stop {
    Deleted,
    DeadlineExceeded,
}

impl Actor {
    fn new(shared: Arc<Shared>, pod: watch::Receiver<Pod>) -> Actor {
        let metadata = pod.borrow().metadata.clone();
        let name = metadata.name.unwrap_or_default();
        Actor {
            path: format!("/api/v1/namespaces/{}/pods/{name}", shared.namespace),
            uid: metadata.uid.unwrap_or_default(),
            shared,
            pod,
        }
    }

    fn now(&self) -> Pod {
        self.pod.borrow().clone()
    }

    /// Waits until the pod is so.
    async fn when(&self, test: impl FnMut(&Pod) -> bool) -> Result<Pod, PodGone> {
        let mut pod = self.pod.clone();
        let found = pod.wait_for(test).await.map_err(|_| PodGone)?;
        Ok(found.clone())
    }

    async fn play(self) -> Result<(), PodGone> {
        let seen = self.now();
        if is_terminal(&seen) {
            return self.let_go().await;
        }
        let part = self.part(&seen);
        let terse = *self.shared.terse.lock().unwrap() && part.obstacle.is_none();
        self.schedule(&part).await?;

        let pod = self.when(is_bound).await?;
        let deadline = pod.spec.as_ref().and_then(|s| s.active_deadline_seconds);
        let run = Run {
            part,
            start_time: Timestamp::now(),
            ends_at: deadline.map(|seconds| tokio::time::Instant::now() + Duration::from_secs(seconds.unsigned_abs())),
            generation: pod.metadata.generation.unwrap_or(1),
        };
        if !terse {
            self.report(&run, "Pending", &waiting("ContainerCreating", "")).await?;
        }
        if let Some(stop) = self.obstacle(&run).await? {
            self.end(&run, None, &stop).await?;
            return self.let_go().await;
        }

        let execution = self.execution(&self.now());
        self.record(&execution);
        let started = Timestamp::now();
        let end = match &run.part.end {
            End::Compute(f) => {
                let (code, message) = f(&execution);
                End::Exit(code, message)
            }
            end => end.clone(),
        };
        let at_once = run.part.hold.is_none() && !matches!(end, End::Never | End::PodDeleted);
        if !(terse && at_once) {
            self.report(&run, "Running", &State::Running { started }).await?;
        }
        let mut stopped = None;
        if let Some(gate) = &run.part.hold {
            stopped = self.stopped_before(&run, gate.pass()).await?;
        }
        if stopped.is_none() && matches!(end, End::PodDeleted) {
            let body = json!({"preconditions": {"uid": self.uid}});
            self.shared.send(Method::DELETE, &self.path, JSON, body).await;
        }
        if stopped.is_none() && matches!(end, End::Never | End::PodDeleted) {
            stopped = self.stopped_before(&run, std::future::pending()).await?;
        }
        match stopped {
            Some(stop) => self.end(&run, Some(started), &stop).await?,
            None => self.exit(&run, started, &end).await?,
        }
        self.let_go().await
    }

    fn part(&self, pod: &Pod) -> Part {
        let (step, path, attempt) = identity(pod);
        let stories = self.shared.stories.lock().unwrap();
        let story = stories.get(&path).or_else(|| stories.get(&step));
        match story {
            Some(story) => story.part(attempt),
            None => self.shared.default.lock().unwrap().part(attempt),
        }
    }

    /// Does the scheduler's part.
    async fn schedule(&self, part: &Part) -> Result<(), PodGone> {
        self.when(|pod| !is_gated(pod)).await?;
        if let Some(obstacle) = &part.obstacle
            && obstacle.kind == ObstacleKind::Unschedulable
        {
            let status = json!({"metadata": {"uid": self.uid}, "status": {"conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": obstacle.message, "lastTransitionTime": second(Timestamp::now()),
            }]}});
            self.patch_status(status).await?;
            match &obstacle.until {
                Some(gate) => tokio::select! {
                    () = gate.pass() => {}
                    // What is deleted before it has a node is not the kubelet's.
                    gone = self.when(|_| false) => { gone?; }
                },
                None => {
                    self.when(|_| false).await?;
                }
            }
        }
        let pod = self.now();
        if is_bound(&pod) {
            return Ok(());
        }
        if is_deleted(&pod) {
            return Err(PodGone);
        }
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod.metadata.name, "uid": self.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.shared.node},
        });
        let path = format!("{}/binding", self.path);
        let request = http::Request::post(path.as_str())
            .header("content-type", JSON)
            .body(binding.to_string().into_bytes())
            .expect("a request");
        match self.shared.client.request::<Value>(request).await {
            Ok(_) => Ok(()),
            // Deleted or bound in the meantime: the next state of the pod tells.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => {
                self.shared.fault(format!("{path}: {error}"));
                Err(PodGone)
            }
        }
    }

    /// Reports what keeps the container from starting until it is gone, or the pod is stopped.
    async fn obstacle(&self, run: &Run) -> Result<Option<Stop>, PodGone> {
        let Some(obstacle) = &run.part.obstacle else {
            return Ok(None);
        };
        let reasons: &[&'static str] = match obstacle.kind {
            ObstacleKind::Unschedulable => return Ok(None),
            ObstacleKind::ImagePullFailing => &["ErrImagePull", "ImagePullBackOff"],
            ObstacleKind::ConfigMissing => &["CreateContainerConfigError"],
        };
        for &reason in reasons {
            self.report(run, "Pending", &waiting(reason, &obstacle.message)).await?;
        }
        match &obstacle.until {
            Some(gate) => self.stopped_before(run, gate.pass()).await,
            None => self.stopped_before(run, std::future::pending()).await,
        }
    }

    /// None if `done` comes first.
    async fn stopped_before(&self, run: &Run, done: impl Future<Output = ()>) -> Result<Option<Stop>, PodGone> {
        let deadline = async {
            match run.ends_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = done => Ok(None),
            pod = self.when(|pod| is_deleted(pod) && !run.part.unaware) => pod.map(|_| Some(Stop::Deleted)),
            () = deadline => Ok(Some(Stop::DeadlineExceeded)),
        }
    }

    /// The container was stopped; one that never started leaves nothing that the kubelet could find.
    async fn end(&self, run: &Run, started: Option<Timestamp>, stop: &Stop) -> Result<(), PodGone> {
        let (code, message) = &run.part.when_stopped;
        let main = match started {
            None => State::Lost,
            Some(started) => terminated(*code, message, started),
        };
        let succeeded = started.is_some() && *code == 0;
        let (phase, reason, message) = match stop {
            Stop::DeadlineExceeded => (
                "Failed",
                "DeadlineExceeded",
                "Pod was active on the node longer than the specified deadline",
            ),
            Stop::Deleted if succeeded => ("Succeeded", "", ""),
            Stop::Deleted => ("Failed", "", ""),
        };
        self.write(run, phase, reason, message, &main).await
    }

    async fn exit(&self, run: &Run, started: Timestamp, end: &End) -> Result<(), PodGone> {
        let (phase, main) = match end {
            End::Exit(0, message) => ("Succeeded", terminated(0, message, started)),
            End::Exit(code, message) => ("Failed", terminated(*code, message, started)),
            End::OomKilled => {
                let mut state = terminated(137, "", started);
                if let State::Terminated { reason, .. } = &mut state {
                    *reason = "OOMKilled";
                }
                ("Failed", state)
            }
            End::Never | End::PodDeleted | End::Compute(_) => {
                unreachable!("ends by being stopped, or was computed before")
            }
        };
        self.write(run, phase, "", "", &main).await
    }

    async fn report(&self, run: &Run, phase: &'static str, main: &State) -> Result<(), PodGone> {
        self.write(run, phase, "", "", main).await
    }

    async fn write(
        &self,
        run: &Run,
        phase: &'static str,
        reason: &'static str,
        message: &str,
        main: &State,
    ) -> Result<(), PodGone> {
        let pod = self.now();
        let status = Status {
            pod: &pod,
            generation: match run.part.unaware {
                true => run.generation,
                false => pod.metadata.generation.unwrap_or(1),
            },
            start_time: run.start_time,
            phase,
            reason,
            message,
            main,
        };
        self.patch_status(json!({"metadata": {"uid": self.uid}, "status": status.to_value()}))
            .await
    }

    async fn patch_status(&self, patch: Value) -> Result<(), PodGone> {
        let path = format!("{}/status", self.path);
        let sent = self.shared.send(Method::PATCH, &path, STRATEGIC, patch).await;
        sent.map(drop).ok_or(PodGone)
    }

    /// Completes the deletion of a pod that has ended. A finalizer may keep it longer; that is not the kubelet's.
    async fn let_go(&self) -> Result<(), PodGone> {
        self.when(is_deleted).await?;
        let body = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}});
        self.shared.send(Method::DELETE, &self.path, JSON, body).await;
        Ok(())
    }

    fn record(&self, execution: &Execution) {
        let mut ledger = self.shared.ledger.lock().unwrap();
        ledger.push(execution.clone());
        self.shared.count.send_replace(ledger.len());
    }

    fn execution(&self, pod: &Pod) -> Execution {
        let (step, path, attempt) = identity(pod);
        let spec = pod.spec.clone().unwrap_or_default();
        let main = spec
            .containers
            .into_iter()
            .find(|container| container.name == names::MAIN_CONTAINER)
            .unwrap_or_default();
        let env: BTreeMap<String, String> = main
            .env
            .unwrap_or_default()
            .into_iter()
            .filter_map(|variable| Some((variable.name, variable.value?)))
            .collect();
        let variable = |name: &str| env.get(name).cloned().unwrap_or_default();
        Execution {
            step,
            path,
            attempt,
            pod: pod.metadata.name.clone().unwrap_or_default(),
            pod_uid: self.uid.clone(),
            key: variable("ONCILLA_IDEMPOTENCY_KEY"),
            fence: variable("ONCILLA_FENCE"),
            argv: [main.command, main.args].into_iter().flatten().flatten().collect(),
            env,
        }
    }
}

/// The step's name, its path, and the attempt, as the pod's labels and annotations have them.
fn identity(pod: &Pod) -> (String, String, i64) {
    let label = |name: &str| {
        let labels = pod.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(name).cloned())
    };
    let step = label(names::LABEL_STEP).unwrap_or_default();
    let annotations = pod.metadata.annotations.as_ref();
    let path = annotations.and_then(|all| all.get(names::ANNOTATION_STEP_PATH).cloned());
    let attempt = label(names::LABEL_ATTEMPT).and_then(|text| text.parse().ok());
    (step.clone(), path.unwrap_or(step), attempt.unwrap_or(1))
}

fn waiting(reason: &'static str, message: &str) -> State {
    State::Waiting {
        reason,
        message: message.to_string(),
    }
}

/// The kubelet keeps the last 4,096 bytes of a termination message.
fn terminated(code: i32, message: &str, started: Timestamp) -> State {
    let bytes = message.as_bytes();
    let kept = &bytes[bytes.len().saturating_sub(4096)..];
    State::Terminated {
        code,
        reason: if code == 0 { "Completed" } else { "Error" },
        message: String::from_utf8_lossy(kept).into_owned(),
        started,
        finished: Timestamp::now(),
    }
}

fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|s| s.node_name.is_some())
}

fn is_gated(pod: &Pod) -> bool {
    let gates = pod.spec.as_ref().and_then(|s| s.scheduling_gates.as_ref());
    gates.is_some_and(|gates| !gates.is_empty())
}

fn is_deleted(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
