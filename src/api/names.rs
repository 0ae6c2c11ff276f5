//! Labels, annotations, finalizers and other names that stand in stored objects. They are final: objects of every version
//! carry them.

/// The API group.
pub const GROUP: &str = "oncilla.dev";
/// The API version.
pub const VERSION: &str = "v1alpha1";

/// Label: the run's name.
pub const LABEL_RUN: &str = "oncilla.dev/run";
/// Label: the run's UID.
pub const LABEL_RUN_UID: &str = "oncilla.dev/run-uid";
/// Label: the step's own name (the last part of its path that is a name).
pub const LABEL_STEP: &str = "oncilla.dev/step";
/// Label: a hash of the step's path. With the run's UID and the attempt it selects an attempt's pods.
pub const LABEL_STEP_HASH: &str = "oncilla.dev/step-hash";
/// Label: the attempt's number, from 1.
pub const LABEL_ATTEMPT: &str = "oncilla.dev/attempt";
/// Label that Velero reads: a restored Job would start at once, without its history.
pub const LABEL_NO_BACKUP: (&str, &str) = ("velero.io/exclude-from-backup", "true");

/// Annotation: the step's path, which may hold `/` and so fits no label.
pub const ANNOTATION_STEP_PATH: &str = "oncilla.dev/step-path";
/// Annotation of a Job: an RFC 3339 time after which the API server refuses to create it.
pub const ANNOTATION_CREATE_BEFORE: &str = "oncilla.dev/create-before";

/// Finalizer of a step's pod: keeps what the pod says until its outcome is recorded.
pub const FINALIZER_EVIDENCE: &str = "oncilla.dev/evidence";

/// The step's own container.
pub const MAIN_CONTAINER: &str = "main";
/// The file a step writes its output to: the main container's termination message path.
pub const OUTPUT_PATH: &str = "/oncilla/output";
/// What the names of Oncilla's own environment variables begin with.
pub const ENV_PREFIX: &str = "ONCILLA_";

/// Field manager and user agent.
pub const MANAGER: &str = "oncilla";

/// Seconds after its commit during which the API server accepts the Job that the commit names.
pub const CREATE_WINDOW_SECONDS: i64 = 60;
/// Name of the ValidatingAdmissionPolicy that refuses a Job after its create-before time.
pub const POLICY_CREATE_BEFORE: &str = "oncilla-create-before";
/// Name of the ValidatingAdmissionPolicy that freezes a run's spec once it has started.
pub const POLICY_SPEC_FREEZE: &str = "oncilla-spec-freeze";
