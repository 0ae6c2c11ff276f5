//! `shop summary ORDER`: says in one object what became of the order, out of what the earlier steps answered.

use serde_json::{Value, json};

use crate::attempt::Variables;
use crate::fault::Fault;
use crate::order::parse_number;
use crate::say;

pub fn run(variables: &Variables, order: &str) -> Result<Value, Fault> {
    let mut faults = Vec::new();
    if let Err(fault) = parse_number(order) {
        faults.push(fault);
    }
    let charged = output_of(variables, "CHARGED", &mut faults);
    let reserved = output_of(variables, "RESERVED", &mut faults);
    // Skipped when nothing was paid, and then null.
    let mailed = output_of(variables, "MAILED", &mut faults);
    for (name, output) in [("CHARGED", &charged), ("RESERVED", &reserved)] {
        match output.get("order").and_then(Value::as_str) {
            Some(theirs) if theirs != order => faults.push(format!("{name} is of order {theirs}, not of {order}")),
            None if !output.is_null() => faults.push(format!("{name} names no order: {output}")),
            _ => {}
        }
    }
    if !faults.is_empty() {
        return Err(Fault::Input(faults));
    }
    let summary = json!({
        "order": order,
        "receipt": charged["receipt"],
        "cents": charged["cents"],
        "units": reserved["units"],
        "mailed": mailed["queued"] == true,
    });
    say(&format!("order {order}: {summary}"));
    Ok(summary)
}

/// An earlier step's output, as JSON; `null` where the variable is unset or holds no JSON, which is then a fault.
fn output_of(variables: &Variables, name: &str, faults: &mut Vec<String>) -> Value {
    match variables.require(name) {
        Ok(text) => serde_json::from_str(text).unwrap_or_else(|error| {
            faults.push(format!("{name} is not JSON: {error}"));
            Value::Null
        }),
        Err(fault) => {
            faults.push(fault);
            Value::Null
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHARGED: (&str, &str) = (
        "CHARGED",
        r#"{"paid":true,"receipt":"R-1","order":"1042","cents":1999}"#,
    );
    const RESERVED: (&str, &str) = ("RESERVED", r#"{"order":"1042","lines":2,"units":3}"#);

    #[test]
    fn a_whole_order_is_summed_up() {
        let mailed = ("MAILED", r#"{"queued":true,"message":1,"receipt":"R-1"}"#);
        assert_eq!(
            run(&Variables::from([CHARGED, RESERVED, mailed]), "1042"),
            Ok(json!({"order": "1042", "receipt": "R-1", "cents": 1999, "units": 3, "mailed": true}))
        );
    }

    #[test]
    fn a_skipped_receipt_is_no_fault() {
        let summary = run(&Variables::from([CHARGED, RESERVED, ("MAILED", "null")]), "1042").unwrap();
        assert_eq!(summary["mailed"], false);
    }

    #[test]
    fn outputs_of_another_order_are_refused_and_every_fault_is_named() {
        assert_eq!(
            run(&Variables::from([CHARGED, ("RESERVED", "{")]), "1043"),
            Err(Fault::Input(vec![
                "RESERVED is not JSON: EOF while parsing an object at line 1 column 1".to_owned(),
                "MAILED is not set".to_owned(),
                "CHARGED is of order 1042, not of 1043".to_owned(),
            ]))
        );
    }
}
