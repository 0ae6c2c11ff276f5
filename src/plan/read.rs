//! Reads a spec field by field, so that one field of the wrong type does not hide what is wrong with the others.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::fault::Faults;
use super::place::member;

/// An object of the spec and where it stands.
pub struct Object<'a> {
    pub members: &'a Map<String, Value>,
    pub place: String,
}

impl<'a> Object<'a> {
    /// `value` as an object; a fault if it is something else.
    pub fn new(value: &'a Value, place: impl Into<String>, faults: &mut Faults) -> Option<Self> {
        let place = place.into();
        match value {
            Value::Object(members) => Some(Object { members, place }),
            _ => {
                faults.add(place, format!("must be an object, and is {}", kind(value)));
                None
            }
        }
    }

    /// Where `field` stands.
    pub fn at(&self, field: &str) -> String {
        member(&self.place, field)
    }

    /// A field's value; null is as good as none.
    pub fn get(&self, field: &str) -> Option<&'a Value> {
        self.members.get(field).filter(|value| !value.is_null())
    }

    /// A field read as `T`; a fault and None if it does not fit.
    pub fn read<T: DeserializeOwned>(&self, field: &str, faults: &mut Faults) -> Option<T> {
        match T::deserialize(self.get(field)?) {
            Ok(value) => Some(value),
            Err(error) => {
                faults.add(self.at(field), error.to_string());
                None
            }
        }
    }

    /// A field that is an object.
    pub fn object(&self, field: &str, faults: &mut Faults) -> Option<Object<'a>> {
        Object::new(self.get(field)?, self.at(field), faults)
    }

    /// A field that is text.
    pub fn text(&self, field: &str, faults: &mut Faults) -> Option<&'a str> {
        match self.get(field)? {
            Value::String(text) => Some(text),
            other => {
                faults.add(self.at(field), format!("must be text, and is {}", kind(other)));
                None
            }
        }
    }

    /// A field that is a list.
    pub fn list(&self, field: &str, faults: &mut Faults) -> Option<&'a [Value]> {
        match self.get(field)? {
            Value::Array(items) => Some(items),
            other => {
                faults.add(self.at(field), format!("must be a list, and is {}", kind(other)));
                None
            }
        }
    }

    /// Faults for fields that this version does not know. To ignore one would be to do something else than was asked for: a newer
    /// CRD may have let it in.
    pub fn only(&self, known: &[&str], faults: &mut Faults) {
        for field in self.members.keys() {
            if !known.contains(&field.as_str()) {
                let near = faults
                    .near_miss(field, known.iter().copied())
                    .map(|near| format!("; did you mean {near}?"))
                    .unwrap_or_default();
                faults.add(
                    self.at(field),
                    format!("is no field that this version of Oncilla knows{near}"),
                );
            }
        }
    }
}

/// What `value` is, in words.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
