//! The parts of the CRD's schema that Rust types do not say by themselves: patterns, free JSON, the rules of the ratchet,
//! and Kubernetes' own Container and pod as far as a step may set them.
//!
//! A step's container and pod are kept as plain JSON in Rust, because their strings may hold expressions. Their schema comes
//! from the typed API all the same, so that a misspelt field is refused when it is applied. What a step may set is listed
//! here field by field: a field that a newer Kubernetes adds stays out until somebody has asked what it does to the promise
//! that a completed step never runs again. Descriptions are left out, because with them the CRD would not fit into the
//! annotation of `kubectl apply`.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// A value that is exactly one expression.
pub const EXPRESSION: &str = r"^\$\[\[[\s\S]+\]\]$";
/// A duration as the Gateway API writes it (GEP-2257), or one expression that gives one.
pub const DURATION: &str = r"^(([0-9]{1,5}(h|m|s|ms)){1,4}|\$\[\[[\s\S]+\]\])$";
/// A step's name: a DNS label that starts with a letter, so that it can never be taken for the number of an instance.
pub const STEP_NAME: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";
/// A param's name. The API server cannot check the keys of free JSON; validate does.
pub const PARAM_NAME: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
/// Longest name of a step and of a run, in bytes: both stand in labels.
pub const NAME_MAX: usize = 63;
/// Most steps in a run.
pub const STEPS_MAX: usize = 1000;
/// Most records in a journal.
pub const RECORDS_MAX: usize = 10_000;
/// Most attempts that a step may ask for.
pub const ATTEMPTS_MAX: i64 = 10_000;
/// Longest UID. It is a UUID, but what counts is that there is a limit: without one the API server takes the rule that
/// compares UIDs for too dear.
pub const UID_MAX: usize = 64;
/// Most bytes of an output: the kubelet keeps 4,096 and does not say whether there were more.
pub const OUTPUT_MAX: i64 = 4095;

/// Fields of a step's container. Left out on purpose: `name` (it is `main`), whatever makes the kubelet run the container
/// again inside its pod or kill it (restartPolicy, restartPolicyRules, probes, lifecycle), what carries the output
/// (terminationMessagePath, terminationMessagePolicy), and what a program that runs to its end has no use for.
const MAIN_CONTAINER: &[&str] = &[
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "ports",
    "resources",
    "securityContext",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
];

/// What an init container may set beyond that. `restartPolicy: Always` makes it a sidecar, and its probes are a sidecar's.
const INIT_CONTAINER: &[&str] = &["livenessProbe", "name", "restartPolicy", "startupProbe"];

/// Fields of a step's pod. Left out on purpose: containers, restartPolicy, activeDeadlineSeconds and schedulingGates, which
/// are Oncilla's; nodeName, which goes past the scheduler and its gates; and what the API server's admission sets.
const POD: &[&str] = &[
    "affinity",
    "automountServiceAccountToken",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "hostAliases",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "hostname",
    "hostnameOverride",
    "imagePullSecrets",
    "initContainers",
    "nodeSelector",
    "os",
    "preemptionPolicy",
    "priorityClassName",
    "resourceClaims",
    "resources",
    "runtimeClassName",
    "schedulerName",
    "securityContext",
    "serviceAccountName",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
];

/// Kinds of volume. Of the plug-ins inside the kubelet only those that have no CSI driver or claim to take their place.
const VOLUME: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "hostPath",
    "image",
    "name",
    "nfs",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Metadata that a template can give to the objects made from it.
const METADATA: &[&str] = &["annotations", "labels"];

/// A string that is exactly one expression.
pub fn expression(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": EXPRESSION})
}

/// A duration, or one expression that gives one.
pub fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": DURATION})
}

/// A number of attempts, or one expression that gives it.
pub fn attempts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "minimum": 1,
        "maximum": ATTEMPTS_MAX,
        "pattern": EXPRESSION,
    })
}

/// The name of a step.
pub fn step_name(_: &mut SchemaGenerator) -> Schema {
    step_name_value()
}

/// Names of other steps, each once.
pub fn step_names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": step_name_value(),
        "maxItems": STEPS_MAX,
        "x-kubernetes-list-type": "set",
    })
}

fn step_name_value() -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": NAME_MAX, "pattern": STEP_NAME})
}

/// Any JSON object. `type: object` is what makes it visible to rules and policies.
pub fn free_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// The journal: a record a step. The map is atomic, because otherwise the object's managedFields would list every field of
/// every record, which makes it half as large again and its writes twice as slow.
pub fn journal(generator: &mut SchemaGenerator) -> Schema {
    let record = generator.subschema_for::<super::status::Record>();
    json_schema!({
        "type": "object",
        "additionalProperties": record,
        "maxProperties": RECORDS_MAX,
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": [
            rule("oldSelf.all(k, k in self)", "no record of a step may be removed"),
        ],
    })
}

/// The rules of the status: what stands there is never taken back.
pub fn status_rules() -> Value {
    json!([
        rule(
            "!has(oldSelf.steps) || has(self.steps)",
            "the records of the steps may not be removed"
        ),
        rule(
            "!has(oldSelf.startTime) || (has(self.startTime) && self.startTime == oldSelf.startTime)",
            "startTime is set once"
        ),
        rule(
            "!has(oldSelf.phase) || oldSelf.phase != 'Succeeded' || (has(self.phase) && self.phase == 'Succeeded')",
            "a succeeded run stays succeeded"
        ),
        rule(
            "self == oldSelf || self.revision > oldSelf.revision",
            "revision has to grow with every change of the status"
        ),
    ])
}

