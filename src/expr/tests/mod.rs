//! What the expression language promises, shown through its public functions.

mod faults;
mod limits;
mod names;
mod properties;
mod templates;
mod values;

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn scope() -> Scope {
    Scope::new()
        .with(
            "params",
            json!({
                "order": "1042", "cents": 1999, "rate": 1.5, "one": 1.0, "notify": true, "nothing": null,
                "items": [{"sku": "A-7", "qty": 2}, {"sku": "B-1", "qty": 1}],
                "labels": {"zone": "a", "app": "shop", "tier": "web"},
                "in": "kept",
            }),
        )
        .with(
            "steps",
            json!({
                "charge": {"phase": "Succeeded", "output": {"receipt": "r-1", "paid": true}},
                "reserve-stock": {"phase": "Succeeded", "output": [1, 2]},
                "skipped": {"phase": "Skipped"},
            }),
        )
        .with("run", json!({"name": "order-1042"}))
}

fn eval(source: &str) -> Value {
    Expr::parse(source)
        .and_then(|expr| expr.eval(&scope()))
        .unwrap_or_else(|error| panic!("{source}: {error:?}"))
}

fn fault(source: &str) -> ExprError {
    match Expr::parse(source).and_then(|expr| expr.eval(&scope())) {
        Ok(value) => panic!("{source} gave {value}"),
        Err(error) => error,
    }
}

fn refs(source: &str) -> Refs {
    Expr::parse(source)
        .unwrap_or_else(|error| panic!("{source}: {error:?}"))
        .refs()
        .clone()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}
