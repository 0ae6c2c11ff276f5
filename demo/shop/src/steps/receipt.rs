//! `shop receipt RECEIPT`: puts the customer's receipt into the outbox, from which a mailer would send it.

use serde_json::{Value, json};

use crate::attempt::{Attempt, Variables};
use crate::fault::Fault;
use crate::ledger::{self, Outcome};
use crate::order::parse_number;
use crate::say;

pub fn run(variables: &Variables, receipt: &str) -> Result<Value, Fault> {
    let order = variables
        .require("ORDER")
        .and_then(parse_number)
        .map_err(Fault::input)?;
    let attempt = Attempt::from_variables(variables)?;
    let key = attempt.key.to_string();
    let mut client = ledger::connect(variables)?;
    let message: i64 = ledger::once(&mut client, &attempt, |transaction| {
        let charge = transaction
            .query_opt(
                "SELECT cents FROM charges WHERE receipt = $1 AND order_number = $2",
                &[&receipt, &order],
            )?
            .ok_or_else(|| Fault::input(format!("order {order} has no charge with receipt {receipt:?}")))?;
        let text = letter(order, receipt, charge.get(0));
        let inserted = transaction.execute(
            "INSERT INTO outbox (idempotency_key, order_number, receipt, body) VALUES ($1::text::uuid, $2, $3, $4)
             ON CONFLICT (idempotency_key) DO NOTHING",
            &[&key, &order, &receipt, &text],
        )?;
        let row = transaction.query_one(
            "SELECT id, receipt FROM outbox WHERE idempotency_key = $1::text::uuid",
            &[&key],
        )?;
        let (id, queued): (i64, String) = (row.get(0), row.get(1));
        if queued != receipt {
            return Err(Fault::input(format!(
                "key {key} has sent receipt {queued}, and cannot send {receipt} too"
            )));
        }
        Ok((if inserted == 1 { Outcome::Done } else { Outcome::Found }, id))
    })?;
    say(&format!(
        "receipt {receipt} of order {order} is in the outbox as message {message}"
    ));
    Ok(json!({"queued": true, "message": message, "receipt": receipt}))
}

fn letter(order: &str, receipt: &str, cents: i64) -> String {
    format!(
        "Thank you for order {order}. We have charged {}.{:02}. Your receipt: {receipt}.",
        cents / 100,
        cents % 100
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letter_names_the_sum_in_whole_and_hundredths() {
        let text = letter("1042", "R-1", 1905);
        assert_eq!(
            text,
            "Thank you for order 1042. We have charged 19.05. Your receipt: R-1."
        );
    }
}
