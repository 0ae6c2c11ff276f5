//! The cluster with Oncilla on it, and what tests do there and look at.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace as NamespaceObject, Pod};
use kube::api::{DeleteParams, ListParams, LogParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Config, ResourceExt};
use oncilla::api::names;
use oncilla::api::status::{Record, WorkflowRunStatus};
use oncilla::client::{Options, connect};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::support::cluster::{Cluster, Namespace, wait_for};
use crate::support::runs::record;

/// Names the kubeconfig of a whole cluster that exists for tests.
const KUBECONFIG: &str = "ONCILLA_E2E_KUBECONFIG";
/// Oncilla's own namespace.
pub const SYSTEM: &str = "oncilla-system";
/// Selects the controller's pods.
pub const CONTROLLER: &str = "app.kubernetes.io/name=oncilla";
/// The image of the steps: a shell with the usual tools.
pub const IMAGE: &str = "oncilla.dev/busybox:dev";

/// A whole cluster on which Oncilla is installed.
pub struct Rig {
    pub cluster: Cluster,
    kubeconfig: String,
}

impl Rig {
    /// The cluster that ONCILLA_E2E_KUBECONFIG names. The first one to ask installs Oncilla there with its chart.
    pub async fn ready() -> Rig {
        let kubeconfig = std::env::var(KUBECONFIG).unwrap_or_else(|_| {
            panic!(
                "{KUBECONFIG} is not set: this test needs a whole cluster, with the images oncilla.dev/oncilla:dev, \
                 oncilla.dev/shop:dev and {IMAGE} on its nodes. `make test` starts one, loads them and sets it."
            )
        });
        let read =
            Kubeconfig::read_from(&kubeconfig).unwrap_or_else(|error| panic!("{KUBECONFIG}={kubeconfig}: {error}"));
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
            .await
            .unwrap_or_else(|error| panic!("{KUBECONFIG}={kubeconfig}: {error}"));
        let options = Options {
            config: Some(config.clone()),
            ..Options::default()
        };
        let (admin, _) = connect(options).await.unwrap_or_else(|error| panic!("{error}"));
        let rig = Rig {
            cluster: Cluster { config, admin },
            kubeconfig,
        };
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        INSTALLED.get_or_init(|| rig.install()).await;
        rig
    }

