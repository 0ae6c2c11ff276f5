//! Documents of a spec whose strings are templates.

use serde_json::Value;

use super::expressions::{Found, Where};
use super::fault::Faults;
use super::place::{item, member};
use crate::expr::Tree;

/// Reads the templates of a document and remembers their expressions, each with the place that `place_of` makes of its path. Where one
/// string is wrong, the others are looked at all the same, but there is no tree.
pub(super) fn tree(
    value: &Value,
    at: Where,
    place_of: impl Fn(&str) -> String,
    found: &mut Vec<Found>,
    faults: &mut Faults,
) -> Option<Tree> {
    let group = found.len();
    let reading = Tree::read(value);
    for (path, expr) in reading.tree.exprs_with_paths() {
        found.push(Found {
            place: place_of(&path),
            at,
            expr: expr.clone(),
            group,
        });
    }
    for (path, error) in &reading.faults {
        faults.add_error(place_of(path), error);
    }
    reading.faults.is_empty().then_some(reading.tree)
}

/// Finds keys with expressions: nothing is ever read in a key.
pub(super) fn keys_are_plain(value: &Value, place: &str, faults: &mut Faults) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let place = member(place, key);
                if key.contains("$[[") {
                    faults.add(place.as_str(), "a key cannot hold an expression; only values can");
                }
                keys_are_plain(value, &place, faults);
            }
        }
        Value::Array(items) => {
            for (i, value) in items.iter().enumerate() {
                keys_are_plain(value, &item(place, i), faults);
            }
        }
        _ => {}
    }
}
