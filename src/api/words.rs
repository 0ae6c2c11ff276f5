//! Phases, reasons and condition types: one list for the API, decide, metrics and the documents.
//!
//! Every enum has a catch-all variant, because a newer controller may have written a word that this one does not know:
//! such a record is left alone instead of making the whole object unreadable.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $variant:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[doc = $doc])+ $variant,)+
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

            /// What the word says, for the reference.
            pub fn meaning(self) -> &'static str {
                match self {
                    $($name::$variant => concat!($($doc),+).trim_ascii(),)+
                    $name::Unrecognized => "A word of a newer version.",
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
    RunPhase {
        /// Nothing has started yet.
        Pending,
        /// Steps run, or wait for others or for a retry.
        Running,
        /// Nothing new starts, because control.suspend says so. Running steps end.
        Suspended,
        /// Every step that had to succeed did. Final: the API server refuses to take it back.
        Succeeded,
        /// A step failed, or the spec is not sound.
        Failed,
        /// Ended by control.cancel.
        Cancelled,
    }
}

words! {
    /// Where a step stands.
    StepPhase {
        /// Recorded, and its container does not run yet.
        Pending,
        /// Its container runs.
        Running,
        /// Its result is recorded. Final: the API server refuses to take it back, and the step never runs again.
        Succeeded,
        /// It ended badly and is not tried again.
        Failed,
        /// It was not run, because its condition or the steps before it say so.
        Skipped,
        /// It was stopped because the run was.
        Cancelled,
        /// Its effect may or may not have happened.
        InDoubt,
    }
}

words! {
    /// Why a run is in its phase.
    RunReason {
        /// The spec is sound.
        Valid,
        /// The spec is not sound; the condition Accepted names every fault. Editing the spec repairs the run.
        InvalidSpec,
        /// Steps run or wait.
        StepsRunning,
        /// control.suspend is true.
        Suspended,
        /// Every step that had to succeed did.
        Completed,
        /// A step failed whose failurePolicy is Fail.
        StepFailed,
        /// An expression of the run itself, such as one in outputs, failed when it was evaluated.
        ExpressionError,
        /// control.cancel was set.
        Cancelled,
        /// The namespace is being deleted.
        NamespaceTerminating,
    }
}

words! {
    /// Why a step is in its phase.
    StepReason {
        /// The attempt is recorded, and its container has not started yet.
        Starting,
        /// No node takes the pod; the message says what is missing.
        Unschedulable,
        /// The node cannot get the image.
        ImagePullFailing,
        /// A ConfigMap, Secret or key that the pod refers to is missing.
        ConfigMissing,
        /// The namespace's quota leaves no room for the Job or its pod.
        QuotaExceeded,
        /// Something in the cluster's admission refuses the Job or its pod for now.
        AdmissionDenied,
        /// The wait before the next attempt.
        Backoff,
        /// Ready, but control.suspend holds it back.
        RunSuspended,
        /// The container runs.
        Started,
        /// The container ended with exit code 0 and its output is recorded.
        Completed,
        /// The container ended with another exit code than 0.
        ExitCode,
        /// The container used more memory than its limit.
        OOMKilled,
        /// The attempt took longer than timeout.
        DeadlineExceeded,
        /// The container did not start within startTimeout.
        StartDeadlineExceeded,
        /// The node evicted the pod for what the pod itself used.
        Evicted,
        /// The pod was evicted because its node was drained. A disruption.
        Drained,
        /// The scheduler took the pod's place for a more important one. A disruption.
        Preempted,
        /// Somebody deleted the pod. A disruption.
        PodDeleted,
        /// The pod's node is gone; the old container may still run there. A disruption.
        NodeLost,
        /// The attempt's pod is gone and nobody saw how it ended. A disruption.
        PodLost,
        /// More attempts were ended by disruptions than are allowed.
        TooManyDisruptions,
        /// The step did its work, but its output is larger than the limit. Never tried again, because the effect is there.
        OutputTooLarge,
        /// The step did its work, but its output is not what its format asks for. Never tried again, because the effect is there.
        OutputInvalid,
        /// The step did its work, but its output could not be read. Never tried again, because the effect is there.
        OutputLost,
        /// An expression of the step failed when it was evaluated. Nothing was started.
        ExpressionError,
        /// The API server says that the step's Job is not valid.
        JobRejected,
        /// Another object has the name of the step's Job.
        JobNameTaken,
        /// Its condition gave false.
        WhenFalse,
        /// A step that it needs was skipped.
        NeedSkipped,
        /// A step that it needs failed.
        NeedFailed,
        /// The run was stopping before this one started: it was cancelled, a step had failed, or its namespace was being deleted.
        RunStopping,
        /// The run was cancelled.
        RunCancelled,
        /// Another step failed and onStepFailure is Cancel.
        SiblingFailed,
    }
}

