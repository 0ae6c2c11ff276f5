//! What is said about values that a schema refuses: patterns, types and limits in words, and what to do.

use jsonschema::JsonType;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use crate::api::schema::{DURATION, EXPRESSION, PARAM_NAME, STEP_NAME};

/// What to do about an expression in a field that takes none.
pub const NO_EXPRESSION: &str = "an expression cannot stand in this field: write the value itself";

pub const INTEGER_OR_EXPRESSION: &str = "a whole number, or exactly one expression: $[[ … ]]";

/// What a string has to look like, for people, and what to do if it does not.
pub fn pattern_words(pattern: &str, text: &str) -> (String, Option<String>) {
    match pattern {
        EXPRESSION => ("must be exactly one expression: $[[ … ]]".into(), bare_expression(text)),
        DURATION => (
            "must be a duration such as 90s, 5m or 1h30m, or one expression".into(),
            match text.trim().parse::<f64>() {
                Ok(_) => Some(format!("say the unit: {}s", text.trim())),
                Err(_) if text.contains("$[[") => {
                    Some("the unit has to come out of the expression: $[[ params.seconds + 's' ]]".into())
                }
                Err(_) => text
                    .contains(['d', 'w'])
                    .then(|| "the units are h, m, s and ms; a day is 24h".into()),
            },
        ),
        STEP_NAME => (
            "must be lowercase letters, digits and `-`, beginning with a letter and ending with a letter or digit"
                .into(),
            {
                if text.contains("$[[") {
                    return ("must be a name, written out".into(), Some(NO_EXPRESSION.into()));
                }
                let better = text.to_lowercase().replace(['_', ' ', '.'], "-");
                let better = better.trim_matches('-');
                let sound = !better.is_empty()
                    && better.starts_with(|c: char| c.is_ascii_lowercase())
                    && better.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
                sound.then(|| format!("for example {}", clip(better)))
            },
        ),
        PARAM_NAME => (
            "must be letters, digits and `_`, not beginning with a digit".into(),
            None,
        ),
        _ => (format!("must match {pattern}"), None),
    }
}

pub fn bare_expression(text: &str) -> Option<String> {
    let text = text.trim();
    if text.is_empty() || text.contains('\n') {
        return None;
    }
    for (opening, closing) in [("${{", "}}"), ("{{", "}}"), ("$(", ")"), ("${", "}")] {
        if let Some(inside) = text.strip_prefix(opening).and_then(|rest| rest.strip_suffix(closing)) {
            return Some(format!("write $[[ {} ]]", clip(inside.trim())));
        }
    }
    (!text.contains("$[[")).then(|| format!("write $[[ {} ]]", clip(text)))
}

pub fn limit_words(kind: &ValidationErrorKind, value: &Value) -> Option<String> {
    let text = value.as_str().unwrap_or_default();
    Some(match kind {
        ValidationErrorKind::MinLength { .. } if text.is_empty() => "must not be empty".into(),
        ValidationErrorKind::MinLength { limit } => {
            format!("has {} characters, and needs at least {limit}", text.chars().count())
        }
        ValidationErrorKind::MaxLength { limit } => {
            format!("has {} characters, and may have {limit}", text.chars().count())
        }
        ValidationErrorKind::MinItems { limit: 1 } => "must not be empty".into(),
        ValidationErrorKind::MinItems { limit } => format!("needs at least {limit} items"),
        ValidationErrorKind::MaxItems { limit } => format!(
            "has {} items, and may have {limit}",
            value.as_array().map_or(0, Vec::len)
        ),
        ValidationErrorKind::MaxProperties { limit } => format!("may have {limit} entries"),
        ValidationErrorKind::Minimum { limit } => {
            format!("is {value}, and must be at least {limit}")
        }
        ValidationErrorKind::Maximum { limit } => format!("is {value}, and may be at most {limit}"),
        _ => return None,
    })
}

/// A number with its digits: those that are lost are seen best.
pub fn number_words(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(value) if !number.is_i64() && value.fract() == 0.0 && value.abs() < 1e21 => value.to_string(),
        _ => number.to_string(),
    }
}

pub fn type_words(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Array => "a list",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "a whole number",
        JsonType::Null => "empty",
        JsonType::Number => "a number",
        JsonType::Object => "a mapping",
        JsonType::String => "a string",
    }
}

/// Fields of Kubernetes that are left out of a step on purpose, and what other workflow engines call ours.
pub fn oncillas_own(name: &str) -> Option<&'static str> {
    Some(match name {
        "restartPolicy" | "restartPolicyRules" | "backoffLimit" | "activeDeadlineSeconds" => {
            "Oncilla alone decides about attempts: see retry and timeout"
        }
        "terminationMessagePath" | "terminationMessagePolicy" => "it carries the step's output: see output",
        "livenessProbe" | "readinessProbe" | "startupProbe" | "lifecycle" => {
            "a step runs to its end; a probe would let the kubelet end it: see timeout"
        }
        "nodeName" => "it would go past the scheduler: use nodeSelector",
        "containers" => "the step's container stands in container, others in initContainers",
        "depends" | "dependencies" | "dependsOn" | "runAfter" => "the steps that come first stand in needs",
        "retries" | "retryStrategy" => "write retry: {maxAttempts: …}; the first attempt counts",
        "limit" => "write maxAttempts; the first attempt counts",
        "if" | "condition" => "write when: $[[ … ]]",
        "continueOn" | "onError" | "continueOnError" => "write failurePolicy: Ignore",
        "script" | "run" => "write container: {command: [sh, -ec], args: [the script]}",
        "inputs" | "arguments" | "parameters" => "write params",
        "results" => "write output on a step, outputs on the run",
        "schedulingGates" => "the gates of a step's pod are Oncilla's",
        _ => return None,
    })
}

/// At most 60 characters of one line.
pub fn clip(text: &str) -> String {
    let mut clipped: String = text
        .chars()
        .take(60)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(60).is_some() {
        clipped.push('…');
    }
    clipped
}

pub fn unquoted(text: &str) -> &str {
    text.trim_matches(['"', '\''])
}
