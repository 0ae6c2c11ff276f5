//! The API group `oncilla.dev/v1alpha1` as Rust types: what people write (`spec`), what Oncilla records (`status`), and
//! the words both use.

pub mod names;
pub mod policy;
pub mod schema;
pub mod spec;
pub mod status;
pub mod time;
pub mod words;

pub use spec::{WorkflowRun, WorkflowRunSpec};
pub use status::WorkflowRunStatus;
