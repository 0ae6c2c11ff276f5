//! The controller against a real etcd, API server and Job controller. Pods are played by a simulated kubelet.

mod support;

#[path = "control_plane/api.rs"]
mod api;
#[path = "control_plane/documents.rs"]
mod documents;
#[path = "control_plane/faults.rs"]
mod faults;
#[path = "control_plane/input.rs"]
mod input;
#[path = "control_plane/runs.rs"]
mod runs;
#[path = "control_plane/simulated_kubelet.rs"]
mod simulated_kubelet;
#[path = "control_plane/waiting.rs"]
mod waiting;
#[path = "control_plane/writes.rs"]
mod writes;
