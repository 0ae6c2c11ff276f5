//! What a spec gives: a plan, or all of its faults.

mod anything;
mod evaluation;
mod expressions;
mod identity;
mod limits;
mod needs;
mod shape;
mod through;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::scope::{scope, scope_at_end};
use super::*;

fn run() -> RunInfo {
    RunInfo {
        name: "order-1042".into(),
        namespace: "shop".into(),
        uid: "0b6a1f0e-58d5-4a70-a7e8-0d5e7c1f9a11".into(),
        labels: BTreeMap::from([("team".into(), "shop".into())]),
    }
}

fn plan(spec: Value) -> Plan {
    build(&run(), &spec).unwrap_or_else(|faults| {
        let faults: Vec<_> = faults.iter().map(Fault::to_string).collect();
        panic!("{}", faults.join("\n"))
    })
}

fn faults(spec: Value) -> Vec<String> {
    build(&run(), &spec)
        .err()
        .unwrap_or_default()
        .iter()
        .map(Fault::to_string)
        .collect()
}

/// A step with an image and whatever else is given.
fn step(name: &str, extra: Value) -> Value {
    let mut step = json!({"name": name, "container": {"image": "i"}});
    overlay(&mut step, extra);
    step
}

fn overlay(value: &mut Value, extra: Value) {
    match (value, extra) {
        (Value::Object(value), Value::Object(extra)) => {
            for (key, extra) in extra {
                overlay(value.entry(key).or_insert(Value::Null), extra);
            }
        }
        (value, extra) => *value = extra,
    }
}

fn steps(steps: Vec<Value>) -> Value {
    json!({"steps": steps})
}

/// Two steps, `charge` and `reserve-stock`, then a third with an argument.
fn arg(expression: &str) -> Value {
    json!({"params": {"order": "1042", "cents": 1999}, "steps": [
        step("charge", json!({})),
        step("reserve-stock", json!({})),
        step("audit", json!({"container": {"args": [expression]}})),
    ]})
}
