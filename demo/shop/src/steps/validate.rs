//! `shop validate`: is this an order that we can take? No database, no effect.

use serde_json::{Value, json};

use crate::attempt::Variables;
use crate::fault::Fault;
use crate::order::Order;
use crate::say;

pub fn run(variables: &Variables) -> Result<Value, Fault> {
    let order = Order::parse(variables.require("ORDER_JSON").map_err(Fault::input)?)?;
    let (lines, units) = (order.lines.len(), order.units());
    say(&format!(
        "order {} is sound: {lines} lines, {units} units, {} cents",
        order.number, order.cents
    ));
    Ok(json!({"order": order.number, "lines": lines, "units": units, "cents": order.cents}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_order_is_summed_up() {
        let order = r#"{"order":"1042","cents":1500,"items":[{"sku":"A-7","qty":2,"cents":750}]}"#;
        let output = run(&Variables::from([("ORDER_JSON", order)])).unwrap();
        assert_eq!(output, json!({"order": "1042", "lines": 1, "units": 2, "cents": 1500}));
    }

    #[test]
    fn without_a_document_the_variable_is_named() {
        assert_eq!(run(&Variables::default()), Err(Fault::input("ORDER_JSON is not set")));
    }
}
