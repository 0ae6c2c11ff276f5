//! Time limits, retry and output of a step: durations, counts and their bounds.

use serde_json::Value;

use super::expressions::{Found, Where};
use super::fault::Faults;
use super::read::{Object, kind};
use super::{BackoffPlan, DurationPlan, IntPlan, duration};
use crate::api::schema::ATTEMPTS_MAX;
use crate::api::spec::{OutputFormat, OutputFrom};
use crate::expr::{Expr, Template};

/// What a retry is when nothing is said.
const DEFAULT_INITIAL_MS: i64 = 2_000;
const DEFAULT_FACTOR: i64 = 2;
const DEFAULT_MAX_MS: i64 = 300_000;
const DEFAULT_JITTER_PERCENT: i64 = 10;
/// Larger factors reach any `max` at once.
const MAX_FACTOR: i64 = 100;

/// The kubelet keeps this many bytes of all termination messages of a pod together, shared out evenly, and of one at most
/// `MESSAGE_BYTES`. A message of exactly its limit cannot be told from one that was cut.
const POD_MESSAGE_BYTES: usize = 12_288;
const MESSAGE_BYTES: usize = 4_096;

/// Most bytes of an output in a pod of so many containers.
pub fn output_limit(containers: usize) -> usize {
    MESSAGE_BYTES.min(POD_MESSAGE_BYTES / containers.max(1)) - 1
}

/// Reads what is one expression, and remembers it. Of a text that is none, the expressions in it are remembered all the same, for
/// what else is wrong with them.
pub fn expression(text: &str, place: String, found: &mut Vec<Found>, faults: &mut Faults) -> Option<Expr> {
    let reading = Template::read(text);
    for fault in &reading.faults {
        faults.add_error(place.as_str(), fault);
    }
    let sound = reading.faults.is_empty();
    let group = found.len();
    found.extend(reading.template.exprs().map(|expr| Found {
        place: place.clone(),
        at: Where::Step,
        expr: expr.clone(),
        group,
    }));
    match reading.template.into_value() {
        Ok(expr) => sound.then_some(expr),
        Err(_) if !sound => None,
        Err(error) => {
            faults.add(place, error.message);
            None
        }
    }
}

/// A duration, or an expression that gives one.
pub fn duration(
    object: &Object<'_>,
    field: &str,
    zero_is_sound: bool,
    found: &mut Vec<Found>,
    faults: &mut Faults,
) -> Option<DurationPlan> {
    let text = object.text(field, faults)?;
    let place = object.at(field);
    if text.contains("$[[") {
        return expression(text, place, found, faults).map(DurationPlan::Expr);
    }
    match duration::parse(text) {
        Some(0) if !zero_is_sound => {
            faults.add(place, "must be longer than 0; leave it out for no limit");
            None
        }
        Some(millis) => Some(DurationPlan::Fixed(millis)),
        None => {
            faults.add(
                place,
                format!("is no duration; write {}, or one $[[ … ]]", duration::FORM),
            );
            None
        }
    }
}

/// A whole number between two bounds.
fn integer(
    object: &Object<'_>,
    field: &str,
    bounds: std::ops::RangeInclusive<i64>,
    faults: &mut Faults,
) -> Option<i64> {
    let value = object.get(field)?;
    match value.as_i64() {
        Some(number) if bounds.contains(&number) => Some(number),
        _ => {
            let shown = match value {
                Value::Number(number) => number.to_string(),
                other => kind(other).to_owned(),
            };
            let (least, most) = (bounds.start(), bounds.end());
            faults.add(
                object.at(field),
                format!("must be an integer from {least} to {most}, and is {shown}"),
            );
            None
        }
    }
}

/// `retry`; what is left out has its default.
pub fn retry(retry: Option<Object<'_>>, found: &mut Vec<Found>, faults: &mut Faults) -> (IntPlan, BackoffPlan) {
    let mut attempts = IntPlan::Fixed(1);
    let mut plan = BackoffPlan {
        initial: DurationPlan::Fixed(DEFAULT_INITIAL_MS),
        factor: DEFAULT_FACTOR,
        max: DurationPlan::Fixed(DEFAULT_MAX_MS),
        jitter_percent: DEFAULT_JITTER_PERCENT,
    };
    let Some(retry) = retry else {
        return (attempts, plan);
    };
    retry.only(&["maxAttempts", "backoff"], faults);
    match retry.get("maxAttempts") {
        Some(Value::String(text)) => {
            if let Some(expr) = expression(text, retry.at("maxAttempts"), found, faults) {
                attempts = IntPlan::Expr(expr);
            }
        }
        _ => {
            if let Some(number) = integer(&retry, "maxAttempts", 1..=ATTEMPTS_MAX, faults) {
                attempts = IntPlan::Fixed(number);
            }
        }
    }
    let Some(backoff) = retry.object("backoff", faults) else {
        return (attempts, plan);
    };
    backoff.only(&["initial", "factor", "max", "jitterPercent"], faults);
    if let Some(initial) = duration(&backoff, "initial", true, found, faults) {
        plan.initial = initial;
    }
    if let Some(factor) = integer(&backoff, "factor", 1..=MAX_FACTOR, faults) {
        plan.factor = factor;
    }
    if let Some(max) = duration(&backoff, "max", true, found, faults) {
        plan.max = max;
    }
    if let Some(jitter) = integer(&backoff, "jitterPercent", 0..=100, faults) {
        plan.jitter_percent = jitter;
    }
    if let (DurationPlan::Fixed(initial), DurationPlan::Fixed(max)) = (&plan.initial, &plan.max)
        && initial > max
    {
        let max_given = match backoff.get("max") {
            Some(_) => "",
            None => ", its default",
        };
        faults.add(
            backoff.at("initial"),
            format!(
                "{} is longer than max ({}{max_given})",
                duration::show(*initial),
                duration::show(*max)
            ),
        );
    }
    (attempts, plan)
}

/// `output`: its format and most bytes, in a pod of so many containers.
pub fn output(output: Option<Object<'_>>, containers: usize, faults: &mut Faults) -> (OutputFormat, usize) {
    let limit = output_limit(containers);
    let Some(output) = output else {
        return (OutputFormat::default(), limit);
    };
    output.only(&["from", "format", "maxBytes"], faults);
    output.read::<OutputFrom>("from", faults);
    let format = output.read("format", faults).unwrap_or_default();
    let Some(value) = output.get("maxBytes") else {
        return (format, limit);
    };
    match value.as_u64().and_then(|bytes| usize::try_from(bytes).ok()) {
        Some(bytes) if (1..=limit).contains(&bytes) => (format, bytes),
        _ => {
            faults.add(
                output.at("maxBytes"),
                match containers {
                    ..=3 => format!("must be an integer from 1 to {limit}"),
                    _ => format!(
                        "must be an integer from 1 to {limit}, as {containers} containers share {POD_MESSAGE_BYTES} bytes"
                    ),
                },
            );
            (format, limit)
        }
    }
}
