//! What an answer of the API server means: pure, and the only place that says it. docs/answers.md has it as a table, which a
//! test holds against this code.
//!
//! A no counts as one only if the API server said it about that very object. Everything else (no answer, an answer of
//! something in between, one that cannot be read) is unknown: what was asked may have happened, so look before going on.

use std::time::Duration;

use kube::core::Status;

use crate::api::names::POLICY_CREATE_BEFORE;
use crate::api::words::StepReason;
use crate::evidence::{Waiting, cause, flat};

/// The reason of a [`Status`] made out of an answer that is none. kube writes the same.
pub const NOT_A_STATUS: &str = "Failed to parse error data";

/// What the API server said. Messages are one line of at most [`MESSAGE_CHARS`] characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done, and stored.
    Acknowledged,
    /// The object has changed since it was read.
    Conflict { message: String },
    /// The name belongs to an object with another UID: the one that was meant is gone.
    OtherObject,
    /// An object of that name is there already.
    Exists { message: String },
    /// The object is not there.
    Gone,
    /// Its namespace is not there.
    NamespaceGone,
    /// Its namespace is being deleted.
    NamespaceTerminating { message: String },
    /// The create came after its create-before time.
    TooLate { message: String },
    /// A quota is used up.
    OverQuota { message: String },
    /// RBAC, a policy or a webhook does not allow it.
    Forbidden { message: String },
    /// The API server will never take it as it is.
    Invalid { message: String },
    /// Nothing is known: it may have happened.
    Unknown {
        message: String,
        /// How long the API server asked to wait.
        retry_after: Option<Duration>,
    },
}

/// What the result of a call means.
pub fn classify<T>(result: &Result<T, kube::Error>) -> Answer {
    match result {
        Ok(_) => Answer::Acknowledged,
        Err(kube::Error::Api(status)) => refusal(status),
        Err(error) => unknown(&chain(error), None),
    }
}

fn refusal(status: &Status) -> Answer {
    let message = one_line(&status.message);
    let details = status.details.as_ref();
    let has_cause = |test: &dyn Fn(&kube::core::response::StatusCause) -> bool| {
        details.is_some_and(|details| details.causes.iter().any(test))
    };
    let retry_after = details
        .map(|details| details.retry_after_seconds)
        .filter(|seconds| *seconds > 0)
        .map(|seconds| Duration::from_secs(seconds.into()));

    // Too large is too large, whoever says it; sending it again does not make it smaller.
    let too_large = status.code >= 500 && status.message.contains("request is too large");
    if status.code == 413 || too_large {
        return Answer::Invalid { message };
    }
    if status.reason == NOT_A_STATUS {
        let text = format!("{} without a reason: {message}", status.code);
        return unknown(&text, retry_after);
    }
    // A policy may choose its code among 401, 403 and 422.
    match denied_by_policy(&status.message) {
        Some(_) if is_create_before_refusal(&status.message) => return Answer::TooLate { message },
        Some(_) if status.code == 401 => return Answer::Forbidden { message },
        _ => {}
    }
    match status.code {
        400 => Answer::Invalid { message },
        403 if has_cause(&|cause| cause.reason == "NamespaceTerminating") => Answer::NamespaceTerminating { message },
        403 if is_quota(&status.message) => Answer::OverQuota { message },
        403 => Answer::Forbidden { message },
        404 if status.reason == "NotFound" => match details {
            Some(details) if details.name.is_empty() => unknown(&message, retry_after),
            Some(details) if details.kind == "namespaces" => Answer::NamespaceGone,
            Some(_) => Answer::Gone,
            None => unknown(&message, retry_after),
        },
        409 if status.reason == "AlreadyExists" => Answer::Exists { message },
        409 if status.message.contains("the UID in the precondition") => Answer::OtherObject,
        409 => Answer::Conflict { message },
        // The answer to a patch that names another UID than the object has.
        422 if has_cause(&|cause| cause.field == "metadata.uid") => Answer::OtherObject,
        422 => Answer::Invalid { message },
        code => unknown(&format!("{code} {}: {message}", status.reason), retry_after),
    }
}

fn unknown(message: &str, retry_after: Option<Duration>) -> Answer {
    Answer::Unknown {
        message: one_line(message),
        retry_after,
    }
}

/// What follows the object's name in the words of an admission plugin. The name is ours and cannot hold them, whereas the
/// rest of a message may quote what a user wrote.
fn admission(message: &str) -> Option<&str> {
    message.split_once(" is forbidden: ").map(|(_object, words)| words)
}

/// Whether the answer to a create says that it came too late. Such an answer decides nothing about the step: what is to be done
/// has to be observed and recorded again.
pub fn is_create_before_refusal(message: &str) -> bool {
    denied_by_policy(message) == Some(POLICY_CREATE_BEFORE)
}

fn denied_by_policy(message: &str) -> Option<&str> {
    let (policy, _) = admission(message)?
        .strip_prefix("ValidatingAdmissionPolicy '")?
        .split_once("' with binding '")?;
    Some(policy)
}

