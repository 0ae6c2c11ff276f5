//! `spec.params` as expressions read them.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use super::fault::Faults;
use super::place::inside;
use super::read::Object;
use crate::expr::Tree;

/// The params: nulls out, numbers as the API server stores them, `$$[[` read as what it stands for.
pub fn read(spec: &Object<'_>, faults: &mut Faults) -> BTreeMap<String, Value> {
    let mut params = BTreeMap::new();
    let Some(given) = spec.object("params", faults) else {
        return params;
    };
    for (name, value) in given.members {
        let place = given.at(name);
        if !is_identifier(name) {
            faults.add(
                place.as_str(),
                "a param's name is letters, digits and _, and begins with no digit, so that params.NAME can be written",
            );
        }
        let normal = match value {
            Value::Null => continue,
            value => normal(value),
        };
        let reading = Tree::read(&normal);
        // Whatever is wrong with an expression here, that it is one is what matters.
        let broken = reading.faults.iter().map(|(path, _)| path.clone());
        let sound = reading.tree.exprs_with_paths().into_iter().map(|(path, _)| path);
        for path in broken.chain(sound) {
            faults.add(
                inside(&place, &path),
                "a run's params are values and hold no expressions; a literal $[[ is written $$[[",
            );
        }
        let value = match reading.tree {
            Tree::Constant(value) if reading.faults.is_empty() => value,
            _ => normal,
        };
        params.insert(name.clone(), value);
    }
    params
}

/// `^[A-Za-z_][A-Za-z0-9_]*$`
fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The value as it comes back from the API server, so that a manifest means the same before it was stored and after: members that
/// are null go (kubectl apply drops them), and a number is an integer of 64 bits if it is whole and fits, else a double.
pub fn normal(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), normal(value)))
                .collect::<Map<_, _>>(),
        ),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Number(number) => Value::Number(normal_number(number)),
        other => other.clone(),
    }
}

fn normal_number(number: &Number) -> Number {
    // 2^63: the first double that no i64 holds.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if number.is_i64() {
        return number.clone();
    }
    match number.as_f64() {
        // The range makes the cast exact.
        #[allow(clippy::cast_possible_truncation)]
        Some(double) if double.fract() == 0.0 && (-LIMIT..LIMIT).contains(&double) => Number::from(double as i64),
        Some(double) => Number::from_f64(double).unwrap_or_else(|| number.clone()),
        None => number.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_as_the_api_server_stores_them() {
        for (given, stored) in [
            ("1.0", "1"),
            ("-0.0", "0"),
            ("1e3", "1000"),
            ("1.5", "1.5"),
            ("9007199254740993", "9007199254740993"),
            ("9223372036854775807", "9223372036854775807"),
            ("12345678901234567890", "1.2345678901234567e+19"),
            ("1e30", "1e+30"),
            (
                r#"{"a": null, "b": [null, {"c": null, "d": 2.0}]}"#,
                r#"{"b":[null,{"d":2}]}"#,
            ),
            (r#""x""#, r#""x""#),
        ] {
            let given: Value = serde_json::from_str(given).unwrap();
            assert_eq!(normal(&given).to_string(), stored);
        }
    }

    #[test]
    fn a_literal_delimiter_is_escaped_and_an_expression_is_a_fault() {
        let spec = json!({"params": {"a": "$$[[ x ]]", "b": ["$[[ 1 ]]"], "c": "$[[ 1", "d-e": 1, "f": null}});
        let mut faults = Faults::default();
        let params = read(&Object::new(&spec, "spec", &mut faults).unwrap(), &mut faults);
        assert_eq!(params["a"], "$[[ x ]]");
        assert!(!params.contains_key("f"));
        let faults: Vec<_> = faults.into_list().into_iter().map(|fault| fault.path).collect();
        assert_eq!(faults, ["spec.params.b[0]", "spec.params.c", "spec.params.d-e"]);
    }
}
