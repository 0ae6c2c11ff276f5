//! A pod's status as the kubelet writes it, in the states that a pod goes through.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

/// How a container stands.
#[derive(Clone, Debug)]
pub enum State {
    Waiting {
        reason: &'static str,
        message: String,
    },
    Running {
        started: Timestamp,
    },
    Terminated {
        code: i32,
        reason: &'static str,
        message: String,
        started: Timestamp,
        finished: Timestamp,
    },
    /// The kubelet cannot tell what became of it, or it never was.
    Lost,
}

/// A status to be written.
pub struct Status<'a> {
    pub pod: &'a Pod,
    /// The generation of the pod that the kubelet has acted on.
    pub generation: i64,
    pub start_time: Timestamp,
    pub phase: &'static str,
    pub reason: &'static str,
    pub message: &'a str,
    /// The main container's state; the others follow it.
    pub main: &'a State,
}

impl Status<'_> {
    pub fn to_value(&self) -> Value {
        let spec = self.pod.spec.as_ref().expect("a pod has a spec");
        let main_runs = matches!(self.main, State::Running { .. });
        let ended = matches!(self.phase, "Succeeded" | "Failed");
        let begun = main_runs || ended;
        let containers: Vec<Value> = spec
            .containers
            .iter()
            .map(|container| self.container(container, &self.beside(container)))
            .collect();
        let inits: Vec<Value> = spec
            .init_containers
            .iter()
            .flatten()
            .map(|container| self.container(container, &self.before(container)))
            .collect();
        let not_ready = match self.phase {
            "Succeeded" => "PodCompleted",
            "Failed" => "PodFailed",
            _ => "ContainersNotReady",
        };
        let mut status = json!({
            "phase": self.phase,
            "startTime": second(self.start_time),
            "observedGeneration": self.generation,
            "qosClass": "BestEffort",
            "hostIP": "192.0.2.1",
            "conditions": [
                self.condition("PodReadyToStartContainers", main_runs, ""),
                self.condition("Initialized", begun, if begun { "" } else { "ContainersNotInitialized" }),
                self.condition("Ready", main_runs, if main_runs { "" } else { not_ready }),
                self.condition("ContainersReady", main_runs, if main_runs { "" } else { not_ready }),
            ],
            "containerStatuses": containers,
        });
        if !inits.is_empty() {
            status["initContainerStatuses"] = inits.into();
        }
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.message.is_empty() {
            status["message"] = self.message.into();
        }
        status
    }

    fn condition(&self, kind: &str, holds: bool, reason: &str) -> Value {
        let mut condition = json!({
            "type": kind,
            "status": if holds { "True" } else { "False" },
            "lastTransitionTime": second(Timestamp::now()),
            "observedGeneration": self.generation,
        });
        if !reason.is_empty() {
            condition["reason"] = reason.into();
        }
        condition
    }

    /// The state of a container that runs beside main: it ends well when main ends.
    fn beside(&self, container: &Container) -> State {
        match self.main {
            State::Terminated { started, finished, .. } if container.name != "main" => State::Terminated {
                code: 0,
                reason: "Completed",
                message: String::new(),
                started: *started,
                finished: *finished,
            },
            state => state.clone(),
        }
    }

    /// The state of an init container: a sidecar is like one beside main, a plain one has ended before main began.
    fn before(&self, container: &Container) -> State {
        match self.main {
            _ if container.restart_policy.as_deref() == Some("Always") => self.beside(container),
            State::Running { started } | State::Terminated { started, .. } => State::Terminated {
                code: 0,
                reason: "Completed",
                message: String::new(),
                started: *started,
                finished: *started,
            },
            state => state.clone(),
        }
    }

    fn container(&self, container: &Container, state: &State) -> Value {
        let uid = self.pod.metadata.uid.as_deref().unwrap_or("");
        let id = format!("containerd://{}-{}", uid, container.name);
        let running = matches!(state, State::Running { .. });
        let image = container.image.clone().unwrap_or_default();
        let mut status = json!({
            "name": container.name,
            "image": image,
            "imageID": "",
            "restartCount": 0,
            "ready": running,
            "started": running,
        });
        let has_id = matches!(state, State::Running { .. } | State::Terminated { .. });
        if has_id {
            status["containerID"] = id.clone().into();
            status["imageID"] = format!("sim/{image}").into();
        }
        status["state"] = match state {
            State::Waiting { reason, message } if message.is_empty() => {
                json!({"waiting": {"reason": reason}})
            }
            State::Waiting { reason, message } => {
                json!({"waiting": {"reason": reason, "message": message}})
            }
            State::Running { started } => json!({"running": {"startedAt": second(*started)}}),
            State::Terminated {
                code,
                reason,
                message,
                started,
                finished,
            } => {
                let mut terminated = json!({
                    "exitCode": code,
                    "reason": reason,
                    "startedAt": second(*started),
                    "finishedAt": second(*finished),
                    "containerID": id,
                });
                if !message.is_empty() {
                    terminated["message"] = message.as_str().into();
                }
                json!({ "terminated": terminated })
            }
            State::Lost => json!({"terminated": {
                "exitCode": 137,
                "reason": "ContainerStatusUnknown",
                "message": "The container could not be located when the pod was terminated",
                "startedAt": null,
                "finishedAt": null,
            }}),
        };
        status
    }
}

/// A time as Kubernetes stores it: in whole seconds.
pub fn second(time: Timestamp) -> String {
    format!("{time:.0}")
}
