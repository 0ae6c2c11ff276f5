//! What can be said about the CRD without an API server: it fits, it is structural, and it keeps out what Oncilla owns.

use oncilla::crdgen;
use serde_json::{Value, json};

/// `kubectl apply` keeps the whole manifest in an annotation, and all annotations together may have this many bytes.
const ANNOTATIONS_MAX: usize = 262_144;

fn root() -> Value {
    crdgen::crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn spec() -> Value {
    root()["properties"]["spec"].clone()
}

fn step() -> Value {
    spec()["properties"]["steps"]["items"].clone()
}

/// Calls `visit` with the path and the schema of every value below `schema`.
fn walk(path: &str, schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), property, visit);
    }
    for (keyword, mark) in [("items", "[]"), ("additionalProperties", ".*")] {
        if schema[keyword].is_object() {
            walk(&format!("{path}{mark}"), &schema[keyword], visit);
        }
    }
}

/// Whether the path lies within a type of Kubernetes' own.
fn is_embedded(path: &str) -> bool {
    path.contains(".container.") || path.contains(".podTemplate.")
}

#[test]
fn kubectl_apply_can_hold_the_manifest_in_its_annotation() {
    let bytes = crdgen::crd().to_string().len();
    // Well below, because the next fields of a step count twice: in a step and in defaults.
    assert!(bytes < ANNOTATIONS_MAX / 2, "the CRD has {bytes} bytes");
}

#[test]
fn the_schema_is_structural() {
    let allowed = [
        "additionalProperties",
        "default",
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
        "x-kubernetes-validations",
    ];
    walk("", &root(), &mut |path, schema| {
        let keywords = schema.as_object().unwrap();
        for keyword in keywords.keys() {
            assert!(allowed.contains(&keyword.as_str()), "{path}: {keyword}");
        }
        let int_or_string = schema["x-kubernetes-int-or-string"] == true;
        assert!(
            schema["type"].is_string() != int_or_string,
            "{path}: one type, or integer or string"
        );
        assert!(
            schema["properties"].is_null() || schema["additionalProperties"].is_null(),
            "{path}: an object or a map"
        );
        for name in schema["required"].as_array().into_iter().flatten() {
            assert!(
                schema["properties"][name.as_str().unwrap()].is_object(),
                "{path}: {name} is required and unknown"
            );
        }
    });
}

#[test]
fn our_fields_are_described_and_those_of_kubernetes_are_not() {
    let mut ours = 0;
    walk("", &root(), &mut |path, schema| {
        let described = schema["description"].is_string();
        if is_embedded(path) {
            assert!(!described, "{path}");
        } else if !path.is_empty() && !path.ends_with("[]") && !path.ends_with(".*") {
            ours += 1;
            assert!(described || path == ".spec", "{path} has no description");
        }
    });
    assert!(ours > 50, "only {ours} fields of ours");
}

#[test]
fn no_description_holds_what_a_template_engine_would_read() {
    walk("", &root(), &mut |path, schema| {
        let description = schema["description"].as_str().unwrap_or_default();
        for marker in ["{{", "${", "$[["] {
            assert!(!description.contains(marker), "{path}: {marker}");
        }
    });
}

#[test]
fn the_spec_has_no_defaults_and_the_status_begins_unobserved() {
    walk(".spec", &spec(), &mut |path, schema| {
        assert!(schema["default"].is_null(), "{path}");
    });
    let status = &root()["properties"]["status"];
    assert_eq!(
        status["default"],
        json!({"observedGeneration": -1, "phase": "Pending", "revision": 0})
    );
}

#[test]
fn what_oncilla_decides_cannot_be_set() {
    let step = step();
    let container = &step["properties"]["container"]["properties"];
    for field in [
        "name",
        "restartPolicy",
        "restartPolicyRules",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "resizePolicy",
        "stdin",
        "stdinOnce",
        "tty",
    ] {
        assert!(container[field].is_null(), "container.{field}");
    }
    let pod = &step["properties"]["podTemplate"]["properties"]["spec"]["properties"];
    for field in [
        "containers",
        "ephemeralContainers",
        "restartPolicy",
        "activeDeadlineSeconds",
        "nodeName",
        "schedulingGates",
        "schedulingGroup",
        "serviceAccount",
        "priority",
        "overhead",
    ] {
        assert!(pod[field].is_null(), "podTemplate.spec.{field}");
    }
    let init = &pod["initContainers"]["items"]["properties"];
    for field in [
        "restartPolicyRules",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "lifecycle",
        "resizePolicy",
    ] {
        assert!(init[field].is_null(), "initContainers.{field}");
    }
    assert_eq!(init["restartPolicy"]["enum"], json!(["Always"]));
}

#[test]
fn quantities_and_ports_are_taken_as_a_pod_takes_them() {
    let step = step();
    let limits = &step["properties"]["container"]["properties"]["resources"]["properties"]["limits"];
    assert_eq!(
        limits["additionalProperties"],
        json!({"x-kubernetes-int-or-string": true})
    );
    let pod = &step["properties"]["podTemplate"]["properties"]["spec"]["properties"];
    let probe = &pod["initContainers"]["items"]["properties"]["startupProbe"]["properties"];
    assert_eq!(
        probe["httpGet"]["properties"]["port"],
        json!({"x-kubernetes-int-or-string": true})
    );
    assert_eq!(
        probe["tcpSocket"]["properties"]["port"],
        json!({"x-kubernetes-int-or-string": true})
    );
}

#[test]
fn a_step_needs_only_a_name_and_a_container() {
    let step = step();
    assert_eq!(step["required"], json!(["container", "name"]));
    assert!(step["properties"]["container"]["required"].is_null());
    assert!(step["properties"]["podTemplate"]["properties"]["spec"]["required"].is_null());
    assert_eq!(spec()["required"], json!(["steps"]));
}

#[test]
fn every_number_of_the_spec_fits_the_type_that_reads_it() {
    walk(".spec", &spec(), &mut |path, schema| {
        if is_embedded(path) || (schema["type"] != "integer" && schema["x-kubernetes-int-or-string"] != true) {
            return;
        }
        // One object that cannot be read would hide all others from a watch.
        assert!(
            schema["minimum"].is_i64() && schema["maximum"].is_i64(),
            "{path} has no limits"
        );
    });
}
