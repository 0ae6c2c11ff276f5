//! Oncilla runs the steps of a WorkflowRun as Jobs and records each step's output in the resource's status, so that a
//! completed step never runs again.
//!
//! The way of the data: observe, validate (into a plan), decide, commit, act. Only observe, commit and act hold a client.

pub mod act;
pub mod answer;
pub mod api;
pub mod build;
pub mod cli;
pub mod client;
pub mod commit;
pub mod controller;
pub mod crdgen;
pub mod decide;
pub mod evidence;
pub mod expr;
pub mod journal;
pub mod manifest;
pub mod observe;
pub mod plan;
pub mod report;
