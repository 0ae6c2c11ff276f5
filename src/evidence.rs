//! What Jobs and pods say happened, in small types of our own, so that decide and its tests need no cluster.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::time::Time;
use crate::api::words::StepReason;

/// An attempt of a step: the hash of the step's path, as the label has it, and the attempt's number.
pub type AttemptId = (String, i64);

/// Everything known about one run's Jobs and pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Evidence {
    /// By name.
    pub jobs: BTreeMap<String, JobEvidence>,
    /// In order of step, attempt and UID.
    pub pods: Vec<PodEvidence>,
    /// Jobs, by name, whose create was answered with a no, and what it meant.
    pub refusals: BTreeMap<String, Refusal>,
    /// Attempts whose Job and pods were read live, after everything else here: for them absence is proof (R5).
    pub live: BTreeSet<AttemptId>,
    /// The API server said that the namespace is being deleted.
    pub namespace_terminating: bool,
}

/// A Job of ours, found by label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobEvidence {
    pub uid: String,
    pub attempt: AttemptId,
    /// It has a deletionTimestamp: a closed attempt.
    pub deleting: bool,
    /// It is suspended, or another controller than Kubernetes' own manages it: a deadline does not end it.
    pub suspended: bool,
    /// Its activeDeadlineSeconds is 1: it has been told to end.
    pub closing: bool,
    pub state: JobState,
    /// When the API server created it.
    pub created: Option<Time>,
    /// Why it has no pod yet, if that is known: from the events of the Job controller.
    pub waiting: Option<Waiting>,
    /// How the stored Job differs from what Oncilla needs (R4); empty when it is sound.
    pub faults: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobState {
    Active,
    Complete,
    Failed,
}

/// Why something has not begun, for people.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Waiting {
    pub reason: StepReason,
    pub message: String,
}

impl Waiting {
    /// Most characters of a message.
    pub const MAX_CHARS: usize = 200;

    /// The message is brought to one line of at most [`Waiting::MAX_CHARS`] characters.
    pub fn new(reason: StepReason, message: &str) -> Waiting {
        Waiting {
            reason,
            message: one_line(message, Waiting::MAX_CHARS),
        }
    }
}

/// A no to the create of a Job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// The API server will never take this Job: the step is Failed (JobRejected).
    Rejected { message: String },
    /// Something else has the name: the step is Failed (JobNameTaken).
    NameTaken { message: String },
    /// The Job cannot be made out of the spec: the step is Failed (ExpressionError).
    NotBuilt { message: String },
    /// Quota or a policy says no for now: the step waits, and the create is tried again at `again`.
    NotNow { waiting: Waiting, again: Time },
    /// No answer, or one that decides nothing: the Job may be there. It is read live, and created if it is not, at `again`.
    Unanswered { waiting: Waiting, again: Time },
}

/// A pod of ours, found by label and never by owner: a Job deleted with its pods orphaned leaves them without one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodEvidence {
    pub attempt: AttemptId,
    pub uid: String,
    pub name: String,
    pub phase: PodPhase,
    /// `status.reason`, such as Evicted or DeadlineExceeded; empty if there is none.
    pub reason: String,
    /// `status.message`; empty if there is none.
    pub message: String,
    /// `metadata.generation`: 1 for a pod as it started, raised by a deletion.
    pub generation: i64,
    /// `status.observedGeneration`, if the kubelet writes it.
    pub observed_generation: Option<i64>,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// An earlier version of it was read in a terminal phase and without a deletionTimestamp: whoever deleted it came too late
    /// to stop it (R10).
    pub ended_before_deletion: bool,
    /// It holds our finalizer.
    pub held: bool,
    pub node: Node,
    /// `status.startTime`: when the kubelet accepted it.
    pub start_time: Option<Time>,
    /// `spec.activeDeadlineSeconds`.
    pub active_deadline_seconds: Option<i64>,
    /// The reason of a DisruptionTarget condition that is True.
    pub disruption: Option<String>,
    /// The message of a PodScheduled condition that is False, with reason Unschedulable.
    pub unschedulable: Option<String>,
    /// Why it has not begun, if that is known from its events: a volume that cannot be mounted shows nowhere else.
    pub waiting: Option<Waiting>,
    /// Init containers, containers and ephemeral ones, in this order, as the spec names them.
    pub containers: Vec<ContainerEvidence>,
}

impl PodEvidence {
    /// Whether its phase says that it has ended. The words of a pod that has not ended may still change.
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
    /// The kubelet cannot tell, or a word this version does not know.
    Unknown,
}