/// The one rule of a record. One and not several, because it is evaluated for every record at every write of the status; and
/// it begins with the comparison that ends it for all but the records that the write changes.
pub fn record_rules() -> Value {
    json!([rule(
        "self == oldSelf || (oldSelf.phase != 'Succeeded' && self.attempt >= oldSelf.attempt && self.fence >= oldSelf.fence && \
         (self.attempt > oldSelf.attempt || \
         ((!has(oldSelf.podUID) || (has(self.podUID) && self.podUID == oldSelf.podUID)) && \
         (!has(oldSelf.jobUID) || (has(self.jobUID) && self.jobUID == oldSelf.jobUID)))))",
        "a succeeded step is final; attempt and fence never go back; within an attempt jobUID and podUID, once set, stay"
    )])
}

/// The rules at the root of the object.
pub fn root_rules() -> Value {
    json!([
        rule(
            &format!("size(self.metadata.name) <= {NAME_MAX}"),
            &format!("the name may have at most {NAME_MAX} characters: it stands in labels")
        ),
        rule(
            "!has(oldSelf.status) || has(self.status)",
            "the status may not be removed"
        ),
    ])
}

fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

/// A step's container.
pub fn container(_: &mut SchemaGenerator) -> Schema {
    let mut container = embedded::<Container>();
    keep(&mut container, MAIN_CONTAINER);
    into_schema(container)
}

/// A step's pod: metadata and spec.
pub fn pod_template(_: &mut SchemaGenerator) -> Schema {
    let mut spec = embedded::<PodSpec>();
    keep(&mut spec, POD);
    let properties = &mut spec["properties"];

    let init = &mut properties["initContainers"];
    keep(&mut init["items"], &[MAIN_CONTAINER, INIT_CONTAINER].concat());
    // Whatever else it could be would let the kubelet decide about retries.
    init["items"]["properties"]["restartPolicy"]["enum"] = json!(["Always"]);
    unique_by_name(init);

    let volumes = &mut properties["volumes"];
    let kinds = &mut volumes["items"];
    keep(kinds, VOLUME);
    keep(
        &mut kinds["properties"]["ephemeral"]["properties"]["volumeClaimTemplate"]["properties"]["metadata"],
        METADATA,
    );
    unique_by_name(volumes);

    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json_schema!({
        "type": "object",
        "properties": {
            "metadata": {
                "type": "object",
                "properties": {"annotations": strings, "labels": strings},
            },
            "spec": spec,
        },
    })
}

fn unique_by_name(list: &mut Value) {
    list["x-kubernetes-list-type"] = json!("map");
    list["x-kubernetes-list-map-keys"] = json!(["name"]);
}

/// The schema of a Kubernetes type with everything it refers to written in place, without descriptions.
fn embedded<T: JsonSchema>() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let root = Value::from(generator.subschema_for::<T>());
    inline(&root, &generator.take_definitions(false))
}

fn inline(schema: &Value, definitions: &Map<String, Value>) -> Value {
    let Some(object) = schema.as_object() else {
        return schema.clone();
    };
    if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return inline(&definitions[name], definitions);
    }
    let mut inlined = Map::new();
    for (keyword, value) in object {
        let value = match keyword.as_str() {
            "description" => continue,
            "properties" => Value::Object(
                value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(name, property)| (name.clone(), inline(property, definitions)))
                    .collect(),
            ),
            "items" | "additionalProperties" => inline(value, definitions),
            _ => value.clone(),
        };
        inlined.insert(keyword.clone(), value);
    }
    Value::Object(inlined)
}

/// Leaves only these fields in an object's schema.
fn keep(schema: &mut Value, fields: &[&str]) {
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.retain(|name, _| fields.contains(&name.as_str()));
    }
    let required: Vec<Value> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|name| fields.iter().any(|field| *name == field))
        .cloned()
        .collect();
    if let Some(object) = schema.as_object_mut() {
        match required.is_empty() {
            true => object.remove("required"),
            false => object.insert("required".to_owned(), required.into()),
        };
    }
}

fn into_schema(schema: Value) -> Schema {
    // Only a value that is neither an object nor a boolean is no schema.
    Schema::try_from(schema).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_all(schema: &Value, fields: &[&str]) {
        for field in fields {
            assert!(
                schema["properties"].get(field).is_some(),
                "Kubernetes has no field {field} here"
            );
        }
    }

    #[test]
    fn every_field_that_a_step_may_set_exists_in_kubernetes() {
        let container = embedded::<Container>();
        has_all(&container, MAIN_CONTAINER);
        has_all(&container, INIT_CONTAINER);
        let pod = embedded::<PodSpec>();
        has_all(&pod, POD);
        let volume = &pod["properties"]["volumes"]["items"];
        has_all(volume, VOLUME);
        has_all(
            &volume["properties"]["ephemeral"]["properties"]["volumeClaimTemplate"]["properties"]["metadata"],
            METADATA,
        );
    }

    #[test]
    fn what_is_left_out_is_not_required_either() {
        let mut container = embedded::<Container>();
        assert_eq!(container["required"], json!(["name"]));
        keep(&mut container, MAIN_CONTAINER);
        assert_eq!(container.get("required"), None);
    }

    #[test]
    fn a_type_is_written_out_without_references_and_descriptions() {
        let text = embedded::<PodSpec>().to_string();
        assert!(!text.contains("$ref"));
        assert!(!text.contains("\"description\":\""));
        assert!(text.contains("x-kubernetes-int-or-string"));
    }
}