    /// Installs the chart of this tree, as the README says, and waits until the controller is ready.
    async fn install(&self) {
        let system = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM, "labels": {
            "pod-security.kubernetes.io/enforce": "restricted",
        }}});
        self.kubectl_reads("apply -f -", &system.to_string()).await;
        // The tag is the same for every build, so this makes sure that the pod is of the image that was loaded last.
        let build = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let helm = std::env::var("ONCILLA_E2E_HELM").unwrap_or_else(|_| "helm".into());
        let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/oncilla");
        let annotation = format!("podAnnotations.oncilla\\.dev/build={build}");
        let arguments = [
            "upgrade",
            "--install",
            "oncilla",
            chart,
            "--namespace",
            SYSTEM,
            "--force-conflicts",
            // What `make run` has applied without Helm becomes the release's.
            "--take-ownership",
        ];
        let values = [
            "--set",
            "image.repository=oncilla.dev/oncilla,image.tag=dev",
            "--set-string",
            &annotation,
        ];
        self.run(&helm, &[&arguments[..], &values[..]].concat(), "")
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let rollout = format!("-n {SYSTEM} rollout status deployment/oncilla --timeout=120s");
        if let Err(error) = self.try_kubectl(&rollout, "").await {
            let pods = self.kubectl(&format!("-n {SYSTEM} describe pods")).await;
            panic!("the controller does not become ready: {error}\n{pods}");
        }
    }

    /// A namespace of its own for one test.
    pub async fn namespace(&self, purpose: &str) -> Namespace {
        self.cluster.namespace(purpose).await
    }

    /// The same with the restricted Pod Security Standard enforced.
    pub async fn restricted_namespace(&self, purpose: &str) -> Namespace {
        let namespace = self.namespace(purpose).await;
        let label = "pod-security.kubernetes.io/enforce=restricted";
        self.kubectl(&format!("label namespace {} {label}", namespace.name))
            .await;
        namespace
    }

    /// Ends a test that went well: its namespace goes, and the controller must not have come to harm or missed a permission.
    pub async fn finish(&self, namespace: Namespace) {
        let pods: Api<Pod> = Api::namespaced(self.cluster.admin.clone(), SYSTEM);
        let controllers = pods.list(&ListParams::default().labels(CONTROLLER)).await.unwrap();
        for pod in controllers {
            let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.clone());
            for status in statuses.unwrap_or_default() {
                assert_eq!(
                    status.restart_count, 0,
                    "the controller fell over: {:#?}",
                    status.last_state
                );
            }
            // A pod that is just being made or deleted has no log.
            let log = pods
                .logs(&pod.name_any(), &LogParams::default())
                .await
                .unwrap_or_default();
            let denied = log
                .lines()
                .find(|line| line.contains("cannot") && line.contains("in API group"));
            assert_eq!(denied, None, "the chart's ClusterRole lacks a verb");
        }
        let namespaces: Api<NamespaceObject> = Api::all(self.cluster.admin.clone());
        let deleted = namespaces.delete(&namespace.name, &DeleteParams::background()).await;
        deleted.unwrap_or_else(|error| panic!("namespace {}: {error}", namespace.name));
    }

    /// What kubectl prints; it must succeed. The words of the line are separated by spaces.
    pub async fn kubectl(&self, line: &str) -> String {
        self.kubectl_reads(line, "").await
    }

    /// The same in a namespace.
    pub async fn kubectl_in(&self, namespace: &Namespace, line: &str) -> String {
        self.kubectl(&format!("-n {} {line}", namespace.name)).await
    }

    /// The same with something on its standard input.
    pub async fn kubectl_reads(&self, line: &str, input: &str) -> String {
        let answer = self.try_kubectl(line, input).await;
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    /// What kubectl prints; the error is what it says when it fails.
    pub async fn try_kubectl(&self, line: &str, input: &str) -> Result<String, String> {
        self.run(&kubectl(), &line.split_whitespace().collect::<Vec<_>>(), input)
            .await
    }

    /// kubectl, to be run where nothing can be awaited.
    pub fn kubectl_command(&self, line: &str) -> std::process::Command {
        let mut command = std::process::Command::new(kubectl());
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .args(line.split_whitespace())
            .stdout(Stdio::null());
        command
    }

    /// What a shell script prints that is run in a pod's container.
    pub async fn exec(&self, namespace: &Namespace, pod: &str, script: &str) -> String {
        let arguments = ["-n", &namespace.name, "exec", pod, "--", "sh", "-ec", script];
        let answer = self.run(&kubectl(), &arguments, "").await;
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Applies examples/NAME.yaml as a user does.
    pub async fn apply_example(&self, namespace: &Namespace, name: &str) {
        let file = format!("{}/examples/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        self.kubectl_reads(&format!("-n {} apply -f -", namespace.name), &text)
            .await;
    }

    async fn run(&self, program: &str, arguments: &[&str], input: &str) -> Result<String, String> {
        let shown = format!("{program} {}", arguments.join(" "));
        let mut child = Command::new(program)
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{shown}: {error}"))?;
        let mut stdin = child.stdin.take().expect("it is piped");
        // A program that fails early does not read it.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = child
            .wait_with_output()
            .await
            .map_err(|error| format!("{shown}: {error}"))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        match output.status.success() {
            true => Ok(text(output.stdout)),
            false => Err(format!(
                "{shown}: {}: {}{}",
                output.status,
                text(output.stderr),
                text(output.stdout)
            )),
        }
    }

    /// Opens the gate of [`gated`] in the step's pod.
    pub async fn open_gate(&self, namespace: &Namespace, run: &str, step: &str) {
        let pod = self.running_pod(namespace, run, step).await;
        self.exec(namespace, &pod, "touch /tmp/go").await;
    }

    /// The name of the step's only running pod, as soon as there is one.
    pub async fn running_pod(&self, namespace: &Namespace, run: &str, step: &str) -> String {
        let selector = format!("{}={run},{}={step}", names::LABEL_RUN, names::LABEL_STEP);
        wait_for(&format!("a running pod of {step}"), async || {
            let pods = namespace
                .api::<Pod>()
                .list(&ListParams::default().labels(&selector))
                .await;
            let pods = pods.map_err(|error| error.to_string())?.items;
            let mut running = pods
                .iter()
                .filter(|pod| pod.metadata.deletion_timestamp.is_none() && is_running(pod));
            let name = running.next().map(ResourceExt::name_any);
            name.ok_or_else(|| format!("{:?}", pods.iter().map(|pod| &pod.status).collect::<Vec<_>>()))
        })
        .await
    }
}

/// The program, which need not be on the PATH.
fn kubectl() -> String {
    std::env::var("ONCILLA_E2E_KUBECTL").unwrap_or_else(|_| "kubectl".into())
}

fn is_running(pod: &Pod) -> bool {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    statuses.is_some_and(|all| {
        all.iter()
            .all(|it| it.state.as_ref().is_some_and(|state| state.running.is_some()))
    })
}

/// A step that runs a shell script, and whatever `more` adds.
pub fn script(name: &str, script: &str, more: Value) -> Value {
    let mut step = json!({"name": name, "container": {"args": [script]}});
    merge(&mut step, more);
    step
}

/// A script that goes on as soon as [`Rig::open_gate`] has opened its gate.
pub fn gated(then: &str) -> String {
    format!("until [ -e /tmp/go ]; do sleep 0.1; done; {then}")
}

/// A spec with these steps, whose scripts are run by a shell and which end one second after they are told to.
pub fn spec(steps: Vec<Value>, more: Value) -> Value {
    let mut spec = json!({
        "defaults": {
            "container": {"image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-ec"]},
            "podTemplate": {"spec": {"terminationGracePeriodSeconds": 1}},
        },
        "steps": steps,
    });
    merge(&mut spec, more);
    spec
}

/// Objects are merged, everything else is replaced.
fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

/// The attempts that have a Job, as the path of their step and their number. Jobs stay until their run goes, so an attempt that was
/// made twice or beside the journal shows here.
pub async fn jobs(namespace: &Namespace, run: &str) -> Vec<(String, String)> {
    let selector = format!("{}={run}", names::LABEL_RUN);
    let jobs = namespace
        .api::<Job>()
        .list(&ListParams::default().labels(&selector))
        .await
        .unwrap();
    let mut jobs: Vec<_> = jobs.iter().map(attempt_of).collect();
    jobs.sort();
    jobs
}

/// The attempts whose container was made and has ended, as the path of their step and their number; every one must have
/// been made once. Pods that were deleted are gone.
pub async fn executions(namespace: &Namespace, run: &str) -> Vec<(String, String)> {
    let selector = format!("{}={run}", names::LABEL_RUN);
    let pods = namespace
        .api::<Pod>()
        .list(&ListParams::default().labels(&selector))
        .await
        .unwrap();
    let mut ended = Vec::new();
    for pod in pods {
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.clone());
        for status in statuses.unwrap_or_default() {
            assert_eq!(
                status.restart_count,
                0,
                "{}: a container was made twice",
                pod.name_any()
            );
            // Of a container that was never made the kubelet says at the end that it terminated, too.
            let terminated = status.state.and_then(|state| state.terminated);
            let was_made = terminated.is_some_and(|it| it.container_id.is_some_and(|id| !id.is_empty()));
            if status.name == names::MAIN_CONTAINER && was_made {
                ended.push(attempt_of(&pod));
            }
        }
    }
    ended.sort();
    ended
}

