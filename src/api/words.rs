//! Phases, reasons and condition types: one list for the API, decide, metrics and the documents.
//!
//! Every enum has a catch-all variant, because a newer controller may have written a word that this one does not know:
//! such a record is left alone instead of making the whole object unreadable.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$vmeta])* $variant,)+
            /// A word of a newer version; never written.
            #[serde(other)]
            Unrecognized,
        }

        impl $name {
            /// Every word this version writes.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word as it stands in the API.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => stringify!($variant),)+
                    $name::Unrecognized => "Unrecognized",
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        // Clients must accept values they do not know, so the schema is a plain string and not a closed enum.
        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "maxLength": 64})
            }
        }
    };
}

words! {
    /// Where a run stands. A summary for people; programs read the conditions.
    RunPhase { Pending, Running, Suspended, Succeeded, Failed, Cancelled }
}

words! {
    /// Where a step stands.
    StepPhase { Pending, Running, Succeeded, Failed, Skipped, Cancelled, InDoubt }
}

words! {
    /// Why a run is in its phase.
    RunReason {
        Valid, InvalidSpec, StepsRunning, Suspended, Completed, StepFailed, ExpressionError, Cancelled, NamespaceTerminating,
    }
}

words! {
    /// Why a step is in its phase.
    StepReason {
        // Pending
        Starting, Unschedulable, ImagePullFailing, ConfigMissing, QuotaExceeded, AdmissionDenied, Backoff, RunSuspended,
        // Running
        Started,
        // Succeeded
        Completed,
        // Failed
        ExitCode, OOMKilled, DeadlineExceeded, StartDeadlineExceeded, Evicted, Drained, Preempted, PodDeleted, NodeLost,
        PodLost, TooManyDisruptions, OutputTooLarge, OutputInvalid, OutputLost, ExpressionError, JobRejected, JobNameTaken,
        // Skipped
        WhenFalse, NeedSkipped, NeedFailed, RunStopping,
        // Cancelled
        RunCancelled, SiblingFailed,
    }
}

words! {
    /// The types of a run's conditions.
    ConditionType { Accepted, Succeeded, Finished, Reconciling, Stalled }
}

impl StepPhase {
    /// Whether nothing about the step changes any more by itself.
    pub fn is_final(self) -> bool {
        matches!(
            self,
            StepPhase::Succeeded | StepPhase::Failed | StepPhase::Skipped | StepPhase::Cancelled
        )
    }
}

impl RunPhase {
    /// Whether the run has ended, however.
    pub fn is_final(self) -> bool {
        matches!(
            self,
            RunPhase::Succeeded | RunPhase::Failed | RunPhase::Cancelled
        )
    }
}

impl StepReason {
    /// Whether the attempt ended for a cause outside the step: it has a number, but does not count towards `maxAttempts`.
    pub fn is_disruption(self) -> bool {
        use StepReason::*;
        matches!(self, Drained | Preempted | PodDeleted | NodeLost | PodLost)
    }

    /// Whether another attempt could not help, or could repeat an effect that has already happened.
    pub fn is_permanent(self) -> bool {
        use StepReason::*;
        matches!(
            self,
            OutputTooLarge
                | OutputInvalid
                | OutputLost
                | ExpressionError
                | JobRejected
                | JobNameTaken
                | TooManyDisruptions
        )
    }
}
