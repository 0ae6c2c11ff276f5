//! Oncilla as its users have it: installed with its chart, on a whole cluster, with steps that are real containers.
//!
//! The tests share the cluster and its one controller, and each has a namespace of its own, so they run side by side.

mod support;

#[path = "e2e/control.rs"]
mod control;
#[path = "e2e/endings.rs"]
mod endings;
#[path = "e2e/examples.rs"]
mod examples;
#[path = "e2e/kubectl.rs"]
mod kubectl;
#[path = "e2e/order.rs"]
mod order;
#[path = "e2e/restarts.rs"]
mod restarts;
#[path = "e2e/rig.rs"]
mod rig;
#[path = "e2e/waiting.rs"]
mod waiting;