fn attempt_of<K: kube::Resource>(object: &K) -> (String, String) {
    let none = BTreeMap::new();
    let labels = object.meta().labels.as_ref().unwrap_or(&none);
    let path = object.annotations().get(names::ANNOTATION_STEP_PATH).cloned();
    (
        path.unwrap_or_default(),
        labels.get(names::LABEL_ATTEMPT).cloned().unwrap_or_default(),
    )
}

/// Attempts as [`jobs`] and [`executions`] give them: `a` for the first attempt of a, `a#2` for the second.
pub fn attempts(of: &[&str]) -> Vec<(String, String)> {
    let mut attempts: Vec<_> = of
        .iter()
        .map(|text| text.split_once('#').unwrap_or((text, "1")))
        .map(|(path, number)| (path.to_string(), number.to_string()))
        .collect();
    attempts.sort();
    attempts
}

/// Fails unless the container of `first` ended before the one of `then` started.
pub fn assert_order(status: &WorkflowRunStatus, first: &str, then: &str) {
    let (ended, started) = (record(status, first).completion_time, record(status, then).start_time);
    assert!(
        ended.is_some() && ended <= started,
        "{first} ended {ended:?}, {then} started {started:?}"
    );
}

/// The output of a step that has one.
pub fn output(record: &Record) -> &str {
    record
        .output
        .as_deref()
        .unwrap_or_else(|| panic!("no output: {record:#?}"))
}

/// The message of a step that has one.
pub fn message(record: &Record) -> &str {
    record
        .message
        .as_deref()
        .unwrap_or_else(|| panic!("no message: {record:#?}"))
}
