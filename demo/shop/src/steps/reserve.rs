//! `shop reserve ORDER`: takes every line of the order out of the stock, or none.

use postgres::Transaction;
use serde_json::{Value, json};

use crate::attempt::{Attempt, Variables};
use crate::fault::Fault;
use crate::ledger::{self, Outcome};
use crate::order::{Line, parse_lines, parse_number};
use crate::say;

pub fn run(variables: &Variables, order: &str) -> Result<Value, Fault> {
    let order = parse_number(order).map_err(Fault::input)?;
    let mut lines = parse_lines(variables.require("ITEMS").map_err(Fault::input)?)?;
    // Every order locks the stock's rows in the same sequence, so two of them cannot wait for each other.
    lines.sort_by(|a, b| a.sku.cmp(&b.sku));
    let attempt = Attempt::from_variables(variables)?;
    let mut client = ledger::connect(variables)?;
    let outcome = ledger::once(&mut client, &attempt, |transaction| {
        let outcome = reserve(transaction, &attempt, order, &lines)?;
        Ok((outcome, outcome))
    })?;
    let units: i64 = lines.iter().map(|line| line.qty).sum();
    match outcome {
        Outcome::Done => say(&format!(
            "reserved {units} units in {} lines for order {order}",
            lines.len()
        )),
        Outcome::Found => say(&format!(
            "order {order} has its {units} units already, by an earlier attempt with the same key"
        )),
    }
    Ok(json!({"order": order, "lines": lines.len(), "units": units}))
}

fn reserve(
    transaction: &mut Transaction<'_>,
    attempt: &Attempt,
    order: &str,
    lines: &[Line],
) -> Result<Outcome, Fault> {
    let key = attempt.key.to_string();
    let held = transaction.query(
        "SELECT sku, quantity FROM reservations WHERE idempotency_key = $1::text::uuid ORDER BY sku COLLATE \"C\"",
        &[&key],
    )?;
    if !held.is_empty() {
        let held: Vec<(String, i64)> = held.iter().map(|row| (row.get(0), row.get(1))).collect();
        let asked: Vec<(String, i64)> = lines.iter().map(|line| (line.sku.clone(), line.qty)).collect();
        if held != asked {
            return Err(Fault::input(format!(
                "key {key} holds {held:?} already, and cannot hold {asked:?} too"
            )));
        }
        return Ok(Outcome::Found);
    }
    let mut missing = Vec::new();
    for line in lines {
        let taken = transaction.execute(
            "UPDATE stock SET available = available - $2 WHERE sku = $1 AND available >= $2",
            &[&line.sku, &line.qty],
        )?;
        if taken == 0 {
            missing.push(shortage(transaction, line)?);
            continue;
        }
        transaction.execute(
            "INSERT INTO reservations (idempotency_key, order_number, sku, quantity) VALUES ($1::text::uuid, $2, $3, $4)",
            &[&key, &order, &line.sku, &line.qty],
        )?;
    }
    if missing.is_empty() {
        Ok(Outcome::Done)
    } else {
        Err(Fault::OutOfStock(missing))
    }
}

fn shortage(transaction: &mut Transaction<'_>, line: &Line) -> Result<String, Fault> {
    let row = transaction.query_opt("SELECT available FROM stock WHERE sku = $1", &[&line.sku])?;
    Ok(match row.map(|row| row.get::<_, i64>(0)) {
        Some(available) => format!("{}: {} asked for, {available} there", line.sku, line.qty),
        None => format!("{}: no such article", line.sku),
    })
}
