//! Documents of a spec whose strings are templates.

use serde_json::Value;

use super::expressions::{Found, Where};
use super::fault::Faults;
use super::place::{item, member};
use crate::expr::{Expr, Template, Tree};

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
    let mut remember = |path: &str, expr: &Expr| {
        found.push(Found {
            place: place_of(path),
            at,
            expr: expr.clone(),
            group,
        });
    };
    match Tree::parse(value) {
        Ok(tree) => {
            for (path, expr) in tree.exprs_with_paths() {
                remember(&path, expr);
            }
            Some(tree)
        }
        Err(errors) => {
            for (path, error) in errors {
                faults.add(place_of(&path), error.message);
            }
            sound_templates(value, "", &mut |path, template| {
                template.exprs().for_each(|expr| remember(path, expr));
            });
            None
        }
    }
}

/// The strings of a document that can be read as templates, with their paths.
fn sound_templates(value: &Value, path: &str, tell: &mut dyn FnMut(&str, &Template)) {
    match value {
        Value::String(text) => {
            if let Ok(template) = Template::parse(text) {
                tell(path, &template);
            }
        }
        Value::Array(items) => {
            for (i, value) in items.iter().enumerate() {
                sound_templates(value, &item(path, i), tell);
            }
        }
        Value::Object(members) => {
            for (key, value) in members {
                sound_templates(value, &member(path, key), tell);
            }
        }
        _ => {}
    }
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
