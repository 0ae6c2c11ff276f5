use std::collections::BTreeSet;

use kube::core::response::{StatusCause, StatusDetails};

use super::*;
use crate::client::DeadlineExceeded;

const DOCUMENT: &str = include_str!("../../docs/answers.md");

struct Row {
    line: String,
    result: Result<(), kube::Error>,
    answer: String,
    create: String,
    commit: String,
    effect: String,
}

fn rows() -> Vec<Row> {
    let lines = DOCUMENT.lines().filter(|line| line.starts_with("| "));
    lines
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [code, reason, message, answer, create, commit, effect] = cells[..] else {
                panic!("a row has seven cells: {line}");
            };
            Row {
                line: line.to_string(),
                result: result(code, reason, message),
                answer: answer.to_string(),
                create: create.to_string(),
                commit: commit.to_string(),
                effect: effect.to_string(),
            }
        })
        .collect()
}

/// The answer that a row describes, as kube or our own sending gives it.
fn result(code: &str, reason: &str, message: &str) -> Result<(), kube::Error> {
    match (code, reason) {
        ("2xx", _) => return Ok(()),
        ("none", "deadline") => {
            let limit = Duration::from_secs(10);
            return Err(kube::Error::Service(DeadlineExceeded { limit }.into()));
        }
        ("none", "connection") => {
            let error = std::io::Error::new(std::io::ErrorKind::ConnectionReset, message);
            return Err(kube::Error::Service(error.into()));
        }
        ("none", "unreadable") => {
            let error = serde_json::from_str::<u8>("<html>").unwrap_err();
            return Err(kube::Error::SerdeError(error));
        }
        _ => {}
    }
    let (message, note) = match message.split_once(" (cause ") {
        Some((message, cause)) => (message, (cause.trim_end_matches(')'), "")),
        None => match message.split_once(" (field ") {
            Some((message, field)) => (message, ("", field.trim_end_matches(')'))),
            None => (message, ("", "")),
        },
    };
    let reason = if reason == "(no Status)" { NOT_A_STATUS } else { reason };
    // `jobs.batch "j" …`: the API server repeats kind and name in the details.
    let named = message.split_once(" \"").and_then(|(kind, rest)| {
        let kind = kind.rsplit(' ').next()?.split('.').next()?;
        Some((kind.to_string(), rest.split_once('"')?.0.to_string()))
    });
    let (kind, name) = named.unwrap_or_default();
    let causes = match note {
        ("", "") => Vec::new(),
        (reason, field) => vec![StatusCause {
            reason: reason.to_string(),
            message: String::new(),
            field: field.to_string(),
        }],
    };
    let status = Status::failure(message, reason)
        .with_code(code.parse().unwrap())
        .with_details(StatusDetails {
            name,
            kind,
            causes,
            group: String::new(),
            uid: String::new(),
            retry_after_seconds: 0,
        });
    Err(kube::Error::Api(status.boxed()))
}

fn word(debug: &impl std::fmt::Debug) -> String {
    let text = format!("{debug:?}");
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    text[..end].to_string()
}

fn create_word(meaning: &CreateMeaning) -> String {
    match meaning {
        CreateMeaning::NotNow(waiting) => format!("NotNow {}", waiting.reason),
        meaning => word(meaning),
    }
}

#[test]
fn the_document_says_what_the_code_does() {
    for row in rows() {
        let answer = classify(&row.result);
        assert_eq!(word(&answer), row.answer, "answer: {}", row.line);
        assert_eq!(create_word(&create(answer.clone())), row.create, "create: {}", row.line);
        assert_eq!(word(&commit(answer.clone())), row.commit, "commit: {}", row.line);
        assert_eq!(word(&effect(answer)), row.effect, "effect: {}", row.line);
    }
}

#[test]
fn the_document_leaves_out_no_meaning() {
    let words = |column: fn(&Row) -> &str| -> BTreeSet<String> {
        let rows = rows();
        rows.iter()
            .map(|row| column(row).split(' ').next().unwrap().to_string())
            .collect()
    };
    let set = |list: &str| list.split(' ').map(str::to_string).collect();
    let expected: BTreeSet<String> = set(
        "Acknowledged Conflict OtherObject Exists Gone NamespaceGone NamespaceTerminating TooLate OverQuota Forbidden Invalid \
         Unknown",
    );
    assert_eq!(words(|row| &row.answer), expected);
    let expected: BTreeSet<String> =
        set("Created Exists Rejected TooLate NotNow NamespaceTerminating NamespaceGone Unknown");
    assert_eq!(words(|row| &row.create), expected);
    let expected: BTreeSet<String> = set("Acknowledged Conflict Gone Refused Forbidden Unknown");
    assert_eq!(words(|row| &row.commit), expected);
    let expected: BTreeSet<String> = set("Done Retry Refused");
    assert_eq!(words(|row| &row.effect), expected);
}

#[test]
fn only_an_acknowledgement_lets_a_commit_count() {
    for row in rows() {
        if row.result.is_err() {
            let meaning = commit(classify(&row.result));
            assert_ne!(meaning, CommitMeaning::Acknowledged, "{}", row.line);
        }
    }
}

#[test]
fn the_wait_that_the_server_asks_for_is_kept() {
    let mut status = Status::failure("later", "TooManyRequests").with_code(429);
    status.details = Some(StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 3,
    });
    let answer = classify::<()>(&Err(kube::Error::Api(status.boxed())));
    assert_eq!(
        answer,
        Answer::Unknown {
            message: "429 TooManyRequests: later".to_string(),
            retry_after: Some(Duration::from_secs(3)),
        }
    );
}

#[test]
fn a_message_is_one_short_line() {
    assert_eq!(one_line("  a\n\tb \u{7} c\r\n"), "a b c");
    assert_eq!(one_line(""), "");
    let full = "é".repeat(MESSAGE_CHARS);
    assert_eq!(one_line(&full), full);
    let cut = one_line(&format!("the patch {} is wrong", "é".repeat(MESSAGE_CHARS)));
    assert_eq!(cut.chars().count(), MESSAGE_CHARS);
    assert!(cut.starts_with("the patch é") && cut.ends_with("é is wrong"));
}

#[test]
fn an_error_tells_its_cause_once() {
    let io = std::io::Error::other("connection reset");
    let Answer::Unknown { message, .. } = classify::<()>(&Err(kube::Error::Service(io.into()))) else {
        panic!("no answer is unknown");
    };
    assert_eq!(message, "ServiceError: connection reset");
}

#[test]
fn only_the_answer_of_our_own_policy_is_a_create_before_refusal() {
    for (message, expected) in [
        (
            "jobs.batch \"a\" is forbidden: ValidatingAdmissionPolicy 'oncilla-create-before' with binding \
             'oncilla-create-before' denied request: too late: the Job had to be created before 2026-11-29T10:00:00Z",
            true,
        ),
        (
            "jobs.batch \"a\" is forbidden: ValidatingAdmissionPolicy 'oncilla-create-before-2' with binding 'x' denied \
             request: no",
            false,
        ),
        (
            "jobs.batch \"oncilla-create-before\" is forbidden: exceeded quota",
            false,
        ),
        ("", false),
    ] {
        assert_eq!(is_create_before_refusal(message), expected, "{message}");
    }
}
