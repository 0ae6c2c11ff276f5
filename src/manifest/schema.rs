//! What the API server refuses when an object is applied, by the CRD's own schema, in words.
//!
//! The schema is structural: it drops what it does not know instead of refusing it. kubectl asks for fields to be checked
//! strictly, so an unknown field is a fault here. A null is dropped before anything is checked.

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::check::Check;
use super::path::{Path, Segment};
use super::{Findings, Node, Severity, metadata};

/// A CRD's schema, ready to check objects.
pub struct Schema {
    schema: Value,
    validator: Validator,
}

impl Schema {
    /// Takes the schema of the CRD's first version. The error says why it is none.
    pub fn new(crd: &Value) -> Result<Schema, String> {
        let structural = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut schema = json_schema(structural);
        let root = schema["properties"]
            .as_object_mut()
            .ok_or("the CRD's schema has no properties")?;
        // A structural schema leaves these out, and the API server checks them apart.
        root.insert("apiVersion".into(), json!({"type": "string"}));
        root.insert("kind".into(), json!({"type": "string"}));
        root.insert("metadata".into(), metadata::schema());
        // Whatever stands in a manifest's status, the API server does not look at it when an object is created.
        root.insert("status".into(), json!({}));
        schema["required"] = json!(["metadata", "spec"]);
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft7)
            .build(&schema)
            .map_err(|error| error.to_string())?;
        Ok(Schema { schema, validator })
    }

    /// Everything the API server would refuse about an object, and the values that it would drop. Returns the object as it
    /// would be stored. Paths begin with `base`, which is empty unless the object is an item of a List.
    pub fn check(&self, text: &str, object: &Node, base: &Path, findings: &mut Findings) -> Value {
        let mut value = object.to_json();
        let mut check = Check {
            text,
            object,
            base,
            dropped: Vec::new(),
            findings,
        };
        drop_nulls(&mut value, &self.schema, &Path::default(), &mut check.dropped);
        let mut missing = Vec::new();
        for error in self.validator.iter_errors(&value) {
            if check.findings.is_full(Severity::Error) {
                break;
            }
            check.tell(&error, &self.schema, &mut missing);
        }
        for path in std::mem::take(&mut check.dropped) {
            if !missing.contains(&path) {
                check.empty(&path);
            }
        }
        check.duplicates(&value, &self.schema, &Path::default());
        check.metadata(&value);
        value
    }
}

/// The structural schema as JSON Schema: closed objects are said to be closed, the vocabulary of Kubernetes is spelt out.
fn json_schema(structural: &Value) -> Value {
    let Some(object) = structural.as_object() else {
        return structural.clone();
    };
    let mut schema = Map::new();
    let open = object.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    for (keyword, value) in object {
        let value = match keyword.as_str() {
            "properties" => value
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, property)| (name.clone(), json_schema(property)))
                .collect::<Map<_, _>>()
                .into(),
            "items" | "additionalProperties" => json_schema(value),
            // The API server checks few formats, and none that a spec has.
            "description" | "default" | "format" | "x-kubernetes-validations" => continue,
            _ => value.clone(),
        };
        schema.insert(keyword.clone(), value);
    }
    if object.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        schema.insert("type".into(), json!(["integer", "string"]));
    }
    if object.get("type") == Some(&json!("object")) && !open && !object.contains_key("additionalProperties") {
        schema.insert("additionalProperties".into(), Value::Bool(false));
    }
    if object.get("nullable") == Some(&Value::Bool(true)) {
        schema.insert("type".into(), json!([object["type"], "null"]));
    }
    Value::Object(schema)
}
/// Takes out the nulls that the API server drops.
fn drop_nulls(value: &mut Value, schema: &Value, path: &Path, dropped: &mut Vec<Path>) {
    match value {
        Value::Object(object) => {
            let mut gone = Vec::new();
            for (key, value) in object.iter_mut() {
                let Some(schema) = field_schema(schema, key) else {
                    continue;
                };
                let path = path.key(key);
                let nullable = schema
                    .get("type")
                    .is_none_or(|kind| kind.as_array().is_some_and(|kinds| kinds.contains(&json!("null"))));
                if value.is_null() && !nullable {
                    gone.push(key.clone());
                    dropped.push(path);
                } else {
                    drop_nulls(value, schema, &path, dropped);
                }
            }
            for key in gone {
                object.remove(&key);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                drop_nulls(item, &schema["items"], &path.index(index), dropped);
            }
        }
        _ => {}
    }
}

/// The schema of an object's field.
pub(super) fn field_schema<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    schema["properties"]
        .get(key)
        .or_else(|| schema.get("additionalProperties").filter(|schema| schema.is_object()))
}

/// The schema of what a path names.
pub(super) fn schema_at<'a>(root: &'a Value, path: &Path) -> Option<&'a Value> {
    path.0.iter().try_fold(root, |schema, segment| match segment {
        Segment::Key(key) => field_schema(schema, key),
        Segment::Index(_) => schema.get("items"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::words::pattern_words;
    use super::*;
    use crate::api::schema::NAME_MAX;
    use crate::crdgen;

    fn walk(schema: &Value, visit: &mut dyn FnMut(&Value)) {
        visit(schema);
        for (_, property) in schema["properties"].as_object().into_iter().flatten() {
            walk(property, visit);
        }
        for inner in ["items", "additionalProperties"] {
            if schema[inner].is_object() {
                walk(&schema[inner], visit);
            }
        }
    }

    /// The schema of what people write.
    fn spec() -> Value {
        crdgen::crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
    }

    #[test]
    fn every_pattern_of_the_schema_is_said_in_words() {
        let mut patterns = Vec::new();
        walk(&spec(), &mut |schema| {
            patterns.extend(schema["pattern"].as_str().map(str::to_owned))
        });
        assert!(patterns.len() > 5);
        for pattern in patterns {
            assert!(!pattern_words(&pattern, "").0.starts_with("must match"), "{pattern}");
        }
    }

    /// Rules in CEL are not evaluated here: each one that a new object can break needs a check of its own.
    #[test]
    fn every_rule_of_the_schema_is_known() {
        let crd = crdgen::crd();
        let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut rules = Vec::new();
        let mut gather = |schema: &Value| {
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                let rule = rule["rule"].as_str().unwrap_or_default();
                if !rule.contains("oldSelf") {
                    rules.push(rule.to_owned());
                }
            }
        };
        gather(root);
        walk(&root["properties"]["spec"], &mut gather);
        assert_eq!(rules, [format!("size(self.metadata.name) <= {NAME_MAX}")]);
    }

    /// A keyword that the translation does not know would be checked by the API server alone.
    #[test]
    fn every_keyword_of_the_schema_is_known() {
        const KNOWN: [&str; 22] = [
            "additionalProperties",
            "description",
            "enum",
            "format",
            "items",
            "maxItems",
            "maxLength",
            "maxProperties",
            "maximum",
            "minItems",
            "minLength",
            "minProperties",
            "minimum",
            "pattern",
            "properties",
            "required",
            "type",
            "x-kubernetes-int-or-string",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-list-type",
            "x-kubernetes-map-type",
            "x-kubernetes-preserve-unknown-fields",
        ];
        walk(&spec(), &mut |schema| {
            for keyword in schema.as_object().into_iter().flatten().map(|(keyword, _)| keyword) {
                assert!(
                    KNOWN.contains(&keyword.as_str()) || keyword == "x-kubernetes-validations",
                    "{keyword}"
                );
            }
        });
    }
}
