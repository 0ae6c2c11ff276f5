//! The chain that the benchmarks measure: each step adds one to what the step before it gave.

use serde_json::{Value, json};

/// The spec of a chain of `length` inline steps.
pub fn spec(length: usize) -> Value {
    json!({"steps": (0..length).map(step).collect::<Vec<Value>>()})
}

/// The name, and so the path, of step number `n`, from 0.
pub fn name(n: usize) -> String {
    format!("s{n}")
}

/// Naming the step before in an expression makes it a need.
fn step(n: usize) -> Value {
    let previous = match n.checked_sub(1) {
        Some(before) => format!("$[[ steps.{}.output ]]", name(before)),
        None => "0".to_owned(),
    };
    json!({
        "name": name(n),
        "container": {
            "image": "oncilla.dev/busybox:dev",
            "command": ["sh", "-c", "echo $((PREVIOUS + 1)) >\"$ONCILLA_OUTPUT\""],
            "env": [{"name": "PREVIOUS", "value": previous}],
        },
    })
}
