//! What the API server asks of an object's metadata, which it knows by its own type and not by the CRD's schema.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::check::Check;
use super::path::Path;
use crate::api::schema::NAME_MAX;

/// The longest name of any object.
const OBJECT_NAME_MAX: usize = 253;
/// The longest name of a label or annotation, without its prefix, and the longest value of a label.
const LABEL_MAX: usize = 63;

/// What the API server takes in `metadata`: it knows the fields by its own type.
pub fn schema() -> Value {
    let mut generator = schemars::generate::SchemaSettings::draft07().into_generator();
    let schema = Value::from(<ObjectMeta as schemars::JsonSchema>::json_schema(&mut generator));
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let string = json!({"type": "string"});
    let properties: Map<_, _> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| {
            let schema = match name.as_str() {
                "labels" | "annotations" => strings.clone(),
                "name" | "namespace" | "generateName" => string.clone(),
                "finalizers" => json!({"type": "array", "items": string}),
                // The others are for controllers, or written by the API server.
                _ => json!({}),
            };
            (name.clone(), schema)
        })
        .collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

impl Check<'_> {
    /// Names, labels and annotations, and the CRD's rule about the name.
    pub fn metadata(&mut self, object: &Value) {
        let Some(metadata) = object["metadata"].as_object() else {
            return;
        };
        let path = Path::default().key("metadata");
        self.name(metadata, &path);
        if let Some(namespace) = metadata.get("namespace").and_then(Value::as_str)
            && (!is_dns_name(namespace) || namespace.contains('.') || namespace.len() > LABEL_MAX)
        {
            self.error(
                &path.key("namespace"),
                "must be lowercase letters, digits and `-`",
                None,
            );
        }
        for field in ["labels", "annotations"] {
            let path = path.key(field);
            for (key, value) in metadata.get(field).and_then(Value::as_object).into_iter().flatten() {
                if !is_qualified_name(key) {
                    self.key_error(&path, key, QUALIFIED_NAME);
                }
                if field == "labels" && value.as_str().is_some_and(|value| !is_label_value(value)) {
                    self.error(&path.key(key), LABEL_VALUE, None);
                }
            }
        }
    }

    fn name(&mut self, metadata: &Map<String, Value>, path: &Path) {
        let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default();
        let (name, generated) = (text("name"), text("generateName"));
        let is_other = |field: &str| metadata.get(field).is_some_and(|value| !value.is_string());
        if is_other("name") || is_other("generateName") {
            // The schema has said so.
        } else if !name.is_empty() {
            let path = path.key("name");
            if name.len() > NAME_MAX {
                let length = name.len();
                let message = format!("has {length} characters, and may have {NAME_MAX}: it stands in labels");
                self.error(&path, message, None);
            }
            if !is_dns_name(name) {
                self.error(&path, DNS_NAME, None);
            }
        } else if generated.is_empty() {
            self.error(&path.key("name"), "is required and missing", None);
        } else if !is_dns_name(&format!("{generated}x")) {
            // Letters and digits are added to it.
            self.error(&path.key("generateName"), DNS_NAME, None);
        }
    }
}

const DNS_NAME: &str = "must be a DNS name: lowercase letters, digits, `-` and `.`, with a letter or digit at both ends and beside each `.`";
const LABEL_VALUE: &str = "must be at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";
const QUALIFIED_NAME: &str = "a key is at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends, and before it \
                              perhaps a DNS name and `/`";

/// A prefix that is a DNS name and `/`, or none, and a name.
fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_name(prefix) && !name.is_empty() && is_label_value(name),
        None => !key.is_empty() && is_label_value(key),
    }
}

fn is_label_value(value: &str) -> bool {
    let end = |c: char| c.is_ascii_alphanumeric();
    value.is_empty()
        || value.len() <= LABEL_MAX
            && value.starts_with(end)
            && value.ends_with(end)
            && value
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_dns_name(name: &str) -> bool {
    name.len() <= OBJECT_NAME_MAX
        && name.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_names() {
        for (name, sound) in [
            ("a", true),
            ("order-1042.eu", true),
            ("0", true),
            ("", false),
            ("A", false),
            ("a_b", false),
            ("-a", false),
            ("a-", false),
            ("a..b", false),
            ("a.-b", false),
        ] {
            assert_eq!(is_dns_name(name), sound, "{name}");
        }
        assert!(is_dns_name(&"a".repeat(OBJECT_NAME_MAX)));
        assert!(!is_dns_name(&"a".repeat(OBJECT_NAME_MAX + 1)));
    }

    #[test]
    fn labels_have_names_and_values() {
        for (key, sound) in [
            ("team", true),
            ("example.com/Team_1", true),
            ("", false),
            ("a b", false),
            ("/a", false),
            ("example.com/", false),
            ("a/b/c", false),
            ("Example.com/a", false),
            ("_a", false),
        ] {
            assert_eq!(is_qualified_name(key), sound, "{key}");
        }
        for (value, sound) in [
            ("", true),
            ("A_b.c-1", true),
            ("a b", false),
            ("-a", false),
            ("a.", false),
            ("ä", false),
        ] {
            assert_eq!(is_label_value(value), sound, "{value}");
        }
        assert!(is_label_value(&"a".repeat(LABEL_MAX)) && !is_label_value(&"a".repeat(LABEL_MAX + 1)));
    }
}
