//! What integration tests share: a real control plane, a simulated kubelet, faults, and a scripted API server on loopback.
//!
//! Every test file compiles this tree for itself and uses a part of it, so unused code here says nothing.
#![allow(dead_code)]

pub mod cluster;
pub mod faults;
pub mod gate;
pub mod install;
pub mod kubelet;
pub mod pod_status;
pub mod runs;
pub mod scripted;
pub mod story;