/// Where a pod is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Node {
    /// No nodeName: nothing of it has run.
    None,
    Named(String),
    /// The node object is gone by a live GET, or tainted out-of-service.
    Lost(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerEvidence {
    pub name: String,
    pub kind: ContainerKind,
    pub state: ContainerState,
    pub restart_count: i64,
    /// It has a lastState: it ran before.
    pub ran_before: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContainerKind {
    Regular,
    Init,
    /// An init container with restartPolicy Always.
    Sidecar,
    Ephemeral,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContainerState {
    /// The kubelet has not said anything.
    Unreported,
    Waiting {
        reason: String,
        message: String,
    },
    Running {
        started: Option<Time>,
    },
    Terminated(Terminated),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Terminated {
    pub exit_code: i32,
    pub reason: String,
    /// The termination message: the step's output, for the main container. Of a message longer than
    /// [`MAX_TERMINATION_MESSAGE`] the beginning, still at least that long, so that it is not mistaken for a whole one.
    pub message: String,
    pub started: Option<Time>,
    pub finished: Option<Time>,
    /// It has a containerID: a runtime made it.
    pub has_id: bool,
}

/// Most bytes of a container's termination message: the kubelet reads no more of the file.
pub const MAX_TERMINATION_MESSAGE: usize = 4096;

/// How many bytes a container wrote at least, of which `message` came out. On its way through the API each byte that is not
/// UTF-8 becomes U+FFFD, which takes three.
pub fn written_bytes(message: &str) -> usize {
    message.len() - 2 * message.matches(char::REPLACEMENT_CHARACTER).count()
}

/// What a no says, without the name of the object that was to be made: that is long, and nobody chose it.
pub fn cause(message: &str) -> &str {
    let made = ["Error creating: pods \"", "jobs.batch \""];
    let Some(rest) = made.iter().find_map(|prefix| message.strip_prefix(prefix)) else {
        return message;
    };
    rest.split_once("\" is forbidden: ").map_or(message, |(_, cause)| cause)
}

/// `text` on one line, with every run of white space and control characters as one space.
pub fn flat(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ")
}

/// `text` on one line, as [`flat`] makes it, and at most `max` characters long; what
/// is cut is shown by an ellipsis.
pub fn one_line(text: &str, max: usize) -> String {
    let line = flat(text);
    match line.char_indices().nth(max) {
        None => line,
        Some(_) => {
            let kept = line.chars().take(max.saturating_sub(1));
            kept.chain(['\u{2026}']).collect()
        }
    }
}

/// `text` with at most `max` bytes; what is cut is shown by an ellipsis, if there is room for one.
pub fn cut(text: &str, max: usize) -> String {
    const ELLIPSIS: &str = "\u{2026}";
    if text.len() <= max {
        return text.to_owned();
    }
    let mut end = max.saturating_sub(ELLIPSIS.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut kept = text[..end].to_owned();
    if kept.len() + ELLIPSIS.len() <= max {
        kept.push_str(ELLIPSIS);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_comes_without_the_name_of_what_was_to_be_made() {
        for (message, told) in [
            (
                r#"Error creating: pods "a-x-1" is forbidden: exceeded quota: q"#,
                "exceeded quota: q",
            ),
            (
                r#"jobs.batch "a-x" is forbidden: exceeded quota: q"#,
                "exceeded quota: q",
            ),
            (
                r#"Error creating: pods "a" is invalid"#,
                r#"Error creating: pods "a" is invalid"#,
            ),
            ("other words", "other words"),
        ] {
            assert_eq!(cause(message), told);
        }
    }

    #[test]
    fn a_line_is_one_line_and_no_longer_than_asked() {
        for (text, max, line) in [
            ("a\n\n  b\tc ", 10, "a b c"),
            ("abc", 3, "abc"),
            ("abcd", 3, "ab\u{2026}"),
            ("\u{e9}\u{e9}\u{e9}\u{e9}", 3, "\u{e9}\u{e9}\u{2026}"),
            ("\u{1b}[31mred", 20, "[31mred"),
            ("", 3, ""),
        ] {
            assert_eq!(one_line(text, max), line, "{text:?}");
        }
    }

    #[test]
    fn a_cut_falls_between_characters_and_shows() {
        for (text, max, kept) in [
            ("abc", 3, "abc"),
            ("abcdef", 5, "ab\u{2026}"),
            ("a\u{e9}\u{e9}\u{e9}", 6, "a\u{e9}\u{2026}"),
            ("\u{e9}\u{e9}\u{e9}", 5, "\u{e9}\u{2026}"),
            ("abc", 2, ""),
            ("abc", 0, ""),
        ] {
            assert_eq!(cut(text, max), kept, "{text:?}");
        }
    }

    #[test]
    fn a_replaced_byte_counts_as_one() {
        assert_eq!(written_bytes("ab\u{fffd}\u{fffd}"), 4);
        assert_eq!(written_bytes("\u{e9}"), 2);
    }
}