words! {
    /// The types of a run's conditions.
    ConditionType {
        /// Whether the spec is sound; if False, the message names every fault. Unknown: not looked at yet.
        Accepted,
        /// Whether the run succeeded. Unknown: not ended yet.
        Succeeded,
        /// Whether the run has ended, however.
        Finished,
        /// Whether something will happen by itself.
        Reconciling,
        /// Whether the run failed, is not sound, or waits for a person.
        Stalled,
    }
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
        matches!(self, RunPhase::Succeeded | RunPhase::Failed | RunPhase::Cancelled)
    }
}

impl StepReason {
    /// The phase of a step that has this reason.
    pub fn phase(self) -> StepPhase {
        use StepReason::*;
        match self {
            Starting | Unschedulable | ImagePullFailing | ConfigMissing | QuotaExceeded | AdmissionDenied | Backoff
            | RunSuspended | Unrecognized => StepPhase::Pending,
            Started => StepPhase::Running,
            Completed => StepPhase::Succeeded,
            ExitCode
            | OOMKilled
            | DeadlineExceeded
            | StartDeadlineExceeded
            | Evicted
            | Drained
            | Preempted
            | PodDeleted
            | NodeLost
            | PodLost
            | TooManyDisruptions
            | OutputTooLarge
            | OutputInvalid
            | OutputLost
            | ExpressionError
            | JobRejected
            | JobNameTaken => StepPhase::Failed,
            WhenFalse | NeedSkipped | NeedFailed | RunStopping => StepPhase::Skipped,
            RunCancelled | SiblingFailed => StepPhase::Cancelled,
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Each word in JSON, and what the reference says about it.
    fn written() -> Vec<(String, &'static str, &'static str)> {
        fn all<T: Copy + Serialize>(
            words: &[T],
            of: impl Fn(T) -> (&'static str, &'static str),
        ) -> Vec<(String, &'static str, &'static str)> {
            let json = |word| serde_json::to_string(&word).unwrap();
            words
                .iter()
                .map(|word| (json(*word), of(*word).0, of(*word).1))
                .collect()
        }
        [
            all(RunPhase::ALL, |word| (word.as_str(), word.meaning())),
            all(RunReason::ALL, |word| (word.as_str(), word.meaning())),
            all(StepPhase::ALL, |word| (word.as_str(), word.meaning())),
            all(StepReason::ALL, |word| (word.as_str(), word.meaning())),
            all(ConditionType::ALL, |word| (word.as_str(), word.meaning())),
        ]
        .concat()
    }

    #[test]
    fn every_word_is_written_as_it_is_named_and_says_what_it_means() {
        for (json, name, meaning) in written() {
            assert_eq!(json, format!("\"{name}\""));
            assert!(meaning.ends_with('.') && !meaning.starts_with(' '), "{name}: {meaning}");
        }
    }

    #[test]
    fn a_word_of_a_newer_version_can_be_read() {
        assert_eq!(
            serde_json::from_str::<StepReason>("\"Enchanted\"").unwrap(),
            StepReason::Unrecognized
        );
        assert_eq!(
            serde_json::from_str::<RunPhase>("\"Enchanted\"").unwrap(),
            RunPhase::Unrecognized
        );
    }

    #[test]
    fn every_phase_of_a_step_that_is_written_now_has_a_reason() {
        for phase in StepPhase::ALL.iter().filter(|phase| **phase != StepPhase::InDoubt) {
            assert!(StepReason::ALL.iter().any(|reason| reason.phase() == *phase), "{phase}");
        }
    }
}