fn is_quota(message: &str) -> bool {
    admission(message).is_some_and(|words| words.starts_with("exceeded quota: ") || words.starts_with("failed quota: "))
}

/// What an answer to the create of a Job means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateMeaning {
    /// It is there: check what was stored.
    Created,
    /// Something of that name is there, or is being deleted: read it live, then adopt or refuse it.
    Exists { message: String },
    /// It will never be taken: the step is Failed (JobRejected).
    Rejected { message: String },
    /// It came too late. Decides nothing: observe and commit again.
    TooLate,
    /// Not now: the step waits and says why.
    NotNow(Waiting),
    /// The namespace is being deleted: the run ends.
    NamespaceTerminating,
    /// The namespace is gone, and the run with it.
    NamespaceGone,
    /// It may be there: a live GET of the Job and a live LIST of its pods come first.
    Unknown { message: String },
}

/// What an answer to the create of a Job means.
pub fn create(answer: Answer) -> CreateMeaning {
    let not_now = |reason, message: String| {
        let message = cause(&message).to_owned();
        CreateMeaning::NotNow(Waiting { reason, message })
    };
    match answer {
        Answer::Acknowledged => CreateMeaning::Created,
        Answer::Exists { message } => CreateMeaning::Exists { message },
        Answer::Invalid { message } => CreateMeaning::Rejected { message },
        Answer::TooLate { .. } => CreateMeaning::TooLate,
        Answer::OverQuota { message } => not_now(StepReason::QuotaExceeded, message),
        Answer::Forbidden { message } => not_now(StepReason::AdmissionDenied, message),
        Answer::NamespaceTerminating { .. } => CreateMeaning::NamespaceTerminating,
        Answer::NamespaceGone => CreateMeaning::NamespaceGone,
        // A conflict is one over the quota's own object, not over the Job.
        Answer::Conflict { message } | Answer::Unknown { message, .. } => CreateMeaning::Unknown { message },
        Answer::OtherObject | Answer::Gone => CreateMeaning::Unknown {
            message: "the API server answered a create as if it were about a stored object".into(),
        },
    }
}

/// What an answer to the commit means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitMeaning {
    /// Recorded: the effects may follow.
    Acknowledged,
    /// Somebody else has written: observe and decide again.
    Conflict,
    /// The run is gone: release what is left of it.
    Gone,
    /// The ratchet, the schema or a policy does not take it: a bug, an older CRD, or a status that is too large.
    Refused { message: String },
    /// Our service account may not write it.
    Forbidden { message: String },
    /// It may have been recorded: read the run live and decide again.
    Unknown { message: String },
}

/// What an answer to the commit means.
pub fn commit(answer: Answer) -> CommitMeaning {
    match answer {
        Answer::Acknowledged => CommitMeaning::Acknowledged,
        Answer::Conflict { .. } => CommitMeaning::Conflict,
        Answer::Gone | Answer::NamespaceGone | Answer::OtherObject => CommitMeaning::Gone,
        Answer::Invalid { message } | Answer::TooLate { message } => CommitMeaning::Refused { message },
        Answer::Forbidden { message } | Answer::OverQuota { message } | Answer::NamespaceTerminating { message } => {
            CommitMeaning::Forbidden { message }
        }
        Answer::Exists { message } | Answer::Unknown { message, .. } => CommitMeaning::Unknown { message },
    }
}

/// What an answer to an effect on an object that is named by UID means: close, delete, release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectMeaning {
    /// Done, or no longer needed: that object is gone.
    Done,
    /// Send it again later; doing it twice is doing it once.
    Retry { message: String },
    /// The API server does not allow it.
    Refused { message: String },
}

/// What an answer to close, delete or release means.
pub fn effect(answer: Answer) -> EffectMeaning {
    match answer {
        Answer::Acknowledged | Answer::OtherObject | Answer::Gone | Answer::NamespaceGone => EffectMeaning::Done,
        Answer::Conflict { message } | Answer::Exists { message } | Answer::Unknown { message, .. } => {
            EffectMeaning::Retry { message }
        }
        Answer::Invalid { message }
        | Answer::TooLate { message }
        | Answer::OverQuota { message }
        | Answer::Forbidden { message }
        | Answer::NamespaceTerminating { message } => EffectMeaning::Refused { message },
    }
}

/// Most characters of a message.
pub const MESSAGE_CHARS: usize = 300;

/// `text` in one line: white space and control characters become single spaces. What is too long loses its middle: the API
/// server quotes whole objects there, and says last what is wrong with them.
pub fn one_line(text: &str) -> String {
    let mut line = flat(text);
    let chars = line.chars().count();
    if chars > MESSAGE_CHARS {
        let half = MESSAGE_CHARS / 2;
        let head: String = line.chars().take(half - 1).collect();
        let tail: String = line.chars().skip(chars - half).collect();
        line = format!("{head}…{tail}");
    }
    line
}

/// An error with what caused it, as far as that says more.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
