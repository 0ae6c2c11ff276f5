//! `shop charge`: takes the money, once. The classic step that must not happen twice.

use std::thread;
use std::time::Duration;

use postgres::Transaction;
use serde_json::{Value, json};

use crate::attempt::{Attempt, Variables};
use crate::fault::Fault;
use crate::ledger::{self, Outcome};
use crate::order::parse_number;
use crate::say;

pub fn run(variables: &Variables) -> Result<Value, Fault> {
    let (order, cents) = input(variables)?;
    let pause = pause_after_commit(variables)?;
    let attempt = Attempt::from_variables(variables)?;
    let mut client = ledger::connect(variables)?;
    let receipt = ledger::once(&mut client, &attempt, |transaction| {
        charge(transaction, &attempt, order, cents)
    })?;
    if let Some(pause) = pause.filter(|_| attempt.number == 1) {
        say(&format!(
            "the charge is committed; waiting {} s before the answer, as DEMO_PAUSE_AFTER_COMMIT says",
            pause.as_secs()
        ));
        thread::sleep(pause);
    }
    // Built only from what the row says, so that every attempt answers with the same bytes.
    Ok(json!({"paid": true, "receipt": receipt, "order": order, "cents": cents}))
}

/// Makes the charge unless its key has one already; either way the receipt is the one in the row.
fn charge(
    transaction: &mut Transaction<'_>,
    attempt: &Attempt,
    order: &str,
    cents: i64,
) -> Result<(Outcome, String), Fault> {
    let key = attempt.key.to_string();
    let inserted = transaction.execute(
        "INSERT INTO charges (idempotency_key, order_number, cents) VALUES ($1::text::uuid, $2, $3)
         ON CONFLICT (idempotency_key) DO NOTHING",
        &[&key, &order, &cents],
    )?;
    let row = transaction.query_one(
        "SELECT receipt, order_number, cents FROM charges WHERE idempotency_key = $1::text::uuid",
        &[&key],
    )?;
    let (receipt, charged_order, charged_cents): (String, String, i64) = (row.get(0), row.get(1), row.get(2));
    if (charged_order.as_str(), charged_cents) != (order, cents) {
        return Err(Fault::input(format!(
            "key {key} has charged {charged_cents} cents for order {charged_order}, and cannot charge {cents} for order {order} too"
        )));
    }
    if inserted == 1 {
        say(&format!("charged {cents} cents for order {order}: receipt {receipt}"));
        Ok((Outcome::Done, receipt))
    } else {
        say(&format!(
            "order {order} is charged already, by an earlier attempt with the same key: receipt {receipt}"
        ));
        Ok((Outcome::Found, receipt))
    }
}

fn input(variables: &Variables) -> Result<(&str, i64), Fault> {
    let mut faults = Vec::new();
    let order = variables
        .require("ORDER")
        .and_then(parse_number)
        .map_err(|fault| faults.push(fault))
        .ok();
    let cents = variables
        .require("CENTS")
        .and_then(|text| {
            let cents = text.parse::<i64>().ok().filter(|cents| *cents > 0);
            cents.ok_or_else(|| format!("CENTS is {text:?}, not a whole number above 0"))
        })
        .map_err(|fault| faults.push(fault))
        .ok();
    match (order, cents) {
        (Some(order), Some(cents)) => Ok((order, cents)),
        _ => Err(Fault::Input(faults)),
    }
}

/// How long the first attempt waits between its commit and its answer, in whole seconds: time enough to kill it just
/// there. Meant for the demo; unset means no wait.
fn pause_after_commit(variables: &Variables) -> Result<Option<Duration>, Fault> {
    let Some(text) = variables.get("DEMO_PAUSE_AFTER_COMMIT") else {
        return Ok(None);
    };
    match text.parse() {
        Ok(seconds) => Ok(Some(Duration::from_secs(seconds))),
        Err(_) => Err(Fault::input(format!(
            "DEMO_PAUSE_AFTER_COMMIT is {text:?}, not a number of seconds"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_faults_of_the_input_are_named_at_once() {
        assert_eq!(
            input(&Variables::from([("ORDER", "ten"), ("CENTS", "-5")])),
            Err(Fault::Input(vec![
                r#""ten" is no order number (1 to 12 digits)"#.to_owned(),
                r#"CENTS is "-5", not a whole number above 0"#.to_owned(),
            ]))
        );
        let variables = Variables::from([("ORDER", "1042"), ("CENTS", "1999")]);
        assert_eq!(input(&variables), Ok(("1042", 1999)));
    }

    #[test]
    fn a_pause_must_be_seconds() {
        let pause = |text| pause_after_commit(&Variables::from([("DEMO_PAUSE_AFTER_COMMIT", text)]));
        assert_eq!(pause(""), Ok(None));
        assert_eq!(pause("30"), Ok(Some(Duration::from_secs(30))));
        assert!(pause("30s").is_err());
    }
}
